/** Upstreams over the admin API: their states, draining, their traffic and their incidents. */
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { commandsOf } from '../../cli/at-gateway.ts';
import { adminBench, config, NOW, pick } from './support.ts';

const bench = adminBench(config, { each: true });

const PATH = '/admin/api/upstreams';
const AT = '2026-03-10T12:00:00.000Z';

const ask = (status: number, who: string, method: string, path = '', body?: object) =>
  bench.done(status, who, method, PATH + path, body);

function show(effect: 'failure' | 'credential', times = 1, to = 'main'): void {
  for (let n = 0; n < times; n++) {
    const handle = bench.states.begin(to, 'coder-1');
    handle.report(effect, 'status 529');
    handle.leave();
  }
}

const as_it_should_be = {
  configured: true,
  state: 'closed',
  until: null,
  last_failure: null,
  in_flight: 0,
  breaker: 'enforce',
  drained: null,
  models: [],
  elsewhere: [],
};
const route = (name: string, order: number, is_last: boolean) => ({ name, order, weight: 1, is_last });
const of_main = [route('both', 1, false), route('default', 1, true)];
const of_spare = [route('both', 2, false)];

describe('upstreams', () => {
  test("are listed with the queried replica's state", async () => {
    const running = bench.states.begin('main', 'coder-1');
    show('failure', 5);
    const { replica, upstreams } = await ask(200, 'root', 'GET');
    assert.match(replica, new RegExp(`^\\S+ ${process.pid}$`));
    const state = { state: 'open', until: '2026-03-10T12:00:05.000Z', last_failure: 'status 529' };
    const open = { upstream_model: 'coder-1', ...state };
    assert.deepEqual(upstreams, [
      { name: 'main', ...as_it_should_be, in_flight: 1, models: [open], routes: of_main },
      { name: 'spare', ...as_it_should_be, routes: of_spare },
    ]);
    running.leave();
  });

  test('are drained with a reason, which every list shows, and resumed', async () => {
    const drained = { by: 'root@example.com', at: AT, reason: 'new account' };
    const done = await ask(200, 'root', 'POST', '/spare/drain', { reason: ' new account ' });
    assert.deepEqual(done, {
      upstream: { name: 'spare', ...as_it_should_be, state: 'drained', drained, routes: of_spare },
      routes_without_upstream: [],
    });
    const { upstreams } = await ask(200, 'chief', 'GET');
    assert.deepEqual(upstreams[1].drained, drained);
    assert.deepEqual(upstreams[0].routes, [route('both', 1, true), route('default', 1, true)]);
    const both = await ask(200, 'root', 'POST', '/main/drain');
    assert.deepEqual(both.routes_without_upstream, ['both', 'default']);
    await ask(200, 'root', 'POST', '/main/resume');
    const resumed = await ask(200, 'chief', 'POST', '/spare/resume');
    const upstream = { name: 'spare', ...as_it_should_be, routes: of_spare };
    assert.deepEqual(resumed, { upstream, was_drained: drained });
    const { changes } = await bench.get('root', '/admin/api/changes?limit=4');
    assert.equal(changes[0].actor.name, 'chief@example.com');
    assert.deepEqual([changes[3].after.reason, changes[0].before.reason], ['new account', 'new account']);
    assert.deepEqual(pick(changes, 'action', 'subject'), [
      ['upstream.resume', 'spare'],
      ['upstream.resume', 'main'],
      ['upstream.drain', 'main'],
      ['upstream.drain', 'spare'],
    ]);
  });

  test('that are unknown, or not drained, are reported as such', async () => {
    const { error } = await ask(404, 'root', 'POST', '/mian/drain', {});
    assert.match(error.message, /there is no upstream "mian": did you mean `main`\?/i);
    await ask(404, 'root', 'POST', '/mian/resume');
    assert.match((await ask(409, 'root', 'POST', '/main/resume')).error.message, /"main" is not drained/);
    await ask(400, 'root', 'POST', '/main/drain', { reason: 'two\nlines' });
    await ask(400, 'root', 'POST', '/main/drain', { because: 'x' });
    assert.equal((await ask(200, 'root', 'GET')).upstreams[0].drained, null);
  });

  test('that are drained and no longer in gateway.yaml are listed, and can be resumed', async () => {
    await bench.rows(
      "insert into drained_upstreams (name, drained_at, drained_by) values ('old', $1, 'ana@example.com')",
      AT,
    );
    const drained = { by: 'ana@example.com', at: AT, reason: null };
    const unknown = { state: 'drained', in_flight: null, breaker: null };
    const { upstreams } = await ask(200, 'root', 'GET');
    const old = { name: 'old', ...as_it_should_be, ...unknown, configured: false, drained, routes: [] };
    assert.deepEqual(upstreams[2], old);
    const { upstream } = await ask(200, 'root', 'POST', '/old/resume');
    assert.deepEqual([upstream.configured, upstream.state, upstream.drained], [false, 'unknown', null]);
  });

  test("are reported while the database is away with this replica's last state", async () => {
    bench.states.setDrained(new Map([['spare', { by: 'ana@example.com', at: Date.parse(AT), reason: 'known' }]]));
    await bench.withoutStore(async () => {
      const { upstreams } = await ask(200, 'root', 'GET');
      assert.equal(upstreams[1].drained.reason, 'known');
    });
    bench.states.setDrained(new Map());
  });

  test('are listed, drained and resumed by commands at a gateway', async () => {
    const root = commandsOf('root', bench.url);
    const said = async (...words: string[]) => (await root('upstreams', ...words)).stderr.replace(/\s+/g, ' ');
    show('credential', 1, 'spare');
    show('failure', 5);
    assert.equal(
      await said('drain', 'main', '--reason', 'slow'),
      'Drained "main": no new requests until "appscli upstreams resume". The route default has no other upstream: these requests are rejected. ',
    );
    const { stdout, stderr } = await root('upstreams', 'list');
    assert.match(
      stdout,
      /^UPSTREAM +MODEL +STATE +UNTIL +IN FLIGHT +LAST FAILURE +BY +REASON\nmain +drained +0 +root@\S+ +slow\n/,
    );
    assert.match(stdout, /\nspare +credential +2026-03-10T\S+ +0 +status 529\n/);
    assert.match(
      stderr.replace(/\s+/g, ' '),
      /^As seen by replica \S+ \d+; others may differ, except for drained upstreams\. $/,
    );
    assert.match(await said('resume', 'main'), /^Resumed "main", which was drained by root@example\.com: slow\. $/);
    assert.equal((await root('upstreams', 'resume', 'main')).exit_code, 1);
  });
});

