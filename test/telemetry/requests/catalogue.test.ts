import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { FACTS } from '../../../engine/contract/facts.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';
import { METRICS } from '../../../engine/telemetry/catalogue/metrics.ts';
import { ATTRIBUTES, EVENTS, SPANS } from '../../../engine/telemetry/catalogue/spans.ts';
import type { Attributes } from '../../../engine/telemetry/spans.ts';
import { attempt, ended, limit, openScene, refused, spansOf } from './scene.ts';

const RATE_DETAILS = {
  rule: 'r',
  window: 'minute',
  scope: 'user',
  unit: 'requests',
  limit: 1,
  used: 1,
  reserved: 0,
  needed: 1,
  resets_at: '2026-03-10T12:01:00.000Z',
};

/** Requests that between them make everything that is made of requests. */
const REQUESTS = [
  ended({ limits: [limit()], shadows: ['routing:later', 'spend:soon', 'a-stage'], facts: { 'route.rule': 'night' } }),
  ended({ facts: { 'request.session_id': '2d0cd5ae-5f27-4b1c-9d3e-111111111111', 'principal.project': 'shop' } }),
  ended({
    attempts: [
      attempt({
        status: null,
        certainty: 'possibly_accepted',
        outcome: 'unanswered',
        reason: 'next_unconfirmed',
        sends: 2,
      }),
      attempt({ n: 2, upstream: 'spare', upstream_model: 'coder-1@2026', upstream_request_id: 'req_9' }),
    ],
    facts: {
      'request.stream': false,
      'request.choices': 2,
      'route.upstream': 'spare',
      'route.protocol': 'chat',
      'route.candidates': ['main', 'spare'],
      'route.dropped': ['main: open'],
      'translation.losses': ['top_k'],
      'cache.requested_ttl': '1h',
      'cache.effective_ttl': '5m',
      'cache.downgraded': true,
      'outcome.rewrites': ['model'],
      'outcome.replaced': { redact: 2 },
      'outcome.drained': true,
      'outcome.aborted': true,
      'spend.unreserved': true,
      'usage.possibly_billed_nano_usd': 1000,
      'usage.provenance': { cost: 'learned' },
    },
  }),
  refused(
    new StageError('rate_limit_exceeded', 'Wait.', {
      details: RATE_DETAILS,
    }),
    {
      facts: { 'spend.rule': 'r', 'error.stage': 'check-budget', 'request.model': 'coder-9' },
    },
  ),
  refused(new StageError('upstream_unavailable', 'Away.')),
  refused(new StageError('model_not_found', 'None.', { details: { token_group: 'engineers' } })),
  ended({ facts: { 'policy.names': ['everyone'], 'request.protocol': 'none' }, attempts: [] }),
];

describe('whatever is told of requests', () => {
  for (const conventions of ['1.41', 'latest'] as const) {
    it(`is in the catalogue, with the names of the conventions ${conventions}`, () => {
      const { requestEnded, requestRejected, taken, logged, metrics } = openScene({ conventions, caller: 'pseudonym' });
      for (const request of REQUESTS) requestEnded(request);
      requestRejected(404, 'path_not_found');
      assert.deepEqual(logged, []);
      const told = new Set<string>();
      const check = (attributes: Attributes, known: readonly string[], where: string) => {
        for (const [name, value] of Object.entries(attributes)) {
          if (value === undefined) continue;
          told.add(name);
          assert.ok(known.includes(name), `${where} has ${name}`);
          const spec = ATTRIBUTES[name]!;
          assert.ok(spec !== undefined && (spec.conventions ?? conventions) === conventions, name);
          assert.equal(
            Array.isArray(value) ? 'strings' : typeof value,
            spec.kind === 'double' ? 'number' : spec.kind,
            name,
          );
          if (spec.values !== undefined) assert.ok(spec.values.includes(value as string), `${name}: ${value}`);
        }
      };
      for (const span of taken.flat()) {
        const spec = SPANS[span.kind === 'server' ? 'request' : 'attempt']!;
        check(span.attributes, spec.attributes, span.name);
        for (const event of span.events) {
          assert.ok(spec.events.includes(event.name), event.name);
          check(event.attributes, EVENTS[event.name]!.attributes, event.name);
        }
      }
      for (const { name, spec, series } of metrics.measure()) {
        assert.ok((spec.conventions ?? conventions) === conventions, name);
        for (const { labels } of series) {
          for (const label of Object.keys(labels))
            assert.ok((METRICS[name].labels as readonly string[]).includes(label));
        }
      }
      const promised = [SPANS.request!, SPANS.attempt!, ...Object.values(EVENTS)].flatMap(
        ({ attributes }) => attributes,
      );
      const never = promised.filter(
        (name) => !told.has(name) && (ATTRIBUTES[name]!.conventions ?? conventions) === conventions,
      );
      assert.deepEqual([...new Set(never)], [], 'the catalogue promises what nothing tells');
    });
  }
});

describe('what nobody may learn from telemetry', () => {
  const SECRET = 'PLANTED-hunter2-sk-live-0123456789abcdef';

  it('is not there, whichever fact it is planted in that clients decide over', () => {
    const planted = Object.fromEntries(
      Object.entries(FACTS)
        .filter(([path]) =>
          /^(?:request\.(?!limit_rule|protocol|method|id|received_at|stream)|principal\.(?!kind|team|project|token\.group))/.test(
            path,
          ),
        )
        .filter(([, { kind }]) => kind === 'string' || kind === 'strings')
        .map(([path, { kind }]) => [path, kind === 'string' ? SECRET : [SECRET]]),
    );
    const headers = { traceparent: `00-${SECRET}-b-01`, baggage: SECRET, tracestate: SECRET, authorization: SECRET };
    for (const caller of ['none', 'pseudonym'] as const) {
      const { requestEnded, taken, metrics } = openScene({ caller });
      requestEnded(ended({ facts: planted, headers, paths: ['/v1/messages', '/v1/models/*'] }));
      requestEnded(
        refused(new StageError('model_not_found', SECRET, { details: { model: SECRET } }), { facts: planted }),
      );
      assert.equal(taken.length, 2);
      assert.ok(!JSON.stringify([taken, metrics.measure()]).includes('hunter2'));
    }
  });

  it('is who the caller is: a pseudonym tells callers apart where that is wanted, alike in all replicas', () => {
    const env = { UPSTREAM_KEY: 'a-long-enough-secret-of-an-upstream' };
    const upstreams = openUpstreams('UPSTREAM_KEY');
    const idOf = (principal: string, key = env.UPSTREAM_KEY) => {
      const scene = [{ caller: 'pseudonym' as const }, { env: { UPSTREAM_KEY: key }, upstreams }] as const;
      return spansOf(ended({ facts: { 'principal.id': principal } }), ...scene)[0]!.attributes['enduser.id'];
    };
    assert.match(String(idOf('user:alice@example.com')), /^[\w-]{22}$/);
    assert.equal(idOf('user:alice@example.com'), idOf('user:alice@example.com'));
    assert.notEqual(idOf('user:alice@example.com'), idOf('user:bob@example.com'));
    assert.notEqual(idOf('user:alice@example.com'), idOf('user:alice@example.com', 'another-secret-of-an-upstream'));
    assert.equal(spansOf(ended())[0]!.attributes['enduser.id'], undefined);
  });
});

function openUpstreams(api_key_env: string) {
  const { upstreams } = stageConfig();
  return upstreams.map((upstream) => ({ ...upstream, api_key_env }));
}
