import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { createServer as createTcpServer, type Server } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { AuthConfig, OidcConfig } from '../../../engine/base/contract/config.ts';
import { openDatabase } from '../../../engine/base/store/database.ts';
import { renderLive } from '../../../engine/edge/cli/check.ts';
import { checkLive } from '../../../engine/edge/doctor/host/live/check-live.ts';
import type { LiveCheck } from '../../../engine/edge/doctor/host/live/probe.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { load } from '../../../engine/pipeline/load/index.ts';
import { stages } from '../../../stages/index.ts';
import { createProject } from '../../load/support/project.ts';
import { CERTIFICATES } from '../../support/certificates.ts';
import { createTestDatabase } from '../../support/database.ts';
import { oidcConfig } from '../../support/identity/oidc-config.ts';
import { ownPort } from '../../support/net/own-port.ts';
import { use } from '../../support/use.ts';
import { cli, collectingLog } from '../support.ts';

const SECRET = 'sk-planted-0123456789';
const listen = async (server: Server) => `127.0.0.1:${await ownPort(server)}`;

const answering = async (listener: RequestListener): Promise<string> =>
  `http://${await listen(createServer(listener))}`;

async function upstream(
  base_url: string,
  credential: object = { api_key_env: 'UPSTREAM_KEY' },
  models: object = { models: [{ id: 'coder-1', pricing: { input: 3, output: 15 } }] },
): Promise<LiveCheck> {
  const written = {
    server: { listen: '127.0.0.1:8080', public_url: 'https://gateway.example.com' },
    database: { embedded: { data_dir: 'nowhere' } },
    upstreams: [{ name: 'main', base_url, ...credential }],
    routing: { default_upstream: 'main' },
    ...models,
  };
  const project = createProject({ 'gateway.yaml': JSON.stringify(written) });
  const { config, diagnostics } = await load(project.path('gateway.yaml'), { stages, env: {}, environment: 'ignored' });
  assert.ok(config, JSON.stringify(diagnostics));
  const found = await checkLive(config, { UPSTREAM_KEY: SECRET }, 0.5);
  const check = found.find(({ name }) => name === 'upstream main');
  assert.ok(check);
  assert.ok(!JSON.stringify(found).includes(SECRET));
  return check;
}

