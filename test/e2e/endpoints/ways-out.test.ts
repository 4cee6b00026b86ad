/** Servers that are reached through the HTTP proxies of a company: upstreams, the identity provider, collectors, lists of models. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, beforeEach, describe, test } from 'node:test';
import tls from 'node:tls';
import { CERTIFICATES, LOOPBACK_CERTIFICATE } from '../../support/certificates.ts';
import { freePort } from '../../support/free-port.ts';
import { bootGateway, mainUpstream, type TestGateway, UPSTREAM_KEY } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { type ForwardProxy, startForwardProxy, startTlsFront } from '../../support/net/forward-proxy.ts';
import { openPort } from '../../support/net/own-port.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, open, type Response, send } from '../support/client.ts';
import { ledgerRows } from '../support/state.ts';

/** Names that only the proxies resolve. */
const SECURE = CERTIFICATES.first.name;
const PLAIN = 'models.corp.example';
const OTHER = CERTIFICATES.second.name;

const CREDENTIAL = { name: 'gateway', password: 'pl@nted:proxy#password' };
const SPELLINGS = [
  CREDENTIAL.password,
  encodeURIComponent(CREDENTIAL.password),
  Buffer.from(`${CREDENTIAL.name}:${CREDENTIAL.password}`).toString('base64'),
];

const TRANSPORTS = ['direct', 'proxy'] as const;

const trusted = tls.getCACertificates('default');
const closing: { close(): Promise<void> }[] = [];
const opened = <T extends { close(): Promise<void> }>(one: T): T => {
  closing.unshift(one);
  return one;
};

let upstream: ScriptedUpstream;
/** Requested paths at the other server. */
const asked: string[] = [];
let ports: Readonly<Record<string, number>>;
let gateway: TestGateway;
let people = 0;
const proxies = {} as Record<'corporate' | 'open' | 'secure' | 'wants' | 'ntlm' | 'forbids' | 'away', ForwardProxy>;

const MODEL = {
  context_window: 200_000,
  max_output_tokens: 64_000,
  pricing: { input: 3, output: 15, cache_read: 0.3, cache_write_5m: 3.75, cache_write_1h: 6 },
};

/** An upstream, its route, and the outcome. */
interface Row {
  readonly scheme: 'https' | 'http' | 'loopback';
  /** `undefined`: the environment decides. */
  readonly key?: () => unknown;
  /** Which proxy it is reached through; absent where directly. */
  readonly through?: keyof typeof proxies;
  /** The error where the proxy passes nothing on; HOST stands for its host and port. */
  readonly refused?: RegExp;
}

const address = (name: keyof typeof proxies) => () => new URL(proxies[name].url).origin;

const ROWS = {
  environment: { scheme: 'https', through: 'corporate' },
  plain: { scheme: 'http', through: 'corporate' },
  loopback: { scheme: 'loopback' },
  none: { scheme: 'loopback', key: () => 'none' },
  'by key': { scheme: 'https', key: address('open'), through: 'open' },
  'by variable': { scheme: 'https', key: () => ({ url_env: 'OTHER_PROXY' }), through: 'corporate' },
  'over TLS': { scheme: 'https', key: address('secure'), through: 'secure' },
  'no credential': {
    scheme: 'https',
    key: address('wants'),
    through: 'wants',
    refused: /the proxy HOST responds with status 407: it requires a username and password/,
  },
  'another credential': {
    scheme: 'https',
    key: () => ({ url_env: 'WRONG_PROXY' }),
    through: 'wants',
    refused: /the proxy HOST responds with status 407: it rejects the username and password in its address/,
  },
  ntlm: {
    scheme: 'https',
    key: address('ntlm'),
    through: 'ntlm',
    refused:
      /the proxy HOST responds with status 407: it requires Negotiate or NTLM, and the gateway supports only Basic/,
  },
  forbidden: {
    scheme: 'https',
    key: address('forbids'),
    through: 'forbids',
    refused: /the proxy HOST responds with status 403: allow the server in the proxy/,
  },
  away: { scheme: 'https', key: address('away'), refused: /no connection through the proxy HOST \(ECONNREFUSED\)/ },
} as const satisfies Readonly<Record<string, Row>>;
const ROW_LIST = Object.entries(ROWS) as [string, Row][];

/** A proxy identifies the requested upstream by its port. */
const portOf = (name: string, transport: string) =>
  (transport === 'direct' ? 7000 : 8000) + ROW_LIST.findIndex(([each]) => each === name);

