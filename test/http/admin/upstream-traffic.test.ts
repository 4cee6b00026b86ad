import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { type AdminBench, NOW, useAdminApi } from './support.ts';

let bench: AdminBench;
useAdminApi((opened) => {
  bench = opened;
});

const at = (minutes_ago: number) => new Date(Date.parse(NOW) - minutes_ago * 60_000);
let rows = 0;

interface Sent {
  readonly upstream?: string;
  readonly model?: string;
  readonly status?: number | null;
  readonly ms?: number | null;
  readonly attempts?: readonly object[];
}

/** Puts a request that was settled into the ledger. */
async function settled(minutes_ago: number, given: Sent = {}): Promise<void> {
  const { upstream = 'main', model = 'coder-1', status = 200, ms = 100, attempts } = given;
  rows += 1;
  await bench.database.query(
    'test_ledger_row',
    `insert into ledger (request_id, protocol, principal_id, user_email, model, upstream, upstream_model, status, aborted,
       input_tokens, output_tokens, cache_read_tokens, cache_write_5m_tokens, cache_write_1h_tokens, cost_nano_usd,
       provenance, counter_ids, forwarded_at, settled_at, attempts, upstream_ms)
     values ($1, 'messages', 'user:a', 'a@example.com', $2, $3, $2, $4, false, 1, 1, 0, 0, 0, 1, '{}', '{}', $5, $5, $6, $7)`,
    [
      `r${rows}`,
      model,
      upstream,
      status,
      at(minutes_ago),
      attempts === undefined ? null : JSON.stringify(attempts.map((attempt) => ({ cost_nano_usd: 0, ...attempt }))),
      ms,
    ],
  );
}

/** Puts a request into the audit log. */
async function recorded(minutes_ago: number, record: object): Promise<void> {
  const whole = { status: 200, user: 'a@example.com', model: 'coder-1', ...record };
  await bench.database.query('test_audit', 'insert into audit_log (at, record) values ($1, $2)', [
    at(minutes_ago),
    JSON.stringify(whole),
  ]);
}

const ask = async (who: string, path: string, status = 200) => {
  const answer = await bench.ask(who, 'GET', `/admin/api/upstreams/${path}`);
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  return answer.body;
};

