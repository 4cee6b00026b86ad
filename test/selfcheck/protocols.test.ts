/** The list of models, tokens, errors, whole responses and streams, in all three protocols. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CheckResult, Verdict } from '../../engine/base/contract/checks.ts';
import { CHECKS } from '../../engine/edge/selfcheck/checks.ts';
import { type Echo, openEcho } from '../../engine/edge/selfcheck/echo/open-echo.ts';
import { checkAt, checkBeside, error, type Reply, type Said } from './messages/gateway.ts';
import { forwardTo, type Habits, makeCheck, subjectAt, TOKEN } from './support.ts';

let echo: Echo;
before(async () => {
  echo = await openEcho();
});
after(() => echo.close());

const HTML = { 'content-type': 'text/html' };
const PAGE: Said = { headers: HTML, text: '<!doctype html><title>Console</title>' };
const SENT_AWAY: Said = { status: 302, headers: { location: 'https://sso.example.com/login?x=secret' }, text: '' };
const LIST: Said = { json: { data: [{ id: 'coder-1', type: 'model' }] } };
const UNKNOWN_TOKEN = error(401, 'authentication_error', 'This token is not known.');
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'coder-1',
  content: [{ type: 'text', text: 'pong' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 9, output_tokens: 3 },
};

function assertFound(result: CheckResult, verdict: Verdict, found: RegExp): void {
  const report = JSON.stringify(result, null, 1);
  assert.equal(result.verdict, verdict, report);
  assert.match(result.found, found, report);
  if (verdict === 'failed' || verdict === 'warning') assert.notEqual(result.remedy ?? '', '', report);
  assert.ok(!report.includes(TOKEN));
}

const PLAIN = CHECKS.filter(({ id }) => !/^(?:forwarding|limits|clients)\.|stream_arrival$/.test(id));

describe('at a gateway that does it right', () => {
  for (const { id } of PLAIN) test(`${id} is ok`, async () => assertFound(await checkBeside(id, echo), 'ok', /./));

  test('skips model requests where no model is known', async () => {
    const results = await Promise.all(PLAIN.map(({ id }) => checkAt(id, () => UNKNOWN_TOKEN, { model: undefined })));
    const made = results.filter(({ verdict }) => verdict !== 'skipped').map(({ id }) => id);
    assert.deepEqual(made, ['models.list', 'models.no_token', 'models.wrong_token']);
  });
});

const long = (count: (length: number) => unknown) => (asked: Reply) => ({
  json: { input_tokens: count(JSON.stringify(asked.json).length) },
});

/** Every request gets this response. */
const ANSWERS: readonly [id: string, said: Said | ((asked: Reply) => Said), Verdict, RegExp][] = [
  ['models.list', LIST, 'ok', /^1 model after \d+ ms$/],
  ['models.list', { json: { data: [] } }, 'warning', /empty/],
  ['models.list', { json: { data: [{ id: 'a' }, { name: 'b' }] } }, 'failed', /a model has no id/],
  ['models.list', { json: { status: 'ok' } }, 'failed', /expected a list "data", got JSON with status/],
  ['models.list', PAGE, 'failed', /the web page "Console" \(status 200\)/],
  ['models.list', SENT_AWAY, 'failed', /a redirect \(status 302\) to https:\/\/sso\.example\.com\/login$/],
  ['models.list', UNKNOWN_TOKEN, 'failed', /status 401: authentication_error: This token is not known/],
  ['models.list', error(403, 'permission_error', 'no'), 'warning', /status 403/],
  ['models.list', { text: '' }, 'failed', /an empty response/],
  ['models.list', { text: '{"data":[{"id":' }, 'failed', /invalid JSON/],
  ['models.no_token', LIST, 'warning', /not rejected/],
  ['models.no_token', UNKNOWN_TOKEN, 'ok', /status 401/],
  ['models.no_token', { status: 401, json: {} }, 'warning', /does not say what is wrong/],
  ['models.no_token', { status: 401, ...PAGE }, 'failed', /the web page "Console"/],
  ['models.wrong_token', error(500, 'api_error', 'oops'), 'failed', /status 500 instead of 401 or 403/],
  ['messages.wrong_token', { json: MESSAGE }, 'failed', /a model answered: the gateway does not check the token/],
  ['messages.wrong_token', SENT_AWAY, 'failed', /redirect/],
  ['messages.error', { json: MESSAGE }, 'failed', /the status is 200/],
  ['messages.error', error(500, 'api_error', 'oops'), 'failed', /the status is 500/],
  [
    'messages.error',
    { status: 400, json: { error: { message: 'no' } } },
    'failed',
    /"type" is not "error"; error\.type/,
  ],
  ['messages.error', UNKNOWN_TOKEN, 'skipped', /inconclusive/],
  ['messages.error', { ...PAGE, status: 400 }, 'failed', /the web page "Console"/],
  ['chat.error', { status: 422, json: { detail: [{ msg: 'wrong' }] } }, 'failed', /error\.message is missing/],
  ['responses.error', { ...PAGE, status: 400 }, 'failed', /the web page "Console"/],
  ['messages.count_tokens', long((length) => Math.ceil(length / 4)), 'ok', /\d+ for 400 words/],
  ['messages.count_tokens', long(() => 1000), 'failed', /1000 tokens for a sentence and 1000 for 400 words: the count/],
  ['messages.count_tokens', long(() => 0), 'failed', /made up/],
  ['messages.count_tokens', { json: {} }, 'failed', /made up/],
  ['messages.count_tokens', PAGE, 'failed', /Console/],
  ['messages.count_tokens', error(404, 'not_found_error', 'Not found'), 'ok', /not supported, .* status 404/],
  ['messages.count_tokens', error(501, 'api_error', 'not supported'), 'ok', /status 501/],
  ['messages.count_tokens', error(500, 'api_error', 'oops'), 'failed', /status 500/],
  [
    'messages.count_tokens',
    { status: 404, headers: { 'content-type': 'text/plain' }, text: 'nothing' },
    'warning',
    /nothing/,
  ],
  ['messages.count_tokens', UNKNOWN_TOKEN, 'skipped', /inconclusive/],
  ['messages.json', { json: MESSAGE }, 'ok', /9 tokens in and 3 out/],
  ['messages.json', PAGE, 'failed', /expected JSON, got the web page "Console"/],
  ['messages.json', { json: { choices: [] } }, 'failed', /"type" is not "message"/],
  ['messages.json', { json: { ...MESSAGE, usage: undefined } }, 'failed', /no count in usage\.input_tokens/],
  ['messages.json', { json: { ...MESSAGE, content: 'pong' } }, 'failed', /"content" is not a list/],
  ['messages.json', { json: { ...MESSAGE, stop_reason: null } }, 'failed', /stop_reason is missing/],
  ['messages.json', error(529, 'overloaded_error', 'Overloaded'), 'failed', /status 529: overloaded_error/],
  ['messages.stream', { json: MESSAGE }, 'failed', /expected a stream/],
  ['messages.stream', PAGE, 'failed', /Console/],
  [
    'chat.json',
    { status: 404, json: { error: { message: 'Not Found' } } },
    'skipped',
    /^chat completions not served.*the build CLI/,
  ],
  [
    'chat.json',
    { status: 404, json: { error: { message: 'no such model', code: 'model_not_found' } } },
    'skipped',
    /this model/,
  ],
  ['chat.stream', { status: 404, headers: { 'content-type': 'text/plain' }, text: 'nothing' }, 'skipped', /status 404/],
  ['chat.json', { ...PAGE, status: 404 }, 'failed', /Console/],
  ['chat.json', { json: MESSAGE }, 'failed', /no choice has a message with content.*usage\.prompt_tokens/],
  [
    'responses.json',
    { status: 404, json: { detail: 'Not Found' } },
    'skipped',
    /^Responses not served.*the coding CLI/,
  ],
  ['responses.json', { status: 400, json: { error: { message: 'Stream must be true' } } }, 'skipped', /^streams only/],
  ['responses.json', { json: { status: 'failed', error: {} } }, 'failed', /neither "completed" nor "incomplete"/],
  ['responses.stream', error(502, 'server_error', 'no upstream'), 'failed', /status 502: server_error: no upstream/],
];
describe('names each response correctly', () => {
  for (const [id, said, verdict, found] of ANSWERS) {
    test(`${id} is ${verdict}: ${found.source}`, async () =>
      assertFound(await checkAt(id, typeof said === 'function' ? said : () => said), verdict, found));
  }

  test('with another name of the model, which is fine and reported', async () => {
    const result = await checkAt('messages.json', () => ({ json: { ...MESSAGE, model: 'coder-1-20260101' } }));
    assert.match(result.details!.join(), /coder-1-20260101 answered/);
  });

  test("as late, where the list exceeds clients' timeouts", async () => {
    const body = Buffer.from('{"data":[{"id":"coder-1"}]}');
    const arrivals = [{ at_ms: 3100, bytes: body.length }];
    const headers = { 'content-type': 'application/json' };
    const response = { status: 200, headers, body, arrivals, head_ms: 20, total_ms: 3100, ending: 'whole' as const };
    const subject = subjectAt('http://127.0.0.1:1', { ask: async () => response });
    for (const id of ['models.list', 'models.no_token'])
      assertFound(await makeCheck(CHECKS, id, subject), 'failed', /took 3\.1 seconds/);
  });

  test("sends clients' requests, with a wrong token in place of the real one and never beside it", async () => {
    const seen: Reply[] = [];
    for (const id of ['models.list', 'models.no_token', 'models.wrong_token', 'messages.wrong_token'])
      await checkAt(id, (asked) => {
        seen.push(asked);
        return UNKNOWN_TOKEN;
      });
    const [list, none, ...wrong] = seen.map(({ headers }) => headers.authorization);
    assert.deepEqual([list, none, seen[0]?.path], [`Bearer ${TOKEN}`, undefined, '/v1/models?limit=1000']);
    for (const each of wrong) assert.match(String(each), /^Bearer selfcheck-[0-9a-f-]{36}$/);
    assert.equal(seen[0]?.headers['accept-encoding'], 'gzip, deflate, br, zstd');
  });
});

