/** Limits over the admin API: users' view, administrators' view before a change, and changes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createToken } from '../../../engine/domain/identity/tokens/tokens.ts';
import { count, limitedConfig } from './limits-config.ts';
import { type AdminBench, adminBench, pick } from './support.ts';

const bench = adminBench(limitedConfig, { each: true });

const LIMITS = '/admin/api/limits';
const GRANTS = `${LIMITS}/grants`;
const TODAY = '2026-03-10T00:00:00Z';
const MONDAY = '2026-03-09T00:00:00Z';
/** A rule without a condition. */
const FOR_ALL = { by_group: null, always: true, condition: null };

const ask: AdminBench['done'] = (...sent) => bench.done(...sent);
// biome-ignore lint/suspicious/noExplicitAny: every response is checked against the description.
const named = (limits: any[], scope: string, window: string, unit = 'usd') =>
  limits.find((limit) => limit.scope === scope && limit.window === window && limit.unit === unit);

describe("a user's view of limits", () => {
  test('shows the limits of their own requests, as user and as member of their team', async () => {
    const { database } = bench;
    await count(database, {
      ...{ scope: 'user', key: 'alice@example.com', window: 'day', start: TODAY },
      ...{ spent: 3_500_000_000, reserved: 250_000_000, in_flight: 1 },
    });
    const model_key = '["alice@example.com","writer-1"]';
    await count(database, { scope: 'user+model', key: model_key, window: 'day', start: TODAY, spent: 6_000_000_000 });
    // What is over, what is another user's and what nothing limits any more is not theirs to know.
    await count(database, { scope: 'user', key: 'alice@example.com', window: 'day', start: MONDAY, spent: 7 });
    await count(database, { scope: 'user', key: 'fay@example.com', window: 'day', start: TODAY, spent: 8 });
    await count(database, { scope: 'user', key: 'alice@example.com', window: 'month', start: '2026-03-01', spent: 9 });
    const { written, limits } = await ask(200, 'alice', 'GET', LIMITS);
    assert.deepEqual(written, []);
    const day = named(limits, 'user', 'day');
    assert.deepEqual(day, {
      scope: 'user',
      of: { user: 'alice@example.com' },
      window: 'day',
      unit: 'usd',
      counted: true,
      limit: 50,
      spent: 3.5,
      reserved: 0.25,
      in_flight: 1,
      room: 46.25,
      resets_at: '2026-03-11T00:00:00.000Z',
      time_zone: 'UTC',
      forecast: {
        outcome: 'lasts',
        ends_at: null,
        words: 'If it goes on as since the day began, 14 % is used when it resets.',
      },
      rules: [
        { rule: 'defaults.user_daily_usd', limit: 50, mode: 'enforce', ...FOR_ALL },
        { rule: 'trial', limit: 1, mode: 'shadow', ...FOR_ALL },
      ],
      set: null,
      grants: [],
    });
    const team = named(limits, 'team', 'month');
    assert.deepEqual(team.of, { team: 'search' });
    assert.equal(team.limit, 1000);
    assert.deepEqual(team.rules[1], {
      ...{ rule: 'nights', limit: 10, by_group: null, mode: 'enforce', always: false },
      condition: 'request.model is "coder-1"',
    });
    assert.equal(named(limits, 'user+model', 'day').room, 0);
    assert.equal(named(limits, 'user', 'week').limit, 200);
    assert.equal(named(limits, 'user', 'week').resets_at, '2026-03-16T00:00:00.000Z');
    assert.equal(named(limits, 'user', 'open', 'requests').resets_at, null);
    assert.equal(named(limits, 'user', 'minute', 'tokens').limit, 90_000);
    const users = limits.map(({ of }: { of: { user?: string } }) => of.user);
    assert.deepEqual(new Set(users), new Set(['alice@example.com', undefined]));
    assert.equal(named(limits, 'team', 'minute', 'requests').limit, null);
    assert.equal(limits.length, 8);
  });

  test('is private, except for administrators', async () => {
    await bench.refused(403, /entries of bob@example\.com/, 'alice', 'GET', `${LIMITS}?user=bob@example.com`);
    await bench.refused(403, /the limits of this team; omit "team"/, 'alice', 'GET', `${LIMITS}?team=sales`);
    await bench.refused(403, /limits of this model/, 'alice', 'GET', `${LIMITS}?model=coder-1`);
    await bench.refused(400, /^The token is a credential/, 'root', 'GET', `${LIMITS}?token=gw_${'a'.repeat(40)}`);
    await bench.refused(403, /entries of bob@example\.com/, 'alice', 'GET', `${GRANTS}?user=bob@example.com`);
    const own = await ask(200, 'alice', 'GET', `${LIMITS}?user=Alice@example.com&team=search`);
    assert.equal(named(own.limits, 'user', 'day').limit, 50);
    const seen = await ask(200, 'root', 'GET', `${LIMITS}?team=sales`);
    assert.deepEqual(pick(seen.limits, 'of', 'window'), [
      [{ team: 'sales' }, 'month'],
      [{ team: 'sales' }, 'minute'],
    ]);
  });

  test('reports sums beyond the exact range of a double', async () => {
    const row = { scope: 'team', key: 'whales', window: 'month', start: '2026-03-01T00:00:00Z' };
    await count(bench.database, { ...row, spent: '9007199254740993001' });
    const { limits } = await ask(200, 'root', 'GET', `${LIMITS}?team=whales`);
    assert.equal(limits[0].spent, 9_007_199_254.740993);
    assert.equal(limits[0].room, 0);
  });

  test('at a glance is what is written, what was changed, and what is nearest to its limit', async () => {
    const { database } = bench;
    for (let i = 0; i < 25; i++) {
      const row = { scope: 'user', key: `near${i}@example.com`, window: 'day', start: TODAY };
      await count(database, { ...row, spent: 70_000_000_000 + i });
    }
    await ask(200, 'root', 'PUT', LIMITS, { user: 'set@example.com', window: 'week', usd: 7 });
    const { written, limits } = await ask(200, 'root', 'GET', LIMITS);
    const usd = (rule: string, scope: string, window: string, limit: number, more: object = {}) => {
      return { rule, scope, window, unit: 'usd', limit, mode: 'enforce', ...FOR_ALL, ...more };
    };
    assert.deepEqual(written.slice(0, 3), [
      usd('defaults.user_daily_usd', 'user', 'day', 50),
      usd('defaults.team_monthly_usd', 'team', 'month', 1000),
      usd('scientists', 'user', 'week', 100, { by_group: { science: 300, engineering: 200 } }),
    ]);
    assert.equal(written.length, 10);
    const whose = limits.map(({ of }: { of: { user?: string } }) => of.user);
    assert.ok(whose.includes('set@example.com'));
    const near = whose.filter((user: string | undefined) => user?.startsWith('near'));
    assert.ok(near.length >= 17 && near.length <= 20, String(near.length));
    assert.equal(near[0], 'near24@example.com');
  });
});

