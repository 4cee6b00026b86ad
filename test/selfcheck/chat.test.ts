import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CheckResult } from '../../engine/contract/checks.ts';
import { CHAT_CHECKS } from '../../engine/selfcheck/checks/chat.ts';
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
    return await makeCheck(CHAT_CHECKS, `chat.${id}`, subjectAt(gateway.url));
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

describe('chat completions', () => {
  for (const { id } of CHAT_CHECKS) {
    test(`of a good gateway pass ${id}`, async () => {
      const result = await check(id.slice('chat.'.length));
      assert.equal(result.verdict, 'ok', JSON.stringify(result, null, 2));
    });
  }

  test('are told by what they used', async () => {
    assert.equal((await check('json')).found, 'an answer of coder-1, 11 tokens in and 5 out');
    assert.equal((await check('stream')).found, '8 events, 11 tokens in and 5 out, and an end');
  });

  const unknown_model =
    '{"error":{"message":"The model coder-1 does not exist","type":"invalid_request_error","code":"model_not_found"}}';
  const cases: readonly {
    id: string;
    where: string;
    habits: Habits;
    verdict: CheckResult['verdict'];
    found: RegExp;
  }[] = [
    {
      id: 'json',
      where: 'they are not served',
      habits: always(404, 'application/json', '{"error":{"message":"Not Found","type":"x"}}'),
      verdict: 'skipped',
      found: /^chat completions are not served for this: status 404: x: Not Found; the build CLI/,
    },
    {
      id: 'stream',
      where: 'they are not served, said in plain text',
      habits: always(404, 'text/plain; charset=utf-8', '404 page not found\n'),
      verdict: 'skipped',
      found: /status 404/,
    },
    {
      id: 'json',
      where: 'the model is not served in them',
      habits: always(404, 'application/json', unknown_model),
      verdict: 'skipped',
      found: /^this model is not served in chat completions: status 404: .*The model coder-1 does not exist$/,
    },
    {
      id: 'json',
      where: 'a proxy shows a page for what it does not pass on',
      habits: always(404, 'text/html', '<html><head><title>404 Not Found</title></head></html>'),
      verdict: 'warning',
      found: /can't be told: the web page "404 Not Found"/,
    },
    {
      id: 'json',
      where: 'the token is refused',
      habits: always(401, 'application/json', '{"error":{"message":"bad token","type":"auth"}}'),
      verdict: 'failed',
      found: /^the request was refused with status 401: auth: bad token$/,
    },
    {
      id: 'json',
      where: 'a page comes with status 200',
      habits: always(200, 'text/html', '<html><title>Welcome</title></html>'),
      verdict: 'failed',
      found: /the web page "Welcome"/,
    },
    {
      id: 'json',
      where: 'a message of another API comes',
      habits: always(200, 'application/json', '{"type":"message","content":[],"usage":{"input_tokens":1}}'),
      verdict: 'failed',
      found: /there are no choices; no number in usage\.prompt_tokens and usage\.completion_tokens/,
    },
    {
      id: 'json',
      where: 'usage is left out',
      habits: replacing(/,"usage":\{.*?\}\}/, ''),
      verdict: 'failed',
      found: /^no number in usage/,
    },
    {
      id: 'json',
      where: 'a kind is left out that strict clients look for',
      habits: replacing('"object":"chat.completion",', ''),
      verdict: 'warning',
      found: /^"object" is not "chat\.completion"$/,
    },
    {
      id: 'stream',
      where: 'a whole answer comes for a stream',
      habits: always(200, 'application/json', '{"choices":[]}'),
      verdict: 'failed',
      found: /a whole answer came although a stream was asked for/,
    },
    {
      id: 'stream',
      where: 'the end is left out',
      habits: replacing('data: [DONE]\n\n', ''),
      verdict: 'failed',
      found: /^the last event is not \[DONE\]$/,
    },
    {
      id: 'stream',
      where: 'usage is left out of a stream',
      habits: replacing(/data: [^\n]*"usage"[^\n]*\n\n/, ''),
      verdict: 'failed',
      found: /^no event has usage, although include_usage asked for it$/,
    },
    {
      id: 'stream',
      where: 'an error comes within a stream',
      habits: replacing('data: [DONE]', 'data: {"error":{"message":"it broke","type":"server_error"}}'),
      verdict: 'failed',
      found: /^the stream says that it failed: server_error: it broke$/,
    },
    {
      id: 'stream',
      where: 'events are no JSON',
      habits: replacing('data: {', 'data: {{'),
      verdict: 'failed',
      found: /an event is no JSON/,
    },
    {
      id: 'error',
      where: 'a wrong request is answered',
      habits: always(200, 'application/json', '{"choices":[]}'),
      verdict: 'warning',
      found: /^a request that is wrong was answered with status 200$/,
    },
    {
      id: 'error',
      where: 'errors have the form of another API',
      habits: always(422, 'application/json', '{"detail":[{"msg":"wrong"}]}'),
      verdict: 'failed',
      found: /there is no object "error"/,
    },
    {
      id: 'error',
      where: 'a wrong request makes the gateway fail',
      habits: always(500, 'application/json', '{"error":{"message":"oops","type":"server_error"}}'),
      verdict: 'failed',
      found: /the status is 500/,
    },
    {
      id: 'models',
      where: 'models have no id',
      habits: always(200, 'application/json', '{"object":"list","data":[{"name":"a"}]}'),
      verdict: 'failed',
      found: /an entry of "data" has no id/,
    },
    {
      id: 'models',
      where: 'models have names that a terminal would act upon',
      habits: always(500, 'application/json', '{"error":{"message":"\\u001b[2Jgone","type":"x"}}'),
      verdict: 'failed',
      found: /^the request was refused with status 500: x: \uFFFD\[2Jgone$/,
    },
  ];
  for (const { id, where, habits, verdict, found } of cases) {
    test(`are found to be wrong, or not there, where ${where}`, async () => {
      const result = await check(id, habits);
      assert.equal(result.verdict, verdict, JSON.stringify(result, null, 2));
      assert.match(result.found, found);
    });
  }

  test('are asked for by the newer name of the bound where a model takes no other, which is a warning', async () => {
    const reasoning: Habits = {
      instead({ res, body }) {
        if (!body.includes('"max_tokens"')) return false;
        const message =
          "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        res.writeHead(400, { 'content-type': 'application/json' });
        res.end(JSON.stringify({ error: { message, type: 'invalid_request_error', param: 'max_tokens' } }));
        return true;
      },
    };
    const result = await check('json', reasoning);
    assert.equal(result.verdict, 'warning');
    assert.match(result.found, /takes max_completion_tokens only/);
  });
});
