import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { DECISIVE_FIELDS } from '../../../engine/protocols/body/decisive-fields.ts';
import { readDecisive } from '../../../engine/protocols/body/read-decisive.ts';
import { times } from '../../support/times.ts';

type Found = readonly (readonly [param: string, rule: string, value: string | undefined])[];

const read = (body: object): Found =>
  readDecisive(body as Readonly<Record<string, unknown>>).map(({ param, rule, value }) => [param, rule.rule, value]);

const parsed = (text: string) => JSON.parse(text) as object;

/** Keys that lead nowhere in particular, as routers and providers of tomorrow could have them. */
const container = fc.constantFrom('tools', 'edits', 'x', 'options', 'extra', 'compaction', 'a_b', 'nested', 'rerank');

/** Every way to write the key of a model that some parser would take for it, or that some router could mean. */
const modelKey = fc.constantFrom(
  ...['model', 'models', 'Model', 'MODEL', 'mOdel', '\uff4dodel', 'mode\u200bl', ' model', 'model\u0000'],
  ...['fallback_model', 'fallbackModels', 'judge-model-id', 'modelName', 'model_slug', 'fallbacks', 'FallBacks'],
);

describe('readDecisive', () => {
  it('finds a model under every key that means one, however deep it stands outside of content', () => {
    const value = fc.oneof(
      fc.constant<unknown>('expensive-1'),
      fc.constant<unknown>(['a', 'expensive-1']),
      fc.constant<unknown>([{ model: 'expensive-1', speed: 'standard' }]),
      fc.constant<unknown>({ id: 'expensive-1' }),
    );
    fc.assert(
      fc.property(
        fc.array(fc.tuple(container, fc.boolean()), { maxLength: 6 }),
        modelKey,
        value,
        (path, key, named) => {
          if (path.length === 0 && key === 'model') return;
          let inner: unknown = { [key]: named };
          for (const [name, in_list] of path) inner = { [name]: in_list ? [inner] : inner };
          const found = read({ model: 'cheap-1', ...(inner as object) });
          assert.ok(
            found.some(([, rule, value]) => rule === 'check' && value === 'expensive-1'),
            JSON.stringify({ inner, found }),
          );
        },
      ),
    );
  });

  it('finds every field of the table, in snake case and in camel case', () => {
    for (const { name, rule } of DECISIVE_FIELDS.filter((field) => field.rule !== 'pass' && field.name !== 'model')) {
      const camel = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
      for (const key of [name, camel]) assert.deepEqual(read({ [key]: 'x' })[0]?.slice(0, 2), [key, rule], key);
    }
  });

  it('finds nothing in what models read and write, whatever is in it', () => {
    const content = fc.json({ maxDepth: 4 }).map(parsed);
    const planted = fc
      .tuple(content, modelKey)
      .map(([rest, key]) => ({ rest, [key]: 'expensive-1', workspace_id: 'w' }));
    fc.assert(
      fc.property(planted, (anything) => {
        const schema = { type: 'object', properties: anything };
        const body = {
          model: 'cheap-1',
          system: [{ type: 'text', text: 'x', ...anything }],
          metadata: anything,
          messages: [
            { role: 'user', content: [{ type: 'text', text: 'x', ...anything }] },
            { role: 'assistant', content: [{ type: 'tool_use', input: anything }], tool_calls: [anything] },
            { role: 'user', content: [{ type: 'tool_result', content: [anything] }] },
          ],
          input: [{ type: 'function_call_output', output: anything }, anything],
          tools: [
            { name: 'a', input_schema: schema, input_examples: [anything] },
            { type: 'function', function: { name: 'b', parameters: anything } },
            { type: 'function', name: 'c', parameters: anything },
            { type: 'web_search', filters: schema },
          ],
          response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
          text: { format: { type: 'json_schema', schema } },
        };
        assert.deepEqual(read(body), []);
      }),
      { numRuns: times(50) },
    );
  });

  it('takes values that never cost more, and empty ones, for nothing', () => {
    assert.deepEqual(
      read({ service_tier: 'auto', speed: 'standard', inference_geo: 'global', modalities: ['text'] }),
      [],
    );
    assert.deepEqual(read({ models: [], fallbacks: null, provider: {}, workspace_id: '', route: false }), []);
    assert.deepEqual(read({ voice: { speed: 1.2 }, service_tier: null }), []);
  });

  it('tells a model that has no form in which it could be checked', () => {
    for (const fallbacks of ['default', [{ 'cheap-1': ['expensive-1'] }], [['expensive-1']], { a: 1 }]) {
      assert.deepEqual(read({ fallbacks })[0]?.slice(1), ['check', undefined], JSON.stringify(fallbacks));
    }
    for (const type of ['openrouter:advisor', 'x:whatever', 'advisor_20990101', 'sub_agent']) {
      assert.deepEqual(read({ tools: [{ type }] }), [['tools[0]', 'check', undefined]], type);
      assert.deepEqual(read({ tools: [{ type, model: 'm' }] }), [['tools[0].model', 'check', 'm']], type);
    }
    assert.deepEqual(read({ tools: [{ type: 'openrouter:web_search' }, { type: 'function', name: 'advisor' }] }), []);
  });

  it('is quick about bodies that are made to be slow', () => {
    const many = (count: number, item: (i: number) => object) => ({
      x: Array.from({ length: count }, (_, i) => item(i)),
    });
    assert.throws(() => read(many(5000, () => ({ speed: 'fast' }))), /more than 100 fields/);
    assert.throws(() => read(many(30_000, (i) => ({ [`m${i}`]: 1 }))), /20000 different keys/);
    const deep = (levels: number) => {
      let value: object = { model: 'expensive-1' };
      for (let i = 0; i < levels; i++) value = { a: value };
      return value;
    };
    assert.equal(read({ deep: deep(400) })[0]?.[2], 'expensive-1');
    assert.throws(() => read({ deep: deep(5000) }), /below keys that are too long/);
  });
});
