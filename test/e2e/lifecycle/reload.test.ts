/** A configuration that is replaced while the gateway runs. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { beforeEach, test } from 'node:test';
import { bootGateway, type ConfigSections, gatewayConfig, serverSection, UPSTREAM_KEY } from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { use } from '../../support/use.ts';
import { ask, bearer, messagesBody, open, readAll, send } from '../support/client.ts';
import { ledgerRow } from '../support/state.ts';

const SPARE_KEY = 'spare-key-77b0e1c2';
/** The cost of a scripted stream's usage at its initial price, in nano-USD. */
const STREAM_COST = 1_657_500;

const main = use(startUpstream);
const spare = use(startUpstream);
const gateway = use(() => bootGateway({ upstream_url: main.url, env: { SPARE_KEY, PLANTED: 'p4ssw0rd-in-env' } }));
beforeEach(async () => {
  main.script = answerJson(message());
  spare.script = answerJson(message());
  await reloadWith();
  main.requests.length = 0;
  spare.requests.length = 0;
  (gateway.logs as string[]).length = 0;
});

/** Two upstreams, of which `upstream` gets the requests. */
function routedTo(upstream: 'main' | 'spare'): ConfigSections {
  const { upstreams } = gatewayConfig(main.url) as { upstreams: readonly object[] };
  const second = { ...upstreams[0], name: 'spare', base_url: spare.url, api_key_env: 'SPARE_KEY' };
  return { upstreams: [upstreams[0], second], routing: { default_upstream: upstream, rules: [] } };
}

/** Writes gateway.yaml with other sections and reloads it. */
async function reloadWith(sections: ConfigSections = {}): Promise<void> {
  await writeFile(gateway.config_file, JSON.stringify(gatewayConfig(main.url, sections), null, 2));
  await gateway.reload();
}

/** Writes something into gateway.yaml that is no configuration, and reloads it. */
async function reloadText(text: string): Promise<void> {
  await writeFile(gateway.config_file, text);
  await gateway.reload();
}

// biome-ignore lint/suspicious/noExplicitAny: a record of the log has any fields
function logged(level: string): any[] {
  return gateway.logs.map((line) => JSON.parse(line)).filter((record) => record.level === level);
}

async function readiness() {
  const { status, json } = await send(gateway.url, { method: 'GET', path: '/readyz' });
  return { status, configuration: json().configuration };
}

test('a changed rule decides the next request, and the log names the active configuration', async () => {
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  assert.equal(main.requests.length, 1);
  await reloadWith(routedTo('spare'));
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  assert.equal(main.requests.length, 1);
  assert.equal(spare.only().headers['x-api-key'], SPARE_KEY);
  const [said] = logged('info');
  assert.equal(said.text, 'the new configuration is in force');
  assert.deepEqual(said.changed, [gateway.config_file]);
  assert.ok(said.pipelines.includes('messages'));
  assert.ok(Number.isInteger(said.duration_ms));
});

test('a stream that began before a reload ends on the configuration it began with', async () => {
  const events = messageEvents(['one ', 'two ', 'three']);
  let finish = () => {};
  main.script = ({ res }) => {
    res.writeHead(200, EVENT_STREAM as string[]);
    res.write(events.slice(0, 3).join(''));
    finish = () => res.end(events.slice(3).join(''));
  };
  const streaming = { headers: bearer(gateway.token), body: messagesBody({ stream: true }) };
  const begun = await open(gateway.url, streaming).head;
  const request_id = begun.headers['x-gateway-request-id'] as string;
  // The reload removed the model and its price: the old plan must still have both to settle the request.
  await reloadWith({ ...routedTo('spare'), models: [{ id: 'other', pricing: { input: 1, output: 1 } }] });
  assert.equal((await ask(gateway.url, gateway.token)).status, 404);
  finish();
  assert.equal((await readAll(begun)).text, events.join(''));
  assert.equal((await ledgerRow(gateway.database, request_id)).cost_nano_usd, STREAM_COST);
});

