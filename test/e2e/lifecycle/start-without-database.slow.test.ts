/** A gateway that starts while its database is away: whom it serves, whom it does not, and what it says about it. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { type RunningGateway, startGateway } from '../../../engine/gateway/start-gateway.ts';
import { readCallers } from '../../../engine/identity/known-callers/callers-file.ts';
import { sealingKeys } from '../../../engine/identity/known-callers/sealing-keys.ts';
import { generateToken, hashToken, TOKENS_CHANNEL } from '../../../engine/identity/tokens/token-format.ts';
import { type FrozenClock, frozenClock, systemClock } from '../../../engine/kit/clock.ts';
import { drainUpstream } from '../../../engine/upstreams/states/drained-upstreams.ts';
import { stages } from '../../../stages/index.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, mainUpstream, makeToken, UPSTREAM_KEY } from '../../support/gateway.ts';
import { type ScriptedUpstream, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { createLog, open, outside } from '../../support/open-database.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { ask, send } from '../support/client.ts';
import { ledgerRow, spoolFiles } from '../support/state.ts';
import { assertStoreError } from './outage.ts';

let upstream: ScriptedUpstream;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let relay: TcpRelay;
let directory: string;
let spool_dir: string;
let gateway: RunningGateway | undefined;
let lines: readonly string[];

before(async () => {
  upstream = await startUpstream();
});
after(() => upstream?.close());
beforeEach(async () => {
  database = await createTestDatabase();
  directory = await mkdtemp(join(tmpdir(), 'appscli-away-'));
  spool_dir = join(directory, 'spool');
  relay = await startRelay(Number(new URL(database.url).port));
});
afterEach(async () => {
  await stop();
  await relay.stop();
  await database.drop();
  await rm(directory, { recursive: true, force: true });
});

/** Starts a gateway on the files that the one before it left. */
async function start({
  on_store_error = 'allow',
  key = UPSTREAM_KEY,
  clock,
  ...sections
}: {
  readonly on_store_error?: 'allow' | 'deny';
  readonly key?: string;
  readonly clock?: FrozenClock;
  readonly upstreams?: readonly object[];
  readonly routing?: object;
} = {}): Promise<RunningGateway> {
  const limits = { defaults: { user_daily_usd: 100 }, on_exceeded: 'deny', on_store_error, spool_dir };
  const config_file = join(directory, 'gateway.yaml');
  await writeFile(config_file, JSON.stringify(gatewayConfig(upstream.url, { spend_limits: limits, ...sections })));
  const url = new URL(database.url);
  url.port = String(relay.port);
  const env = {
    ...process.env,
    TEST_UPSTREAM_KEY: key,
    TEST_FIRST_KEY: 'first-upstream-key-77aa',
    TEST_DATABASE_URL: url.href,
  };
  const log = createLog();
  ({ lines } = log);
  gateway = await startGateway({ config_file, stages, env, log: log.log, clock: clock ?? systemClock });
  return gateway;
}

async function stop(): Promise<void> {
  await gateway?.close();
  gateway = undefined;
}

/** Makes access tokens while no gateway runs: one that heard of it a moment after a token's first use would forget it. */
async function newTokens(count: number): Promise<readonly string[]> {
  const own = await open(database.url);
  const tokens = await Promise.all(Array.from({ length: count }, () => makeToken(own)));
  await own.close();
  return tokens;
}

/** Starts one that has served a caller, ends it, and the database with it. */
async function serveOnce(options: Parameters<typeof start>[0] = {}): Promise<string> {
  const [token] = await newTokens(1);
  const { url } = await start(options);
  assert.equal((await ask(url, token!)).status, 200);
  await stop();
  await relay.stop();
  return token!;
}

const ready = () => send(gateway!.url, { method: 'GET', path: '/readyz' });
const files = () => readdirSync(spool_dir).filter((name) => name.endsWith('.sealed'));
const said = (words: RegExp) => until(`it is said: ${words}`, () => lines.find((line) => words.test(line)));