const at = (minutes_ago: number) => new Date(Date.parse(NOW) - minutes_ago * 60_000);
let rows = 0;

/** Puts a request that was settled into the ledger. */
async function settled(minutes_ago: number, row: object = {}, attempts?: readonly object[]): Promise<void> {
  rows += 1;
  await bench.database.knex('ledger').insert({
    ...{ request_id: `r${rows}`, protocol: 'messages', principal_id: 'user:a', user_email: 'a@example.com' },
    ...{ model: 'coder-1', upstream: 'main', upstream_model: 'coder-1', status: 200, aborted: false, upstream_ms: 100 },
    ...{ input_tokens: 1, output_tokens: 1, cache_read_tokens: 0, cache_write_5m_tokens: 0, cache_write_1h_tokens: 0 },
    ...{
      cost_nano_usd: 1,
      provenance: '{}',
      counter_ids: [],
      forwarded_at: at(minutes_ago),
      settled_at: at(minutes_ago),
    },
    ...(attempts && { attempts: JSON.stringify(attempts.map((attempt) => ({ cost_nano_usd: 0, ...attempt }))) }),
    ...row,
  });
}

/** Puts a request into the audit log. */
const recorded = (minutes_ago: number, more: object) =>
  bench.database
    .knex('audit_log')
    .insert({ at: at(minutes_ago), record: { status: 200, user: 'a@example.com', model: 'coder-1', ...more } });

const read = (path: string, status = 200) => bench.get('root', `${PATH}/${path}`, status);