test('a responding upstream is fine; it gets one request, without a prompt, and with its credential', async () => {
  const seen: string[] = [];
  const url = await answering((request, response) => {
    seen.push(`${request.method} ${request.url} ${request.headers['x-api-key']} ${request.headers['content-length']}`);
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const { ok, what } = await upstream(url);
  assert.deepEqual({ ok, what }, { ok: true, what: 'responds with status 200' });
  assert.deepEqual(seen, [`GET /v1/models ${SECRET} undefined`]);
});

test('a compat upstream gets requests at the version of its URL, with its key in both forms', async () => {
  const seen: string[] = [];
  const url = await answering((request, response) => {
    const { authorization, 'x-api-key': key } = request.headers;
    seen.push(`${request.url} ${authorization} ${key}`);
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  const compat = { type: 'compat', protocols: ['chat'], api_key_env: 'UPSTREAM_KEY' };
  for (const path of ['', '/api/v3/', '/openai']) await upstream(`${url}${path}`, compat);
  const sent = `Bearer ${SECRET} ${SECRET}`;
  assert.deepEqual(seen, [`/v1/models ${sent}`, `/api/v3/models ${sent}`, `/openai/v1/models ${sent}`]);
});

test('without a section `models`, lists what an upstream offers, what is served and why not', async () => {
  let list = '{"data":[{"id":"claude-sonnet-4-5"},{"id":"coder-1"},{"id":"claude-haiku-4-5"}]}';
  const url = await answering((_request, response) =>
    response.writeHead(200, { 'content-type': 'application/json' }).end(list),
  );
  const ask = () => upstream(url, undefined, {});
  const { ok, notes = [], warnings } = await ask();
  assert.deepEqual({ ok, warnings }, { ok: true, warnings: [] });
  assert.equal(notes[0], 'the gateway serves 2 of its 3 listed models: claude-sonnet-4-5, claude-haiku-4-5');
  assert.match(notes[1] ?? '', /^not served, because the price catalogue \(.*\) has no price: coder-1; .*pricing/);
  list = '{"data":[{"id":"coder-1"}]}';
  assert.deepEqual((await ask()).warnings, ['the gateway serves no model on its list']);
  list = '{}';
  assert.match(
    (await ask()).warnings?.[0] ?? '',
    /^it provides no model list: its response is not a list of models; the gateway serves all models/,
  );
});

test('the headers that every request to an upstream has are in this one, too', async () => {
  const seen: unknown[] = [];
  const url = await answering((request, response) => {
    seen.push([request.headers['x-team'], request.headers['x-api-token']]);
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  });
  await upstream(url, { headers: { 'x-team': 'search', 'x-api-token': { value_env: 'UPSTREAM_KEY' } } });
  assert.deepEqual(seen, [['search', SECRET]]);
});

test('a rejected credential names its variable', async () => {
  const url = await answering((_request, response) => response.writeHead(401).end());
  const { ok, what, help } = await upstream(url);
  assert.deepEqual([ok, what], [false, 'credential rejected (status 401)']);
  assert.match(help ?? '', /UPSTREAM_KEY/);
  assert.match((await upstream(url, {})).what, /requires a credential/);
});

test('a redirect is not followed', async () => {
  let followed = false;
  const url = await answering((request, response) => {
    followed ||= request.url === '/elsewhere';
    response.writeHead(302, { location: '/elsewhere' }).end();
  });
  const { ok, what } = await upstream(url);
  assert.equal(ok, false);
  assert.match(what, /redirects \(status 302\)/);
  assert.equal(followed, false);
});

test('distinguishes a web page, a failing server, silence, a closed port and another protocol', async () => {
  const page = await answering((_request, response) =>
    response.writeHead(200, { 'content-type': 'text/html' }).end('<p>'),
  );
  const failing = await answering((_request, response) => response.writeHead(503).end());
  const silence = await answering(() => {});
  const babble = await listen(createTcpServer((socket) => socket.on('error', () => {}).end('220 mail\r\n')));
  const closed = createTcpServer();
  const closed_url = `http://${await listen(closed)}`;
  await new Promise((resolve) => closed.close(resolve));
  const plain = failing.replace('http:', 'https:');
  const found = await Promise.all(
    [page, failing, silence, `http://${babble}`, closed_url, plain, 'http://no-such-host.invalid'].map((url) =>
      upstream(url),
    ),
  );
  assert.deepEqual(
    found.map(({ what }) => what),
    [
      'it returns a web page (status 200)',
      'it responds with status 503',
      'no response within 0.5 seconds',
      'it does not speak HTTP',
      'connection refused',
      'it does not speak TLS',
      'host name not found',
    ],
  );
  assert.ok(found.every(({ ok, help }) => !ok && help));
});

const OIDC = oidcConfig('', { client_secret_env: 'SECRET' });

const authOf = (oidc: OidcConfig) =>
  ({ oidc, admin_groups: ['platform'], teams: [], projects: [] }) as unknown as AuthConfig;

async function checkIssuer(oidc: OidcConfig, timeout_seconds = 0.5): Promise<LiveCheck> {
  const config = stageConfig({ auth: authOf(oidc), database: { embedded: { data_dir: 'nowhere' } } });
  const found = (await checkLive(config, {}, timeout_seconds)).find(({ name }) => name === 'identity provider');
  assert.ok(found);
  return found;
}

const discovery = (url: string): Record<string, unknown> => ({
  issuer: url,
  authorization_endpoint: `${url}/auth`,
  token_endpoint: `${url}/token`,
  userinfo_endpoint: `${url}/userinfo`,
  jwks_uri: `${url}/jwks`,
});

/** Checks a provider with this discovery document; its list of keys is `jwks`. */
async function issuer(
  document: (url: string) => unknown,
  more: Partial<OidcConfig> = {},
  jwks: unknown = { keys: [{ kty: 'RSA' }] },
): Promise<LiveCheck> {
  let own = '';
  own = await answering((request, response) => {
    const served = request.url === '/jwks' ? jwks : document(own);
    if (!/^\/(jwks|\.well-known\/openid-configuration)$/.test(request.url ?? '')) response.writeHead(404).end();
    else response.end(typeof served === 'string' ? served : JSON.stringify(served));
  });
  return checkIssuer({ ...OIDC, issuer_url: own, ...more });
}

test('an identity provider must publish a discovery document that names itself, and keys', async () => {
  const right = await issuer(discovery);
  assert.equal(right.ok, true, right.what);
  assert.deepEqual(right.warnings, []);
  assert.deepEqual(right.notes, ['the redirect URI to register there: http://127.0.0.1/oauth/callback']);
  const slash = await issuer((url) => ({ ...discovery(url), issuer: `${url}/` }));
  assert.match(slash.what, /^its issuer is http:.*\/$/);
  assert.match((await issuer((url) => ({ issuer: url }))).what, /lacks authorization_endpoint/);
  assert.match((await issuer((url) => ({ ...discovery(url), jwks_uri: 'jwks' }))).what, /lacks jwks_uri/);
  assert.match((await issuer(() => '<html>')).what, /discovery document is not a JSON object/);
  assert.match((await issuer(() => 'null')).what, /discovery document is not a JSON object/);
  assert.match((await issuer(() => ({}))).what, /issuer is nothing/);
  assert.match((await issuer(discovery, {}, '<html>')).what, /list of keys is not a JSON object/);
  assert.match((await issuer(discovery, {}, { keys: [] })).what, /list of keys is empty/);
  const implicit = await issuer((url) => ({ ...discovery(url), response_types_supported: ['id_token'] }));
  assert.match(implicit.what, /does not offer the response type code/);
});

test('a feature that an identity provider does not list is a warning', async () => {
  const offers = {
    token_endpoint_auth_methods_supported: ['tls_client_auth'],
    code_challenge_methods_supported: ['plain'],
    scopes_supported: ['openid', 'profile', 'email'],
    claims_supported: ['sub', 'email'],
  };
  const document = (url: string) => ({ ...discovery(url), ...offers });
  const { ok, warnings = [] } = await issuer(document, { scopes: ['openid', 'grops'] });
  assert.equal(ok, true);
  assert.deepEqual(warnings, [
    'it does not list client_secret_basic as supported, but tls_client_auth',
    'it does not list PKCE with S256, which the gateway always uses',
    'it does not list the scope grops',
    'it does not list the claim email_verified, which sign-in requires; if it never sends it and only administrators set addresses, set auth.oidc.email_verification to if_stated',
    'it lists the scope email, which contains the claims email, email_verified and is not requested: set auth.oidc.scopes to [openid, grops, email]',
  ]);
  const stated = await issuer(document, { email_verification: 'if_stated' });
  assert.doesNotMatch(String(stated.warnings), /email_verified/);

  const fitting = { groups_claim: '/sub/groups' } as const;
  const fits = (url: string) => ({
    ...document(url),
    code_challenge_methods_supported: ['S256'],
    claims_supported: ['sub', 'email', 'email_verified'],
    // The gateway then sends its secret this way, whatever its configuration says.
    token_endpoint_auth_methods_supported: ['client_secret_post'],
  });
  const found = await issuer(fits, fitting);
  assert.deepEqual(found.warnings, []);
  const signed = await issuer(fits, { ...fitting, private_key_env: 'KEY' });
  assert.match(signed.warnings?.join('') ?? '', /does not list private_key_jwt/);
});

test('an identity provider is believed with the certificates that the configuration names', async () => {
  const { cert, key } = CERTIFICATES.first;
  const url = `https://${await listen(createTlsServer({ cert, key }, (_request, response) => response.end('{}')))}`;
  const unknown = await checkIssuer({ ...OIDC, issuer_url: url });
  assert.match(unknown.what, /not trusted/);
  assert.match(unknown.help ?? '', /ca_file/);
  const project = createProject({ 'ca.pem': cert });
  const known = await checkIssuer({ ...OIDC, issuer_url: url, ca_file: project.path('ca.pem') });
  assert.equal(known.what, 'its certificate is for another host');
  const missing = await checkIssuer({ ...OIDC, issuer_url: url, ca_file: project.path('missing.pem') });
  assert.equal(missing.what, 'cannot read its ca_file');
});

test("an identity provider may take no longer than the gateway's timeout", async () => {
  const silence = await answering(() => {});
  const { what } = await checkIssuer({ ...OIDC, issuer_url: silence, timeout_seconds: 0.05 }, 60);
  assert.equal(what, 'no response within 0.05 seconds');
});

test('warnings and notes are shown; a workflow hears of warnings', () => {
  const check = { name: 'p', ok: true, what: 'found', warnings: ['odd\x1b'], notes: ['by the way'], duration_ms: 3 };
  const text = renderLive([check], { format: 'text', color: false });
  assert.equal(
    text,
    'warning  p: found; odd\uFFFD\n         note      by the way\n         help      compare the configuration; it may be right\n',
  );
  const github = renderLive([check], { format: 'github', color: false });
  assert.equal(github, '::warning title=live::p: odd\uFFFD\n');
});

const database = use(
  () => createTestDatabase({ migrated: false }),
  ({ drop }) => drop(),
);

const gateway = (upstream_url: string) => `server: { listen: 127.0.0.1:8080, public_url: https://gateway.example.com }
database: { postgres: { url_env: DATABASE_URL } }
upstreams: [{ name: main, base_url: "${upstream_url}", api_key_env: UPSTREAM_KEY }]
models: [{ id: coder-1, pricing: { input: 3, output: 15 } }]
routing: { default_upstream: main }
spend_limits: { spool_dir: spool }
`;

test('the command prints one line each, changes nothing in the database, and fails when one fails', async () => {
  const url = await answering((_request, response) => response.end('{}'));
  const project = createProject({ 'gateway.yaml': gateway(url) });
  const run = (env: NodeJS.ProcessEnv, ...more: string[]) =>
    cli(['check', '--config', project.path('gateway.yaml'), '--live', ...more], {
      env: { PATH: process.env.PATH, ...env },
    });
  const env = { DATABASE_URL: database.url, UPSTREAM_KEY: SECRET };

  const empty = await run(env);
  assert.equal(empty.exit_code, 0, empty.stdout + empty.stderr);
  assert.match(empty.stdout, /^ok {7}database: PostgreSQL \d+\.\d+, no tables yet; /m);
  assert.match(empty.stdout, /^ok {7}upstream main: responds with status 200\n {9}note {6}reached directly$/m);
  assert.match(empty.stderr, /live: 2 of 2/);
  assert.match((await run(env)).stdout, /no tables yet/);

  const config = stageConfig({ database: { postgres: { url_env: 'DATABASE_URL', pool_max: 2 } } });
  const opened = await openDatabase({ config, env, log: collectingLog().log, wait: 'until-ready' });
  await opened.close();
  assert.match((await run(env)).stdout, /schema up to date/);
  const spool = (name: string) => writeFileSync(join(project.path('spool'), `${name}.spool`), '');
  mkdirSync(project.path('spool'));
  const their_database = crypto.randomUUID();
  const theirs = `${their_database}.${crypto.randomUUID()}`;
  spool(theirs);
  const { stdout } = await run(env);
  const warning = `the spool file ${theirs}.spool in .* belongs to database ${their_database}`;
  assert.match(stdout.replace(/\s+/g, ' '), new RegExp(warning));

  const wrong = new URL(database.url);
  wrong.password = 'hunter2';
  wrong.username = 'nobody';
  const refused = await run({ ...env, DATABASE_URL: wrong.href }, '--format', 'json');
  assert.equal(refused.exit_code, 1);
  const [first] = JSON.parse(refused.stdout).live;
  assert.equal(first.ok, false);
  assert.ok(!(refused.stdout + refused.stderr).includes('hunter2'));
});

test('variables must be set, and nothing is probed while the files have errors', async () => {
  const project = createProject({ 'gateway.yaml': gateway('http://127.0.0.1:1') });
  const { exit_code, stdout, stderr } = await cli(['check', '--config', project.path('gateway.yaml'), '--live'], {
    env: {},
  });
  assert.equal(exit_code, 1);
  assert.match(stdout, /error\[C4011\]: the environment variable DATABASE_URL is not set/);
  assert.match(stderr, /live: skipped because of errors/);
});