function baseUrl(name: string, { scheme }: Row, transport: string): string {
  if (scheme === 'loopback') return upstream.url;
  return `${scheme}://${scheme === 'https' ? SECURE : PLAIN}:${portOf(name, transport)}`;
}

const modelOf = (name: string, transport: string) => `${name}-by-${transport}`;

before(async () => {
  tls.setDefaultCACertificates([
    ...trusted,
    CERTIFICATES.first.cert,
    CERTIFICATES.second.cert,
    LOOPBACK_CERTIFICATE.cert,
  ]);
  upstream = opened(await startUpstream());
  const other = createServer((req, res) => {
    asked.push(req.url!);
    req.resume();
    const issuer = `https://${OTHER}`;
    const at = (path: string) => `${issuer}/${path}`;
    res.setHeader('content-type', 'application/json');
    res.end(
      req.url === '/.well-known/openid-configuration'
        ? JSON.stringify({
            issuer,
            authorization_endpoint: at('authorize'),
            token_endpoint: at('token'),
            jwks_uri: at('jwks'),
            response_types_supported: ['code'],
            subject_types_supported: ['public'],
            id_token_signing_alg_values_supported: ['ES256'],
          })
        : '{}',
    );
  });
  const { port: other_port } = opened(await openPort(other));
  const secure = opened(await startTlsFront(Number(new URL(upstream.url).port), CERTIFICATES.first));
  const secure_other = opened(await startTlsFront(other_port, CERTIFICATES.second));
  ports = {
    [SECURE]: secure.port,
    [PLAIN]: Number(new URL(upstream.url).port),
    localhost: Number(new URL(upstream.url).port),
    [OTHER]: secure_other.port,
    'collector.corp.example': other_port,
  };
  const start = async (name: keyof typeof proxies, more: Omit<Parameters<typeof startForwardProxy>[0], 'servers'>) => {
    proxies[name] = opened(await startForwardProxy({ servers: ports, ...more }));
  };
  await start('corporate', { credential: CREDENTIAL });
  await start('open', {});
  await start('secure', { tls: { ...LOOPBACK_CERTIFICATE, host: 'localhost' } });
  await start('wants', { credential: CREDENTIAL });
  await start('ntlm', { refuses: 407, authenticate: 'Negotiate, NTLM' });
  await start('forbids', { refuses: 403 });
  const host = `127.0.0.1:${await freePort()}`;
  proxies.away = { url: `http://${host}`, host, passed: [], open: new Set(), async close() {} };

  const both = TRANSPORTS.flatMap((transport) =>
    ROW_LIST.map(([name, row]) => ({ name, row, transport, model: modelOf(name, transport) })),
  );
  gateway = await bootGateway({
    upstream_url: upstream.url,
    real_log: true,
    env: {
      HTTPS_PROXY: proxies.corporate.url,
      HTTP_PROXY: proxies.corporate.url,
      OTHER_PROXY: proxies.corporate.url,
      WRONG_PROXY: proxies.wants.url.replace('//gateway:', '//somebody:'),
      NO_PROXY: 'intern.example',
      OIDC_SECRET: 'oidc-secret',
      SIGNING_KEY: 'k'.repeat(64),
      OTEL_BSP_SCHEDULE_DELAY: '50',
    },
    config: {
      server: { listen: '127.0.0.1:0', public_url: 'http://127.0.0.1', drain: { accept_seconds: 0 } },
      auth: {
        oidc: {
          issuer_url: `https://${OTHER}`,
          client_id: 'gateway',
          client_secret_env: 'OIDC_SECRET',
          allowed_email_domains: ['example.com'],
        },
        session: { signing_key_env: 'SIGNING_KEY' },
      },
      telemetry: {
        otlp: { endpoint: `https://${OTHER}/v1/traces`, metrics: false },
        forward_to: [{ url: 'http://collector.corp.example/otlp', metrics: true }],
      },
      upstreams: both.map(({ name, row, transport, model }) => ({
        ...mainUpstream(baseUrl(name, row, transport)),
        ...(row.key && { proxy: row.key() }),
        name: model,
        transport,
        on_client_abort: 'cancel',
      })),
      models: [...both.map(({ model }) => model), ...TRANSPORTS.map((transport) => `fallback-by-${transport}`)].map(
        (id) => ({ ...MODEL, id }),
      ),
      routing: {
        default_upstream: both[0]!.model,
        attempts: { seconds: 60 },
        rules: [
          ...both.map(({ model }) => ({ name: model, models: [model], upstream: model })),
          ...TRANSPORTS.map((transport) => ({
            name: `fallback-by-${transport}`,
            models: [`fallback-by-${transport}`],
            upstreams: [modelOf('forbidden', transport), modelOf('by key', transport)],
          })),
        ],
      },
    },
  });
  opened(gateway);
});
after(async () => {
  for (const one of closing) await one.close();
  tls.setDefaultCACertificates(trusted);
});
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.script = answerJson(message());
});