describe('changing limits', () => {
  test('of a combination is found by its keys before anything is spent, also one of a person within a team', async () => {
    const find = async (keys: string) => {
      const { limits, written } = await ask(200, 'root', 'GET', `${LIMITS}?user=alice@example.com&${keys}`);
      const found = limits.filter(({ scope }: { scope: string }) => scope.includes('+'));
      return { found: pick(found, 'of', 'window', 'unit', 'limit'), written: pick(written, 'rule') };
    };
    const model = { user: 'alice@example.com', model: 'writer-1' };
    assert.deepEqual((await find('model=writer-1')).found, [[model, 'day', 'usd', 5]]);
    assert.ok(!(await find('model=writer-1')).written.flat().includes('writer'));
    const team = { user: 'alice@example.com', team: 'search' };
    const { found } = await find('team=search');
    assert.deepEqual(found, [
      [team, 'month', 'usd', 0],
      [team, 'minute', 'requests', 0],
    ]);
    assert.deepEqual((await find('project=none')).found, []);
  });

  test('of a minute requires naming which of the two', async () => {
    const whose = { user: 'dan@example.com', window: 'minute' };
    await ask(200, 'root', 'PUT', LIMITS, { ...whose, tokens: 1000 });
    await ask(200, 'root', 'PUT', LIMITS, { ...whose, requests: 3 });
    const query = `${LIMITS}?user=dan@example.com&window=minute`;
    await bench.refused(400, /"unit" is missing/, 'root', 'DELETE', query);
    assert.equal((await ask(200, 'root', 'DELETE', `${query}&unit=requests`)).now.limit, 60);
    assert.equal((await ask(200, 'root', 'DELETE', `${query}&unit=tokens`)).previous, 1000);
  });

  test('lists grants page by page', async () => {
    const input = { team: 'pages', window: 'month', usd: 1, expires_in_seconds: 60 };
    for (let i = 0; i < 3; i++) await ask(201, 'root', 'POST', GRANTS, input);
    const first = await ask(200, 'root', 'GET', `${GRANTS}?team=pages&limit=2`);
    assert.equal(first.next, first.grants[1].id);
    const second = await ask(200, 'root', 'GET', `${GRANTS}?team=pages&limit=2&after=${first.next}`);
    const ids = pick([...first.grants, ...second.grants], 'id');
    assert.deepEqual([second.next, new Set(ids).size], [null, 3]);
    await bench.refused(400, /is not in this list/, 'root', 'GET', `${GRANTS}?team=pages&after=grt_0`);
  });

  test('reports a missing one, and clears nothing', async () => {
    const refuse = (message: RegExp, path: string) => bench.refused(404, message, 'root', 'DELETE', LIMITS + path);
    const unset = /^No limit is set for user carol@example\.com per day: gateway\.yaml applies/;
    await refuse(unset, '?user=carol@example.com&window=day');
    await refuse(/no grant has the id "grt_0"/i, '/grants/grt_0');
    await refuse(/There is no grant with this id/, '/grants/gw_secret');
  });
});

