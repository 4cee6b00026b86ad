import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { CheckResult } from '../../engine/base/contract/checks.ts';
import type { Subject } from '../../engine/edge/selfcheck/check.ts';
import { FORWARDING_CHECKS, reachesEcho } from '../../engine/edge/selfcheck/checks.ts';
import { type Echo, openEcho } from '../../engine/edge/selfcheck/echo.ts';
import { use } from '../support/use.ts';
import { forwardTo, type Habits, makeCheck, subjectAt, TOKEN } from './support.ts';

const echo = use(openEcho);

/** Without pauses between events: timing has a test of its own. */
const hasty = (): Echo => ({ ...echo, expect: (response) => echo.expect({ ...response, pause_ms: 0 }) });

async function check(id: string, habits: Habits = {}, prefixes: readonly string[] = ['vendor']): Promise<CheckResult> {
  await using gateway = await forwardTo(echo.url, habits);
  return await makeCheck(
    FORWARDING_CHECKS,
    `forwarding.${id}`,
    subjectAt(gateway.url, { echo: hasty(), header_prefixes: prefixes }),
  );
}

type Block = Record<string, unknown>;
interface Fields extends Record<string, unknown> {
  system: Block[];
  tools: Block[];
  messages: { content: Block[] }[];
}

/** A body that was read, changed and rewritten; a short one without `system` stays unchanged. */
const jsonBody = (change: (fields: Fields) => unknown) => (body: Buffer) => {
  const fields = JSON.parse(body.toString());
  if (fields.system !== undefined) change(fields);
  return JSON.stringify(fields).replaceAll('12345678901234567000', '12345678901234567890');
};

describe('the output of a correct gateway', () => {
  for (const { id } of FORWARDING_CHECKS.filter((each) => each.id !== 'forwarding.stream')) {
    test(`passes ${id}`, async () => {
      const result = await check(id.slice('forwarding.'.length));
      assert.equal(result.verdict, 'ok', JSON.stringify(result, null, 2));
    });
  }

  test('may rename a model at the upstream, and change nothing else', async () => {
    const mapped: Habits = { body: (body) => body.toString().replace('"coder-1"', '"upstream-name@2026"') };
    assert.match((await check('messages_body', mapped)).found, /except for the model name$/);
  });
});

