import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CheckResult } from '../../engine/contract/checks.ts';
import type { Subject } from '../../engine/selfcheck/check.ts';
import type { Echo } from '../../engine/selfcheck/echo/echo.ts';
import { openEcho } from '../../engine/selfcheck/echo/open-echo.ts';
import { FORWARDING_CHECKS, reachesEcho } from '../../engine/selfcheck/forwarding.ts';
import { forwardTo, type Habits, makeCheck, subjectAt, TOKEN } from './support.ts';

let echo: Echo;
before(async () => {
  echo = await openEcho();
});
after(() => echo.close());

/** Without pauses between events: what is told by times has a test of its own. */
const hasty = (): Echo => ({ ...echo, expect: (answer) => echo.expect({ ...answer, pause_ms: 0 }) });

async function check(id: string, habits: Habits = {}, prefixes: readonly string[] = ['vendor']): Promise<CheckResult> {
  const gateway = await forwardTo(echo.url, habits);
  try {
    return await makeCheck(
      FORWARDING_CHECKS,
      `forwarding.${id}`,
      subjectAt(gateway.url, { echo: hasty(), header_prefixes: prefixes }),
    );
  } finally {
    await gateway.close();
  }
}

type Block = Record<string, unknown>;
interface Fields extends Record<string, unknown> {
  system: Block[];
  tools: Block[];
  messages: { content: Block[] }[];
}

/** A body that was read, changed and written anew; a short one without `system` stays as it is. */
const jsonBody = (change: (fields: Fields) => void) => (body: Buffer) => {
  const fields = JSON.parse(body.toString());
  if (fields.system !== undefined) change(fields);
  return JSON.stringify(fields).replaceAll('12345678901234567000', '12345678901234567890');
};

describe('what a good gateway forwards', () => {
  for (const { id } of FORWARDING_CHECKS.filter((each) => each.id !== 'forwarding.stream')) {
    test(`passes ${id}`, async () => {
      const result = await check(id.slice('forwarding.'.length));
      assert.equal(result.verdict, 'ok', JSON.stringify(result, null, 2));
    });
  }

  test('may call a model otherwise at the upstream, and change nothing else', async () => {
    const mapped: Habits = { body: (body) => body.toString().replace('"coder-1"', '"upstream-name@2026"') };
    assert.match((await check('messages_body', mapped)).found, /but for the name of the model$/);
  });
});

