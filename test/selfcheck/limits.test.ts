import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { CheckResult } from '../../engine/contract/checks.ts';
import { LIMIT_CHECKS } from '../../engine/selfcheck/checks/limits.ts';
import { findRefusalFacts, formOf, pastResets } from '../../engine/selfcheck/limits/refusal-facts.ts';
import { times } from '../support/times.ts';
import { listen, makeCheck, subjectAt } from './support.ts';

const LIMIT_TOKEN = 'gw_limit-is-used-up';
const IN_A_WEEK = new Date(Date.now() + 7 * 86_400_000).toISOString();

interface Refusal {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly json?: unknown;
  readonly text?: string;
}

const GOOD_ERROR = {
  type: 'rate_limit_error',
  code: 'spend_limit_exceeded',
  message: 'The daily limit of 5 USD is used up.',
  limit_usd: 5,
  window: 'day',
  resets_at: IN_A_WEEK,
};
const GOOD: Refusal = {
  status: 429,
  headers: { 'x-should-retry': 'false', 'retry-after': '3600' },
  json: { type: 'error', error: GOOD_ERROR },
};

/** A gateway that refuses whoever has the token of the limit, each time with the next of these. */
async function check(id: string, ...refusals: readonly Refusal[]): Promise<CheckResult> {
  let count = 0;
  const gateway = await listen(({ req, res }) => {
    assert.equal(req.headers.authorization, `Bearer ${LIMIT_TOKEN}`);
    const { status = 429, headers = {}, json, text } = refusals[Math.min(count++, refusals.length - 1)]!;
    const type = text === undefined ? 'application/json' : 'text/event-stream';
    res.writeHead(status, { 'content-type': type, ...headers }).end(text ?? JSON.stringify(json));
  });
  try {
    return await makeCheck(LIMIT_CHECKS, `limits.${id}`, subjectAt(gateway.url, { limit_token: LIMIT_TOKEN }));
  } finally {
    await gateway.close();
  }
}

const without = (name: keyof typeof GOOD_ERROR) => {
  const { [name]: _, ...error } = GOOD_ERROR;
  return { ...GOOD, json: { type: 'error', error: { ...error, message: 'No.' } } };
};

