import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { count, limitedConfig } from './limits-config.ts';
import { type AdminBench, useAdminApi } from './support.ts';

let bench: AdminBench;
useAdminApi((opened) => {
  bench = opened;
}, limitedConfig);

const LIMITS = '/admin/api/limits';
const GRANTS = `${LIMITS}/grants`;
const TODAY = '2026-03-10T00:00:00Z';
const MONDAY = '2026-03-09T00:00:00Z';
/** A rule without a condition. */
const FOR_ALL = { by_group: null, always: true, condition: null };
const CODES: Readonly<Record<number, string>> = {
  400: 'invalid_request',
  401: 'credential_revoked',
  403: 'forbidden',
  404: 'not_found',
  405: 'method_not_allowed',
  409: 'conflict',
};

const ask = async (status: number, who: string, method: string, path: string, body?: unknown) => {
  const answer = await bench.ask(who, method, path, body);
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  return answer.body;
};
const refused = async (status: number, message: RegExp, ...asked: [string, string, string, unknown?]) => {
  const { error } = await ask(status, ...asked);
  assert.match(error.message, message);
  assert.equal(error.code, CODES[status]);
};
// biome-ignore lint/suspicious/noExplicitAny: every answer is checked against the description.
const named = (limits: any[], scope: string, window: string, unit = 'usd') =>
  limits.find((limit) => limit.scope === scope && limit.window === window && limit.unit === unit);

