/** Administrators' and users' view of requests: a list, one of them, a live list and files. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { afterEach, before, describe, test } from 'node:test';
import { parse } from 'csv-parse/sync';
import type { Database } from '../../../engine/base/store/database.ts';
import { listRequestRecords, type RequestFilter } from '../../../engine/domain/audit/request-records.ts';
import { until } from '../../support/until.ts';
import { adminBench, pick } from './support.ts';

const bench = adminBench();

const NOON = Date.parse('2026-03-10T12:00:00Z');
const HOUR_MS = 3_600_000;

type Fields = Readonly<Record<string, unknown>>;

/** Writes a record as the stage `audit` does, and gives its id. */
async function record(hours_ago: number, fields: Fields): Promise<string> {
  const id = randomUUID();
  const at_ms = NOON - hours_ago * HOUR_MS;
  const shared = {
    ...{ request_id: id, method: 'POST', path: '/v1/messages', protocol: 'messages', model: 'coder-1', status: 200 },
    ...{ error: null, upstream: 'main', aborted: false, received_at: new Date(at_ms - 900).toISOString() },
    ...{ duration_ms: 900, input_tokens: 10, output_tokens: 20, cost_usd: 0.25, cost_from: 'upstream', sends: 1 },
  };
  const text = JSON.stringify([{ at_ms, request_id: id, record: { ...shared, ...fields } }]);
  await bench.rows('select audit_append($1::jsonb, false)', text);
  return id;
}

const ids = {} as Record<'alice' | 'bob' | 'refused' | 'failed' | 'unknown' | 'old', string>;

before(async () => {
  ids.old = await record(24 * 80, { user: 'bob@example.com', model: 'writer-1', token_id: 'tok_old' });
  ids.unknown = await record(5, { user: null, status: 401, error: 'credential_invalid', upstream: null });
  ids.alice = await record(4, { user: 'alice@example.com', team: 'search', client: 'coder-cli', token_id: 'tok_a' });
  const models = { billed: { model: 'coder-1-mini' }, upstream_model: 'coder-one' };
  ids.bob = await record(3, { user: 'bob@example.com', ...models });
  ids.refused = await record(2, {
    ...{ user: 'alice@example.com', status: 429, error: 'spend_limit_exceeded', upstream: 'main', cost_usd: undefined },
    ...{ spend_rule: 'per-user', stage: 'check-budget', sends: undefined, config: 'abc', pipeline: 'messages' },
    reason: 'This request would exceed the daily limit of 5 USD for user alice@example.com.',
    steps: ['authenticate: ran, 0.3 ms', 'night-only: skipped', 'check-budget: refused, 1.2 ms'],
    limits: [
      {
        ...{ rule: 'per-user', scope: 'user', key: 'alice@example.com', window: 'day', unit: 'usd' },
        ...{ limit: 5, spent: 4.75, reserved: 0, resets_at: '2026-03-11T00:00:00.000Z' },
      },
    ],
  });
  ids.failed = await record(1, { user: 'alice@example.com', status: 529, upstream_status: 529 });
});

// Records of a test are invisible to the others.
afterEach(() => bench.rows('delete from audit_log where not request_id = any ($1)', Object.values(ids)));

const list = (who: string, query = '') => bench.get(who, `/admin/api/requests${query}`);
const idsOf = async (who: string, query = '') => pick((await list(who, query)).requests, 'id');

