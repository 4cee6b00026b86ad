import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { describe, test } from 'node:test';
import { createProject } from '../../load/support/project.ts';
import { startHostile } from '../../selfcheck/hostile-gateways.ts';
import { LOOPBACK_CERTIFICATE } from '../../support/certificates.ts';
import { freePort } from '../../support/free-port.ts';
import { ownPort } from '../../support/net/own-port.ts';
import {
  answersErrorPage,
  answersOkToAll,
  redirectsToLogin,
  showsLoginPage,
} from '../../support/proxies/behaviours.ts';
import { startProxy } from '../../support/proxies/proxy.ts';
import { diagnose, faultsOf, listen, type StandIn, standIn, TOKEN } from './support.ts';

const at = async (input?: StandIn) => `http://127.0.0.1:${await listen(standIn(input))}`;

describe('a healthy gateway', () => {
  test('has no faults, for any client', async () => {
    const connections = [
      { model: 'coder-1[1m]', context_window: 200_000 },
      { client: 'coding-cli', model: 'coder-1', context_window: 100_000 },
      { client: 'build-cli', token: undefined },
    ] as const;
    const { diagnoses, of } = await diagnose(await at(), { connections });
    assert.deepEqual(faultsOf(diagnoses), []);
    assert.equal(of('token').title, 'Token of the Messages client, coding CLI');
    assert.equal(of('model').verdict, 'ok');
    assert.equal(of('context_window').verdict, 'ok');
  });

  test('is looked at once, however many clients use it, and every gateway by itself', async () => {
    const [one, other] = [await at(), await at({ accepts: [] })];
    const connections = [
      { root_url: one },
      { root_url: `${one}/`, client: 'coding-cli' as const },
      { root_url: other },
    ];
    const { diagnoses } = await diagnose(one, { connections });
    const of = (id: string) =>
      diagnoses.filter((each) => each.id === id).map(({ where, verdict }) => `${where} ${verdict}`);
    assert.deepEqual(of('gateway.models'), [`${one} ok`, `${other} ok`]);
    assert.deepEqual(of('gateway.token'), [`${one} ok`, `${other} failed`]);
  });

  test('reports nothing about a token where the list is public', async () => {
    const { of, diagnoses } = await diagnose(await at({ accepts: [TOKEN, ''] }));
    assert.equal(of('token').verdict, 'skipped');
    assert.match(of('token').found, /the model list is public/);
    assert.deepEqual(faultsOf(diagnoses), []);
  });
});

describe('the way to a gateway', () => {
  const pages = [
    [
      'a redirect to a login',
      redirectsToLogin('https://id.example.com/login?secret=planted'),
      /redirect \(status 302\) to https:\/\/id\.example\.com\/login$/,
    ],
    ['a login page', showsLoginPage, /"Sign in - Example Corp"/],
    ['an error page', answersErrorPage(502), /502 Bad Gateway/],
    ['JSON of something else', answersOkToAll, /JSON with status/],
  ] as const;
  for (const [name, behaviour, found] of pages) {
    test(`reports ${name} in place of the model list`, async () => {
      const proxy = await startProxy('http://127.0.0.1:9', behaviour);
      const { of, diagnoses } = await diagnose(proxy.url);
      await proxy.close();
      assert.equal(of('models').verdict, 'failed');
      assert.match(of('models').found, found);
      assert.ok(!JSON.stringify(diagnoses).includes('planted'));
      assert.ok(diagnoses.every(({ id }) => id !== 'gateway.token'));
    });
  }

  test('reports a closed port, an unknown DNS name and an invalid address', async () => {
    const refused = await diagnose(`http://127.0.0.1:${await freePort()}`);
    assert.match(refused.of('models').found, /connection refused/);
    assert.match(refused.of('models').remedy!, /check that the gateway runs/);
    const unknown = await diagnose('https://gateway.invalid');
    assert.match(unknown.of('models').found, /host name not found/);
    assert.deepEqual(faultsOf(unknown.diagnoses), ['models']);
    const wrong = await diagnose('https://user:planted@gateway.example.com');
    assert.match(wrong.of('address').found, /contains credentials/);
    assert.ok(!JSON.stringify(wrong.diagnoses).includes('planted'));
  });

  test('is trusted only where the client knows its authority', async () => {
    const { cert, key } = LOOPBACK_CERTIFICATE;
    const url = `https://127.0.0.1:${await ownPort(createTlsServer({ cert, key }, standIn()))}`;
    const files = createProject({ 'ca.pem': cert });
    const look = async (authorities: readonly string[]) => {
      return faultsOf((await diagnose(url, { connections: [{ authorities }] })).diagnoses);
    };
    assert.deepEqual(await look([files.path('nothing.pem')]), ['models']);
    assert.deepEqual(await look([files.path('ca.pem')]), []);
  });

  test('is reported as slow if the list takes longer than the Messages client waits', async (t) => {
    const response = standIn();
    const { now } = performance;
    let waited_ms = 0;
    t.mock.method(performance, 'now', () => now.call(performance) + waited_ms);
    const port = await listen((req, res) => {
      waited_ms = 3100;
      response(req, res);
    });
    const { of } = await diagnose(`http://127.0.0.1:${port}`, { connections: [{ token: undefined }] });
    assert.equal(of('models').verdict, 'failed');
    assert.match(of('models').found, /took \d+\.\d seconds; the Messages client gives up after 3/);
  });
});