test('applies only to counters of gateway.yaml, and reports that', async () => {
  const refuse = (message: RegExp, body: object) => bench.refused(400, message, 'root', 'PUT', LIMITS, body);
  const counted =
    /does not count USD by project per month: add .*, or name one that is counted: USD by user per day; USD by team per month;/;
  await refuse(counted, { project: 'apollo', window: 'month', usd: 1 });
  const input = { user: 'a@example.com', window: 'day' };
  await refuse(/does not count requests by user per day/, { ...input, requests: 1 });
  await refuse(/There is no model "coder-l": did you mean `coder-1`\?/, { ...input, model: 'coder-l', usd: 1 });
  await refuse(/There is no upstream "other"/, { upstream: 'other', window: 'day', usd: 1 });
});

test('rejects missing, wrong or hostile input, and changes nothing', async () => {
  const user = 'mallory@example.com';
  const wrong: [object, RegExp][] = [
    [{ window: 'day', usd: 1 }, /^Whose limit\? Name a user, team,/],
    [{ user, window: 'year', usd: 1 }, /"window" is wrong/],
    [{ user, window: 'day' }, /Send one of "usd", "requests" and "tokens"/],
    [{ user, window: 'day', usd: 1, tokens: 1 }, /Send one of/],
    [{ user, window: 'day', usd: '1' }, /"usd" is wrong: expected a number/],
    [{ user, window: 'day', usd: -1 }, /"usd" is wrong: expected a number from 0/],
    [{ user, window: 'day', usd: 1e-10 }, /at most 9 decimals/],
    [{ user, window: 'day', usd: 4_000_001 }, /up to 4000000/],
    [{ user, window: 'open', requests: 1.5 }, /"requests" is wrong: expected a whole number from 0/],
    [{ team: 'gw_secretsecret', window: 'month', usd: 1 }, /is a credential/],
    [{ user, windows: 'day', usd: 1 }, /Unknown field "windows": did you mean `window`/],
  ];
  for (const [body, message] of wrong) await bench.refused(400, message, 'root', 'PUT', LIMITS, body);
  const grants: [object, RegExp][] = [
    [{}, /A grant must expire/],
    [{ expires_at: null }, /A grant must expire/],
    [{ expires_at: '2020-01-01T00:00:00Z' }, /is in the past/],
    [{ expires_at: '2027-03-12T12:00:00Z' }, /too late/],
    [{ expires_in_seconds: 60, expires_at: '2026-03-11T00:00:00Z' }, /not both/],
    [{ usd: 0, expires_in_seconds: 60 }, /above 0/],
  ];
  for (const [more, message] of grants) {
    await bench.refused(400, message, 'root', 'POST', GRANTS, { user, window: 'day', usd: 1, ...more });
  }
  await bench.refused(400, /Unknown parameter/, 'root', 'PUT', `${LIMITS}?user=${user}`, { window: 'day', usd: 1 });
  const twice = `${LIMITS}?user=${user}&user=${user}&window=day`;
  await bench.refused(400, /Duplicate parameter "user"/, 'root', 'DELETE', twice);
  const { limits } = await ask(200, 'root', 'GET', `${LIMITS}?user=${user}`);
  // biome-ignore lint/suspicious/noExplicitAny: every response is checked against the description.
  assert.ok(limits.every(({ set, grants }: any) => set === null && grants.length === 0));
});

