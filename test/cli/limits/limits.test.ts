import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { changes } from '../../../engine/cli/audit/audit-changes.ts';
import { clear, grant, list, revoke, set } from '../../../engine/cli/limits/limits.ts';
import { count, limitedConfig } from '../../http/admin/limits-config.ts';
import { type AdminBench, useAdminApi } from '../../http/admin/support.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, writeConfig } from '../../support/gateway.ts';
import { cli, type Ended } from '../support.ts';
import { assertNarrow, backendOf, failure } from '../tokens/backend-at-gateway.ts';

/** What hosts and accounts are called decides where lines break. */
const inOneLine = (text: string) => text.replace(/\s+/g, ' ');

describe('on the database', () => {
  let run: (...arguments_: readonly string[]) => Promise<Ended>;
  const closing: (() => Promise<unknown>)[] = [];
  before(async () => {
    const database = await createTestDatabase();
    closing.push(database.drop);
    const spend_limits = {
      defaults: { user_daily_usd: 50 },
      rules: [{ name: 'per-model', scope: ['team', 'model'], window: 'month', limit_usd: 200 }],
    };
    const { directory, config_file } = await writeConfig(gatewayConfig('http://127.0.0.1:9', { spend_limits }));
    closing.push(() => rm(directory, { recursive: true, force: true }));
    const env = { ...process.env, TEST_DATABASE_URL: database.url };
    run = (...arguments_) => cli([...arguments_, '--config', config_file], { env });
  });
  after(async () => {
    for (const close of closing.reverse()) await close();
  });
  const succeed = async (...arguments_: readonly string[]) => {
    const ended = await run(...arguments_);
    assert.equal(ended.exit_code, 0, ended.stderr);
    assertNarrow(ended.stderr);
    return ended;
  };

  test('a limit is set, listed, taken back, and every step can be looked up', async () => {
    const whose = ['--user', 'Ana@Example.com', '--window', 'day'];
    const done = await succeed('limits', 'set', ...whose, '--usd', '100.25', '--reason', 'research');
    assert.equal(done.stdout, '');
    assert.match(
      inOneLine(done.stderr),
      /^Set user ana@example\.com per day to 100\.25 USD\. In force from now on: user ana@example\.com per day: 100\.25 USD 0 USD spent, 100\.25 left; resets \S+ 00:00 UTC set to 100\.25 USD by command \S+, \S+ \S+ UTC: research gateway\.yaml: 50 USD \(defaults\.user_daily_usd\), replaced $/,
    );
    const again = await succeed('limits', 'set', ...whose, '--usd', '0', '--json');
    const { previous, now } = JSON.parse(again.stdout);
    assert.deepEqual([previous, now.limit, now.unit, again.stderr], [100.25, 0, 'usd', '']);
    const listed = await succeed('limits', 'list');
    assertNarrow(listed.stdout);
    assert.match(
      listed.stdout,
      /^In gateway\.yaml:\ndefaults\.user_daily_usd: 50 USD, each user per day\nper-model: 200 USD, each team and model per month\n\nSet or granted:\nuser ana@example\.com per day: 0 USD\n/,
    );
    const cleared = await succeed('limits', 'clear', ...whose);
    assert.match(cleared.stderr, /^Took back the limit of 0 USD for user ana@example\.com per day\. In force/);
    assert.match(cleared.stderr, /\nuser ana@example\.com per day: 50 USD\n/);
    const told = await succeed('audit', 'changes', '--json');
    const lines = told.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line));
    const actions = lines.filter(({ subject }) => subject.includes('ana@')).map(({ action }) => action);
    assert.deepEqual(actions, ['limit.set', 'limit.set', 'limit.clear']);
    assert.equal((await run('limits', 'clear', ...whose)).exit_code, 1);
  });

  test('room is granted for a time, listed with its id, and revoked by it', async () => {
    const whose = ['--team', 'search', '--model', 'coder-1', '--window', 'month'];
    const granted = await succeed('limits', 'grant', ...whose, '--usd', '20', '--expires', '3d', '--reason', 'release');
    const [, id] =
      /^Grant (grt_\w{13}): 20 USD more for team search and model coder-1 per month, until \S+ \S+ UTC\. /.exec(
        inOneLine(granted.stderr),
      ) ?? [];
    assert.ok(id !== undefined, granted.stderr);
    assert.match(granted.stderr, /\nteam search and model coder-1 per month: 220 USD\n/);
    const { stdout } = await succeed('limits', 'list', '--team', 'search', '--json');
    const found = JSON.parse(stdout).limits.find(({ scope }: { scope: string }) => scope === 'team+model');
    assert.equal(found.grants[0].id, id);
    assert.ok(Math.abs(Date.parse(found.grants[0].expires_at) - Date.now() - 3 * 86_400_000) < 60_000);
    const revoked = await succeed('limits', 'revoke', id);
    assert.match(revoked.stderr, /^Revoked grt_\w+: 20 USD for team search and model coder-1 per month\.\nIn/);
    const again = await run('limits', 'revoke', id);
    assert.equal(again.exit_code, 1);
    assert.match(again.stderr, /is revoked already, since/);
  });

  test('a wrong command line says what is wrong and changes nothing', async () => {
    const wrong: [readonly string[], RegExp][] = [
      [['set', '--window', 'day', '--usd', '1'], /whose limit\? Name a user, team,/],
      [['set', '--user', 'a@example.com', '--window', 'day'], /how much\? Give --usd/],
      [['set', '--user', 'a@example.com', '--window', 'day', '--usd', '1', '--tokens', '1'], /one of --usd/],
      [['set', '--user', 'a@example.com', '--window', 'day', '--usd', '1e3'], /Write an amount in USD/],
      [['set', '--user', 'a@example.com', '--window', 'day', '--usd', '9999999'], /up to 4000000/],
      [['set', '--user', 'a@example.com', '--window', 'year', '--usd', '1'], /Allowed choices are day, week/],
      [
        ['set', '--user', 'a@example.com', '--window', 'week', '--usd', '1'],
        /gateway\.yaml does not count USD by user per week/,
      ],
      [['set', '--team', 'a', '--model', 'codr-1', '--window', 'month', '--usd', '1'], /did you mean `coder-1`/],
      [['grant', '--user', 'a@example.com', '--window', 'day', '--usd', '1'], /required option '--expires/],
      [
        ['grant', '--user', 'a@example.com', '--window', 'day', '--usd', '1', '--expires', '2020-01-01'],
        /2020-01-01 has begun/,
      ],
      [['grant', '--user', 'a@example.com', '--window', 'day', '--usd', '1', '--expires', '2020-01-32'], /Write 30d/],
      [['clear', '--user', 'a@example.com', '--window', 'minute'], /which\? Give --unit/],
      [['list', '--token', `gw_${'a'.repeat(40)}`], /the token is a credential; name a token by its id, as "[^"]+" sh/],
    ];
    for (const [given, message] of wrong) {
      const ended = await run('limits', ...given);
      assert.equal(ended.exit_code, 64, given.join(' '));
      assert.match(ended.stderr, message);
      assert.equal(ended.stdout, '');
    }
    assert.equal((await succeed('limits', 'list', '--user', 'b@example.com')).stderr, '');
    const none = await run('limits', 'clear', '--token', 'tok_0', '--window', 'minute', '--unit', 'tokens');
    assert.equal(none.exit_code, 1);
    assert.match(none.stderr, /no limit of tokens is set for token tok_0 per minute/);
  });
});