test('serves under allow whom the gateway before it knew, and writes it down when the database is there', async () => {
  const token = await serveOnce();
  const { url } = await start();
  const told = await ready();
  assert.deepEqual(
    [told.status, told.json().status, told.json().checks],
    [200, 'degraded', { database: 'unavailable', spool: 'ok' }],
  );
  await said(/starts without its database, and serves callers known from before/);
  const served = await ask(url, token);
  assert.equal(served.status, 200, served.text);

  await relay.start();
  await until('the database is used', async () => (await ready()).json().status === 'ok');
  const row = await ledgerRow(gateway!.database, String(served.headers['x-gateway-request-id']));
  assert.deepEqual([row.user_email, row.input_tokens], ['dev@example.com', 100]);
  assert.equal((await ask(url, token)).status, 200);
});

test('refuses whom nobody knew before, with 503 as in any outage', async () => {
  await serveOnce();
  const { url } = await start();
  assertStoreError(await ask(url, generateToken()));
});

test('keeps nothing that can be read or guessed, for its own account alone', async () => {
  const token = await serveOnce();
  const [name, ...others] = files();
  assert.equal(others.length, 0);
  const path = join(spool_dir, name!);
  assert.equal(statSync(path).mode & 0o777, 0o600);
  const text = readFileSync(path, 'latin1');
  const hash = hashToken(token);
  for (const secret of [token, hash, Buffer.from(hash, 'base64').toString('hex'), 'dev@example.com', UPSTREAM_KEY])
    assert.ok(!text.includes(secret) && !Buffer.from(text, 'base64').toString('latin1').includes(secret));
});

for (const [what, change, reason] of [
  ['that was changed', (text: string) => `${text.slice(0, -9)}AAAA${text.slice(-5)}`, /a secret that is not in/],
  ['that is none', () => 'nonsense', /cannot be read/],
] as const) {
  test(`does not believe a file ${what}, and says so`, async () => {
    const token = await serveOnce();
    const path = join(spool_dir, files()[0]!);
    writeFileSync(path, change(readFileSync(path, 'utf8')));
    const { url } = await start();
    assertStoreError(await ask(url, token));
    assert.match(await said(/knows no caller from before/), reason);
    const told = await ready();
    assert.equal(told.status, 503);
    assert.match(told.json().reason, reason);
  });
}

test('does not believe a file that was sealed with another secret', async () => {
  const token = await serveOnce();
  const { url } = await start({ key: 'another-upstream-key-51fd' });
  assertStoreError(await ask(url, token));
  assert.match((await ready()).json().reason, /sealed with a secret that is not in the configuration/);
});

test('opens the file when another credential comes before the one that sealed it', async () => {
  const token = await serveOnce();
  const first = { ...mainUpstream(upstream.url), name: 'first', api_key_env: 'TEST_FIRST_KEY' };
  const { url } = await start({ upstreams: [first, mainUpstream(upstream.url)] });
  assert.equal((await ask(url, token)).status, 200);
});

/** Revokes a token; `is_told`: as the gateways hear of it. */
async function revoke(token: string, is_told: boolean): Promise<void> {
  const hash = hashToken(token);
  const tell = is_told ? `notify ${TOKENS_CHANNEL}, '${hash}';` : '';
  await outside(
    database.url,
    `update access_tokens set revoked_at = now() where hash = decode('${hash}', 'base64'); ${tell}`,
  );
}

/** Hashes of the tokens in the file. */
async function keptHashes(): Promise<readonly string[]> {
  const config = { upstreams: [{ api_key_env: 'KEY' }] } as unknown as GatewayConfig;
  const keys = sealingKeys(config, { KEY: UPSTREAM_KEY });
  const read = await readCallers(join(spool_dir, files()[0]!), keys);
  return 'kept' in read ? read.kept.tokens.map(({ hash }) => hash) : [];
}

