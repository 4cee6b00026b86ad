import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ATTEMPT_REASONS, CERTAINTIES, DROP_REASONS } from '../../engine/base/contract/forwarding.ts';
import { FAILOVER_TABLE } from '../../engine/domain/upstreams/failover-table.ts';
import schema from '../../schemas/pipeline-test.schema.json' with { type: 'json' };
import { holds, problemsOf, REQUEST, runCases } from './support.ts';

const STREAM = 'request: { json: { model: coder-1, max_tokens: 10, stream: true, messages: [] } }';
const ANSWER = '{ json: { type: message, usage: { input_tokens: 1, output_tokens: 1 } } }';

describe('an upstream of a case', () => {
  it('behaves as its name, and reports the requests it got', () =>
    holds(`
  - name: by day and by night
    ${REQUEST}
    upstreams: { main: { fails: 400 }, spare: ${ANSWER} }
    expect: { status: 400, upstreams: { main: { path: /base/v1/messages }, spare: null } }
    then:
      - at: 2026-03-10T23:30:00Z
        expect:
          status: 200
          upstreams: { main: null, spare: [{ path: /v1/messages, json: { model: coder-1 }, unchanged: true }] }
      - at: 2026-03-11T09:00:00Z
        upstream: { fails: 413 }
        expect: { status: 413 }
`));

  it('fails with a status as its protocol has it', () =>
    holds(`
  - name: Messages
    ${REQUEST}
    upstream: { fails: 413, headers: { request-id: req_1 } }
    expect:
      status: 413
      unchanged: true
      json: { type: error, error: { type: request_too_large } }
      facts: { upstream.status: 413, upstream.request_id: req_1 }
`));

  it('cuts a connection during its response', () =>
    holds(`
  - name: cut in a stream
    ${STREAM}
    upstream: { fails: cut, events: [{ type: message_start }] }
    expect: { status: 200, events: [message_start, error], error: upstream_failed }
  - name: cut in a body
    ${REQUEST}
    upstream: { fails: cut, text: '{"type": "message", "content": []}' }
    expect: { status: 200, contains: ['{"type": "messag'], lacks: [content], error: upstream_failed }
`));
});

const TWO = 'gateway: { routing: { default_upstreams: [main, spare] } }';

describe('a request with several upstreams', () => {
  it('falls back by the failover table, on a clock of its own', () =>
    holds(`
  - name: overloaded
    ${TWO}
    ${REQUEST}
    upstreams: { main: [{ fails: 529 }, { fails: 503 }], spare: ${ANSWER} }
    expect:
      status: 200
      candidates: [main, spare]
      dropped: null
      upstream: { name: spare, path: /v1/messages, unchanged: true }
      upstreams: { main: [{ path: /base/v1/messages }, { path: /base/v1/messages }], spare: { unchanged: true } }
      attempts:
        - { upstream: main, certainty: answered, status: 529, outcome: overloaded, reason: same_after_wait, sends: 1 }
        - { upstream: main, status: 503, reason: next_overloaded }
        - { upstream: spare, upstream_model: coder-1, status: 200, reason: served, cost_nano_usd: 18000, provenance: upstream }
      ledger: { upstream: spare, cost_nano_usd: 18000 }
      facts: { outcome.duration_ms: 1000 }
  - name: refuses connections
    ${TWO}
    ${REQUEST}
    upstreams: { main: [{ fails: refuse }, ${ANSWER}], spare: ${ANSWER} }
    expect:
      attempts: [{ upstream: main, certainty: not_sent, status: null, outcome: unreachable, sends: 0 }, { reason: served }]
      upstreams: { main: null, spare: {} }
  - name: hangs
    ${TWO}
    ${STREAM}
    upstreams: { main: { fails: hang }, spare: { events: [{ type: message_start, message: {} }, { type: message_stop }] } }
    expect:
      status: 200
      attempts:
        - { upstream: main, certainty: possibly_accepted, outcome: unanswered, ms: 120000, cost_nano_usd: 0, possibly_billed_nano_usd: 48000 }
        - { upstream: spare }
  - name: is cut before its first event
    ${TWO}
    ${STREAM}
    upstreams:
      main: { fails: cut, headers: { content-type: text/event-stream }, text: "event: message_start" }
      spare: { events: [{ type: message_start, message: {} }, { type: message_stop }] }
    expect: { status: 200, attempts: [{ outcome: empty, reason: next_failed }, { reason: served }], lacks: ['mess\\n'] }
  - name: is left before the answer
    ${TWO}
    request: { json: { model: coder-1, max_tokens: 10, messages: [] }, leaves: before_answer }
    upstreams: { main: { fails: hang }, spare: ${ANSWER} }
    expect: { facts: { outcome.aborted: true }, upstreams: { main: {}, spare: null } }
`));

  it('is distinguished from one without an alternative, as a limit has no headroom there', () =>
    holds(`
  - name: nobody else has room
    gateway:
      routing: { default_upstreams: [main, spare] }
      spend_limits: { reserve: worst_case, rules: [{ name: cap, scope: upstream, window: day, limit_usd: 0.001 }] }
    spent: [{ scope: upstream, key: spare, window: day, usd: 0.00099 }]
    ${REQUEST}
    upstreams: { main: { fails: 500 } }
    expect: { status: 500, dropped: { spare: limit }, attempts: [{ upstream: main, outcome: failed, reason: exhausted }] }
  - name: one of the others has
    gateway:
      upstreams:
        - { name: main, type: vendor, base_url: https://api.example.com }
        - { name: spare, type: vendor, base_url: https://spare.example.com }
        - { name: third, type: vendor, base_url: https://third.example.com }
      routing: { default_upstreams: [main, spare, third], rules: [] }
      spend_limits: { reserve: worst_case, rules: [{ name: cap, scope: upstream, window: day, limit_usd: 0.001 }] }
    drained: [main]
    spent: [{ scope: upstream, key: spare, window: day, usd: 0.00099 }]
    ${REQUEST}
    upstreams: { third: ${ANSWER} }
    expect: { status: 200, dropped: { main: drained, spare: limit }, attempts: [{ upstream: third, reason: served }] }
`));
});

