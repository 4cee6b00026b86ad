import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { before, beforeEach, describe, test } from 'node:test';
import type { CheckResult } from '../../../engine/base/contract/checks.ts';
import { freePort } from '../../support/free-port.ts';
import { bootGateway, UPSTREAM_KEY } from '../../support/gateway.ts';
import { answerJson, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { ownPort } from '../../support/net/own-port.ts';
import {
  answersErrorPage,
  answersOkToAll,
  compressesDocuments,
  only as onPath,
  passesOn,
  redirectsToLogin,
  setsHeader,
  showsLoginPage,
} from '../../support/proxies/behaviours.ts';
import { type Behaviour, startProxy } from '../../support/proxies/proxy.ts';
import { use } from '../../support/use.ts';
import { diagnoseAll, only } from './support.ts';

let port: number;

const models = { object: 'list', data: [] };

before(async () => {
  port = await freePort();
});
const upstream = use(startUpstream);
const proxy = use(() => startProxy(`http://127.0.0.1:${port}`, passesOn));
const gateway = use(() =>
  bootGateway({
    upstream_url: upstream.url,
    config: {
      server: { listen: `127.0.0.1:${port}`, public_url: proxy.url },
      spend_limits: { spool_dir: 'spool' },
    },
  }),
);
beforeEach(() => {
  proxy.behaviour = passesOn;
  upstream.script = answerJson(models);
  upstream.requests.length = 0;
  upstream.lists.length = 0;
});

/** Results with this gateway as it is; no result may hold a secret. */
async function diagnose(more: Parameters<typeof diagnoseAll>[2] = {}, env = gateway.env): Promise<CheckResult[]> {
  const results = await diagnoseAll(gateway.config_file, env, more);
  const text = JSON.stringify(results);
  for (const secret of [gateway.token, UPSTREAM_KEY, new URL(gateway.env.TEST_DATABASE_URL!).password]) {
    assert.ok(!text.includes(secret), 'a secret is in the results');
  }
  for (const { verdict, remedy, id } of results) assert.ok(remedy !== undefined || !/failed|warning/.test(verdict), id);
  return results;
}

const wrongAmong = (results: readonly CheckResult[], begins: string) =>
  results
    .filter(({ id, verdict }) => id.startsWith(begins) && (verdict === 'failed' || verdict === 'warning'))
    .map(({ id }) => id);

async function behind(behaviour: Behaviour, more: Parameters<typeof diagnoseAll>[2] = {}): Promise<CheckResult[]> {
  proxy.behaviour = behaviour;
  return (await diagnose(more)).filter(({ id }) => id.startsWith('public_url.'));
}

describe('a gateway that runs behind a proxy', () => {
  test('passes a healthy host without requesting a model', async () => {
    const results = await diagnose();
    assert.ok(!results.some(({ verdict }) => verdict === 'failed'));
    for (const begins of ['gateway.', 'database.', 'public_url.', 'upstream.', 'host.clock'])
      assert.deepEqual(wrongAmong(results, begins), [], begins);
    assert.match(only(results, 'host.listen').found, /a gateway with this public URL runs there, version \d/);
    assert.match(only(results, 'database.reach').found, /schema up to date/);
    assert.match(only(results, 'host.clock').found, /agrees with the database, the upstream main/);
    assert.ok(upstream.lists.length > 0);
    assert.deepEqual(upstream.requests, []);
  });

  test('distinguishes a response of the proxy itself', async () => {
    const found = async (behaviour: Behaviour) => only(await behind(behaviour), 'public_url.gateway');
    const login = await found(redirectsToLogin('https://login.example.com/start?state=not-to-be-shown'));
    assert.match(login.found, /redirect \(status 302\) to https:\/\/login\.example\.com\/start$/);
    assert.match(login.remedy ?? '', /exempt \/v1\/ from it/);
    assert.ok(!JSON.stringify(login).includes('not-to-be-shown'));
    assert.match((await found(showsLoginPage)).found, /web page "Sign in/);
    assert.match((await found(answersErrorPage(502))).found, /"502 Bad Gateway" \(status 502\)/);
    assert.equal((await found(answersOkToAll)).verdict, 'failed');
  });

  test('names a proxy that only stops a part of the requests, or adds a credential of its own', async () => {
    const of_pages = await behind(onPath(/^\/protocol/, showsLoginPage));
    assert.equal(only(of_pages, 'public_url.gateway').verdict, 'failed');
    assert.equal(only(of_pages, 'public_url.models').verdict, 'ok');
    const of_list = await behind(onPath(/^\/v1\/models/, showsLoginPage));
    assert.equal(only(of_list, 'public_url.gateway').verdict, 'ok');
    assert.match(only(of_list, 'public_url.models').found, /expected JSON, got the web page/);
    const of_token = await behind(setsHeader('authorization', `Bearer ${gateway.token}`));
    assert.match(only(of_token, 'public_url.models').remedy ?? '', /add a credential/);
    assert.deepEqual(wrongAmong(await behind(compressesDocuments), 'public_url.'), []);
  });

  test('a gateway of another version is found', async () => {
    const server = createServer((_, res) =>
      res.end(`# Model gateway: protocol\n\nSpoken by appscli 0.0.1 at ${proxy.url}, written`),
    );
    const file = configWith('older', { [`127.0.0.1:${port}`]: `127.0.0.1:${await ownPort(server)}` });
    const results = await diagnoseAll(file, gateway.env, { until: 'gateway.ready' });
    server.close();
    assert.equal(only(results, 'host.listen').verdict, 'warning');
    assert.match(only(results, 'host.listen').found, /version 0\.0\.1, and this program is \d/);
    assert.equal(only(results, 'gateway.ready').verdict, 'warning');
  });

  test('variables that are missing here are no failure while a gateway runs that has them', async () => {
    const { TEST_UPSTREAM_KEY: _, TEST_DATABASE_URL: __, ...env } = gateway.env;
    const results = await diagnose({}, env as NodeJS.ProcessEnv);
    assert.equal(only(results, 'host.variables').verdict, 'warning');
    assert.match(only(results, 'host.variables').found, /TEST_DATABASE_URL \(url_env\)/);
    assert.equal(only(results, 'database.reach').verdict, 'skipped');
  });

  test('reports an upstream credential that was rejected with its variable, without requesting a model', async () => {
    upstream.script = answerJson({ error: {} }, 401);
    const reach = only(await diagnose(), 'upstream.reach');
    assert.equal(reach.verdict, 'failed');
    assert.match(reach.remedy ?? '', /TEST_UPSTREAM_KEY/);
    assert.equal(only(await diagnose({}, withoutKey()), 'upstream.reach').verdict, 'skipped');
  });

  test('a hostile server at the public URL neither keeps it waiting, nor gets the token, nor reaches the terminal', async () => {
    const seen: string[] = [];
    const results = await behind(
      ({ request, res }) => {
        seen.push(JSON.stringify(request.rawHeaders));
        res.writeHead(200, { 'content-type': 'text/html', server: 'evil' });
        res.write('<title>\u001b[2J\u202eowned</title>');
        const timer = setInterval(() => res.write('x'.repeat(65_536)), 1);
        res.on('close', () => clearInterval(timer));
      },
      { timeout_seconds: 0.5 },
    );
    assert.equal(only(results, 'public_url.gateway').verdict, 'failed');
    assert.ok(!JSON.stringify(results).includes('\\u001b'));
    assert.ok(seen.length > 0 && seen.every((headers) => !headers.includes(gateway.token)), 'the token was sent');
  });
});

function configWith(name: string, changes: Readonly<Record<string, string>>): string {
  const file = `${gateway.config_file}.${name}.yaml`;
  const replaced = (text: string, [from, to]: [string, string]) => text.replaceAll(from, to);
  writeFileSync(file, Object.entries(changes).reduce(replaced, readFileSync(gateway.config_file, 'utf8')));
  return file;
}

const withoutKey = () => ({ ...gateway.env, TEST_UPSTREAM_KEY: undefined }) as NodeJS.ProcessEnv;

describe('a machine on which the gateway does not run', () => {
  test('reports a port in use, and does not probe the public URL in vain', async () => {
    const taken = await ownPort(createServer((_, res) => res.end('hello')));
    const file = configWith('other', { [`127.0.0.1:${port}`]: `127.0.0.1:${taken}` });
    const listening = only(await diagnoseAll(file, gateway.env), 'host.listen');
    assert.equal(listening.verdict, 'failed');
    assert.match(listening.found, /^in use by another program, which is not a gateway$/);
  });

  test('a free port is fine, and a database without a gateway is looked at all the same', async () => {
    const dead = `http://127.0.0.1:${await freePort()}`;
    const address = `127.0.0.1:${await freePort()}`;
    const file = configWith('free', { [`127.0.0.1:${port}`]: address, [proxy.url]: dead });
    const results = await diagnoseAll(file, gateway.env);
    assert.match(only(results, 'host.listen').found, /the port is free/);
    assert.equal(only(results, 'database.reach').verdict, 'ok');
    assert.equal(only(results, 'public_url.gateway').verdict, 'skipped');
    assert.equal(results.filter(({ id }) => id.startsWith('gateway.')).length, 0);
    const found = only(await diagnoseAll(file, withoutKey()), 'host.variables');
    assert.equal(found.verdict, 'failed');
    assert.match(found.found, /TEST_UPSTREAM_KEY \(api_key_env\)/);
  });

  test('waits for a silent server as long as configured, and no longer', async () => {
    const address = `http://127.0.0.1:${await ownPort(createServer(() => {}))}`;
    const changes = {
      [`127.0.0.1:${port}`]: address.slice(7),
      [upstream.url]: address,
      [proxy.url]: `${address}/public`,
    };
    const results = await diagnoseAll(configWith('silent', changes), gateway.env, { timeout_seconds: 0.2 });
    assert.match(only(results, 'host.listen').found, /not a gateway: no response within 0\.2 seconds/);
    assert.match(only(results, 'upstream.reach').found, /no response within 0\.2 seconds/);
    assert.equal(only(results, 'public_url.gateway').verdict, 'skipped');
  });

  test('reports a configuration with errors, and probes nothing else', async () => {
    const file = `${gateway.config_file}.broken.yaml`;
    writeFileSync(file, 'server: { listen: nowhere }\n');
    const results = await diagnoseAll(file, gateway.env);
    const found = results.map(({ id, verdict }) => `${id} ${verdict}`);
    assert.deepEqual(found, ['host.configuration failed']);
    assert.match(results[0]!.remedy ?? '', /appscli check --config/);
    assert.deepEqual([...upstream.lists, ...upstream.requests], []);
  });
});
