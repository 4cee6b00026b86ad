import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CheckResult } from '../../engine/base/contract/checks.ts';
import { LIMIT_CHECK } from '../../engine/edge/selfcheck/limits.ts';
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

/** A gateway that rejects requests with the token of the limit, each time with the next of these. */
async function check(...refusals: readonly Refusal[]): Promise<CheckResult> {
  let count = 0;
  const gateway = await listen(({ req, res }) => {
    assert.equal(req.headers.authorization, `Bearer ${LIMIT_TOKEN}`);
    const { status = 429, headers = {}, json, text } = refusals[Math.min(count++, refusals.length - 1)]!;
    const type = text === undefined ? 'application/json' : 'text/event-stream';
    res.writeHead(status, { 'content-type': type, ...headers }).end(text ?? JSON.stringify(json));
  });
  try {
    return await makeCheck([LIMIT_CHECK], 'limits.refusal', subjectAt(gateway.url, { limit_token: LIMIT_TOKEN }));
  } finally {
    await gateway.close();
  }
}

const without = (name: keyof typeof GOOD_ERROR) => {
  const { [name]: _, ...error } = GOOD_ERROR;
  return { ...GOOD, json: { type: 'error', error: { ...error, message: 'No.' } } };
};

describe('the rejection of a caller with an exhausted limit', () => {
  test('is good in every protocol where limit, window and reset time are fields', async () => {
    assert.equal((await check(GOOD)).verdict, 'ok');
  });

  test('is not checked without such a token', async () => {
    const result = await makeCheck([LIMIT_CHECK], 'limits.refusal', subjectAt('http://127.0.0.1:9'));
    assert.equal(result.verdict, 'skipped');
    assert.match(result.found, /--limit-token-env/);
  });

  const CASES: readonly [is: string, CheckResult['verdict'], found: RegExp, ...Refusal[]][] = [
    ['without the limit', 'failed', /^it does not say the limit/, without('limit_usd')],
    ['without the window', 'failed', /^it does not say the window/, without('window')],
    [
      'without the reset time',
      'failed',
      /^it does not say the reset time/,
      { ...without('resets_at'), headers: { 'x-should-retry': 'false' } },
    ],
    ['with status 400', 'failed', /^the status is 400/, { ...GOOD, status: 400 }],
    [
      'that is another each time',
      'failed',
      /the second request is rejected in another form/,
      GOOD,
      { ...GOOD, json: { type: 'error', error: { ...GOOD_ERROR, type: 'permission_error' } } },
    ],
    ['that is served the second time', 'failed', /in another form, with status 200/, GOOD, { status: 200, json: {} }],
    [
      'that clients try again',
      'warning',
      /x-should-retry: false is missing/,
      { ...GOOD, headers: { 'retry-after': '3600' } },
    ],
    [
      'with a date to wait for',
      'failed',
      /retry-after is not a number: clients read whole seconds/,
      { ...GOOD, headers: { 'x-should-retry': 'false', 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' } },
    ],
    [
      'that is an answer of the same model',
      'failed',
      /the limit is not exhausted, or not enforced/,
      { status: 200, json: { type: 'message', model: 'coder-1', content: [] } },
    ],
    [
      'that is an answer of another model',
      'failed',
      /answered by cheap-1 instead of coder-1/,
      { status: 200, json: { type: 'message', model: 'cheap-1', content: [] } },
    ],
    ['of another protocol', 'failed', /"type" is not "error"/, { ...GOOD, json: { error: GOOD_ERROR } }],
    [
      'because the token is not known',
      'warning',
      /limits not checked: the token was rejected/,
      { status: 401, json: { type: 'error', error: { type: 'authentication_error', message: 'unknown token' } } },
    ],
    [
      'that is a web page',
      'failed',
      /the web page "Forbidden"/,
      { status: 403, headers: { 'content-type': 'text/html' }, text: '<html><title>Forbidden</title></html>' },
    ],
  ];
  for (const [is, verdict, found, ...refusals] of CASES) {
    test(`reports one that is ${is}`, async () => {
      const result = await check(...refusals);
      assert.equal(result.verdict, verdict, JSON.stringify(result, null, 2));
      assert.match(result.found, found);
    });
  }
});