describe('the refusal of a caller whose limit is used up', () => {
  for (const id of ['messages', 'stream', 'chat', 'responses']) {
    test(`is good where limit, window and reset time are fields: ${id}`, async () => {
      const result = await check(id, GOOD);
      assert.equal(result.verdict, 'ok', JSON.stringify(result));
      assert.deepEqual(result.details, [
        'limit: field error.limit_usd',
        'window: field error.window',
        'reset time: field error.resets_at',
      ]);
    });
  }

  test('is not looked at without such a token', async () => {
    const result = await makeCheck(LIMIT_CHECKS, 'limits.messages', subjectAt('http://127.0.0.1:9'));
    assert.equal(result.verdict, 'skipped');
    assert.match(result.found, /--limit-token-env/);
  });

  const { limit_usd: _, window: __, resets_at: ___, ...named } = GOOD_ERROR;
  const cases: readonly {
    is: string;
    refusals: readonly Refusal[];
    verdict: CheckResult['verdict'];
    found: RegExp;
    id?: string;
  }[] = [
    {
      is: 'without the limit',
      refusals: [without('limit_usd')],
      verdict: 'failed',
      found: /^it does not say the limit$/,
    },
    {
      is: 'without the window',
      refusals: [without('window')],
      verdict: 'failed',
      found: /^it does not say the window$/,
    },
    {
      is: 'without the reset time',
      refusals: [{ ...without('resets_at'), headers: { 'x-should-retry': 'false' } }],
      verdict: 'failed',
      found: /^it does not say the reset time$/,
    },
    {
      is: 'that says everything in a sentence',
      refusals: [
        {
          status: 403,
          json: {
            type: 'error',
            error: { ...named, message: 'The daily limit of $5 is used up. It resets at 2026-12-01.' },
          },
        },
      ],
      verdict: 'warning',
      found: /^the limit, the window and the reset time can be read in the sentence only/,
    },
    { is: 'with status 400', refusals: [{ ...GOOD, status: 400 }], verdict: 'failed', found: /^the status is 400$/ },
    {
      is: 'that is another each time',
      refusals: [GOOD, { ...GOOD, json: { type: 'error', error: { ...GOOD_ERROR, type: 'permission_error' } } }],
      verdict: 'failed',
      found: /in another form the second time/,
    },
    {
      is: 'that is served the second time',
      refusals: [GOOD, { status: 200, json: {} }],
      verdict: 'failed',
      found: /answered with status 200 the second time/,
    },
    {
      is: 'that clients try again',
      refusals: [{ ...GOOD, headers: { 'retry-after': '3600' } }],
      verdict: 'warning',
      found: /x-should-retry: false is missing/,
    },
    {
      is: 'with a date to wait for',
      refusals: [{ ...GOOD, headers: { 'x-should-retry': 'false', 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' } }],
      verdict: 'failed',
      found: /^retry-after is Wed, 21 Oct 2026 07:28:00 GMT: clients read whole seconds only/,
    },
    {
      is: 'with a reset time that is over',
      refusals: [{ ...GOOD, json: { type: 'error', error: { ...GOOD_ERROR, resets_at: '2020-01-01T00:00:00Z' } } }],
      verdict: 'warning',
      found: /the time of field error\.resets_at is over/,
    },
    {
      is: 'that is an answer of the same model',
      refusals: [{ status: 200, json: { type: 'message', model: 'coder-1', content: [] } }],
      verdict: 'failed',
      found: /the limit of this token is not used up, or it is not enforced/,
    },
    {
      is: 'that is an answer of another model',
      refusals: [{ status: 200, json: { type: 'message', model: 'cheap-1', content: [] } }],
      verdict: 'failed',
      found: /answered by cheap-1 in place of coder-1/,
    },
    {
      is: 'within a stream',
      id: 'stream',
      refusals: [
        { status: 200, text: `event: error\ndata: ${JSON.stringify({ type: 'error', error: GOOD_ERROR })}\n\n` },
      ],
      verdict: 'failed',
      found: /came within a stream of status 200: rate_limit_error: The daily limit/,
    },
    {
      is: 'of another protocol',
      id: 'messages',
      refusals: [{ ...GOOD, json: { error: GOOD_ERROR } }],
      verdict: 'failed',
      found: /"type" is not "error"/,
    },
    {
      is: 'of a protocol that is not served',
      id: 'responses',
      refusals: [{ status: 404, json: { error: { message: 'Not Found', type: 'x' } } }],
      verdict: 'skipped',
      found: /Responses are not served/,
    },
    {
      is: 'because the token is not known',
      refusals: [
        { status: 401, json: { type: 'error', error: { type: 'authentication_error', message: 'unknown token' } } },
      ],
      verdict: 'warning',
      found: /nothing can be told of limits: the token was refused/,
    },
    {
      is: 'that is a web page',
      refusals: [
        { status: 403, headers: { 'content-type': 'text/html' }, text: '<html><title>Forbidden</title></html>' },
      ],
      verdict: 'failed',
      found: /the web page "Forbidden"/,
    },
  ];
  for (const { is, refusals, verdict, found, id = 'messages' } of cases) {
    test(`is told of where it is one ${is}`, async () => {
      const result = await check(id, ...refusals);
      assert.equal(result.verdict, verdict, JSON.stringify(result, null, 2));
      assert.match(result.found, found);
    });
  }
});

describe('what a refusal says', () => {
  const found = (json: unknown, headers: Record<string, string> = {}) => findRefusalFacts(json, headers);

  for (const [what, json, headers, expected] of [
    [
      'fields of other gateways',
      { error: { message: 'x', max_budget: 10, budget_duration: '30d', budget_reset_at: '2030-01-01T00:00:00Z' } },
      {},
      {
        limit: 'field error.max_budget',
        window: 'field error.budget_duration',
        'reset time': 'field error.budget_reset_at',
      },
    ],
    [
      'names in camel case, with the window in that of the limit',
      { detail: { monthlyLimitUsd: '12.50', resetsAt: 1_900_000_000 } },
      {},
      {
        limit: 'field detail.monthlyLimitUsd',
        window: 'field detail.monthlyLimitUsd',
        'reset time': 'field detail.resetsAt',
      },
    ],
    [
      'headers',
      {},
      {
        'x-budget-limit': '10',
        'vendor-ratelimit-unified-overage-period': 'daily',
        'vendor-ratelimit-unified-reset': '1900000000',
      },
      {
        limit: 'header x-budget-limit',
        window: 'header vendor-ratelimit-unified-overage-period',
        'reset time': 'header vendor-ratelimit-unified-reset',
      },
    ],
    [
      'nothing in the limits of rates that every answer has',
      { error: { message: 'Budget has been exceeded!' } },
      { 'x-ratelimit-limit-requests': '100', 'x-ratelimit-reset-requests': '6s', 'x-ratelimit-limit-tokens': '1000' },
      {},
    ],
    [
      'no limit in what is left of it, or was spent',
      { error: { limit_remaining: 0, spent_usd: 5, retry_limit_type: 'none' } },
      {},
      {},
    ],
    [
      'a sentence',
      { error: { message: 'Current cost: 12.3, max budget: 10 USD per month; try again in 3 days' } },
      {},
      { limit: 'sentence', window: 'sentence', 'reset time': 'sentence' },
    ],
  ] as const) {
    test(`is found in ${what}`, () => assert.deepEqual(found(json, headers), expected));
  }

  test('has the same form where only numbers, times and wording change', () => {
    const form = (message: string, limit: number, listed: number) =>
      formOf(429, {
        error: { type: 'a', message, limit, exceeded: Array.from({ length: listed }, () => ({ limit })) },
      });
    assert.equal(form('5 left', 5, 1), form('4 left', 4, 2));
    assert.notEqual(formOf(429, { error: { type: 'a' } }), formOf(429, { error: { type: 'b' } }));
    assert.notEqual(formOf(429, { error: {} }), formOf(403, { error: {} }));
  });

  test('is no more than what is there, whatever came', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.dictionary(fc.string(), fc.string()), (json, headers) => {
        findRefusalFacts(json, headers);
        pastResets(json, headers, Date.now());
        assert.equal(formOf(400, json), formOf(400, JSON.parse(JSON.stringify(json))));
      }),
      { numRuns: times(20) },
    );
  });

  test('is read within bounds from an answer without end', () => {
    let deep: unknown = 1;
    for (let i = 0; i < 100; i++) deep = { limit: deep };
    assert.deepEqual(found(deep), {});
    const wide = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`a${index}`, 1]));
    assert.deepEqual(found({ ...wide, limit: 5 }), {});
  });
});