const without = (event: string) => replacing(new RegExp(`event: ${event}\n.*\n\n`), '');
const replacing = (pattern: string | RegExp, text: string): Habits => ({
  answer: (response) => {
    response.body = response.body.replaceAll(typeof pattern === 'string' ? pattern : new RegExp(pattern, 'g'), text);
  },
});
const PING = 'event: ping\ndata: {"type":"ping"}\n\n';

/** A gateway's version of a correct stream. */
const STREAMS: readonly (readonly [id: string, where: string, Habits, Verdict, RegExp])[] = [
  [
    'messages',
    'pings and unknown events are put in',
    replacing('event: content_block_stop\n', `${PING}event: new\ndata: {"type":"new"}\n\nevent: content_block_stop\n`),
    'ok',
    /11 tokens in and 5 out/,
  ],
  ['messages', 'line ends are others', replacing('\n', '\r\n'), 'ok', /./],
  ...['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop'].map(
    (event) =>
      ['messages', `${event} is left out`, without(event), 'failed', /missing or out of order|no message_/] as const,
  ),
  [
    'messages',
    'a block stops twice',
    replacing(/(event: content_block_stop\n.*\n\n)/, '$1$1'),
    'failed',
    /out of order/,
  ],
  ['messages', 'event lines are left out', replacing(/event: .*\n/, ''), 'failed', /data lines without event lines/],
  [
    'messages',
    'an event line is another',
    replacing('event: message_stop', 'event: stop'),
    'failed',
    /an event stop with data of message_stop/,
  ],
  [
    'messages',
    'data is not a JSON',
    replacing('data: {"type":"content_block_start"', 'data: oh'),
    'failed',
    /not a JSON object/,
  ],
  ['messages', 'there is no usage', replacing('"usage"', '"used"'), 'failed', /no count in usage\.input_tokens/],
  [
    'messages',
    'there is no stop_reason',
    replacing('"end_turn"', 'null'),
    'failed',
    /no message_delta with a stop_reason/,
  ],
  [
    'messages',
    'an error comes',
    replacing(
      /event: message_stop\n.*\n\n/,
      'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"oops"}}\n\n',
    ),
    'failed',
    /the stream failed: api_error: oops/,
  ],
  ['chat', 'the end is left out', replacing('data: [DONE]\n\n', ''), 'failed', /no \[DONE\] at the end/],
  [
    'chat',
    'usage is left out',
    replacing(/data: [^\n]*"usage"[^\n]*\n\n/, ''),
    'failed',
    /no count in usage\.prompt_tokens/,
  ],
  ['chat', 'it never says why it ended', replacing('"stop"', 'null'), 'failed', /finish_reason/],
  [
    'chat',
    'an error comes',
    replacing('data: [DONE]', 'data: {"error":{"message":"it broke","type":"server_error"}}'),
    'failed',
    /failed: server_error: it broke/,
  ],
  [
    'responses',
    'it ends incomplete, because a short bound was asked for',
    replacing('response.completed', 'response.incomplete'),
    'ok',
    /./,
  ],
  ['responses', 'the beginning is left out', without('response.created'), 'failed', /first event/],
  ['responses', 'the end is left out', without('response.completed'), 'failed', /no response\.completed/],
  [
    'responses',
    'the item is left out',
    without('response.output_item.done'),
    'failed',
    /no response\.output_item\.done/,
  ],
  [
    'responses',
    'it failed',
    replacing(
      /event: response\.completed\n.*\n/,
      'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"code":"busy","message":"no"}}}\n',
    ),
    'failed',
    /failed: busy: no/,
  ],
];
describe('a stream', () => {
  for (const [id, where, habits, verdict, found] of STREAMS) {
    test(`of ${id} is ${verdict} where ${where}`, async () => {
      const gateway = await forwardTo(echo.url, habits);
      try {
        assertFound(await makeCheck(CHECKS, `${id}.stream`, subjectAt(gateway.url)), verdict, found);
      } finally {
        await gateway.close();
      }
    });
  }
});