describe('a failing case', () => {
  it('reports which upstreams got the request, which not, and what they saw', async () => {
    const { results } = await runCases(`
  - name: wrong
    ${REQUEST}
    upstreams: { main: ${ANSWER} }
    expect:
      candidates: [spare]
      dropped: { spare: limited }
      attempts: [{ upstream: main }, { upstream: spare }]
      upstreams:
        main: { path: /v1/messages, json: { model: coder-2 } }
        spare: [{}, {}]
  - name: nothing said of main
    ${REQUEST}
    upstreams: { spare: ${ANSWER} }
    expect: { candidates: [main], dropped: null, upstreams: { main: null } }
`);
    assert.deepEqual(results.flatMap(problemsOf), [
      '12 /upstreams/main/path: expected "/v1/messages", found "/base/v1/messages"',
      '12 /upstreams/main/json/model: expected "coder-2", found "coder-1"',
      '13 /upstreams/spare: expected 2 requests to spare, found 0',
      '10 /attempts: expected 2 attempts, found 1: main answered served',
      '8 /candidates/0: expected "spare", found "main"',
      '9 /dropped: expected {"spare":"limited"}, found null',
      '14 : expected every upstream that gets a request is among those under `upstreams`, found main got a request',
      '17 /upstreams/main: expected no request to main, found 1',
    ]);
  });
});

it('a case can expect every reason and outcome there is', () => {
  const { attempts, dropped } = schema.definitions.expect.properties;
  const { certainty, outcome, reason } = attempts.items.properties;
  assert.deepEqual(certainty.enum, CERTAINTIES);
  assert.deepEqual(outcome.enum, Object.keys(FAILOVER_TABLE));
  assert.deepEqual(reason.enum, Object.keys(ATTEMPT_REASONS));
  assert.deepEqual(dropped.additionalProperties.enum, Object.keys(DROP_REASONS));
});

describe('a drained upstream', () => {
  it('gets no requests until it is resumed', () =>
    holds(`
  - name: the only one of its route
    ${REQUEST}
    drained: [main]
    upstreams: { main: ${ANSWER} }
    expect: { status: 503, error: upstream_unavailable, never: [upstream_call, ledger_row] }
    then:
      - drained: []
        expect: { status: 200 }
`));
});
