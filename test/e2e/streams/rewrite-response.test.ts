/** Stages that replace texts in responses, through the real gateway. */
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import zlib from 'node:zlib';
import { defineStage } from '../../../engine/api.ts';
import { traceOf } from '../../../engine/pipeline/explain/trace.ts';
import {
  answerBytes,
  answerChunks,
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
} from '../../support/model-provider/scripted-upstream.ts';
import { bearer, messagesBody, type Response, send } from '../support/client.ts';
import { idOf, recordOf } from '../support/odd.ts';
import { forwardingPipelines } from '../support/pipelines.ts';
import { ledgerRow } from '../support/state.ts';
import { useGateway } from '../support/use-gateway.ts';

const OPTIONS = { type: 'object', properties: {}, additionalProperties: false } as const;
const ADDRESS = /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/;

const redact = defineStage({
  name: 'redact',
  version: 1,
  summary: 'Replaces addresses as the request says.',
  options: OPTIONS,
  examples: [],
  needs: ['rewrite-response'],
  create: () => ({
    rewrite(ctx) {
      const mode = ctx.headers['x-redact'];
      if (mode === 'no') return undefined;
      if (mode === 'breaks') throw new TypeError('broken in rewrite');
      if (mode === 'nonsense') return { replacements: 1 } as never;
      const replace = (found: string) => {
        if (mode === 'breaks late') throw new TypeError(`broken in ${mode}`);
        return found.startsWith('keep') ? undefined : '[address]';
      };
      return { replacements: [{ find: ADDRESS, replace }], window_characters: 64, never_contains: /\s/ };
    },
  }),
});

const pipelines = forwardingPipelines({
  messages: { path: '/v1/messages', entry: 'stage: redact' },
  responses: { path: '/v1/responses', entry: 'stage: redact', protocol: 'responses' },
  watched: { path: '/watched', entry: '{ stage: redact, mode: shadow }' },
  contained: { path: '/contained', entry: '{ stage: redact, timeout_seconds: 60 }' },
  open: { path: '/open', entry: '{ stage: redact, timeout_seconds: 60, fail_closed: false }' },
});

const { gateway, upstream } = useGateway({ pipelines }, undefined, [redact]);
beforeEach(() => {
  upstream.script = answerJson(said('Write to ann@example.com or bob@example.org.'));
});

const said = (text: string) => ({ ...message(), content: [{ type: 'text', text }] });

const askAt = (path: string, mode = 'yes', more: object = {}): Promise<Response> =>
  send(gateway.url, { path, headers: bearer(gateway.token, ['x-redact', mode]), body: messagesBody(more) });

const REDACTED = 'Write to [address] or [address].';

