/** The list of models, tokens, errors, whole responses and streams, in all three protocols. */
import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import type { CheckResult } from '../../engine/base/contract/checks.ts';
import type { Subject } from '../../engine/edge/selfcheck/check.ts';
import { CHECKS } from '../../engine/edge/selfcheck/checks.ts';
import { openEcho } from '../../engine/edge/selfcheck/echo.ts';
import { use } from '../support/use.ts';
import { forwardTo, type Habits, listen, makeCheck, subjectAt, TOKEN } from './support.ts';

/** A gateway's response: status, headers and body, or JSON with status 200. */
interface Said {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
  readonly text?: string;
}

interface Reply {
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly json: Readonly<Record<string, unknown>>;
}

function error(status: number, type: string, message: string): Said {
  return { status, json: { type: 'error', error: { type, message } } };
}

function say(res: ServerResponse, { status = 200, headers = {}, json, text = JSON.stringify(json) }: Said): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers }).end(text);
}

function fieldsIn(body: Buffer): Readonly<Record<string, unknown>> {
  return body.length === 0 ? {} : JSON.parse(body.toString());
}

async function checkAt(
  id: string,
  response: (asked: Reply) => Said,
  more: Partial<Subject> = {},
): Promise<CheckResult> {
  await using gateway = await listen(({ req, body, res }) =>
    say(res, response({ path: req.url!, headers: req.headers, json: fieldsIn(body) })),
  );
  return await makeCheck(CHECKS, id, subjectAt(gateway.url, more));
}

async function checkForwarding(id: string, habits: Habits): Promise<CheckResult> {
  await using gateway = await forwardTo(echo.url, habits);
  return await makeCheck(CHECKS, id, subjectAt(gateway.url));
}

/** It rejects unknown tokens and models itself. */
const CORRECT: Habits = {
  instead({ req, res, body }) {
    const { model = 'coder-1' } = fieldsIn(body);
    const is_known = req.headers.authorization === `Bearer ${TOKEN}`;
    if (is_known && model === 'coder-1') return false;
    say(res, is_known ? error(404, 'not_found_error', `There is no model ${model}.`) : UNKNOWN_TOKEN);
    return true;
  },
};

const echo = use(openEcho);

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

function assertFound(result: CheckResult, verdict: string | undefined, found: RegExp): void {
  const report = JSON.stringify(result, null, 1);
  assert.equal(result.verdict, verdict, report);
  assert.match(result.found, found, report);
  if (verdict === 'failed' || verdict === 'warning') assert.notEqual(result.remedy ?? '', '', report);
  assert.ok(!report.includes(TOKEN));
}

const PLAIN = CHECKS.filter(({ id }) => !/^(?:forwarding|limits|clients)\.|stream_arrival$/.test(id));

describe('at a gateway that does it right', () => {
  for (const { id } of PLAIN)
    test(`${id} is ok`, async () => assertFound(await checkForwarding(id, CORRECT), 'ok', /./));

  test('skips model requests where no model is known', async () => {
    const results = await Promise.all(PLAIN.map(({ id }) => checkAt(id, () => UNKNOWN_TOKEN, { model: undefined })));
    const made = results.filter(({ verdict }) => verdict !== 'skipped').map(({ id }) => id);
    assert.deepEqual(made, ['models.list', 'models.no_token', 'models.wrong_token']);
  });
});

const long = (count: (length: number) => unknown) => (asked: Reply) => ({
  json: { input_tokens: count(JSON.stringify(asked.json).length) },
});