describe('without an upstream to look at', () => {
  test('every check says how to give it one', async () => {
    const results = await Promise.all(
      FORWARDING_CHECKS.map(({ id }) => makeCheck(FORWARDING_CHECKS, id, subjectAt('http://127.0.0.1:9'))),
    );
    for (const { verdict, found } of results) {
      assert.equal(verdict, 'skipped');
      assert.match(found, /--echo .* --model/);
    }
  });

  test('a gateway that asks another one is told of once, and is asked no more', async () => {
    let asked = 0;
    const other: Habits = {
      instead({ res }) {
        asked++;
        res.writeHead(200, { 'content-type': 'application/json' }).end('{"type":"message","content":[]}');
        return true;
      },
    };
    const gateway = await forwardTo(echo.url, other);
    const subject = subjectAt(gateway.url, { echo });
    const results = [];
    for (const { id } of FORWARDING_CHECKS) results.push(await makeCheck(FORWARDING_CHECKS, id, subject));
    await gateway.close();
    assert.equal(results[0]?.verdict, 'failed');
    assert.equal(results[0]?.found, 'another upstream answered for coder-1');
    assert.match(results[0]?.remedy ?? '', new RegExp(`point an upstream of the gateway at ${echo.url}`));
    assert.deepEqual([...new Set(results.slice(1).map(({ verdict }) => verdict))], ['skipped']);
    assert.equal(asked, 1);
  });

  test('a gateway of Responses alone is asked in them', async () => {
    const responses_only: Habits = {
      instead({ req, res }) {
        if (req.url === '/v1/responses') return false;
        res.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
        return true;
      },
    };
    for (const id of ['reached', 'responses_body']) assert.equal((await check(id, responses_only)).verdict, 'ok', id);
    assert.equal((await check('messages_body', responses_only)).verdict, 'skipped');
  });

  test('a gateway that is known not to reach it is asked once for all checks, and one that gave no answer again', async () => {
    let asked = 0;
    const gateway = await forwardTo(echo.url, {
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
    await gateway.close();
  });

  test('a gateway of chat completions is asked in them', async () => {
    const chat_only: Habits = {
      instead({ req, res }) {
        if (req.url?.startsWith('/v1/chat/')) return false;
        res.writeHead(404, { 'content-type': 'application/json' }).end('{"detail":"Not Found"}');
        return true;
      },
      headers: (headers) => {
        headers['x-api-key'] = TOKEN;
      },
    };
    assert.equal((await check('reached', chat_only)).verdict, 'ok');
    assert.match((await check('chat_body', chat_only)).found, /the caller's token in the header x-api-key/);
    assert.equal((await check('headers', chat_only)).found, 'the gateway does not serve Messages');
    assert.match((await check('responses_body', chat_only)).found, /^Responses are not served for this/);
  });

  test('a gateway that speaks another protocol to it is not compared with what was sent', async () => {
    const translating: Habits = {
      path: () => '/v1/chat/completions',
      answer: (answer) => {
        answer.body = '{"type":"message","content":[]}';
      },
    };
    const result = await check('messages_body', translating);
    assert.equal(result.verdict, 'skipped');
    assert.match(result.found, /in chat completions: what arrives can't be compared/);
  });
});

describe('what a gateway changes on the way is found', () => {
  const cases: readonly {
    does: string;
    habits: Habits;
    id: string;
    verdict: CheckResult['verdict'];
    found: RegExp;
    prefixes?: readonly string[];
  }[] = [
    {
      does: 'leaves the beta header out',
      habits: { headers: (headers) => delete headers['vendor-beta'] },
      id: 'headers',
      verdict: 'failed',
      found: /vendor-beta does not arrive/,
    },
    {
      does: 'passes the headers of one prefix on, and clients use one',
      habits: {
        headers: (headers) => {
          delete headers['vendor-beta'];
          delete headers['vendor-version'];
        },
      },
      id: 'headers',
      verdict: 'ok',
      found: /^other-version and other-beta arrive/,
      prefixes: ['vendor', 'other'],
    },
    {
      does: 'knows one version only',
      habits: {
        headers: (headers) => {
          headers['vendor-version'] = '2023-06-01';
        },
      },
      id: 'headers',
      verdict: 'failed',
      found: /vendor-version arrives as 2023-06-01 in place of 2026-11-01/,
    },
    {
      does: 'keeps betas that it knows',
      habits: {
        headers: (headers) => {
          headers['vendor-beta'] = 'selfcheck-two-2026-11-02';
        },
      },
      id: 'headers',
      verdict: 'failed',
      found: /vendor-beta arrives as selfcheck-two/,
    },
    {
      does: 'leaves the query out',
      habits: { path: (path) => path.replace(/\?.*/, '') },
      id: 'headers',
      verdict: 'warning',
      found: /the query does not arrive/,
    },
    {
      does: "passes the caller's token on",
      habits: {
        headers: (headers) => {
          headers.authorization = `Bearer ${TOKEN}`;
        },
      },
      id: 'headers',
      verdict: 'failed',
      found: /the upstream gets the caller's token in the header authorization/,
    },
    {
      does: 'drops a field it does not know',
      habits: {
        body: jsonBody((fields) => {
          delete fields.selfcheck_unknown;
        }),
      },
      id: 'messages_body',
      verdict: 'failed',
      found: /selfcheck_unknown is missing/,
    },
    {
      does: 'puts a field on top',
      habits: {
        body: jsonBody((fields) => {
          fields.litter = 'secret-of-the-gateway';
        }),
      },
      id: 'messages_body',
      verdict: 'warning',
      found: /litter was put in/,
    },
    {
      does: 'drops a field deep in a block',
      habits: {
        body: jsonBody((fields) => {
          delete fields.messages[0]?.content[0]?.selfcheck_unknown;
        }),
      },
      id: 'messages_body',
      verdict: 'failed',
      found: /messages\[0\]\.content\[0\]\.selfcheck_unknown is missing/,
    },
    {
      does: 'drops the mark of a cache',
      habits: {
        body: jsonBody((fields) => {
          delete fields.tools[1]?.cache_control;
        }),
      },
      id: 'messages_body',
      verdict: 'failed',
      found: /tools\[1\]\.cache_control is missing/,
    },
    {
      does: 'merges the system prompt',
      habits: {
        body: jsonBody((fields) => {
          Object.assign(fields, { system: fields.system.map(({ text }) => text).join('\n') });
        }),
      },
      id: 'messages_body',
      verdict: 'failed',
      found: /system is a text of \d+ characters in place of a list of 5/,
    },
    {
      does: 'puts a block first',
      habits: {
        body: jsonBody((fields) => {
          fields.system.unshift({ type: 'text', text: 'Rules of a company' });
        }),
      },
      id: 'messages_body',
      verdict: 'failed',
      found: /system has 6 entries in place of 5/,
    },
    {
      does: 'puts a block last',
      habits: {
        body: jsonBody((fields) => {
          fields.system.push({ type: 'text', text: 'Rules of a company' });
        }),
      },
      id: 'messages_body',
      verdict: 'warning',
      found: /system has 6 entries in place of 5/,
    },
    {
      does: 'sorts blocks',
      habits: {
        body: jsonBody((fields) => {
          fields.system.reverse();
        }),
      },
      id: 'messages_body',
      verdict: 'failed',
      found: /system\[0\]/,
    },
    {
      does: 'drops one of two blocks that are the same',
      habits: {
        body: jsonBody((fields) => {
          fields.system.pop();
        }),
      },
      id: 'messages_body',
      verdict: 'failed',
      found: /system has 4 entries in place of 5/,
    },
    {
      does: 'writes the body anew',
      habits: { body: jsonBody(() => {}) },
      id: 'messages_body',
      verdict: 'warning',
      found: /the content is the same, but it was written anew/,
    },
    {
      does: 'loses digits of large numbers',
      habits: { body: (body) => JSON.stringify(JSON.parse(body.toString())) },
      id: 'messages_body',
      verdict: 'warning',
      found: /is 12345678901234567000 in place of 12345678901234567890/,
    },
    {
      does: 'loses the split of the cache',
      habits: {
        answer: (answer) => {
          answer.body = answer.body.replaceAll(/"cache_creation":\{[^}]*\},/g, '');
        },
      },
      id: 'usage',
      verdict: 'failed',
      found: /ephemeral_1h_input_tokens is missing in a whole answer.*ephemeral_1h_input_tokens is missing in a stream/,
    },
    {
      does: 'makes an hour five minutes without a word',
      habits: { body: (body) => body.toString().replace('"1h"', '"5m"') },
      id: 'messages_body',
      verdict: 'warning',
      found: /system\[1\]\.cache_control\.ttl is "5m" in place of "1h"/,
    },
    {
      does: 'takes the mark of a cache off',
      habits: {
        body: jsonBody((fields) => {
          delete fields.system[1]?.cache_control;
        }),
      },
      id: 'messages_body',
      verdict: 'failed',
      found: /system\[1\]\.cache_control is missing/,
    },
    {
      does: 'leaves out events it does not know',
      habits: {
        answer: (answer) => {
          answer.body = answer.body.replace(/event: selfcheck_unknown\n.*\n\n/, '');
        },
      },
      id: 'stream_end',
      verdict: 'warning',
      found: /an event that the gateway does not know is left out/,
    },
    {
      does: 'loses the end of a stream',
      habits: {
        answer: (answer) => {
          answer.body = answer.body.replace(/event: message_stop\n.*\n\n/, '');
        },
      },
      id: 'stream_end',
      verdict: 'failed',
      found: /no message_stop at the end/,
    },
    {
      does: 'leaves an error within a stream out',
      habits: {
        answer: (answer) => {
          answer.body = answer.body.replace(/event: error\n.*\n\n/, '');
        },
      },
      id: 'stream_end',
      verdict: 'failed',
      found: /an error within a stream is left out/,
    },
    {
      does: 'ends a stream like a whole one where its upstream breaks it off',
      habits: {
        broken: (res) => {
          res.writeHead(200, { 'content-type': 'text/event-stream' });
          res.end('event: message_stop\ndata: {"type":"message_stop"}\n\n');
        },
      },
      id: 'stream_end',
      verdict: 'failed',
      found: /a stream that its upstream broke off ends like a whole one/,
    },
    {
      does: 'drops a field of chat completions',
      habits: { body: (body) => body.toString().replaceAll('"selfcheck_unknown":true', '"a":1') },
      id: 'chat_body',
      verdict: 'failed',
      found: /messages\[1\]\.content\[0\]\.selfcheck_unknown is missing/,
    },
    {
      does: 'drops a field of Responses',
      habits: { body: (body) => body.toString().replace('"parallel_tool_calls":false,', '') },
      id: 'responses_body',
      verdict: 'failed',
      found: /^parallel_tool_calls is missing$/,
    },
    {
      does: 'answers a stream as a whole',
      habits: {
        answer: (answer) => {
          answer.headers['content-type'] = 'application/json';
          answer.body = '{"type":"message"}';
        },
      },
      id: 'stream_end',
      verdict: 'failed',
      found: /a whole answer came although a stream was asked for/,
    },
    {
      does: 'tells errors in words of its own',
      habits: {
        answer: (answer) => {
          if (answer.status === 400)
            answer.body = '{"type":"error","error":{"type":"invalid_request_error","message":"Bad request"}}';
        },
      },
      id: 'errors',
      verdict: 'failed',
      found: /the message of the upstream was replaced/,
    },
    {
      does: 'puts words around the message',
      habits: {
        answer: (answer) => {
          answer.body = answer.body.replace('prompt is too long', 'upstream said: prompt is too long');
        },
      },
      id: 'errors',
      verdict: 'warning',
      found: /something was put around the message/,
    },
    {
      does: 'makes an overload a failure of its own',
      habits: {
        answer: (answer) => {
          if (answer.status === 529) {
            answer.status = 500;
            answer.body = '{"type":"error","error":{"type":"api_error","message":"no"}}';
            delete answer.headers['retry-after'];
          }
        },
      },
      id: 'errors',
      verdict: 'failed',
      found: /status 529 became 500; the type overloaded_error became api_error.*retry-after is missing/,
    },
    {
      does: 'answers an overload with a web page',
      habits: {
        answer: (answer) => {
          if (answer.status === 529) {
            answer.headers['content-type'] = 'text/html';
            answer.body = '<html><title>Oops</title></html>';
          }
        },
      },
      id: 'errors',
      verdict: 'failed',
      found: /the web page "Oops"/,
    },
  ];
  for (const { does, habits, id, verdict, found, prefixes } of cases) {
    test(`one that ${does}`, async () => {
      const result = await check(id, habits, prefixes);
      assert.equal(result.verdict, verdict, JSON.stringify(result, null, 2));
      assert.match(result.found, found);
      if (verdict !== 'ok') assert.ok(result.remedy);
    });
  }

  test('one that refuses unknown fields and betas by name does what is asked', async () => {
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
    const gateway = await forwardTo(echo.url);
    const subject = subjectAt(gateway.url, { echo: hasty() });
    const ask: Subject['ask'] = async (asked) => {
      const answer = await subject.ask(asked);
      const arrivals = arrive(answer.body);
      return { ...answer, arrivals, total_ms: arrivals.at(-1)?.at_ms ?? 0 };
    };
    try {
      return await makeCheck(FORWARDING_CHECKS, 'forwarding.stream', { ...subject, ask });
    } finally {
      await gateway.close();
    }
  }
  const events = (body: Buffer) =>
    body
      .toString()
      .split(/(?<=\n\n)/)
      .map((text) => Buffer.byteLength(text));

  test('is good where each event arrives when it is made, and the times are told', async () => {
    const result = await paced((body) => events(body).map((bytes, index) => ({ at_ms: 5 + index * 25, bytes })));
    assert.equal(result.verdict, 'ok', JSON.stringify(result));
    assert.match(result.details!.join('\n'), /65 events: the first after 5 ms/);
  });

  test('is told of where all comes at the end', async () => {
    const result = await paced((body) => [{ at_ms: 1800, bytes: body.length }]);
    assert.equal(result.verdict, 'failed');
    assert.equal(result.found, 'all events arrive at once, when the last was made');
    assert.match(result.remedy!, /proxy_buffering off/);
  });

  for (const size of [4096, 16_384]) {
    test(`is told of where it comes in blocks of ${size} bytes`, async () => {
      const result = await paced((body) => {
        const ends: number[] = [];
        for (const bytes of events(body)) ends.push((ends.at(-1) ?? 0) + bytes);
        return Array.from({ length: Math.ceil(body.length / size) }, (_, index) => {
          const end = Math.min((index + 1) * size, body.length);
          return { at_ms: 25 * ends.findIndex((each) => each >= end), bytes: end - index * size };
        });
      });
      assert.equal(result.verdict, 'failed', JSON.stringify(result));
      assert.equal(result.found, 'events arrive in blocks');
    });
  }
});