describe('without an upstream to look at', () => {
  test('every check explains how to configure one', async () => {
    const results = await Promise.all(
      FORWARDING_CHECKS.map(({ id }) => makeCheck(FORWARDING_CHECKS, id, subjectAt('http://127.0.0.1:9'))),
    );
    for (const { verdict, found } of results) {
      assert.equal(verdict, 'skipped');
      assert.match(found, /--echo .* --model/);
    }
  });

  test('a gateway that forwards to another one is reported once, and gets no more requests', async () => {
    let asked = 0;
    const other: Habits = {
      instead({ res }) {
        asked++;
        res.writeHead(200, { 'content-type': 'application/json' }).end('{"type":"message","content":[]}');
        return true;
      },
    };
    await using gateway = await forwardTo(echo.url, other);
    const subject = subjectAt(gateway.url, { echo });
    const results = [];
    for (const { id } of FORWARDING_CHECKS) results.push(await makeCheck(FORWARDING_CHECKS, id, subject));
    assert.deepEqual([results[0]?.verdict, results[0]?.found], ['failed', 'another upstream responded for coder-1']);
    assert.match(results[0]?.remedy ?? '', new RegExp(`configure a gateway upstream with ${echo.url}`));
    assert.deepEqual([...new Set(results.slice(1).map(({ verdict }) => verdict))], ['skipped']);
    assert.equal(asked, 1);
  });

  test('a gateway with one API gets requests of that API', async () => {
    const only = (path: string): Habits => ({
      instead({ req, res }) {
        if (req.url === path) return false;
        res.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
        return true;
      },
    });
    const responses_only = only('/v1/responses');
    for (const id of ['reached', 'responses_body']) assert.equal((await check(id, responses_only)).verdict, 'ok', id);
    assert.equal((await check('messages_body', responses_only)).verdict, 'skipped');
    const chat_only = { ...only('/v1/chat/completions'), ...set('x-api-key', TOKEN) };
    assert.equal((await check('reached', chat_only)).verdict, 'ok');
    assert.match((await check('chat_body', chat_only)).found, /the caller's token in the header x-api-key/);
    assert.equal((await check('headers', chat_only)).found, 'the gateway does not serve Messages');
    assert.match((await check('responses_body', chat_only)).found, /^Responses not served/);
  });

  test('a gateway without a route to it gets one request for all checks, a silent one gets another', async () => {
    let asked = 0;
    await using gateway = await forwardTo(echo.url, {
      instead({ res }) {
        asked++;
        if (asked === 1) res.destroy();
        return asked === 1;
      },
    });
    const subject = subjectAt(gateway.url, { echo });
    assert.equal(await reachesEcho(subject, echo), false);
    assert.equal(await reachesEcho(subject, echo), true);
    assert.equal((await makeCheck(FORWARDING_CHECKS, 'forwarding.reached', subject)).verdict, 'ok');
    assert.equal(asked, 2);
  });

  test('a gateway that speaks another protocol to it is not compared with what was sent', async () => {
    const translating: Habits = {
      path: () => '/v1/chat/completions',
      answer: (response) => {
        response.body = '{"type":"message","content":[]}';
      },
    };
    const result = await check('messages_body', translating);
    assert.equal(result.verdict, 'skipped');
    assert.match(result.found, /translates to chat completions, so the request cannot be compared/);
  });
});

const set = (name: string, value: string): Habits => ({
  headers: (headers) => void Object.assign(headers, { [name]: value }),
});
const drop = (...names: string[]): Habits => ({
  headers(headers) {
    for (const name of names) delete headers[name];
  },
});
const changed = (change: (fields: Fields) => unknown): Habits => ({ body: jsonBody(change) });
const sent = (from: string, to: string): Habits => ({ body: (body) => body.toString().replaceAll(from, to) });
const came = (from: string | RegExp, to: string): Habits => ({
  answer: (response) => void Object.assign(response, { body: response.body.replaceAll(from, to) }),
});
const failing = (status: number, more: object): Habits => ({
  answer: (response) => void (response.status === status && Object.assign(response, more)),
});
const RULES = { type: 'text', text: 'Rules of a company' };
const errorOf = (type: string, message: string) => JSON.stringify({ type: 'error', error: { type, message } });

/** By a gateway's changes: headers of a request, its body as fields or as text, the body of a response. */
describe('finds changes of a gateway on the way', () => {
  const CASES: readonly [outcome: string, found: RegExp, habits: Habits][] = [
    ['headers failed', /vendor-beta does not arrive/, drop('vendor-beta')],
    ['headers failed', /vendor-beta arrives as selfcheck-two/, set('vendor-beta', 'selfcheck-two-2026-11-02')],
    ['headers warning', /the query does not arrive/, { path: (path) => path.replace(/\?.*/, '') }],
    [
      'headers failed',
      /the upstream gets the caller's token in the header authorization/,
      set('authorization', `Bearer ${TOKEN}`),
    ],
    ['messages_body failed', /selfcheck_unknown is missing/, changed((fields) => delete fields.selfcheck_unknown)],
    [
      'messages_body warning',
      /litter was added/,
      changed((fields) => Object.assign(fields, { litter: 'secret-of-the-gateway' })),
    ],
    [
      'messages_body failed',
      /messages\[0\]\.content\[0\]\.selfcheck_unknown is missing/,
      changed((fields) => delete fields.messages[0]?.content[0]?.selfcheck_unknown),
    ],
    [
      'messages_body failed',
      /tools\[1\]\.cache_control is missing/,
      changed((fields) => delete fields.tools[1]?.cache_control),
    ],
    [
      'messages_body failed',
      /system is a text of \d+ characters instead of a list of 5/,
      changed((fields) => Object.assign(fields, { system: fields.system.map(({ text }) => text).join('\n') })),
    ],
    ['messages_body failed', /system has 6 entries instead of 5/, changed((fields) => fields.system.unshift(RULES))],
    ['messages_body warning', /system has 6 entries instead of 5/, changed((fields) => fields.system.push(RULES))],
    ['messages_body warning', /the content is equal, but serialised again/, changed(() => {})],
    [
      'messages_body warning',
      /is 12345678901234567000 instead of 12345678901234567890/,
      { body: (body) => JSON.stringify(JSON.parse(body.toString())) },
    ],
    ['messages_body warning', /system\[1\]\.cache_control\.ttl is "5m" instead of "1h"/, sent('"1h"', '"5m"')],
    [
      'chat_body failed',
      /messages\[1\]\.content\[0\]\.selfcheck_unknown is missing/,
      sent('"selfcheck_unknown":true', '"a":1'),
    ],
    ['responses_body failed', /^parallel_tool_calls is missing$/, sent('"parallel_tool_calls":false,', '')],
    [
      'usage failed',
      /ephemeral_1h_input_tokens is missing in a complete response.*ephemeral_1h_input_tokens is missing in a stream/,
      came(/"cache_creation":\{[^}]*\},/g, ''),
    ],
    ['stream_end warning', /an unknown event is dropped/, came(/event: selfcheck_unknown\n.*\n\n/g, '')],
    ['stream_end failed', /no message_stop at the end/, came(/event: message_stop\n.*\n\n/g, '')],
    ['stream_end failed', /an error within a stream is dropped/, came(/event: error\n.*\n\n/g, '')],
    [
      'stream_end failed',
      /a stream that broke off at the upstream ends like a complete one/,
      {
        broken: (res) =>
          void res
            .writeHead(200, { 'content-type': 'text/event-stream' })
            .end('event: message_stop\ndata: {"type":"message_stop"}\n\n'),
      },
    ],
    [
      'stream_end failed',
      /expected a stream, got a complete response/,
      failing(200, { headers: { 'content-type': 'application/json' }, body: '{"type":"message"}' }),
    ],
    [
      'errors failed',
      /the message of the upstream was replaced/,
      failing(400, { body: errorOf('invalid_request_error', 'Bad request') }),
    ],
    [
      'errors warning',
      /text was added to the message/,
      came('prompt is too long', 'upstream said: prompt is too long'),
    ],
    [
      'errors failed',
      /status 529 became 500; the type overloaded_error became api_error.*retry-after is missing/,
      failing(529, { status: 500, body: errorOf('api_error', 'no'), headers: { 'content-type': 'application/json' } }),
    ],
    [
      'errors failed',
      /the web page "Oops"/,
      failing(529, { headers: { 'content-type': 'text/html' }, body: '<html><title>Oops</title></html>' }),
    ],
  ];
  for (const [outcome, found, habits] of CASES) {
    test(`${outcome}: ${found.source}`, async () => {
      const [id, verdict] = outcome.split(' ');
      const result = await check(id!, habits);
      assert.equal(result.verdict, verdict, JSON.stringify(result, null, 2));
      assert.match(result.found, found);
      assert.ok(result.remedy);
    });
  }

  test('one that passes the headers of one prefix on is correct, for clients use one', async () => {
    const { verdict, found } = await check('headers', drop('vendor-beta', 'vendor-version'), ['vendor', 'other']);
    assert.equal(verdict, 'ok');
    assert.match(found, /^other-version and other-beta arrive/);
  });

  test('one that rejects unknown fields and betas by name is correct', async () => {
    const strict: Habits = {
      instead({ req, res, body }) {
        const beta = String(req.headers['vendor-beta'] ?? '').includes('selfcheck');
        if (!beta && !body.includes('selfcheck_unknown')) return false;
        const message = beta ? 'unknown beta selfcheck-one' : 'selfcheck_unknown: Extra inputs are not permitted';
        const error = { type: 'error', error: { type: 'invalid_request_error', message } };
        res.writeHead(400, { 'content-type': 'application/json' }).end(JSON.stringify(error));
        return true;
      },
    };
    assert.equal((await check('headers', strict)).verdict, 'ok');
    assert.equal((await check('messages_body', strict)).verdict, 'ok');
  });
});

