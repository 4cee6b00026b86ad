import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CheckResult } from '../../engine/contract/checks.ts';
import { RESPONSES_CHECKS } from '../../engine/selfcheck/checks/responses.ts';
import type { Echo } from '../../engine/selfcheck/echo/echo.ts';
import { openEcho } from '../../engine/selfcheck/echo/open-echo.ts';
import { forwardTo, type Habits, makeCheck, subjectAt } from './support.ts';

let echo: Echo;
before(async () => {
  echo = await openEcho();
});
after(() => echo.close());

async function check(id: string, habits: Habits = {}): Promise<CheckResult> {
  const gateway = await forwardTo(echo.url, habits);
  try {
    return await makeCheck(RESPONSES_CHECKS, `responses.${id}`, subjectAt(gateway.url));
  } finally {
    await gateway.close();
  }
}

const always = (status: number, type: string, body: string): Habits => ({
  instead({ res }) {
    res.writeHead(status, { 'content-type': type }).end(body);
    return true;
  },
});
const replacing = (pattern: string | RegExp, text: string): Habits => ({
  answer: (answer) => {
    answer.body = answer.body.replace(pattern, text);
  },
});
const withoutEvent = (name: string) => replacing(new RegExp(`event: ${name}\n.*\n\n`), '');

describe('Responses', () => {
  for (const { id } of RESPONSES_CHECKS) {
    test(`of a good gateway pass ${id}`, async () => {
      const result = await check(id.slice('responses.'.length));
      assert.equal(result.verdict, 'ok', JSON.stringify(result, null, 2));
    });
  }

  test('may end incomplete, because a short bound was asked for', async () => {
    const incomplete = {
      answer: (answer: { body: string }) => {
        answer.body = answer.body
          .replaceAll('response.completed', 'response.incomplete')
          .replace(/"status":"completed","error"/g, '"status":"incomplete","error"');
      },
    };
    assert.equal((await check('stream', incomplete)).verdict, 'ok');
    assert.equal((await check('json', incomplete)).verdict, 'ok');
  });

  const cases: readonly {
    id: string;
    where: string;
    habits: Habits;
    verdict: CheckResult['verdict'];
    found: RegExp;
  }[] = [
    {
      id: 'stream',
      where: 'they are not served',
      habits: always(404, 'application/json', '{"detail":"Not Found"}'),
      verdict: 'skipped',
      found: /^Responses are not served for this: status 404: Not Found; the coding CLI/,
    },
    {
      id: 'json',
      where: 'the gateway streams only',
      habits: always(400, 'application/json', '{"error":{"message":"Stream must be set to true","type":"x"}}'),
      verdict: 'skipped',
      found: /^streams only/,
    },
    {
      id: 'json',
      where: 'the upstream fails',
      habits: always(502, 'application/json', '{"error":{"message":"no upstream","type":"server_error"}}'),
      verdict: 'failed',
      found: /refused with status 502: server_error: no upstream/,
    },
    {
      id: 'json',
      where: 'an answer of chat completions comes',
      habits: always(200, 'application/json', '{"object":"chat.completion","choices":[]}'),
      verdict: 'failed',
      found: /there is no list "output"; no number in usage/,
    },
    {
      id: 'json',
      where: 'the answer failed',
      habits: always(
        200,
        'application/json',
        '{"object":"response","status":"failed","error":{"code":"server_error","message":"no"}}',
      ),
      verdict: 'failed',
      found: /the answer says that it failed: server_error: no/,
    },
    {
      id: 'stream',
      where: 'the beginning is left out',
      habits: withoutEvent('response.created'),
      verdict: 'failed',
      found: /^the first event is not response\.created$/,
    },
    {
      id: 'stream',
      where: 'the end is left out',
      habits: withoutEvent('response.completed'),
      verdict: 'failed',
      found: /response\.completed is missing/,
    },
    {
      id: 'stream',
      where: 'the item is left out from which clients take the text',
      habits: withoutEvent('response.output_item.done'),
      verdict: 'failed',
      found: /response\.output_item\.done is missing/,
    },
    {
      id: 'stream',
      where: 'usage is left out',
      habits: replacing(/"usage":\{"input_tokens.*\}\}(?=,"sequence)/, '"usage":null}'),
      verdict: 'failed',
      found: /no number in usage\.input_tokens and usage\.output_tokens/,
    },
    {
      id: 'stream',
      where: 'events are not numbered',
      habits: {
        answer: (answer) => {
          answer.body = answer.body.replace(/,"sequence_number":\d+/g, '');
        },
      },
      verdict: 'warning',
      found: /^sequence_number is missing or does not rise$/,
    },
    {
      id: 'stream',
      where: 'the stream failed',
      habits: replacing(
        /event: response\.completed\n.*\n/,
        'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"code":"server_is_overloaded","message":"busy"}}}\n',
      ),
      verdict: 'failed',
      found: /the stream says that it failed: server_is_overloaded: busy/,
    },
    {
      id: 'stream',
      where: 'a whole answer comes for a stream',
      habits: always(200, 'application/json', '{"object":"response"}'),
      verdict: 'failed',
      found: /a whole answer came although a stream was asked for/,
    },
    {
      id: 'error',
      where: 'errors are a web page',
      habits: always(400, 'text/html', '<html><title>Bad Request</title></html>'),
      verdict: 'failed',
      found: /the web page "Bad Request"/,
    },
  ];
  for (const { id, where, habits, verdict, found } of cases) {
    test(`are found to be wrong, or not there, where ${where}`, async () => {
      const result = await check(id, habits);
      assert.equal(result.verdict, verdict, JSON.stringify(result, null, 2));
      assert.match(result.found, found);
    });
  }
});
