/** Reports of `check --live`, `doctor --config` and user commands on the route to a server, with and without proxies. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, beforeEach, test } from 'node:test';
import tls from 'node:tls';
import { diagnoseAll } from '../../doctor/host/support.ts';
import { createProject } from '../../load/support/project.ts';
import { CERTIFICATES } from '../../support/certificates.ts';
import { freePort } from '../../support/free-port.ts';
import { type ForwardProxy, startForwardProxy, startTlsFront } from '../../support/net/forward-proxy.ts';
import { ownPort } from '../../support/net/own-port.ts';
import { alsoClose, use } from '../../support/use.ts';
import { cli, startCli } from '../support.ts';

const { first, second } = CERTIFICATES;
const CREDENTIAL = { name: 'gateway', password: 'planted-proxy-password' };

const trusted = tls.getCACertificates('default');
const asked: string[] = [];
let port: number;
let proxy: ForwardProxy;
let away: string;
let project: ReturnType<typeof createProject>;

const server = use(() =>
  createServer((req, res) => {
    asked.push(`${req.method} ${req.headers.host}${req.url}`);
    req.resume();
    res.setHeader('content-type', 'application/json');
    res.statusCode = /v1\/models/.test(req.url!) && /nothing/.test(req.url!) ? 404 : 200;
    const at = (path: string) => `https://${second.name}${path}`;
    const discovery = {
      issuer: at(''),
      authorization_endpoint: at('/authorize'),
      token_endpoint: at('/token'),
      jwks_uri: at('/jwks'),
      response_types_supported: ['code'],
    };
    res.end(JSON.stringify(/well-known/.test(req.url!) ? discovery : { data: [], keys: [{ kty: 'RSA' }] }));
  }),
);
before(async () => {
  tls.setDefaultCACertificates([...trusted, first.cert, second.cert]);
  port = await ownPort(server);
  const fronts = [alsoClose(await startTlsFront(port, first)), alsoClose(await startTlsFront(port, second))];
  const servers = { [first.name]: fronts[0]!.port, [second.name]: fronts[1]!.port, 'plain.example': port };
  proxy = alsoClose(await startForwardProxy({ servers, credential: CREDENTIAL }));
  away = `127.0.0.1:${await freePort()}`;
  project = createProject({
    'gateway.yaml': `
server: { listen: "127.0.0.1:0", public_url: "http://127.0.0.1" }
auth:
  oidc: { issuer_url: "https://${second.name}", client_id: gateway, client_secret_env: OIDC_SECRET, allowed_email_domains: [example.com] }
  session: { signing_key_env: SIGNING_KEY }
telemetry: { otlp: { endpoint: "https://${first.name}/v1/traces", metrics: false } }
upstreams:
  - { name: tunnel, type: compat, base_url: "https://${first.name}/v1", api_key_env: KEY, query: { api-version: "2024-10-21" } }
  - { name: plain, type: compat, base_url: "http://plain.example/inference", api_key_env: KEY, append_v1: false }
  - { name: here, type: compat, base_url: "http://127.0.0.1:${port}/nothing", api_key_env: KEY }
  - { name: none, type: compat, base_url: "http://127.0.0.1:${port}", api_key_env: KEY, proxy: none }
  - { name: refused, type: compat, base_url: "https://${first.name}", api_key_env: KEY, proxy: "http://${proxy.host}" }
  - { name: away, type: compat, base_url: "https://${first.name}", api_key_env: KEY, proxy: { url_env: AWAY } }
models: [{ id: gpt-5 }]
routing: { default_upstream: tunnel }
`,
  });
});
after(() => tls.setDefaultCACertificates(trusted));
beforeEach(() => {
  asked.length = 0;
  proxy.passed.length = 0;
});

const environment = () => ({
  PATH: process.env.PATH,
  KEY: 'sk-planted-key',
  OIDC_SECRET: 'planted-oidc-secret',
  SIGNING_KEY: 'k'.repeat(64),
  HTTPS_PROXY: proxy.url,
  HTTP_PROXY: proxy.url,
  AWAY: `http://somebody:planted-proxy-password@${away}`,
});

test('check --live reports the route to each server and uses it', async () => {
  const { exit_code, stdout, stderr } = await cli(['check', '--config', project.path('gateway.yaml'), '--live'], {
    env: environment(),
  });
  assert.equal(exit_code, 1, stderr);
  const by = (variable: string) => `through the proxy ${proxy.host} \\(${variable}\\)`;
  const OK = 'responds with status 200 (?:note .* )?note reached ';
  const lines = [
    `ok upstream tunnel: ${OK}${by('HTTPS_PROXY')}`,
    `ok upstream plain: ${OK}${by('HTTP_PROXY')}`,
    'ok upstream here: responds with status 404 note no model list at /nothing/v1/models; .* set append_v1: false',
    `ok upstream none: ${OK}directly \\(upstreams\\[\\]\\.proxy\\)`,
    `failed upstream refused: the proxy ${proxy.host} responds with status 407: it requires a username and password.*${by('upstreams\\[\\]\\.proxy')}`,
    `failed upstream away: no connection through the proxy ${away}: connection refused note reached through the proxy ${away} \\(AWAY\\)`,
    `identity provider: .* reached ${by('HTTPS_PROXY')}`,
    `ok telemetry traces: accepts one span \\(status 200\\) note reached ${by('HTTPS_PROXY')}`,
  ];
  const flat = stdout.replace(/\s+/g, ' ');
  for (const line of lines) assert.match(flat, new RegExp(line), `${line}\n${stdout}`);
  assert.ok(!(stdout + stderr).includes(CREDENTIAL.password));
  assert.ok(asked.includes(`GET ${first.name}/v1/models?api-version=2024-10-21`), String(asked));
  assert.ok(asked.includes('GET plain.example/inference/models'), String(asked));
  assert.ok(proxy.passed.some(({ target }) => target === 'http://plain.example/inference/models'));
});

test('doctor --config reports the route', async () => {
  const results = await diagnoseAll(project.path('gateway.yaml'), environment());
  const found = results.find(({ title }) => title === 'upstream tunnel')!;
  assert.equal(found.verdict, 'ok', JSON.stringify(found));
  assert.ok(found.details!.includes(`reached through the proxy ${proxy.host} (HTTPS_PROXY)`), JSON.stringify(found));
  assert.ok(!JSON.stringify(results).includes(CREDENTIAL.password));
});

test('reports an unusable proxy of the environment at load, at the setting that would use it', async () => {
  const run = async (env: Record<string, string | undefined>) =>
    (await cli(['check', '--config', project.path('gateway.yaml'), '--live'], { env: { ...environment(), ...env } }))
      .stdout;
  const socks = await run({ HTTPS_PROXY: 'socks5h://gateway:planted-proxy-password@proxy.example:1080' });
  assert.match(
    socks.replace(/\s+/g, ' '),
    /error\[C4082\]: requests to first\.example\.com go through the proxy of HTTPS_PROXY, which names a SOCKS proxy/,
  );
  assert.ok(!socks.includes(CREDENTIAL.password));
  assert.match(
    await run({ AWAY: 'socks5://x:planted-proxy-password@y' }),
    /error\[C4082\]: the environment variable AWAY names a SOCKS/,
  );
});

test("a user's command reaches a gateway through the proxy, and reports its rejection", async () => {
  const ca = createProject({ 'ca.pem': first.cert });
  const login = (env: Record<string, string | undefined>) =>
    startCli(['login', '--base-url', `https://${first.name}`], {
      env: { PATH: process.env.PATH, HOME: ca.path('.'), NODE_EXTRA_CA_CERTS: ca.path('ca.pem'), ...env },
    }).ended;
  const there = await login({ HTTPS_PROXY: proxy.url });
  assert.notEqual(there.exit_code, 0);
  assert.ok(
    asked.some((line) => line.includes(`${first.name}/.well-known/`)),
    `${asked}\n${there.stderr}`,
  );
  const refused = await login({ HTTPS_PROXY: `http://gateway:other-planted@${proxy.host}` });
  assert.equal(refused.exit_code, 69, refused.stderr);
  assert.match(
    refused.stderr.replace(/\s+/g, ' '),
    new RegExp(
      `no response from https://${first.name}: the proxy ${proxy.host} responds with status 407: it rejects the username`,
    ),
  );
  assert.ok(!(there.stderr + refused.stderr).includes('planted'));
});