describe('the list of requests', () => {
  test('searches rare values in one stretch of time after the other, also with a similar index', async () => {
    const firstStretch = async (filter: RequestFilter) => {
      const asked: (readonly unknown[])[] = [];
      const query: Database['query'] = (name, text, values) => {
        if (name.startsWith('audit_requests_by')) asked.push(values);
        return bench.database.query(name, text, values);
      };
      const page = await listRequestRecords({ query }, filter, { limit: 50, now: NOON });
      assert.ok(page!.next !== null || asked.at(-1)![3] instanceof Date);
      return (NOON + HOUR_MS - Number(asked[0]![3])) / HOUR_MS;
    };
    const user = 'alice@example.com';
    const rare = [{ status: '418' }, { status: '5xx' }, { outcome: 'refused' }, { user, error: 'none' }] as const;
    for (const each of rare) assert.equal(await firstStretch(each), 6, JSON.stringify(each));
    for (const found of [{ user }, { token: 'tok_a' }, { outcome: 'failed' }] as const) {
      assert.ok((await firstStretch(found)) > 24 * 79, JSON.stringify(found));
    }
  });

  test("lists all users' for administrators, newest first", async () => {
    const { alice, bob, refused, failed, unknown, old } = ids;
    assert.deepEqual(await idsOf('root'), [failed, refused, bob, alice, unknown, old]);
  });

  test('is filtered by every part of a record', async () => {
    const { alice, bob, refused, failed, unknown, old } = ids;
    for (const [query, wanted] of [
      ['user=BOB@example.com', [bob, old]],
      ['team=search', [alice]],
      ['client=coder-cli', [alice]],
      ['token=tok_a', [alice]],
      ['model=writer-1', [old]],
      ['upstream=main&status=2xx', [bob, alice, old]],
      ['status=529', [failed]],
      ['status=4xx', [refused, unknown]],
      ['outcome=failed', [failed, refused, unknown]],
      ['outcome=refused', [refused, unknown]],
      ['outcome=refused&status=2xx', []],
      ['error=spend_limit_exceeded', [refused]],
      ['since=2026-03-10T08:30:00Z&until=2026-03-10T10:30:00Z', [refused, bob]],
      ['until=2026-03-01', [old]],
      ['since=2026-03-10&time_zone=Pacific/Auckland', [failed, refused, bob, alice, unknown]],
    ] as const) {
      assert.deepEqual(await idsOf('root', `?${query}`), wanted, query);
    }
  });

  test('is split into pages, none of which lacks or repeats a request', async () => {
    const found: string[] = [];
    let after = '';
    for (;;) {
      const page = await list('root', `?limit=2${after}`);
      found.push(...pick(page.requests, 'id'));
      if (page.next === null) break;
      after = `&after=${page.next}`;
    }
    assert.deepEqual(found, await idsOf('root'));
    for (const wrong of ['999999', 'x%27--', 't999999999999999']) {
      await bench.get('root', `/admin/api/requests?after=${wrong}`, 400);
    }
  });

  test('shows what was requested, sent and received, and the cost', async () => {
    const { requests } = await list('root', '?user=bob@example.com&limit=1');
    assert.deepEqual(pick(requests, 'asked_model', 'sent_model', 'answered_model', 'cost_usd', 'cost_estimated'), [
      ['coder-1', 'coder-one', 'coder-1-mini', 0.25, false],
    ]);
  });

  test("uses a custom stage's fields for missing ones", async () => {
    const fields = { status: 'many', model: 7, attempts: 'x', limits: [3], steps: 'y', seen: 4 };
    const odd = await record(6, { user: 'fay@example.com', ...fields });
    const { request, trace } = await bench.get('fay', `/admin/api/requests/${odd}`);
    assert.deepEqual([request.status, request.model, trace.stages, trace.limits], [null, null, [], []]);
  });
});

describe('one request', () => {
  test('shows the reason of a rejection first, with the stages and limits of that time', async () => {
    const { trace } = await bench.get('alice', `/admin/api/requests/${ids.refused}`);
    assert.equal(trace.why, 'Rejected: This request would exceed the daily limit of 5 USD for user alice@example.com.');
    assert.deepEqual(pick(trace.stages, 'id', 'end', 'ms'), [
      ['authenticate', 'ran', 0.3],
      ['night-only', 'skipped', null],
      ['check-budget', 'refused', 1.2],
    ]);
    assert.deepEqual(trace.limits[0].words, 'user alice@example.com: 4.75 USD of 5 USD per day');
    assert.deepEqual([trace.limits[0].refused, trace.limits[0].resets_at], [true, '2026-03-11T00:00:00.000Z']);
    assert.deepEqual([trace.config, trace.rules_known, trace.bytes], ['abc', false, null]);
  });
});

/** Reads a feed until it has some events. */
async function feed(who: string, query: string, count: number, act: () => Promise<void>, last?: string) {
  const stop = new AbortController();
  const headers = { authorization: `Bearer ${who}`, ...(last !== undefined && { 'last-event-id': last }) };
  const response = await fetch(`${bench.url}/admin/api/requests/live${query}`, { headers, signal: stop.signal });
  assert.equal(response.headers.get('content-type'), 'text/event-stream');
  const events: { id: string; data: Fields }[] = [];
  let text = '';
  const reading = (async () => {
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      text += chunk;
      events.splice(0);
      for (const [, id, data] of text.matchAll(/^id: (\d+)\nevent: request\ndata: (.*)\n\n/gm)) {
        events.push({ id: id!, data: JSON.parse(data!) });
      }
    }
  })().catch(() => {});
  await until('the feed begins', () => text.includes(':'));
  await act();
  await until('the events are there', () => events.length >= count);
  stop.abort();
  await reading;
  return events;
}