test('a variable set after the start is reported as needing a restart, as exporting it has no effect', async () => {
  const config = JSON.stringify(gatewayConfig(main.url), null, 2);
  await reloadText(config.replace(/"api_key_env": "[^"]+"/, '"api_key_env": "LATER_KEY"'));
  const [finding] = logged('error');
  assert.equal(finding.code, 'C4011');
  assert.match(finding.help, /in the environment of the gateway, and restart it/);
});

test('a bad file changes nothing, reports what is wrong and where, and a good one recovers', async () => {
  const config = JSON.stringify(gatewayConfig(main.url), null, 2);
  await reloadText(config.replace('"default_upstream": "main"', '"default_upstream": "mian"'));
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  const [finding, summary] = logged('error');
  const line = config.split('\n').findIndex((text) => text.includes('default_upstream')) + 1;
  assert.deepEqual(
    { code: finding.code, file: finding.file, line: finding.line },
    { code: 'C4004', file: gateway.config_file, line },
  );
  assert.match(finding.help, /did you mean.*main/);
  assert.match(summary.text, /reload failed/);
  assert.equal(summary.errors, 1);
  assert.equal(logged('error').length, 2);

  const failing = await readiness();
  assert.equal(failing.status, 200, 'it serves, so it is ready');
  assert.equal(failing.configuration.state, 'reload_failed');
  assert.ok(Date.parse(failing.configuration.failing_since) <= Date.now());
  await gateway.reload();
  const still = await readiness();
  assert.equal(still.configuration.failing_since, failing.configuration.failing_since, 'since the first failure');
  assert.equal(still.configuration.failed_reloads, failing.configuration.failed_reloads + 1);

  await reloadWith();
  const { status, configuration } = await readiness();
  assert.equal(status, 200);
  assert.equal(configuration.state, 'ok');
  assert.equal(configuration.failing_since, undefined);
  assert.equal(configuration.reloads, failing.configuration.reloads + 1);
  assert.ok(Date.parse(configuration.loaded_at) >= Date.parse(failing.configuration.failing_since));
});

test('an invalid file of any kind leaves the gateway running', async () => {
  for (const text of ['', '{', 'server: [', '\u0000', '- a list\n', 'x'.repeat(5_000_000)]) {
    await reloadText(text);
    assert.equal((await ask(gateway.url, gateway.token)).status, 200);
    assert.equal((await readiness()).configuration.state, 'reload_failed');
  }
  await rm(gateway.config_file);
  await gateway.reload();
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  assert.match(logged('error').at(-1).error, /does not exist/);
});

test('neither a secret in a bad file nor a secret of a good one is logged', async () => {
  const { upstreams } = gatewayConfig(main.url) as { upstreams: readonly object[] };
  await reloadWith({ upstreams: [{ ...upstreams[0], api_key_env: 'sk-planted-A1b2C3d4E5f6' }] });
  await reloadText('upstreams:\n  - api_key_env: "sk-planted-A1b2C3d4E5f6\n');
  await reloadText('database: { postgres: { url_env: postgres://app:p4ssw0rd@db/app } }\n  x: [');
  await reloadWith(routedTo('spare'));
  await ask(gateway.url, gateway.token);
  const said = gateway.logs.join('\n');
  assert.ok(logged('error').length > 3);
  for (const secret of ['planted', 'p4ssw0rd', SPARE_KEY, UPSTREAM_KEY]) assert.ok(!said.includes(secret), secret);
});

test('a restart-only setting keeps its value, one warning per key, and the rest applies', async () => {
  const server = {
    listen: '127.0.0.1:1',
    public_url: 'http://127.0.0.1',
    limits: { header_bytes: 8192, body_bytes: 200 },
    tls: { cert_file: 'gateway.yaml', key_file: 'gateway.yaml' },
  };
  await reloadWith({ server, database: { embedded: { data_dir: 'elsewhere' } } });
  const warnings = logged('warn').filter(({ key }) => key !== undefined);
  const keys = warnings.map(({ key }) => key);
  assert.deepEqual(keys, ['server.listen', 'server.tls', 'server.limits.header_bytes', 'database']);
  for (const { text } of warnings) assert.match(text, /restart/);
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  assert.equal((await ask(gateway.url, gateway.token, { system: 'x'.repeat(200) })).status, 413);
  const wide = await send(gateway.url, { method: 'GET', path: '/healthz', headers: ['x-wide', 'w'.repeat(100_000)] });
  assert.equal(wide.status, 200, 'the limit of headers is the old one');
});

test('limits, timeouts, prices, token groups and the time zone apply to the next request', async () => {
  main.script = () => {};
  await reloadWith({ server: serverSection({ timeouts: { non_streaming_first_byte_seconds: 0.2 } }) });
  assert.equal((await ask(gateway.url, gateway.token)).status, 504);
  main.script = answerJson(message());

  await reloadWith({ token_groups: [{ name: 'all', models: ['mapped-*'] }] });
  assert.equal((await ask(gateway.url, gateway.token)).status, 404);

  const resets: string[] = [];
  for (const time_zone of ['Asia/Tokyo', 'America/Caracas']) {
    await reloadWith({ spend_limits: { defaults: { user_daily_usd: 0.0000001 }, on_exceeded: 'deny', time_zone } });
    const refused = await ask(gateway.url, gateway.token);
    assert.equal(refused.status, 429, refused.text);
    resets.push(refused.json().error.resets_at.slice(11, 16));
  }
  assert.deepEqual(resets, ['15:00', '04:00'], 'midnight there');
});

test('reloads during a reload become one, which sees the last state of the files', async () => {
  const before = (await readiness()).configuration.reloads;
  await writeFile(gateway.config_file, 'never read');
  const first = gateway.reload();
  const others = Array.from({ length: 50 }, () => gateway.reload());
  await writeFile(gateway.config_file, JSON.stringify(gatewayConfig(main.url, routedTo('spare'))));
  await Promise.all([first, ...others, gateway.reload()]);
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  assert.equal(spare.requests.length, 1);
  const { reloads, state } = (await readiness()).configuration;
  assert.equal(state, 'ok');
  assert.ok(reloads - before <= 3, `${reloads - before} reloads`);
});
