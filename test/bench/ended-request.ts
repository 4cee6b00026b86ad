/** A request that is over as telemetry is told of it, without a gateway: that of the bench, which one upstream answered. */
import type { FactPath, FactValue } from '../../engine/contract/facts.ts';
import type { EndedRequest } from '../../engine/contract/telemetry.ts';
import { KeptNotes } from '../../engine/run/request-notes.ts';

const HEADERS = { host: '127.0.0.1', 'user-agent': 'bench/1.0' };
const LIMIT = { scope: 'user', key: 'bench@example.com', window: 'day', unit: 'nano_usd' } as const;
const LIMITS = ['defaults.user_daily_usd', 'defaults.team_monthly_usd'].map((rule) => ({
  ...LIMIT,
  rule,
  limit: 5e15,
  spent: 4e9,
  reserved: 4e6,
  in_flight: 3,
  most: 4e6,
  resets_at: Date.parse('2100-01-01T00:00:00Z'),
}));

const FACTS: { readonly [P in FactPath]?: FactValue<P> } = {
  'request.method': 'POST',
  'request.path': '/v1/messages',
  'request.protocol': 'messages',
  'request.client.name': 'bench',
  'request.client.version': '1.0',
  'request.model': 'coder-1',
  'request.max_tokens': 256,
  'request.stream': false,
  'principal.id': 'user:bench@example.com',
  'principal.kind': 'access_token',
  'principal.team': 'speed',
  'principal.token.group': 'engineers',
  'route.upstream': 'main',
  'route.protocol': 'messages',
  'route.upstream_model': 'coder-1',
  'route.rule': 'default',
  'cache.requested_ttl': 'none',
  'cache.effective_ttl': 'none',
  'spend.reserved_nano_usd': 4_400_000,
  'upstream.status': 200,
  'upstream.ttfb_ms': 4,
  'usage.input_tokens': 12,
  'usage.output_tokens': 48,
  'usage.cache_read_input_tokens': 18_000,
  'usage.cache_write_5m_input_tokens': 0,
  'usage.cache_write_1h_input_tokens': 300,
  'usage.cost_nano_usd': 7_956_000,
  'outcome.status': 200,
  'outcome.duration_ms': 8,
};

let count = 0;

/** Makes a request that began 8 ms ago and has just ended. */
export function endedRequest(): EndedRequest {
  const facts = {
    ...FACTS,
    'request.id': `00000000-0000-4000-8000-${String(++count).padStart(12, '0')}`,
    'request.received_at': Date.now() - 8,
    'usage.provenance': { input: 'upstream', output: 'upstream', cost: 'upstream' },
  };
  const now = performance.now();
  const attempt = {
    n: 1,
    upstream: 'main',
    upstream_model: 'coder-1',
    certainty: 'answered',
    status: 200,
    outcome: 'answered',
    reason: 'served',
    sends: 1,
    ms: 5,
    upstream_request_id: 'req_bench',
  } as const;
  const notes = new KeptNotes(HEADERS);
  notes.attemptEnded(attempt, now - 6);
  notes.limitsTold(LIMITS, now - 7);
  return {
    peek: (path) => facts[path as keyof typeof facts] as never,
    attempts: [attempt],
    shadows: [],
    started_at: now - 8,
    ended_at: now,
    pipeline: { spec: { name: 'messages', match: { paths: ['/v1/messages'] } } } as EndedRequest['pipeline'],
    notes,
  };
}