/** A new user. */
const newToken = () => gateway.newToken({ user: `person-${++people}@example.com` });

const ask = async (model: string): Promise<Response> =>
  send(gateway.url, { headers: bearer(await newToken()), body: messagesBody({ model }) });

const passedOn = ({ passed }: Pick<ForwardProxy, 'passed'>) =>
  passed.map(({ method, target }) => `${method} ${target}`);

for (const transport of TRANSPORTS) {
  /** Requests at proxies for an upstream, by their names. */
  const seenOf = (name: string) =>
    Object.entries(proxies).flatMap(([proxy, { passed }]) =>
      passed.filter(({ target }) => target.includes(`:${portOf(name, transport)}`)).map((one) => ({ ...one, proxy })),
    );

  describe(`an upstream behind a proxy, transport: ${transport}`, () => {
    for (const [name, row] of ROW_LIST.filter(([, { refused }]) => refused === undefined)) {
      const { scheme, through } = row;
      test(`${name}: is reached ${through === undefined ? 'directly' : `through ${through}`}, on a kept connection`, async () => {
        const served = async () => {
          const response = await ask(modelOf(name, transport));
          assert.equal(response.status, 200, response.body.toString());
          return seenOf(name).length;
        };
        const [first, second] = [await served(), await served()];
        assert.equal(upstream.requests.length, 2);
        const base = new URL(baseUrl(name, row, transport));
        for (const { headers, url } of upstream.requests) {
          assert.deepEqual([url, headers.host], ['/v1/messages', base.host]);
          assert.equal(headers['x-api-key'], UPSTREAM_KEY);
          assert.equal(headers['proxy-authorization'], undefined);
        }
        const seen = seenOf(name);
        if (through === undefined) return assert.deepEqual(seen, []);
        const target = scheme === 'https' ? `CONNECT ${base.host}` : `POST ${base.origin}/v1/messages`;
        for (const one of seen) assert.deepEqual([one.proxy, `${one.method} ${one.target}`], [through, target]);
        assert.ok(first > 0);
        // One that only forwards bytes gets no second request, and sees no key.
        if (scheme === 'https') assert.deepEqual([second, seen[0]!.key], [first, undefined]);
      });
    }

    for (const [name, { refused, key, through }] of ROW_LIST.filter(([, row]) => row.refused !== undefined)) {
      test(`${name}: nothing is sent, and the error names the proxy and the remedy`, async () => {
        const response = await ask(modelOf(name, transport));
        assert.equal(response.status, 502, response.body.toString());
        const { error } = JSON.parse(response.body.toString());
        const host = through === undefined ? new URL(String(key!())).host : proxies[through].host;
        assert.match(error.message, new RegExp(refused!.source.replace('HOST', host.replaceAll('.', '\\.'))));
        assert.equal(upstream.requests.length, 0);
        const id = response.headers['x-gateway-request-id'];
        const rows = await ledgerRows(gateway.database);
        assert.ok(rows.every(({ request_id }) => request_id !== id));
      });
    }

    test('one that passes nothing on gives way to the next upstream of the route', async () => {
      const response = await ask(`fallback-by-${transport}`);
      assert.equal(response.status, 200, response.body.toString());
      assert.ok(seenOf('forbidden').length > 0);
      assert.equal(upstream.requests.length, 1);
    });

    test('streams arrive as written, and a client that leaves closes the tunnel', async () => {
      let go = () => {};
      const goes_on = new Promise<void>((resolve) => {
        go = resolve;
      });
      // The end never arrives.
      const [first, ...rest] = messageEvents().slice(0, 6);
      upstream.script = async ({ res }) => {
        res.writeHead(200, [...EVENT_STREAM]);
        res.write(first!);
        await goes_on;
        for (const event of rest) res.write(event);
      };
      const token = await newToken();
      const { head, abort } = open(gateway.url, {
        headers: bearer(token),
        body: messagesBody({ model: modelOf('over TLS', transport), stream: true }),
      });
      let text = '';
      const response = await head;
      response.on('data', (chunk: Buffer) => {
        text += chunk.toString();
      });
      response.on('error', () => {});
      await until('the first event is there', () => text.includes('message_start'));
      assert.equal(text.includes('content_block_delta'), false);
      go();
      await until('the last of them is there', () => text.includes('there.'));
      const open_before = proxies.secure.open.size;
      assert.ok(open_before > 0);
      abort();
      await until('the tunnel is closed', () => proxies.secure.open.size < open_before);
      await until('the upstream noticed', () => upstream.requests[0]!.cancelled === true);
    });
  });
}