const RULES = '/admin/api/limits/rules';
const PREVIEW = '/admin/api/limits/preview';
const USD = 1_000_000_000;

const get = (status: number, who: string, path: string) => bench.get(who, path, status);
const spent = (key: string, usd: number, start = TODAY) =>
  count(bench.database, { scope: 'user', key: `${key}@example.com`, window: 'day', start, spent: usd * USD });
const record = (at: string, fields: object) =>
  bench.rows('insert into audit_log (at, record) values ($1, $2)', at, fields);

describe('the limits of gateway.yaml', () => {
  test("are described in words, with the users they count and today's rejections", async () => {
    for (const [who, usd] of [...Object.entries({ carol: 50, dave: 45, erin: 3 }), ['gina', 70] as const]) {
      await spent(who, usd);
    }
    await spent('yesterday', 49, '2026-03-09T00:00:00Z');
    // Gina has room: it was granted.
    await bench.ask('root', 'POST', '/admin/api/limits/grants', {
      ...{ user: 'gina@example.com', window: 'day', usd: 30, expires_in_seconds: 3600 },
    });
    const rule = { spend_rule: 'defaults.user_daily_usd', error: 'spend_limit_exceeded' };
    const refused = { ...rule, user: 'carol@example.com', status: 429 };
    await record('2026-03-10T01:00:00Z', refused);
    await record('2026-03-10T02:00:00Z', refused);
    await record('2026-03-10T03:00:00Z', { ...refused, user: 'hal@example.com' });
    await record('2026-03-09T23:00:00Z', { ...refused, user: 'ivy@example.com' });
    await record('2026-03-10T03:00:00Z', { ...refused, error: 'upstream_error' });
    await record('2026-03-10T03:00:00Z', { ...refused, error: 'rate_limit_exceeded', spend_rule: 'slow' });
    await record('2026-03-10T04:00:00Z', { user: 'dave@example.com', shadow: ['spend:trial', 'routing:spend:trial'] });

    const { since, time_zone, rules } = await get(200, 'root', RULES);
    assert.deepEqual([since, time_zone], ['2026-03-10T00:00:00.000Z', 'UTC']);
    const [daily] = rules;
    assert.deepEqual(daily, {
      ...{ rule: 'defaults.user_daily_usd', mode: 'enforce', condition: null },
      limits: [
        {
          ...{ rule: 'defaults.user_daily_usd', scope: 'user', window: 'day', unit: 'usd', limit: 50 },
          ...{ by_group: null, mode: 'enforce', always: true, condition: null, words: '50 USD per user and day' },
          ...{ counted: 4, none_left: 1, nearly_none: 2, resets_at: '2026-03-11T00:00:00.000Z' },
        },
      ],
      ...{ refused: 3, refused_people: 2, would_refuse: 0 },
    });
    // biome-ignore lint/suspicious/noExplicitAny: every response is checked against the description.
    const named = (name: string) => rules.find(({ rule }: any) => rule === name);
    const pace = pick(named('pace').limits, 'words');
    assert.deepEqual(pace, [
      '4 requests at once per user',
      '60 requests per user and minute',
      '90000 tokens per user and minute',
    ]);
    assert.equal(
      named('scientists').limits[0].words,
      '300 USD for science, 200 USD for engineering, 100 USD for others per user and week',
    );
    assert.equal(named('slow').condition, 'request.model is "coder-1"');
    assert.equal(named('slow').refused, 1);
    // A grant is no part of a limit that rejects nothing.
    const trial = named('trial');
    assert.deepEqual([trial.mode, trial.refused, trial.would_refuse], ['shadow', 0, 1]);
    assert.equal(trial.limits[0].none_left, 4);
  });
});

