/** The stage that translates: when it does, its engine calls, and its notes. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openStage, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import translate from '../../stages/translate.ts';

const FACTS = {
  'request.id': '0a0b0c0d-0000-4000-8000-000000000001',
  'request.protocol': 'chat',
  'request.model': 'coder-1',
  'route.protocol': 'messages',
  'route.upstream': 'spare',
  'route.upstream_model': 'coder-1@2026',
} as const;

const BODY = '{ "model":"coder-latest", "seed":7, "messages":[{"role":"user","content":"Hi"}] }';

async function run(facts: object = {}, body = BODY) {
  const stage = openStage(translate, { now: '2026-03-10T12:00:00Z' });
  const ctx = stage.request({ facts: { ...FACTS, ...facts }, body });
  await stage.hooks.attempt!(ctx);
  await stage.hooks.finish!(ctx);
  return ctx;
}

describe('a request whose upstream speaks another protocol', () => {
  it('is rejected if it cannot be translated, and its body is not replaced', async () => {
    const stage = openStage(translate);
    const body = '{"model":"m","n":2,"messages":[{"role":"user","content":"Hi"}]}';
    const ctx = stage.request({ facts: FACTS, body });
    const expected = { name: 'StageError', code: 'not_translatable', details: { param: 'n', rule: 'several_choices' } };
    await assert.rejects(async () => stage.hooks.attempt!(ctx), expected);
    await stage.hooks.finish!(ctx);
    assert.equal(ctx.body!.bytes.toString(), body);
    assert.equal(ctx.converts_response, false);
  });
});

describe('state of tool calls', () => {
  const id = 'call_4fGh7kLm9wQ2';
  const call = `{"id":"${id}","type":"function","function":{"name":"read","arguments":"{}"}}`;
  const body = `{"messages":[{"role":"assistant","tool_calls":[${call}]}]}`;
  const chunk = `{"choices":[{"delta":{"tool_calls":[{"index":0,"extra_content":{"a":"b"},${call.slice(1)}]}}]}`;
  const upstreams = stageConfig().upstreams.map((one) => ({ ...one, protocols: ['chat'] as const }));
  const facts = (caller: string) => ({
    ...{ ...FACTS, 'route.protocol': 'chat', 'principal.id': caller, 'request.tool_count': 1 },
  });

  /** The upstream's request from a client that got a tool call and returns it bare. */
  async function returned(caller: string, options: object, more: object = {}, config = stageConfig({ upstreams })) {
    const stage = openStage(translate, { options, config });
    const first = stage.request({ facts: { ...facts(caller), ...more }, body: BODY });
    await stage.hooks.attempt!(first);
    stage.hooks.event?.(first, { name: 'message', data: chunk });
    await stage.hooks.finish!(first);
    const next = stage.request({ facts: facts(caller), body });
    await stage.hooks.attempt!(next);
    return { sent: next.body!.bytes.toString(), rewrites: next.rewrites, watches: stage.hooks.event !== undefined };
  }

  it('is not remembered if disabled, for requests without tools, or with several choices', async () => {
    assert.deepEqual(await returned('two', { remember_calls: false }), { sent: body, rewrites: [], watches: false });
    for (const more of [{ 'request.tool_count': 0 }, { 'request.choices': 2 }]) {
      assert.deepEqual(await returned('three', {}, more), { sent: body, rewrites: [], watches: true });
    }
  });

  it('is not read from responses of upstreams with other protocols', () => {
    const others = stageConfig().upstreams.map((one) => ({ ...one, protocols: ['messages'] as const }));
    assert.equal(openStage(translate, { config: stageConfig({ upstreams: others }) }).hooks.event, undefined);
  });
});

describe('a conversation that began at another upstream', () => {
  const made = '{"type":"thinking","thinking":"Hm.","signature":"gw:chat@spare:none::"},';
  const body = (block: string) =>
    `{"model":"coder-1", "messages":[{"role":"assistant","content":[${block}{"type":"text","text":"a"}]}]}`;
  const facts = {
    'request.protocol': 'messages',
    'request.unproven_reasoning': 'made',
    'route.protocol': 'messages',
    'route.upstream': 'main',
  };

  for (const protocol of ['messages', 'count_tokens']) {
    it(`reaches a provider without translated reasoning, on the protocol ${protocol}`, async () => {
      const ctx = await run({ ...facts, 'request.protocol': protocol }, body(made));
      assert.equal(ctx.body!.bytes.toString(), body(''));
      assert.deepEqual(ctx.rewrites, ['messages']);
      assert.equal(ctx.converts_response, false);
    });
  }

  async function sentTo(supported: object, facts: object, text: string): Promise<string> {
    const { upstreams, ...config } = stageConfig();
    const believing = upstreams.map((one) => ({ ...one, supports: { ...one.supports, ...supported } }));
    const stage = openStage(translate, { config: { ...config, upstreams: believing } });
    const ctx = stage.request({ facts: { ...FACTS, ...facts }, body: text });
    await stage.hooks.attempt!(ctx);
    const sent = ctx.body!.bytes.toString();
    assert.deepEqual(ctx.rewrites, sent === text ? [] : ['messages']);
    return sent;
  }

  it('reaches an upstream that accepts unsigned reasoning unchanged', async () => {
    const supported = { unproven_reasoning: true, unsigned_reasoning: true };
    assert.equal(await sentTo(supported, facts, body(made)), body(made));
  });

  it('keeps unsigned reasoning that the upstream may have produced, unless it would reject it', async () => {
    const unsigned = '{"type":"thinking","thinking":"Hm.","signature":""},';
    const only_unsigned = { ...facts, 'request.unproven_reasoning': 'unsigned' };
    const signs_nothing = { unsigned_reasoning: true };
    assert.equal(await sentTo(signs_nothing, only_unsigned, body(unsigned)), body(unsigned));
    assert.equal(await sentTo(signs_nothing, facts, body(made + unsigned)), body(unsigned));
    assert.equal(await sentTo({}, only_unsigned, body(unsigned)), body(''));
    assert.equal(await sentTo({}, facts, body(made + unsigned)), body(''));
  });
});
