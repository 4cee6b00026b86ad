import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import forward from '../../stages/forward.ts';

const config = stageConfig();
const [vendor] = config.upstreams;
const chat_only = { ...vendor!, name: 'chat-only', type: 'compat', protocols: ['chat'] } as const;
const stage = openStage(forward, { config: { ...config, upstreams: [vendor!, chat_only] } });

function ask(protocol: string, upstream: string, upstream_protocol?: string) {
  const facts = {
    'request.id': 'req_1',
    'request.protocol': protocol,
    'request.model': 'coder-1',
    'route.upstream': upstream,
    'route.upstream_model': 'coder-1',
    ...(upstream_protocol !== undefined && { 'route.protocol': upstream_protocol }),
  };
  const ctx = stage.request({ facts, body: '{"model":"coder-1"}' } as never);
  return { ctx, answered: Promise.resolve(stage.hooks.request!(ctx)) };
}

describe('a request that nobody translated', () => {
  const CASES = [
    ['chat', 'main', 'messages'],
    ['responses', 'chat-only', 'chat'],
    ['messages', 'chat-only', 'chat'],
    ['count_tokens', 'chat-only', 'chat'],
  ] as const;
  for (const [protocol, upstream, upstream_protocol] of CASES) {
    for (const said of [true, false]) {
      test(`from protocol ${protocol} to ${upstream} is refused${said ? '' : ', also when no stage told the protocol'}`, async () => {
        const { ctx, answered } = ask(protocol, upstream, said ? upstream_protocol : undefined);
        await assert.rejects(answered, (error: { code: string; message: string; cause: Error }) => {
          assert.equal(error.code, 'not_supported');
          assert.equal(error.message, 'This API is not available for this model.');
          const remedy = protocol === 'count_tokens' ? /cannot count tokens/ : /`translate` belongs above `forward`/;
          assert.match(error.cause.message, new RegExp(`"${upstream}" speaks ${upstream_protocol} and not`));
          assert.match(error.cause.message, remedy);
          return true;
        });
        const told = stage.log.at(-1);
        assert.equal(told?.message, 'an upstream cannot be asked');
        assert.match(JSON.stringify(told.fields), /"reason":"the upstream|"reason":".*speaks/);
        assert.deepEqual(ctx.written, {}, 'nothing was sent');
      });
    }
  }
});