describe('traffic of upstreams', () => {
  beforeEach(async () => {
    for (let upstream_ms = 1; upstream_ms <= 100; upstream_ms++) await settled(3, { upstream_ms });
    await settled(30, { model: 'writer-1', upstream_model: 'writer-1', upstream_ms: 5000 });
    await settled(30, { status: null, upstream_ms: null });
    const failed = { n: 1, upstream: 'main', upstream_model: 'coder-1', outcome: 'limited', status: 429, ms: 9 };
    const served = { n: 2, upstream: 'spare', upstream_model: 'code-r', outcome: 'answered', status: 200, ms: 70 };
    await settled(30, { upstream: 'spare' }, [failed, served]);
    const of_later = { n: 1, upstream: 'main', upstream_model: 'coder-1', outcome: 'of_a_later_version', status: 418 };
    await settled(4, {}, [of_later]);
    await settled(5, {}, [{ ...of_later, outcome: 'caller', status: 400 }]);
    await settled(600, { upstream: 'spare', upstream_ms: 1 });
    await settled(2000);
    const turns = ['main', 'main', 'spare'].map((upstream) => ({ upstream, session_id: 's' }));
    const others = [
      { upstream: 'spare', model: 'writer-1' },
      { user: 'b@example.com' },
      { status: 529 },
      { session_id: null },
    ];
    for (const [n, turn] of turns.entries()) await recorded(20 - n, turn);
    for (const [n, turn] of others.entries()) await recorded(17 - n, { upstream: 'main', session_id: 's', ...turn });
  });

  test('is counted by upstream and model, by how each attempt ended', async () => {
    const { upstreams, ...head } = await read('traffic');
    const span = { since: '2026-03-10T11:05:00.000Z', until: '2026-03-10T12:05:00.000Z' };
    assert.deepEqual(head, { window: 'hour', ...span, part_seconds: 300, attempts: 106 });
    const [{ parts, models, ...main }, spare, ...more] = upstreams;
    assert.deepEqual(more, []);
    const { outcomes, ...numbers } = main;
    assert.deepEqual(numbers, {
      ...{ upstream: 'main', attempts: 105, served: 101, limited: 1, failed: 2, p50_ms: 51, p95_ms: 96 },
      ...{ share: 105 / 106, turns: 2, turns_stayed: 1 },
    });
    assert.deepEqual(pick(outcomes, 'outcome', 'means', 'attempts'), [
      ['caller', 'Any other 4xx: the upstream rejected the request; its response passes through', 1],
      ['limited', 'Status 429', 1],
      ['of_a_later_version', 'of_a_later_version', 1],
      ['unanswered', 'The connection broke after the request was sent, or no response began in time', 1],
    ]);
    assert.deepEqual(pick(models, 'upstream_model', 'attempts', 'served', 'p50_ms', 'p95_ms'), [
      ['coder-1', 104, 100, 50, 95],
      ['writer-1', 1, 1, 5000, 5000],
    ]);
    assert.deepEqual([spare.attempts, spare.p50_ms, spare.turns], [1, 70, 0]);
    assert.equal(parts.length, 12);
    assert.deepEqual(
      parts.flatMap((part: { attempts: number }, index: number) => (part.attempts > 0 ? [[index, part]] : [])),
      [
        [5, { attempts: 3, limited: 1, failed: 1 }],
        [10, { attempts: 102, limited: 0, failed: 1 }],
      ],
    );
  });

  test('reports a day by the hour', async () => {
    const { part_seconds, attempts, upstreams, since } = await read('traffic?window=day');
    assert.deepEqual([part_seconds, attempts, since], [3600, 107, '2026-03-09T13:00:00.000Z']);
    assert.equal(upstreams[1].parts.length, 24);
    assert.equal(upstreams[1].parts[13].attempts, 1);
    const { error } = await read('traffic?window=year', 400);
    assert.match(error.message, /expected hour or day/);
  });
});

test("lists incidents of upstreams in pages, and other replicas' beside the states", async () => {
  const incident = { replica: 'gateway-2 7', kind: 'open', upstream_model: 'coder-1', last: 'status 529' };
  for (const [n, upstream] of ['main', 'spare', 'main'].entries()) {
    const times = { began_at: at(10 - n), until: at(-1), ended_at: n < 2 ? at(5) : null };
    await bench.database.knex('upstream_incidents').insert({ ...incident, upstream, ...times, times: 3 });
  }
  const { incidents, next } = await read('incidents?upstream=main&limit=1');
  const { id, ...latest } = incidents[0];
  assert.equal(next, String(id));
  const times = { began_at: at(8).toISOString(), until: at(-1).toISOString(), ended_at: null };
  assert.deepEqual(latest, { ...incident, upstream: 'main', ...times, times: 3 });
  const rest = await read(`incidents?upstream=main&limit=5&after=${next}`);
  assert.deepEqual([rest.incidents.length, rest.incidents[0].ended_at, rest.next], [1, at(5).toISOString(), null]);
  assert.equal((await read('incidents')).incidents.length, 3);
  await read('incidents?after=x', 400);
  const { upstreams } = await bench.get('root', '/admin/api/upstreams');
  assert.deepEqual(upstreams[0].elsewhere, [{ ...incident, until: at(-1).toISOString() }]);
  assert.deepEqual(upstreams[1].elsewhere, []);
});