describe('texts of a response', () => {
  test('are replaced in a document, which declares its length; the bill and the audit log know', async () => {
    const response = await askAt('/v1/messages');
    assert.deepEqual(response.json(), said(REDACTED));
    assert.equal(response.headers['content-length'], String(response.body.length));
    const record = await recordOf(gateway, response);
    const { replaced, shadow, status } = record;
    assert.equal(
      traceOf(record, { attempts: [] }).bytes,
      'Sent byte for byte as received. redact replaced 2 texts of the response.',
    );
    assert.deepEqual({ replaced, shadow, status }, { replaced: { redact: 2 }, shadow: undefined, status: 200 });
    const { input_tokens, output_tokens } = await ledgerRow(gateway.database, idOf(response));
    assert.deepEqual([input_tokens, output_tokens], [100, 40]);
  });

  test('pass byte for byte where there is nothing to replace, and leave no mark', async () => {
    for (const mode of ['yes', 'no']) {
      const events = messageEvents(['Hello ', 'there. ']);
      upstream.script = answerChunks(events);
      const streamed = await askAt('/v1/messages', mode, { stream: true });
      assert.equal(streamed.text, events.join(''));
      upstream.script = answerJson(said('Nobody.'));
      const response = await askAt('/v1/messages', mode);
      assert.equal(response.text, JSON.stringify(said('Nobody.')));
      assert.equal((await recordOf(gateway, response)).replaced, undefined);
    }
  });

  test('are found in a compressed response, though none is requested from the upstream', async () => {
    const zipped = zlib.gzipSync(JSON.stringify(said('I am ann@example.com')));
    upstream.script = answerBytes(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' }, zipped);
    const response = await askAt('/v1/messages');
    assert.equal(response.json().content[0].text, 'I am [address]');
    assert.equal(upstream.requests[0]!.headers['accept-encoding'], 'identity');
  });

  test('are replaced in errors of the upstream', async () => {
    const error = { type: 'error', error: { type: 'invalid_request_error', message: 'no ann@example.com' } };
    upstream.script = answerJson(error, 400);
    assert.equal((await askAt('/v1/messages')).json().error.message, 'no [address]');
  });

  test('never pass where they cannot be looked through', async () => {
    upstream.script = answerBytes(200, { 'content-type': 'application/json' }, `"${'a'.repeat(9 * 1024 * 1024)}"`);
    const large = await askAt('/v1/messages');
    assert.deepEqual([large.status, large.json().error.type], [502, 'api_error']);
    upstream.script = answerBytes(200, { 'content-type': 'application/json' }, Buffer.from([0x22, 0xff, 0x22]));
    assert.equal((await askAt('/v1/messages')).status, 502);
  });

  test('that wait when the upstream drops the connection are not sent', async () => {
    const [start, begin, , delta] = messageEvents(['Write to ann@exam']);
    upstream.script = ({ res, socket }) => {
      res.writeHead(200, EVENT_STREAM as string[]);
      res.write(`${start}${begin}${delta}event: content_block_delta\ndata: {"type"`, () =>
        setImmediate(() => socket.destroy()),
      );
    };
    const response = await askAt('/v1/messages', 'yes', { stream: true });
    assert.match(response.text, /"text":"Write to "/);
    assert.doesNotMatch(response.text, /ann/);
    assert.match(response.text, /event: error\ndata: .*\n\n$/);
  });
});

describe('a stage that fails to replace', () => {
  for (const path of ['/v1/messages', '/contained']) {
    for (const mode of ['breaks', 'breaks late']) {
      test(`fails the request at ${path}: ${mode}`, async () => {
        const response = await askAt(path, mode);
        assert.deepEqual([response.status, (await recordOf(gateway, response)).error], [500, 'stage_failed']);
        assert.doesNotMatch(response.text, /ann@/);
        assert.ok(gateway.logs.some((line) => line.includes('a stage failed') && line.includes('broken in')));
      });
    }
  }

  test('is skipped where the pipeline allows it', async () => {
    for (const mode of ['breaks', 'breaks late', 'nonsense']) {
      const response = await askAt('/open', mode);
      assert.match(response.json().content[0].text, /ann@example.com/);
    }
    assert.equal((await askAt('/open')).json().content[0].text, REDACTED);
  });
});

test('in shadow mode nothing changes, and replacements are counted', async () => {
  const words = ['keep@example.com, an', 'n@example.com', ' and bob@example.org'];
  upstream.script = answerChunks(messageEvents(words));
  const streamed = await askAt('/watched', 'yes', { stream: true });
  assert.equal(streamed.text, messageEvents(words).join(''));
  const record = await recordOf(gateway, streamed);
  const { replaced, shadow } = record;
  assert.match(traceOf(record, { attempts: [] }).bytes!, /redact would have replaced 2 texts of the response\.$/);
  assert.deepEqual({ replaced, shadow }, { replaced: { redact: 2 }, shadow: ['redact'] });
  assert.notEqual(upstream.requests[0]!.headers['accept-encoding'], 'identity');

  upstream.script = answerJson(said('Nobody.'));
  assert.equal((await recordOf(gateway, await askAt('/watched'))).shadow, undefined);

  upstream.script = answerJson(said('ann@example.com'));
  for (const mode of ['breaks', 'breaks late']) {
    const response = await askAt('/watched', mode);
    assert.equal(response.json().content[0].text, 'ann@example.com');
    assert.equal((await recordOf(gateway, response)).replaced, undefined);
  }
});