describe('the pace of a stream from the upstream', () => {
  /** As it would arrive with so many milliseconds between events, or in other pieces. */
  async function paced(arrive: (body: Buffer) => { at_ms: number; bytes: number }[]): Promise<CheckResult> {
    await using gateway = await forwardTo(echo.url);
    const subject = subjectAt(gateway.url, { echo: hasty() });
    const ask: Subject['ask'] = async (asked) => {
      const response = await subject.ask(asked);
      const arrivals = arrive(response.body);
      return { ...response, arrivals, total_ms: arrivals.at(-1)?.at_ms ?? 0 };
    };
    return await makeCheck(FORWARDING_CHECKS, 'forwarding.stream', { ...subject, ask });
  }
  const events = (body: Buffer) =>
    body
      .toString()
      .split(/(?<=\n\n)/)
      .map((text) => Buffer.byteLength(text));

  test('passes where each event arrives when it is made, and is reported where all arrive at the end', async () => {
    const steady = await paced((body) => events(body).map((bytes, index) => ({ at_ms: 5 + index * 25, bytes })));
    assert.equal(steady.verdict, 'ok', JSON.stringify(steady));
    assert.match(steady.details!.join('\n'), /65 events: the first after 5 ms/);
    const held = await paced((body) => [{ at_ms: 1800, bytes: body.length }]);
    assert.deepEqual([held.verdict, held.found], ['failed', 'all events arrive at once, after the last was made']);
    assert.match(held.remedy!, /proxy_buffering off/);
  });
});
