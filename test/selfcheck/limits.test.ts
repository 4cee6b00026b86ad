import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CheckResult } from '../../engine/base/contract/checks.ts';
import { LIMIT_CHECK } from '../../engine/edge/selfcheck/checks.ts';
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

async function check(...refusals: readonly Refusal[]): Promise<CheckResult> {
  let count = 0;
  await using gateway = await listen(({ req, res }) => {
    assert.equal(req.headers.authorization, `Bearer ${LIMIT_TOKEN}`);
    const { status = 429, headers = {}, json, text } = refusals[Math.min(count++, refusals.length - 1)]!;
    const type = text === undefined ? 'application/json' : 'text/event-stream';
    res.writeHead(status, { 'content-type': type, ...headers }).end(text ?? JSON.stringify(json));
  });
  return await makeCheck([LIMIT_CHECK], 'limits.refusal', subjectAt(gateway.url, { limit_token: LIMIT_TOKEN }));
}

const without = (name: keyof typeof GOOD_ERROR) => {
  const { [name]: _, ...error } = GOOD_ERROR;
  return { ...GOOD, json: { type: 'error', error: { ...error, message: 'No.' } } };
};

describe('the rejection of a caller with an exhausted limit', () => {
  test('is good in every protocol where limit, window and reset time are fields, and not checked without a token', async () => {
    assert.equal((await check(GOOD)).verdict, 'ok');
    const result = await makeCheck([LIMIT_CHECK], 'limits.refusal', subjectAt('http://127.0.0.1:9'));
    assert.equal(result.verdict, 'skipped');
    assert.match(result.found, /--limit-token-env/);
  });

  const CASES: readonly [CheckResult['verdict'], found: RegExp, ...Refusal[]][] = [
    ['failed', /^it lacks the limit/, without('limit_usd')],
    ['failed', /^it lacks the window/, without('window')],
    ['failed', /^it lacks the reset time/, { ...without('resets_at'), headers: { 'x-should-retry': 'false' } }],
    ['failed', /^the status is 400/, { ...GOOD, status: 400 }],
    [
      'failed',
      /the second request is rejected in another form/,
      GOOD,
      { ...GOOD, json: { type: 'error', error: { ...GOOD_ERROR, type: 'permission_error' } } },
    ],
    ['failed', /in another form, with status 200/, GOOD, { status: 200, json: {} }],
    ['warning', /x-should-retry: false is missing/, { ...GOOD, headers: { 'retry-after': '3600' } }],
    [
      'failed',
      /retry-after is not a number: clients read whole seconds/,
      { ...GOOD, headers: { 'x-should-retry': 'false', 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' } },
    ],
    [
      'failed',
      /the limit is not exhausted, or not enforced/,
      { status: 200, json: { type: 'message', model: 'coder-1', content: [] } },
    ],
    [
      'failed',
      /response is from cheap-1 instead of coder-1/,
      { status: 200, json: { type: 'message', model: 'cheap-1', content: [] } },
    ],
    ['failed', /"type" is not "error"/, { ...GOOD, json: { error: GOOD_ERROR } }],
    [
      'warning',
      /limits not checked: the token was rejected/,
      { status: 401, json: { type: 'error', error: { type: 'authentication_error', message: 'unknown token' } } },
    ],
  ];
  for (const [verdict, found, ...refusals] of CASES) {
    test(`is ${verdict}: ${found.source}`, async () => {
      const result = await check(...refusals);
      assert.equal(result.verdict, verdict, JSON.stringify(result, null, 2));
      assert.match(result.found, found);
    });
  }
});
