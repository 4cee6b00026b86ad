/** What administrators see before they change a limit: rules in words with what they did today, forecasts, previews of grants. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { count, limitedConfig } from './limits-config.ts';
import { type AdminBench, useAdminApi } from './support.ts';

let bench: AdminBench;
const openBench = () =>
  useAdminApi((opened) => {
    bench = opened;
  }, limitedConfig);

const RULES = '/admin/api/limits/rules';
const PREVIEW = '/admin/api/limits/preview';
const TODAY = '2026-03-10T00:00:00Z';
const USD = 1_000_000_000;

const ask = async (status: number, who: string, path: string) => {
  const answer = await bench.ask(who, 'GET', path);
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  return answer.body;
};
const spent = (key: string, usd: number, start = TODAY) =>
  count(bench.database, { scope: 'user', key: `${key}@example.com`, window: 'day', start, spent: usd * USD });
const record = (at: string, fields: object) =>
  bench.database.query('test_record', 'insert into audit_log (at, record) values ($1, $2)', [at, fields]);

describe('the limits of gateway.yaml', () => {
  openBench();

  test('are told in words, with how many people they count and what they refused today', async () => {
    for (const [who, usd] of [...Object.entries({ carol: 50, dave: 45, erin: 3 }), ['gina', 70] as const]) {
      await spent(who, usd);
    }
    await spent('yesterday', 49, '2026-03-09T00:00:00Z');
    // Gina has room: it was granted.
    await bench.ask('root', 'POST', '/admin/api/limits/grants', {
      ...{ user: 'gina@example.com', window: 'day', usd: 30, expires_in_seconds: 3600 },
    });
    const refused = {
      spend_rule: 'defaults.user_daily_usd',
      error: 'spend_limit_exceeded',
      user: 'carol@example.com',
      status: 429,
    };
    await record('2026-03-10T01:00:00Z', refused);
    await record('2026-03-10T02:00:00Z', refused);
    await record('2026-03-10T03:00:00Z', { ...refused, user: 'hal@example.com' });
    await record('2026-03-09T23:00:00Z', { ...refused, user: 'ivy@example.com' });
    await record('2026-03-10T03:00:00Z', { ...refused, error: 'upstream_error' });
    await record('2026-03-10T03:00:00Z', { ...refused, error: 'rate_limit_exceeded', spend_rule: 'slow' });
    await record('2026-03-10T04:00:00Z', { user: 'dave@example.com', shadow: ['spend:trial', 'routing:spend:trial'] });

    const { since, time_zone, rules } = await ask(200, 'root', RULES);
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
    // biome-ignore lint/suspicious/noExplicitAny: every answer is checked against the description.
    const named = (name: string) => rules.find(({ rule }: any) => rule === name);
    const pace = named('pace').limits.map(({ words }: { words: string }) => words);
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
    // What is granted is no part of a limit that refuses nothing.
    const trial = named('trial');
    assert.deepEqual([trial.mode, trial.refused, trial.would_refuse], ['shadow', 0, 1]);
    assert.equal(trial.limits[0].none_left, 4);
  });

  test('are counted by the amounts of the groups of each person', async () => {
    for (const [who, usd] of [
      ['alice', 190],
      ['bob', 190],
      ['nina', 190],
    ] as const) {
      const row = { scope: 'user', key: `${who}@example.com`, window: 'week', start: '2026-03-09T00:00:00Z' };
      await count(bench.database, { ...row, spent: usd * USD });
    }
    const { rules } = await ask(200, 'root', RULES);
    const { counted, none_left, nearly_none } = rules.find(({ rule }: { rule: string }) => rule === 'scientists')
      .limits[0];
    // 200 USD for alice, 300 for bob, 100 for nina.
    assert.deepEqual([counted, none_left, nearly_none], [3, 1, 1]);
  });

  test('are for administrators', async () => {
    assert.match((await ask(403, 'alice', RULES)).error.message, /^This is for administrators/);
    assert.match(
      (await ask(403, 'alice', `${PREVIEW}?user=alice@example.com&window=day&usd=1`)).error.message,
      /administrators/,
    );
  });
});

describe('a limit', () => {
  openBench();

  test('that was used as much every day is told to end when it will', async () => {
    for (const day of [3, 4, 5, 6, 7, 8, 9]) await spent('fay', 90, `2026-03-0${day}T00:00:00Z`);
    await spent('fay', 20);
    const { limits } = await ask(200, 'fay', '/admin/api/limits');
    const { forecast } = limits.find(
      ({ scope, window }: { scope: string; window: string }) => `${scope} ${window}` === 'user day',
    );
    assert.deepEqual(forecast, {
      outcome: 'ends',
      ends_at: '2026-03-10T20:00:00.000Z',
      words: 'If it goes on as in the 7 days before, nothing is left in 8 hours, 4 hours before it resets.',
    });
  });
});

describe('a grant that is not given yet', () => {
  openBench();

  const preview = (wish: string, status = 200) => ask(status, 'root', `${PREVIEW}?${wish}`);

  test('is shown as what it changes, and changes nothing', async () => {
    await spent('zoe', 50);
    const { before, after, notes } = await preview('user=Zoe@Example.com&window=day&usd=12.5');
    assert.deepEqual([before.limit, before.room, before.forecast.outcome], [50, 0, 'none_left']);
    assert.deepEqual([after.limit, after.room, after.forecast.outcome], [62.5, 12.5, 'ends']);
    assert.deepEqual([after.grants, notes], [[], []]);
    assert.deepEqual((await preview('user=zoe@example.com&window=day&usd=12.5')).before, before);
  });

  test('is said to be too little, or of no use alone', async () => {
    await spent('olga', 60);
    const month = { scope: 'team', key: 'sales', window: 'month', start: '2026-03-01T00:00:00Z' };
    await count(bench.database, { ...month, spent: 1000 * USD });
    await createToken(bench.by, { user: 'olga@example.com', group: 'visitors', name: 'ci', team: 'sales' });
    const { notes } = await preview('user=olga@example.com&window=day&usd=5');
    assert.deepEqual(notes, [
      'It is still not enough: all of the new limit is spent or reserved.',
      'team sales per month has nothing left either, and refuses the same requests.',
    ]);
    const nobody = await preview('user=olgaa@example.com&window=day&usd=5');
    assert.deepEqual(nobody.notes, [
      'Nobody with the address olgaa@example.com has signed in here or had an access token: check it.',
    ]);
    const slow = await preview('team=sales&window=minute&requests=5');
    assert.deepEqual(slow.notes.slice(0, 1), ['It holds for requests that slow is for.']);
  });

  test('is refused for the reasons for which it is not given', async () => {
    const message = async (wish: string) => (await preview(wish, 400)).error.message;
    assert.match(await message('window=day&usd=5'), /^Whose limit\?/);
    assert.match(await message('user=a@example.com&usd=5'), /"window" is missing/);
    assert.match(await message('user=a@example.com&window=day'), /^Send one of "usd", "requests" and "tokens"/);
    assert.match(await message('user=a@example.com&window=day&usd=5&tokens=5'), /^Send one of/);
    assert.match(await message('user=a@example.com&window=day&usd=0'), /"usd" is wrong: expected a number above 0/);
    assert.match(await message('user=a@example.com&window=day&usd=1e3'), /"usd" is wrong/);
    assert.match(await message('model=codr-1&window=day&usd=5'), /no model "codr-1"/);
    assert.match(await message('project=x&window=day&usd=5'), /^gateway\.yaml does not count/i);
    assert.match(await message(`user=gw_${'a'.repeat(49)}&window=day&usd=5`), /e-mail address|credential/);
  });
});