describe('at a running gateway', () => {
  let bench: AdminBench;
  useAdminApi((opened) => {
    bench = opened;
  }, limitedConfig);
  const place = () => ({ config: 'gateway.yaml', baseUrl: bench.url });

  test('an administrator sets, grants, revokes and clears, with the same words', async () => {
    const setting = backendOf('root', bench.url);
    const whose = { ...place(), user: 'carol@example.com', window: 'minute' as const };
    assert.equal(await set(setting.context, { ...whose, tokens: 500 }), 0);
    assert.match(setting.info(), /^Set user carol@example\.com per minute to 500 tokens\./);
    assert.match(setting.info(), /\n {4}0 tokens used, 500 left; resets 2026-03-10 12:01 UTC\n/);
    const granting = backendOf('root', bench.url);
    const expires = new Date('2026-03-12T12:00:00Z');
    await grant(granting.context, { ...whose, tokens: 50, expires, json: true });
    const { grant: made, now } = JSON.parse(granting.data());
    assert.equal(now.limit, 550);
    const revoking = backendOf('root', bench.url);
    await revoke(revoking.context, made.id, place());
    assert.match(revoking.info(), /^Revoked grt_\w+: 50 tokens for user carol@example\.com per minute\./);
    const clearing = backendOf('root', bench.url);
    await clear(clearing.context, { ...whose, unit: 'tokens' });
    assert.match(clearing.info(), /\nuser carol@example\.com per minute: 90000 tokens\n/);
    for (const backend of [setting, revoking, clearing]) assertNarrow(backend.info());
    const auditing = backendOf('root', bench.url);
    await changes(auditing.context, { ...place(), lines: 10 });
    assert.match(
      auditing.data(),
      /limit\.set {2}user carol@example\.com per minute\n {4}root@example\.com set the limit of user carol@example\.com per minute to 500\n {4}tokens\n[^\n]+ {2}limit\.grant {2}grt_\w+\n {4}root@example\.com granted 50 tokens more per minute to user carol@example\.com\n {4}until 2026-03-12 12:00 \(UTC\)\n/,
    );
    assertNarrow(auditing.data());
  });

  test('everybody else sees their own, and is refused the rest', async () => {
    const row = { key: 'alice@example.com', window: 'day', start: '2026-03-10T00:00:00Z' };
    await count(bench.database, {
      ...row,
      scope: 'user',
      spent: 49_000_000_000,
      reserved: 2_000_000_000,
      in_flight: 2,
    });
    const { context, data } = backendOf('alice', bench.url);
    assert.equal(await list(context, place()), 0);
    assert.match(
      data(),
      /user alice@example\.com per day: 50 USD\n {4}49 USD spent, 2 reserved by 2 requests in flight, 0 left; resets 2026-03-11\n {6}00:00 UTC\n {4}gateway\.yaml: 50 USD \(defaults\.user_daily_usd\)\n {4}gateway\.yaml: 1 USD \(trial\), only reported\n/,
    );
    assert.match(data(), /gateway\.yaml: 10 USD \(nights\), for requests where request\.model is "coder-1"\n/);
    assertNarrow(data());
    const denied = await failure(set(context, { ...place(), user: 'alice@example.com', window: 'day', usd: 1000 }));
    assert.equal(denied.exit_code, 1);
    assert.match(denied.message, /^This is for administrators/);
  });

  test('a limit below what is spent is set with a warning', async () => {
    const row = { scope: 'user', key: 'spent@example.com', window: 'day', start: '2026-03-10T00:00:00Z' };
    await count(bench.database, { ...row, spent: 12_000_000_000 });
    const backend = backendOf('root', bench.url);
    await set(backend.context, { ...place(), user: 'spent@example.com', window: 'day', usd: 10 });
    assert.match(
      backend.info(),
      /\nAlready spent 12 USD of it: further requests are refused until 2026-03-11 00:00\nUTC\.\n$/,
    );
  });

  test('a limit of nothing, and one that is not for all requests, are set with a word about it', async () => {
    const nothing = backendOf('root', bench.url);
    await set(nothing.context, { ...place(), user: 'nil@example.com', window: 'day', usd: 0 });
    assert.match(nothing.info(), /\nA limit of nothing refuses every request it is for\.\n$/);
    const some = backendOf('root', bench.url);
    await set(some.context, { ...place(), team: 'some', window: 'minute', requests: 2 });
    assert.match(some.info(), /\nIt holds for requests that slow is for\.\n$/);
  });

  test('an answer that is none does not get through', async () => {
    const fetch = async () => Response.json({ written: [7, null, {}], limits: [{ of: { user: 'a\u001b[2J' } }, 'x'] });
    const { context, data } = backendOf('root', bench.url);
    assert.equal(await list(context, place(), fetch), 0);
    assert.ok(!data().includes('\u001b'));
  });
});