describe('the live list', () => {
  test('reports new matching requests, and resumes where it was cut off', async () => {
    let first = '';
    const events = await feed('root', '?model=live-1', 1, async () => {
      await record(0, { user: 'bob@example.com', model: 'other' });
      first = await record(0, { user: 'bob@example.com', model: 'live-1' });
    });
    assert.deepEqual(pick(pick(events, 'data'), 'id'), [first]);
    const missed = await record(0, { user: 'bob@example.com', model: 'live-1' });
    const later = await feed('root', '?model=live-1', 1, async () => {}, events[0]!.id);
    assert.deepEqual(pick(pick(later, 'data'), 'id'), [missed]);
  });

  test('has nothing of others for who is no administrator', async () => {
    let own = '';
    const events = await feed('alice', '', 1, async () => {
      await record(0, { user: 'bob@example.com' });
      await record(0, { user: null });
      own = await record(0, { user: 'alice@example.com' });
    });
    assert.deepEqual(pick(pick(events, 'data'), 'id'), [own]);
    assert.equal((await bench.ask('alice', 'GET', '/admin/api/requests/live?user=bob@example.com')).status, 403);
  });

  test('is rejected for a caller with five open ones', async () => {
    const stop = new AbortController();
    const open = () =>
      fetch(`${bench.url}/admin/api/requests/live`, { headers: { authorization: 'Bearer fay' }, signal: stop.signal });
    const at_once = await Promise.all(Array.from({ length: 20 }, open));
    assert.equal(at_once.filter((response) => response.status === 200).length, 5);
    const { status, body } = await bench.ask('fay', 'GET', '/admin/api/requests/live');
    assert.deepEqual([status, body.error.message], [409, 'Too many live views are open; close one.']);
    stop.abort();
  });

  test('does not start for a HEAD request', async () => {
    const headers = { authorization: 'Bearer alice' };
    for (let i = 0; i < 7; i++) {
      const signal = AbortSignal.timeout(5000);
      const response = await fetch(`${bench.url}/admin/api/requests/live`, { method: 'HEAD', headers, signal });
      assert.equal(response.status, 200);
    }
  });
});

const LINES = '/admin/api/requests.jsonl';
const CSV = '/admin/api/requests.csv';
const MANY = 1203;

describe('requests as a file', () => {
  const bench = adminBench();
  before(async () => {
    await bench.rows(`select audit_append((
         select jsonb_agg(jsonb_build_object('at_ms', 1773144000000 - n * 60000, 'request_id', 'r' || n, 'record',
           jsonb_build_object('request_id', 'r' || n, 'user', case n % 3 when 0 then 'bob@example.com' else 'alice@example.com' end,
             'model', case n when 7 then '=HYPERLINK("x")' else 'coder-1' end, 'status', 200, 'cost_usd', 0.25,
             'cost_from', 'upstream', 'client', 'coder-cli')))
         from generate_series(1, ${MANY}) n), false)`);
  });

  const linesOf = (body: string): Record<string, unknown>[] => JSON.parse(`[${body.trimEnd().replaceAll('\n', ',')}]`);

  test('are all that fit, each once and whole, the newest first', async () => {
    const { status, body, headers } = await bench.ask('root', 'GET', LINES);
    assert.equal(status, 200);
    assert.equal(headers.get('content-disposition'), 'attachment; filename="requests.jsonl"');
    const lines = linesOf(body);
    const wanted = Array.from({ length: MANY }, (_, i) => `r${i + 1}`);
    assert.deepEqual(pick(lines, 'request_id'), wanted);
    assert.equal(lines[6]!.model, '=HYPERLINK("x")');
    assert.equal(lines[6]!.at, '2026-03-10T11:53:00.000Z');
    const bobs = linesOf(await bench.get('root', `${LINES}?user=bob@example.com&until=2026-03-10T09:00:00Z`));
    assert.ok(bobs.length > 300);
    assert.ok(bobs.every(({ user, at }) => user === 'bob@example.com' && String(at) < '2026-03-10T09:00:00Z'));
  });

  test('are those of the list as CSV, in which no name is a formula', async () => {
    const { body } = await bench.ask('root', 'GET', `${CSV}?since=2026-03-10T11:50:00Z`);
    const rows: Record<string, string>[] = parse(body, { columns: true });
    const listed = (await bench.get('root', '/admin/api/requests?since=2026-03-10T11:50:00Z')).requests;
    const shown = rows.map(({ id, user, cost_usd }) => [id, user, Number(cost_usd)]);
    assert.deepEqual(shown, pick(listed, 'id', 'user', 'cost_usd'));
    assert.deepEqual(Object.keys(rows[0]!), Object.keys(listed[0]));
    assert.equal(rows.find(({ id }) => id === 'r7')!.model, `'=HYPERLINK("x")`);
  });

  test("are limited to one's own for all users", async () => {
    const own = linesOf(await bench.get('bob', LINES));
    assert.equal(own.length, Math.floor(MANY / 3));
    assert.ok(own.every(({ user }) => user === 'bob@example.com'));
    for (const path of [LINES, CSV]) {
      assert.equal((await bench.ask('bob', 'GET', `${path}?user=alice@example.com`)).status, 403);
    }
    assert.equal(await bench.get('nina', LINES), '');
  });
});