test('a token that is revoked is off the disk while the gateway still runs, so that its end may be sudden', async () => {
  const [bad = '', good = ''] = await newTokens(2);
  const { url } = await start();
  for (const token of [bad, good]) assert.equal((await ask(url, token)).status, 200);
  const kept = async (...tokens: readonly string[]) =>
    isDeepStrictEqual((await keptHashes()).toSorted(), tokens.map(hashToken).toSorted());
  await until('both are kept', () => files().length === 1 && kept(bad, good));
  await revoke(bad, true);
  await until('one is kept', () => kept(good));
});

test('a token that was revoked while no gateway ran is refused as soon as the database is there', async () => {
  const token = await serveOnce();
  await revoke(token, false);
  const { url } = await start();
  assert.equal((await ask(url, token)).status, 200, 'nobody here can know');
  await relay.start();
  await until('it is refused', async () => (await ask(url, token)).status === 401);
});

test('whom another database knew at the same address is refused when that turns out, and its rows wait', async () => {
  const token = await serveOnce();
  const { url } = await start();
  const served = await ask(url, token);
  assert.equal(served.status, 200);
  await outside(database.url, 'drop schema public cascade; create schema public');
  await relay.start();
  await until('it is refused', async () => (await ask(url, token)).status === 401);
  await said(/another database than before; whom that one knew is forgotten/);
  const id = String(served.headers['x-gateway-request-id']);
  const linesOf = (name: string) => readFileSync(join(spool_dir, name), 'utf8').split('\n');
  const kept = () =>
    spoolFiles(spool_dir)
      .flatMap(linesOf)
      .flatMap((line) => (line.includes(id) ? (/"what":"(forwarded|settled|done)"/.exec(line)?.[1] ?? []) : []));
  await until('its row waits', () => isDeepStrictEqual(kept(), ['forwarded', 'settled']));
  assert.deepEqual(await outside(database.url, `select 1 from ledger where request_id = '${id}'`), []);
});

test('serves nobody whom no gateway has seen for an hour', async () => {
  const clock = frozenClock(Date.now());
  const token = await serveOnce({ clock });
  const later = frozenClock(clock.now() + 3_599_000);
  const { url } = await start({ clock: later });
  assert.equal((await ask(url, token)).status, 200);
  later.advance(1000);
  assertStoreError(await ask(url, token));
  await stop();
  const { url: next } = await start({ clock: frozenClock(clock.now() + 3_600_000) });
  assertStoreError(await ask(next, token));
  assert.match((await ready()).json().reason, /more than an hour ago/);
});

test('refuses requests under deny, keeps nobody, and says why', async () => {
  const token = await serveOnce({ on_store_error: 'deny' });
  const { url } = await start({ on_store_error: 'deny' });
  assertStoreError(await ask(url, token));
  await said(/starts without its database, and refuses requests until it is there/);
  const told = await ready();
  assert.deepEqual([told.status, told.json().status], [503, 'unavailable']);
  assert.match(told.json().reason, /on_store_error: deny/);
  assert.throws(files, /ENOENT/);
});

test('removes the file when requests do not go on without the database any more', async () => {
  await serveOnce();
  assert.equal(files().length, 1);
  await relay.start();
  await start({ on_store_error: 'deny' });
  await until('the file is gone', () => files().length === 0);
});

test('sends nothing to an upstream that was drained when the database was last there', async () => {
  const sections = {
    upstreams: [mainUpstream('http://127.0.0.1:9'), { ...mainUpstream(upstream.url), name: 'spare' }],
    routing: { default_upstreams: ['main', 'spare'], rules: [] },
  };
  const own = await open(database.url);
  const by = { database: own, clock: systemClock, actor: { kind: 'command', name: 'test' } } as const;
  await drainUpstream(by, 'main', undefined).finally(() => own.close());
  const token = await serveOnce(sections);
  const { url } = await start(sections);
  assert.equal((await ask(url, token)).status, 200);
  const { upstreams } = (await ready()).json();
  assert.equal(upstreams.main.state, 'drained');
});
