/** Usage is asked for in the name of clients that did not ask, in chat completions streams only. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ResponseHead, UpstreamConfig } from '../../engine/api.ts';
import { makeConverter } from '../../engine/run/conversion.ts';
import { openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import askForUsage from '../../stages/ask-for-usage.ts';

const FACTS = {
  'request.protocol': 'chat',
  'request.stream': true,
  'route.protocol': 'chat',
  'route.upstream': 'main',
} as const;

function compat(stream_usage: boolean): UpstreamConfig[] {
  const [main] = stageConfig().upstreams;
  return [{ ...main!, type: 'compat', protocols: ['chat'], supports: { ...main!.supports, stream_usage } }];
}

async function asked(
  body: string,
  { facts = {}, stream_usage = true }: { facts?: object; stream_usage?: boolean } = {},
) {
  const stage = openStage(askForUsage, { config: stageConfig({ upstreams: compat(stream_usage) }) });
  const ctx = stage.request({ facts: { ...FACTS, ...facts }, body });
  await stage.hooks.attempt!(ctx);
  return { sent: ctx.body!.bytes.toString(), ctx };
}

function head(content_type: string): ResponseHead {
  return { status: 200, get: () => content_type, set() {}, remove() {}, replaceAll() {} };
}

describe('a stream that does not ask for usage', () => {
  const cases: readonly [what: string, body: string, sent: string][] = [
    [
      'has the options added',
      '{ "model":"m",\n"messages":[]}',
      '{"stream_options":{"include_usage":true}, "model":"m",\n"messages":[]}',
    ],
    [
      'keeps the options it has',
      '{"stream_options": {"include_obfuscation": false}, "x": 1.0}',
      '{"stream_options": {"include_obfuscation":false,"include_usage":true}, "x": 1.0}',
    ],
    ['has null replaced', '{"stream_options":null,"x":1.0}', '{"stream_options":{"include_usage":true},"x":1.0}'],
    ['has false replaced', '{"stream_options":{"include_usage":false}}', '{"stream_options":{"include_usage":true}}'],
    ['has the key added where there is none', '{ }', '{"stream_options":{"include_usage":true} }'],
  ];
  for (const [what, body, sent] of cases) {
    it(`${what}, and nothing else is touched`, async () => {
      const result = await asked(body);
      assert.equal(result.sent, sent);
      assert.deepEqual(result.ctx.rewrites, ['stream_options']);
    });
  }

  it('has the answer converted when that is a stream, and only then', async () => {
    const { ctx } = await asked('{}');
    assert.notEqual(makeConverter(ctx, head('text/event-stream; charset=utf-8')), undefined);
    assert.equal(makeConverter(ctx, head('application/json')), undefined);
  });
});

describe('nothing is touched', () => {
  const body = '{"model":"m","stream_options":{"include_usage":true}}';
  const cases: readonly [when: string, body: string, wishes: { facts?: object; stream_usage?: boolean }][] = [
    ['when the client asks itself', body, {}],
    ['without a stream', '{}', { facts: { 'request.stream': false } }],
    ['when the upstream cannot tell', '{}', { stream_usage: false }],
    ['when the request is translated', '{}', { facts: { 'route.protocol': 'messages' } }],
    ['on other protocols', '{}', { facts: { 'request.protocol': 'messages', 'route.protocol': 'messages' } }],
  ];
  for (const [when, sent, wishes] of cases) {
    it(when, async () => {
      const result = await asked(sent, wishes);
      assert.equal(result.sent, sent);
      assert.equal(result.ctx.converts_response, false);
    });
  }
});