test('a proxy of this machine that opens no way is named, its password is not, and NO_PROXY leads past it', async () => {
  const asked: string[] = [];
  const proxy = createServer();
  proxy.on('connect', (req, socket) => {
    asked.push(`CONNECT ${req.headers['proxy-authorization']}`);
    socket.on('error', () => {});
    socket.end('HTTP/1.1 407 No\r\n\r\n');
  });
  const env = { HTTPS_PROXY: `http://ada:planted-word@127.0.0.1:${await ownPort(proxy)}` };
  const { of, diagnoses } = await diagnose('https://gateway.example.com', { env });
  const past = await diagnose(await at(), { env: { HTTP_PROXY: env.HTTPS_PROXY, NO_PROXY: '127.0.0.1' } });
  assert.match(of('models').found, /the proxy 127\.0\.0\.1:\d+ responds with status 407/);
  assert.match(of('models').remedy!, /with user and password in HTTPS_PROXY if it requires them/);
  assert.deepEqual(asked, [`CONNECT Basic ${Buffer.from('ada:planted-word').toString('base64')}`]);
  assert.ok(!JSON.stringify(diagnoses).includes('planted-word'));
  assert.deepEqual(faultsOf(past.diagnoses), []);
});

describe('a hostile gateway neither hangs nor breaks the doctor, nor receives the token again', {
  concurrency: true,
}, () => {
  for (const harm of [
    'never answers',
    'answers without end',
    'sends headers without end',
    'nests JSON deeply',
    'sends a bomb of zeros',
    'puts escapes everywhere',
  ]) {
    test(`where it ${harm}`, async () => {
      const gateway = await startHostile(harm);
      const { diagnoses } = await diagnose(gateway.url, { seconds: 2 });
      gateway.close();
      assert.ok(faultsOf(diagnoses).includes('models'), JSON.stringify(diagnoses));
    });
  }

  test('where names, texts and numbers of its list are anything', async () => {
    const models = [
      { id: '\u001b[2Jcoder', context_window: -1 },
      { id: TOKEN, context_window: 'many' },
      { id: 5 },
      null,
      { id: 'x'.repeat(100_000), context_window: 1e300 },
      { id: 'coder-1', context_window: 1000 },
    ];
    const port = await listen((req, res) => {
      res.writeHead(req.headers.authorization === undefined ? 401 : 200, {
        'content-type': 'application/json',
        date: 'yesterday',
      });
      res.end(JSON.stringify(req.headers.authorization === undefined ? { error: 'no' } : { data: models }));
    });
    const connections = [
      { model: '\u001b[2Jcoder' },
      { model: 'missing' },
      { model: 'coder-1', context_window: 2000 },
      { model: TOKEN },
    ];
    const { diagnoses } = await diagnose(`http://127.0.0.1:${port}`, { connections });
    assert.ok(faultsOf(diagnoses).includes('model'));
    assert.ok(JSON.stringify(diagnoses).length < 20_000);
  });
});