describe('traffic of upstreams', () => {
  before(async () => {
    for (let ms = 1; ms <= 100; ms++) await settled(3, { ms });
    await settled(30, { model: 'writer-1', ms: 5000 });
    await settled(30, { status: null, ms: null });
    const failed = { n: 1, upstream: 'main', upstream_model: 'coder-1', outcome: 'limited', status: 429, ms: 9 };
    const served = { n: 2, upstream: 'spare', upstream_model: 'code-r', outcome: 'answered', status: 200, ms: 70 };
    await settled(30, { upstream: 'spare', attempts: [failed, served] });
    const of_later = { n: 1, upstream: 'main', upstream_model: 'coder-1', outcome: 'of_a_later_version', status: 418 };
    await settled(4, { attempts: [of_later] });
    await settled(5, { attempts: [{ ...of_later, outcome: 'caller', status: 400 }] });
    await settled(600, { upstream: 'spare', ms: 1 });
    await settled(2000);
    await recorded(20, { upstream: 'main', session_id: 's' });
    await recorded(19, { upstream: 'main', session_id: 's' });
    await recorded(18, { upstream: 'spare', session_id: 's' });
    await recorded(17, { upstream: 'spare', session_id: 's', model: 'writer-1' });
    await recorded(16, { upstream: 'main', session_id: 's', user: 'b@example.com' });
    await recorded(15, { upstream: 'main', session_id: 's', status: 529 });
    await recorded(14, { upstream: 'main', session_id: null });
  });

  test('is counted by upstream and model, by how each attempt ended', async () => {
    const { upstreams, ...head } = await ask('root', 'traffic');
    assert.deepEqual(head, {
      window: 'hour',
      since: '2026-03-10T11:05:00.000Z',
      until: '2026-03-10T12:05:00.000Z',
      part_seconds: 300,
      attempts: 106,
    });
    const [{ parts, models, ...main }, spare, ...more] = upstreams;
    assert.deepEqual(more, []);
    assert.deepEqual(main, {
      upstream: 'main',
      attempts: 105,
      served: 101,
      limited: 1,
      failed: 2,
      outcomes: [
        {
          outcome: 'caller',
          means: 'Any other 4xx: the request itself is refused, and its bytes pass through',
          attempts: 1,
        },
        { outcome: 'limited', means: 'Status 429', attempts: 1 },
        { outcome: 'of_a_later_version', means: 'of_a_later_version', attempts: 1 },
        {
          outcome: 'unanswered',
          means: 'The connection broke after the request was sent, or no answer began in time',
          attempts: 1,
        },
      ],
      p50_ms: 51,
      p95_ms: 96,
      share: 105 / 106,
      turns: 2,
      turns_stayed: 1,
    });
    assert.deepEqual(
      models.map(({ upstream_model, attempts, served, p50_ms, p95_ms }: Record<string, unknown>) => {
        return [upstream_model, attempts, served, p50_ms, p95_ms];
      }),
      [
        ['coder-1', 104, 100, 50, 95],
        ['writer-1', 1, 1, 5000, 5000],
      ],
    );
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

  test('is told of a day by the hour', async () => {
    const { part_seconds, attempts, upstreams, since } = await ask('root', 'traffic?window=day');
    assert.deepEqual([part_seconds, attempts, since], [3600, 107, '2026-03-09T13:00:00.000Z']);
    assert.equal(upstreams[1].parts.length, 24);
    assert.equal(upstreams[1].parts[13].attempts, 1);
    const { error } = await ask('root', 'traffic?window=year', 400);
    assert.match(error.message, /expected hour or day/);
  });

  test('and what kept requests from them are for administrators alone', async () => {
    await ask('alice', 'traffic', 403);
    await ask('alice', 'troubles', 403);
  });
});

test('what kept requests from upstreams is told in pages, and what other replicas keep beside the states', async () => {
  for (const [n, upstream] of ['main', 'spare', 'main'].entries()) {
    await bench.database.query(
      'test_trouble',
      `insert into upstream_troubles (replica, kind, upstream, upstream_model, began_at, until, ended_at, times, last)
       values ('gateway-2 7', 'open', $1, 'coder-1', $2, $3, $4, 3, 'status 529')`,
      [upstream, at(10 - n), at(-1), n < 2 ? at(5) : null],
    );
  }
  const { troubles, next } = await ask('root', 'troubles?upstream=main&limit=1');
  const { id, ...latest } = troubles[0];
  assert.equal(next, String(id));
  assert.deepEqual(latest, {
    replica: 'gateway-2 7',
    kind: 'open',
    upstream: 'main',
    upstream_model: 'coder-1',
    began_at: at(8).toISOString(),
    until: at(-1).toISOString(),
    ended_at: null,
    times: 3,
    last: 'status 529',
  });
  const rest = await ask('root', `troubles?upstream=main&limit=5&after=${next}`);
  assert.deepEqual([rest.troubles.length, rest.troubles[0].ended_at, rest.next], [1, at(5).toISOString(), null]);
  assert.equal((await ask('root', 'troubles')).troubles.length, 3);
  await ask('root', 'troubles?after=x', 400);
  const { upstreams } = (await bench.ask('root', 'GET', '/admin/api/upstreams')).body;
  const told = { replica: 'gateway-2 7', kind: 'open', upstream_model: 'coder-1', last: 'status 529' };
  assert.deepEqual(upstreams[0].elsewhere, [{ ...told, until: at(-1).toISOString() }]);
  assert.deepEqual(upstreams[1].elsewhere, []);
});