const ANSWERS: readonly [outcome: string, said: Said | ((asked: Reply) => Said), RegExp][] = [
  ['models.list ok', LIST, /^1 model after \d+ ms$/],
  ['models.list warning', { json: { data: [] } }, /empty/],
  ['models.list failed', { json: { data: [{ id: 'a' }, { name: 'b' }] } }, /a model has no id/],
  ['models.list failed', { json: { status: 'ok' } }, /expected a list "data", got JSON with status/],
  ['models.list failed', PAGE, /the web page "Console" \(status 200\)/],
  ['models.list failed', SENT_AWAY, /a redirect \(status 302\) to https:\/\/sso\.example\.com\/login$/],
  ['models.list failed', UNKNOWN_TOKEN, /status 401: authentication_error: This token is not known/],
  ['models.list warning', error(403, 'permission_error', 'no'), /status 403/],
  ['models.no_token warning', LIST, /not rejected/],
  ['models.no_token ok', UNKNOWN_TOKEN, /status 401/],
  ['models.no_token warning', { status: 401, json: {} }, /the error does not explain the problem of the token/],
  ['models.wrong_token failed', error(500, 'api_error', 'oops'), /status 500 instead of 401 or 403/],
  ['messages.wrong_token failed', { json: MESSAGE }, /a model responded: the gateway does not check the token/],
  ['messages.error failed', { json: MESSAGE }, /the status is 200/],
  ['messages.error failed', error(500, 'api_error', 'oops'), /the status is 500/],
  ['messages.error failed', { status: 400, json: { error: { message: 'no' } } }, /"type" is not "error"; error\.type/],
  ['messages.error skipped', UNKNOWN_TOKEN, /inconclusive/],
  ['chat.error failed', { status: 422, json: { detail: [{ msg: 'wrong' }] } }, /error\.message is missing/],
  ['messages.count_tokens ok', long((length) => Math.ceil(length / 4)), /\d+ for 400 words/],
  ['messages.count_tokens failed', long(() => 1000), /1000 tokens for a sentence and 1000 for 400 words: the count/],
  ['messages.count_tokens failed', long(() => 0), /made up/],
  ['messages.count_tokens ok', error(404, 'not_found_error', 'Not found'), /not supported, .* status 404/],
  ['messages.count_tokens failed', error(500, 'api_error', 'oops'), /status 500/],
  [
    'messages.count_tokens warning',
    { status: 404, headers: { 'content-type': 'text/plain' }, text: 'nothing' },
    /nothing/,
  ],
  ['messages.count_tokens skipped', UNKNOWN_TOKEN, /inconclusive/],
  ['messages.json ok', { json: MESSAGE }, /9 tokens in and 3 out/],
  ['messages.json failed', PAGE, /expected JSON, got the web page "Console"/],
  ['messages.json failed', { json: { choices: [] } }, /"type" is not "message"/],
  ['messages.json failed', { json: { ...MESSAGE, usage: undefined } }, /no count in usage\.input_tokens/],
  ['messages.json failed', { json: { ...MESSAGE, content: 'pong' } }, /"content" is not a list/],
  ['messages.json failed', { json: { ...MESSAGE, stop_reason: null } }, /stop_reason is missing/],
  ['messages.json failed', error(529, 'overloaded_error', 'Overloaded'), /status 529: overloaded_error/],
  ['messages.stream failed', { json: MESSAGE }, /expected a stream/],
  [
    'chat.json skipped',
    { status: 404, json: { error: { message: 'Not Found' } } },
    /^chat completions not served.*the build CLI/,
  ],
  [
    'chat.json skipped',
    { status: 404, json: { error: { message: 'no such model', code: 'model_not_found' } } },
    /this model/,
  ],
  ['chat.stream skipped', { status: 404, headers: { 'content-type': 'text/plain' }, text: 'nothing' }, /status 404/],
  ['chat.json failed', { json: MESSAGE }, /no choice has a message with content.*usage\.prompt_tokens/],
  ['responses.json skipped', { status: 404, json: { detail: 'Not Found' } }, /^Responses not served.*the coding CLI/],
  ['responses.json skipped', { status: 400, json: { error: { message: 'Stream must be true' } } }, /^streams only/],
  ['responses.json failed', { json: { status: 'failed', error: {} } }, /neither "completed" nor "incomplete"/],
  ['responses.stream failed', error(502, 'server_error', 'no upstream'), /status 502: server_error: no upstream/],
];
describe('names each response correctly', () => {
  for (const [outcome, said, found] of ANSWERS) {
    const [id, verdict] = outcome.split(' ');
    test(`${outcome}: ${found.source}`, async () =>
      assertFound(await checkAt(id!, typeof said === 'function' ? said : () => said), verdict, found));
  }

  test('with another name of the model, which is fine and reported', async () => {
    const result = await checkAt('messages.json', () => ({ json: { ...MESSAGE, model: 'coder-1-20260101' } }));
    assert.match(result.details!.join(), /coder-1-20260101 responded/);
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

const STREAMS: readonly (readonly [outcome: string, Habits, RegExp])[] = [
  [
    'messages ok',
    replacing('event: content_block_stop\n', `${PING}event: new\ndata: {"type":"new"}\n\nevent: content_block_stop\n`),
    /11 tokens in and 5 out/,
  ],
  ['messages ok', replacing('\n', '\r\n'), /./],
  ...['message_start', 'content_block_start', 'content_block_stop', 'message_delta', 'message_stop'].map(
    (event) => ['messages failed', without(event), /missing or out of order|no message_/] as const,
  ),
  ['messages failed', replacing(/(event: content_block_stop\n.*\n\n)/, '$1$1'), /out of order/],
  ['messages failed', replacing(/event: .*\n/, ''), /data lines without event lines/],
  ['messages failed', replacing('event: message_stop', 'event: stop'), /an event stop with data of message_stop/],
  ['messages failed', replacing('data: {"type":"content_block_start"', 'data: oh'), /not a JSON object/],
  ['messages failed', replacing('"usage"', '"used"'), /no count in usage\.input_tokens/],
  ['messages failed', replacing('"end_turn"', 'null'), /no message_delta with a stop_reason/],
  [
    'messages failed',
    replacing(
      /event: message_stop\n.*\n\n/,
      'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"oops"}}\n\n',
    ),
    /the stream failed: api_error: oops/,
  ],
  ['chat failed', replacing('data: [DONE]\n\n', ''), /no \[DONE\] at the end/],
  ['chat failed', replacing(/data: [^\n]*"usage"[^\n]*\n\n/, ''), /no count in usage\.prompt_tokens/],
  ['chat failed', replacing('"stop"', 'null'), /finish_reason/],
  [
    'chat failed',
    replacing('data: [DONE]', 'data: {"error":{"message":"it broke","type":"server_error"}}'),
    /failed: server_error: it broke/,
  ],
  ['responses ok', replacing('response.completed', 'response.incomplete'), /./],
  ['responses failed', without('response.created'), /first event/],
  ['responses failed', without('response.completed'), /no response\.completed/],
  ['responses failed', without('response.output_item.done'), /no response\.output_item\.done/],
  [
    'responses failed',
    replacing(
      /event: response\.completed\n.*\n/,
      'event: response.failed\ndata: {"type":"response.failed","response":{"error":{"code":"busy","message":"no"}}}\n',
    ),
    /failed: busy: no/,
  ],
];
describe('a stream', () => {
  for (const [outcome, habits, found] of STREAMS) {
    test(`of ${outcome}: ${found.source}`, async () => {
      const [id, verdict] = outcome.split(' ');
      assertFound(await checkForwarding(`${id}.stream`, habits), verdict, found);
    });
  }
});