describe('a limit', () => {
  test('with steady use every day reports its exact end', async () => {
    for (const day of [3, 4, 5, 6, 7, 8, 9]) await spent('fay', 90, `2026-03-0${day}T00:00:00Z`);
    await spent('fay', 20);
    const { limits } = await get(200, 'fay', '/admin/api/limits');
    const { forecast } = named(limits, 'user', 'day');
    assert.deepEqual(forecast, {
      outcome: 'ends',
      ends_at: '2026-03-10T20:00:00.000Z',
      words: 'If it goes on as in the 7 days before, nothing is left in 8 hours, 4 hours before it resets.',
    });
  });
});

describe('a prospective grant', () => {
  const preview = (query: string, status = 200) => get(status, 'root', `${PREVIEW}?${query}`);

  test('is shown with its effect, and changes nothing', async () => {
    await spent('zoe', 50);
    const { before, after, notes } = await preview('user=Zoe@Example.com&window=day&usd=12.5');
    assert.deepEqual([before.limit, before.room, before.forecast.outcome], [50, 0, 'none_left']);
    assert.deepEqual([after.limit, after.room, after.forecast.outcome], [62.5, 12.5, 'ends']);
    assert.deepEqual([after.grants, notes], [[], []]);
    assert.deepEqual((await preview('user=zoe@example.com&window=day&usd=12.5')).before, before);
  });

  test('is reported as too small, or useless alone', async () => {
    await spent('olga', 60);
    const month = { scope: 'team', key: 'sales', window: 'month', start: '2026-03-01T00:00:00Z' };
    await count(bench.database, { ...month, spent: 1000 * USD });
    await createToken(bench.by, { user: 'olga@example.com', group: 'visitors', name: 'ci', team: 'sales' });
    const { notes } = await preview('user=olga@example.com&window=day&usd=5');
    assert.deepEqual(notes, [
      'Not enough: the new limit is already spent or reserved.',
      'team sales per month is exhausted, too, and rejects the same requests.',
    ]);
    const unknown = await preview('user=olgaa@example.com&window=day&usd=5');
    assert.deepEqual(unknown.notes, [
      'Unknown address olgaa@example.com: it has never signed in or had an access token.',
    ]);
    const slow = await preview('team=sales&window=minute&requests=5');
    assert.deepEqual(slow.notes.slice(0, 1), ['It applies to requests of slow.']);
  });
});
