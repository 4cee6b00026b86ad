/** Stages that are owed a `finish` get it once, and `finally` stages run once, despite any fault. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { defineStage, type ResponseHead, type StageDefinition } from '../../../engine/api.ts';
import {
  answerBytes,
  answerChunks,
  answerJson,
  message,
  messageEvents,
  reset,
  type Script,
} from '../../support/model-provider/scripted-upstream.ts';
import { ownDirectory } from '../../support/own-directory.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, open, readAll } from '../support/client.ts';
import { ledgerRow, ledgerRows, nothingReserved } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const MOMENTS = [
  ...(['request', 'response', 'head', 'event', 'make', 'write', 'answer', 'end', 'finish', 'finally'] as const),
];
const THROWN: Readonly<Record<string, () => unknown>> = {
  error: () => new TypeError('on purpose'),
  nothing: () => undefined,
  text: () => 'on purpose',
  unreadable: () => Object.defineProperty(new Error('x'), 'stack', { get: throwIt }),
};

function throwIt(): never {
  throw new Error('on purpose');
}

/** How often each hook of a request was called: `kind id` by its tag. */
const calls = new Map<string, string[]>();
const note = (tag: unknown, what: string) => calls.get(String(tag))?.push(what);

/** Identifiers of requests by their tags. */
const ids = new Map<string, string>();

/** A stage that counts its last hooks, and throws on request; the engine calls its hooks directly. */
function counting(name: string, place: 'stages' | 'finally'): StageDefinition {
  const fail = (headers: Record<string, unknown>, moment: string) => {
    const [at, kind] = String(headers['x-fault']).split(' ');
    if (at === moment) throw THROWN[kind!]!();
  };
  const convert = (headers: Record<string, unknown>, _head: ResponseHead) => {
    fail(headers, 'make');
    const odd = String(headers['x-fault']).startsWith('answer');
    return {
      write(chunk: Buffer) {
        fail(headers, 'write');
        return odd ? (7 as unknown as Buffer) : chunk;
      },
      end() {
        fail(headers, 'end');
        return '';
      },
    };
  };
  return defineStage({
    name,
    version: 1,
    ...(place === 'finally' && { place }),
    summary: 'Counts and fails.',
    options: { type: 'object', properties: {}, additionalProperties: false },
    examples: [],
    needs: ['convert-response'],
    create: () => ({
      ...(place === 'stages' && {
        request(ctx) {
          note(ctx.headers['x-tag'], `entered ${name}`);
          if (name === 'first') {
            // The types of a definition that is assembled like this know no facts.
            const facts = ctx as unknown as { get(name: string): string };
            ids.set(String(ctx.headers['x-tag']), facts.get('request.id'));
            return undefined;
          }
          fail(ctx.headers, 'request');
          const { headers } = ctx;
          if (/^(?:make|write|answer|end) /.test(String(headers['x-fault'])))
            ctx.convertResponse((head) => convert(headers, head));
          return undefined;
        },
        response(ctx, head) {
          if (name === 'first') return;
          fail(ctx.headers, 'response');
          // Actions of a stage that only an unchecked engine would permit.
          if (String(ctx.headers['x-fault']).startsWith('head'))
            (head as unknown as { headers: string[] }).headers.push('x-broken', 'a\r\nb');
        },
        event: (ctx) => fail(ctx.headers, 'event'),
        finish(ctx) {
          note(ctx.headers['x-tag'], `finish ${name}`);
          fail(ctx.headers, 'finish');
        },
      }),
      ...(place === 'finally' && {
        finally(ctx) {
          note(ctx.headers['x-tag'], `finally ${name}`);
          fail(ctx.headers, 'finally');
        },
      }),
    }),
  }) as StageDefinition;
}

const PIPELINE = `
pipeline: messages
version: 2
summary: Forwards past stages that fail.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
stages:
  - stage: first
  - stage: authenticate
  - stage: read-body
  - stage: resolve-route
  - stage: check-budget
  - stage: meter-usage
  - stage: second
  - stage: forward
finally:
  - stage: third
  - stage: audit
  - stage: fourth
`;

const pipelines = ownDirectory();
writeFileSync(join(pipelines, 'messages.yaml'), PIPELINE);

const { gateway, upstream } = useGateway({ pipelines }, undefined, [
  counting('first', 'stages'),
  counting('second', 'stages'),
  counting('third', 'finally'),
  counting('fourth', 'finally'),
]);

const UPSTREAMS: Readonly<Record<string, Script>> = {
  json: answerJson(message()),
  stream: answerChunks(messageEvents()),
  'cut stream': async ({ res, socket }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.write(messageEvents()[0]);
    await new Promise((resolve) => setImmediate(resolve));
    socket.destroy();
  },
  reset,
  page: answerBytes(500, ['content-type', 'text/html'], '<p>'),
  odd: ({ socket }) => void socket.end('HTTP/1.1 999 \x01\r\n\r\n{}'),
};

test('every hook that is owed runs exactly once, and the money is settled', async () => {
  const fault = fc.tuple(fc.constantFrom(...MOMENTS, 'never'), fc.constantFrom(...Object.keys(THROWN)));
  const upstreams = fc.constantFrom(...Object.keys(UPSTREAMS));
  const leaves = fc.constantFrom('stays', 'stays', 'leaves at once', 'leaves at the head');
  const asked: string[] = [];
  let number = 0;
  await fc.assert(
    fc.asyncProperty(fault, upstreams, leaves, async (mode, answer, client) => {
      upstream.script = UPSTREAMS[answer]!;
      const tag = String(++number);
      const seen: string[] = [];
      calls.set(tag, seen);
      upstream.requests.length = 0;
      const { head, abort } = open(gateway.url, {
        headers: bearer(gateway.token, ['x-fault', mode.join(' '), 'x-tag', tag, 'connection', 'close']),
        body: messagesBody({ stream: /stream/.test(answer) }),
      });
      if (client === 'leaves at once') {
        let over = false;
        const noteEnd = () => (over = true);
        head.then(noteEnd, noteEnd);
        await until('the upstream got the request, or there is a response', () => over || upstream.requests.length > 0);
        abort();
      } else {
        const response = await head.catch(() => undefined);
        if (client === 'leaves at the head') abort();
        else if (response !== undefined) await readAll(response).catch(() => {});
      }
      await until('the last stage has run', () => seen.includes('finally fourth'));
      const entered = seen.filter((what) => what.startsWith('entered')).map((what) => what.slice('entered '.length));
      const last = entered.toReversed().map((name) => `finish ${name}`);
      assert.deepEqual(seen.slice(entered.length), [...last, 'finally third', 'finally fourth']);
      await nothingReserved(gateway.database);
      if (upstream.requests.length === 0) return;
      asked.push(ids.get(tag)!);
      await ledgerRow(gateway.database, ids.get(tag)!);
    }),
    { numRuns: times(30) },
  );
  const rows = await ledgerRows(gateway.database);
  assert.deepEqual(rows.map(({ request_id }) => request_id).toSorted(), asked.toSorted(), 'one row for each');
  const stray = gateway.logs.filter((line) => /unexpected|uncaught/i.test(line));
  assert.deepEqual(stray, []);
});