describe('what somebody sees of limits', () => {
  test('is what their own requests meet, as user and as member of their team', async () => {
    const { database } = bench;
    await count(database, {
      ...{ scope: 'user', key: 'alice@example.com', window: 'day', start: TODAY },
      ...{ spent: 3_500_000_000, reserved: 250_000_000, in_flight: 1 },
    });
    const model_key = '["alice@example.com","writer-1"]';
    await count(database, { scope: 'user+model', key: model_key, window: 'day', start: TODAY, spent: 6_000_000_000 });
    // What is over, what is somebody else's and what nothing limits any more is not theirs to know.
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
    assert.deepEqual([...new Set(limits.map(({ of }: { of: { user?: string } }) => of.user))].sort(), [
      'alice@example.com',
      undefined,
    ]);
    assert.equal(named(limits, 'team', 'minute', 'requests').limit, null);
    assert.equal(limits.length, 8);
  });

  test('goes by their groups, where those decide', async () => {
    const week = async (user: string) =>
      named((await ask(200, 'root', 'GET', `${LIMITS}?user=${user}@example.com`)).limits, 'user', 'week').limit;
    assert.equal(await week('bob'), 300);
    assert.equal(await week('nina'), 100);
    assert.equal(await week('nobody'), 100);
  });

  test("is nobody else's, except for administrators", async () => {
    await refused(403, /bob@example\.com's/, 'alice', 'GET', `${LIMITS}?user=bob@example.com`);
    await refused(403, /this team's limits; leave "team" out/, 'alice', 'GET', `${LIMITS}?team=sales`);
    await refused(403, /this model's/, 'alice', 'GET', `${LIMITS}?model=coder-1`);
    await refused(400, /^The token is a credential/, 'root', 'GET', `${LIMITS}?token=gw_${'a'.repeat(40)}`);
    await refused(403, /bob@example\.com's/, 'alice', 'GET', `${GRANTS}?user=bob@example.com`);
    const own = await ask(200, 'alice', 'GET', `${LIMITS}?user=Alice@example.com&team=search`);
    assert.equal(named(own.limits, 'user', 'day').limit, 50);
    const seen = await ask(200, 'root', 'GET', `${LIMITS}?team=sales`);
    assert.deepEqual(
      seen.limits.map(({ of, window }: { of: { team: string }; window: string }) => `${of.team} ${window}`),
      ['sales month', 'sales minute'],
    );
  });

  test('of sums beyond what a double holds exactly is still told', async () => {
    const row = { scope: 'team', key: 'whales', window: 'month', start: '2026-03-01T00:00:00Z' };
    await count(bench.database, { ...row, spent: '9007199254740993001' });
    const { limits } = await ask(200, 'root', 'GET', `${LIMITS}?team=whales`);
    assert.equal(limits[0].spent, 9_007_199_254.740993);
    assert.equal(limits[0].room, 0);
  });

  test('of somebody with a name that no text can contain is told like any other', async () => {
    const row = { scope: 'user+model', window: 'day', start: TODAY, spent: 90_000_000_000 };
    for (const name of ['a\u0000', 'b\ud800']) {
      await count(bench.database, { ...row, key: JSON.stringify([`${name}@example.com`, 'writer-1']) });
    }
    await ask(200, 'root', 'GET', `${LIMITS}?model=writer-1`);
    const { limits } = await ask(200, 'root', 'GET', LIMITS);
    const found = limits.filter(
      ({ scope, spent }: { scope: string; spent: number }) => scope.includes('+') && spent === 90,
    );
    assert.equal(found.length, 2);
  });

  test('at a glance is what is written, what was changed, and what is nearest to its limit', async () => {
    const { database } = bench;
    for (let i = 0; i < 25; i++) {
      const row = { scope: 'user', key: `near${i}@example.com`, window: 'day', start: TODAY };
      await count(database, { ...row, spent: 70_000_000_000 + i });
    }
    await ask(200, 'root', 'PUT', LIMITS, { user: 'set@example.com', window: 'week', usd: 7 });
    const { written, limits } = await ask(200, 'root', 'GET', LIMITS);
    assert.deepEqual(written.slice(0, 3), [
      {
        ...{ rule: 'defaults.user_daily_usd', scope: 'user', window: 'day', unit: 'usd', limit: 50 },
        ...{ mode: 'enforce', ...FOR_ALL },
      },
      {
        ...{ rule: 'defaults.team_monthly_usd', scope: 'team', window: 'month', unit: 'usd', limit: 1000 },
        ...{ mode: 'enforce', ...FOR_ALL },
      },
      {
        ...{ rule: 'scientists', scope: 'user', window: 'week', unit: 'usd', limit: 100 },
        ...{ mode: 'enforce', ...FOR_ALL, by_group: { science: 300, engineering: 200 } },
      },
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
  test('is for administrators', async () => {
    const wish = { user: 'alice@example.com', window: 'day', usd: 1000 };
    await refused(403, /This is for administrators/, 'alice', 'PUT', LIMITS, wish);
    await refused(403, /administrators/, 'alice', 'DELETE', `${LIMITS}?user=alice@example.com&window=day`);
    await refused(403, /administrators/, 'alice', 'POST', GRANTS, { ...wish, expires_in_seconds: 60 });
    await refused(403, /administrators/, 'alice', 'DELETE', `${GRANTS}/grt_0`);
  });

  test('sets what takes the place of the rules, and takes it back', async () => {
    const whose = { user: 'Carol@Example.com', window: 'day' };
    const first = await ask(200, 'root', 'PUT', LIMITS, { ...whose, usd: 100, reason: 'research' });
    assert.equal(first.previous, null);
    assert.equal(first.now.limit, 100);
    assert.deepEqual(first.now.set, {
      ...{ limit: 100, reason: 'research' },
      ...{ set_at: '2026-03-10T12:00:00.000Z', set_by: 'root@example.com' },
    });
    assert.equal((await ask(200, 'root', 'PUT', LIMITS, { ...whose, usd: 0 })).previous, 100);
    const query = `${LIMITS}?user=carol@example.com&window=day`;
    const cleared = await ask(200, 'root', 'DELETE', query);
    assert.equal(cleared.previous, 0);
    assert.equal(cleared.now.limit, 50);
    await refused(
      404,
      /^No limit is set for user carol@example\.com per day: what gateway\.yaml says/,
      'root',
      'DELETE',
      query,
    );
  });

  test('of a minute needs to be told which of the two is meant', async () => {
    const whose = { user: 'dan@example.com', window: 'minute' };
    await ask(200, 'root', 'PUT', LIMITS, { ...whose, tokens: 1000 });
    await ask(200, 'root', 'PUT', LIMITS, { ...whose, requests: 3 });
    const query = `${LIMITS}?user=dan@example.com&window=minute`;
    await refused(400, /"unit" is missing/, 'root', 'DELETE', query);
    assert.equal((await ask(200, 'root', 'DELETE', `${query}&unit=requests`)).now.limit, 60);
    assert.equal((await ask(200, 'root', 'DELETE', `${query}&unit=tokens`)).previous, 1000);
  });

  test('grants room that adds to what is in force, and ends', async () => {
    const whose = { user: 'erin@example.com', window: 'day' };
    await ask(200, 'root', 'PUT', LIMITS, { ...whose, usd: 10 });
    const { grant, now } = await ask(201, 'root', 'POST', GRANTS, { ...whose, usd: 2.5, expires_in_seconds: 3600 });
    assert.equal(grant.expires_at, '2026-03-10T13:00:00.000Z');
    assert.equal(grant.state, 'active');
    assert.equal(now.limit, 12.5);
    assert.deepEqual(
      now.grants.map(({ id }: { id: string }) => id),
      [grant.id],
    );
    const listed = await ask(200, 'root', 'GET', `${GRANTS}?user=erin@example.com`);
    assert.deepEqual(listed, { grants: [grant], next: null });
    const revoked = await ask(200, 'root', 'DELETE', `${GRANTS}/${grant.id}`);
    assert.equal(revoked.grant.state, 'revoked');
    assert.equal(revoked.now.limit, 10);
    await refused(409, /is revoked already/, 'root', 'DELETE', `${GRANTS}/${grant.id}`);
    await refused(404, /no grant has the id "grt_0"/i, 'root', 'DELETE', `${GRANTS}/grt_0`);
    await refused(404, /There is no grant with this id/, 'root', 'DELETE', `${GRANTS}/gw_secret`);
  });

  test('lists grants page by page', async () => {
    const ids = [];
    for (let i = 0; i < 3; i++) {
      const wish = { team: 'pages', window: 'month', usd: 1, expires_in_seconds: 60 };
      ids.push((await ask(201, 'root', 'POST', GRANTS, wish)).grant.id);
    }
    const page = async (query: string) => {
      const { grants, next } = await ask(200, 'root', 'GET', `${GRANTS}?team=pages&limit=2${query}`);
      return { ids: grants.map(({ id }: { id: string }) => id), next };
    };
    const first = await page('');
    assert.equal(first.next, first.ids[1]);
    const second = await page(`&after=${first.next}`);
    assert.equal(second.next, null);
    assert.deepEqual([...first.ids, ...second.ids].sort(), ids.sort());
    await refused(400, /names no entry/, 'root', 'GET', `${GRANTS}?team=pages&after=grt_0`);
  });

  test('is written down with who did it', async () => {
    await ask(200, 'root', 'PUT', LIMITS, { team: 'audited', window: 'month', usd: 3, reason: 'audit' });
    const { changes } = await ask(200, 'root', 'GET', '/admin/api/changes?limit=1');
    const [{ id: _, ...change }] = changes;
    assert.deepEqual(change, {
      at: '2026-03-10T12:00:00.000Z',
      actor: { kind: 'person', name: 'root@example.com' },
      action: 'limit.set',
      subject: 'team audited per month',
      before: null,
      after: { usd: 3, reason: 'audit' },
      words: 'root@example.com set the limit of team audited per month to 3 USD (audit)',
    });
  });
});

test('only what gateway.yaml counts can be limited, and that is said', async () => {
  const refuse = (message: RegExp, body: object) => refused(400, message, 'root', 'PUT', LIMITS, body);
  await refuse(/does not count USD by project per month; it counts USD by user per day; USD by team per month;/, {
    project: 'apollo',
    window: 'month',
    usd: 1,
  });
  await refuse(/does not count requests by user per day/, { user: 'a@example.com', window: 'day', requests: 1 });
  await refuse(/There is no model "coder-l": did you mean `coder-1`\?/, {
    user: 'a@example.com',
    model: 'coder-l',
    window: 'day',
    usd: 1,
  });
  await refuse(/There is no upstream "other"/, { upstream: 'other', window: 'day', usd: 1 });
});

test('what is missing, wrong or hostile is refused, and changes nothing', async () => {
  const user = 'mallory@example.com';
  const wrong: [object, RegExp][] = [
    [{ window: 'day', usd: 1 }, /^Whose limit\? Name a user, team,/],
    [{ user, usd: 1 }, /"window" is missing/],
    [{ user, window: 'year', usd: 1 }, /"window" is wrong/],
    [{ user, window: 'day' }, /Send one of "usd", "requests" and "tokens"/],
    [{ user, window: 'day', usd: 1, tokens: 1 }, /Send one of/],
    [{ user, window: 'day', usd: '1' }, /"usd" is wrong: expected a number/],
    [{ user, window: 'day', usd: null }, /Send one of "usd", "requests" and "tokens"/],
    [{ user, window: 'day', usd: -1 }, /"usd" is wrong: expected a number from 0/],
    [{ user, window: 'day', usd: 1e-10 }, /at most 9 decimals/],
    [{ user, window: 'day', usd: 4_000_001 }, /up to 4000000/],
    [{ user, window: 'open', requests: 1.5 }, /"requests" is wrong: expected a whole number from 0/],
    [{ user: 'mallory', window: 'day', usd: 1 }, /expected an e-mail address/],
    [{ user: 'a\u0000@example.com', window: 'day', usd: 1 }, /can be printed/],
    [{ team: 'gw_secretsecret', window: 'month', usd: 1 }, /is a credential/],
    [{ user, window: 'day', usd: 1, reason: 'x'.repeat(255) }, /at most 254/],
    [{ user, windows: 'day', usd: 1 }, /Unknown field "windows": did you mean `window`/],
  ];
  for (const [body, message] of wrong) await refused(400, message, 'root', 'PUT', LIMITS, body);
  const grants: [object, RegExp][] = [
    [{}, /A grant has an end/],
    [{ expires_at: null }, /A grant has an end/],
    [{ expires_at: '2020-01-01T00:00:00Z' }, /has passed/],
    [{ expires_at: '2027-03-12T12:00:00Z' }, /too far away/],
    [{ expires_in_seconds: 60, expires_at: '2026-03-11T00:00:00Z' }, /not both/],
    [{ usd: 0, expires_in_seconds: 60 }, /above 0/],
  ];
  for (const [more, message] of grants) {
    await refused(400, message, 'root', 'POST', GRANTS, { user, window: 'day', usd: 1, ...more });
  }
  await refused(400, /Unknown parameter/, 'root', 'PUT', `${LIMITS}?user=${user}`, { window: 'day', usd: 1 });
  await refused(
    400,
    /The parameter "user" is there more than once/,
    'root',
    'DELETE',
    `${LIMITS}?user=${user}&user=${user}&window=day`,
  );
  const { limits } = await ask(200, 'root', 'GET', `${LIMITS}?user=${user}`);
  // biome-ignore lint/suspicious/noExplicitAny: every answer is checked against the description.
  assert.ok(limits.every(({ set, grants }: any) => set === null && grants.length === 0));
});

test('while the database is away nothing is changed or told', async () => {
  const answers = await bench.withoutStore(() =>
    Promise.all([
      bench.ask('alice', 'GET', LIMITS),
      bench.ask('root', 'PUT', LIMITS, { user: 'a@example.com', window: 'day', usd: 1 }),
      bench.ask('root', 'POST', GRANTS, { user: 'a@example.com', window: 'day', usd: 1, expires_in_seconds: 9 }),
    ]),
  );
  assert.deepEqual(
    answers.map(({ status }) => status),
    [503, 503, 503],
  );
});