describe('other requests of a gateway behind a proxy', () => {
  test('reaches the identity provider through a tunnel', async () => {
    const begin = () =>
      send(gateway.url, {
        method: 'POST',
        path: '/oauth/device_authorization',
        headers: ['content-type', 'application/x-www-form-urlencoded'],
        body: 'client_id=appscli',
      });
    const grant = JSON.parse((await begin()).body.toString());
    const { pathname, search } = new URL(grant.verification_uri_complete);
    await send(gateway.url, { method: 'GET', path: pathname + search });
    await send(gateway.url, {
      method: 'POST',
      path: pathname,
      headers: ['content-type', 'application/x-www-form-urlencoded', 'origin', 'http://127.0.0.1'],
      body: `user_code=${grant.user_code}`,
    });
    await until('the provider got a request', () => asked.includes('/.well-known/openid-configuration'));
    assert.ok(passedOn(proxies.corporate).includes(`CONNECT ${OTHER}:443`));
  });

  test('collectors get their data, over TLS and without', async () => {
    await ask(modelOf('loopback', 'direct'));
    const metrics = {
      resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: 'tokens', sum: { dataPoints: [{}] } }] }] }],
    };
    const { status, body } = await send(gateway.url, {
      path: '/v1/metrics',
      headers: bearer(await newToken()),
      body: JSON.stringify(metrics),
    });
    assert.ok(status < 300, `${status} ${body}`);
    await until(
      'spans and metrics are there',
      () => asked.includes('/v1/traces') && asked.includes('/otlp/v1/metrics'),
    );
    const seen = passedOn(proxies.corporate);
    assert.ok(seen.includes('POST http://collector.corp.example/otlp/v1/metrics'), String(seen));
  });

  test('the log lists the proxy of each server, without its password', async () => {
    const log = gateway.logs.join('\n');
    const { host } = proxies.corporate;
    assert.match(log, new RegExp(`"upstream":"plain-by-direct","way":"through the proxy ${host} \\(HTTP_PROXY\\)"`));
    assert.match(
      log,
      new RegExp(`"upstream":"by variable-by-proxy","way":"through the proxy ${host} \\(OTHER_PROXY\\)"`),
    );
    assert.match(log, new RegExp(`"traces":"https://${OTHER}/v1/traces through the proxy ${host} \\(HTTPS_PROXY\\)"`));
    const rows = await gateway.database.knex('audit_log').select('*');
    const output = log + JSON.stringify(rows);
    for (const spelling of SPELLINGS) assert.equal(output.includes(spelling), false, spelling);
  });
});

/** `headers.test.ts` of upstreams has every form of an address. */
test('an address with a path and a query has both in the list of its models and in requests', async (t) => {
  upstream.lists.length = 0;
  const listed = { data: [{ id: 'gpt-5' }] };
  upstream.script = (exchange) =>
    answerJson(exchange.received.method === 'GET' ? listed : { ...message(), choices: [] })(exchange);
  const query = { 'api-version': '2024-10-21', team: 'a&b' };
  const chat = { ...mainUpstream(`http://${PLAIN}/inference`), append_v1: false, query };
  const one = await bootGateway({
    upstream_url: upstream.url,
    env: { HTTP_PROXY: proxies.corporate.url },
    config: {
      upstreams: [{ ...chat, type: 'compat', protocols: ['chat'], supports: {}, transport: 'proxy' }],
      models: undefined,
      token_groups: [{ name: 'all', models: ['*'] }],
      routing: { default_upstream: 'main', rules: [] },
    },
  });
  t.after(() => one.close());
  const lists = upstream.lists.map(({ url }) => url);
  assert.deepEqual(lists, ['/inference/models?api-version=2024-10-21&team=a%26b']);
  const path = '/v1/chat/completions?API-Version=1&x=1&api%2Dversion=2&team[]=3&te%61m=4;z&;team=5';
  const body = messagesBody({ model: 'gpt-5' });
  const token = await one.newToken({ user: `person-${++people}@example.com` });
  const { status, text } = await send(one.url, { path, headers: bearer(token), body });
  assert.equal(status, 200, text);
  assert.equal(upstream.only().url, '/inference/chat/completions?api-version=2024-10-21&team=a%26b&x=1');
});
