import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ModelConfig, UpstreamConfig } from '../../../engine/base/contract/config.ts';
import { mostTokensOf } from '../../../engine/domain/budget/limits/most-tokens.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';

const FACTS = {
  protocol: 'request.protocol',
  upstream_protocol: 'route.protocol',
  window_asked: 'request.context_window',
  input_max: 'request.input_tokens_max',
  ...{ output_bounds: 'request.output_bounds', max_tokens: 'request.max_tokens' },
  ...{ choices: 'request.choices', iterations: 'request.iterations', compacts: 'request.compacts' },
} as const;
type Asked = { readonly [Name in keyof typeof FACTS]?: unknown };
const ASKED: Asked = {
  ...{ protocol: 'chat', upstream_protocol: 'chat', input_max: 1000 },
  ...{ output_bounds: { max_tokens: 500 }, max_tokens: 500 },
};

function most(asked: Asked, at: Partial<UpstreamConfig> = {}, model: Partial<ModelConfig> = {}) {
  const { models, upstreams } = stageConfig();
  const all = Object.entries({ ...ASKED, ...asked }).map(
    ([name, value]) => [FACTS[name as keyof Asked], value] as const,
  );
  const facts = new Map<string, unknown>(all);
  const ctx = { get: (path: string) => facts.get(path) as never };
  return mostTokensOf(ctx, { ...models[0]!, ...model }, { ...upstreams[0]!, ...at });
}

const LONGEST = 64_000;

const NEWER = { output_bounds: { max_completion_tokens: 7 }, max_tokens: 7 };
const BOTH = { output_bounds: { max_tokens: 900, max_completion_tokens: 5 }, max_tokens: 900 };
const MESSAGES = { protocol: 'messages', output_bounds: { max_tokens: 9 }, max_tokens: 9 };
const UNBOUNDED = { output_bounds: {}, max_tokens: undefined };
const TO_MESSAGES = { ...UNBOUNDED, upstream_protocol: 'messages' } as const;
const AT_OLDER = { max_tokens_field: 'max_tokens', enforces: ['max_tokens'] } as const;
const AT_NEWER = { max_tokens_field: 'max_completion_tokens', enforces: ['max_completion_tokens'] } as const;
const PLAIN = { supports: { ...stageConfig().models[0]!.supports, thinking: 'none' } } as const;
const UNTOLD = { max_output_tokens: 200_000, default_output_tokens: 8192 };

/** Output of one run by request, upstream and model. */
const OUTPUTS: readonly (readonly [what: string, output: number, ...Parameters<typeof most>])[] = [
  ['a bound that the upstream keeps to', 500, {}],
  ['the newer field, which no server is assumed to know by default', LONGEST, NEWER],
  ['the newer field where the upstream knows it', 7, NEWER, { enforces: ['max_tokens', 'max_completion_tokens'] }],
  ['an upstream that keeps to no bound', LONGEST, {}, { enforces: [] }],
  ['the larger of two, as it may know the other, too', 900, BOTH, { enforces: ['max_completion_tokens'] }],
  [
    'the larger of two, whichever it is',
    900,
    { ...BOTH, output_bounds: { max_tokens: 5, max_completion_tokens: 900 } },
  ],
  ['the larger of two that it knows', 900, BOTH, { enforces: ['max_completion_tokens', 'max_tokens'] }],
  ['0, which some servers take for no bound', LONGEST, { output_bounds: { max_tokens: 0 }, max_tokens: 0 }],
  ['a translated request to a model that thinks, bounded by max_completion_tokens', LONGEST, MESSAGES],
  ['a translated request to another model', 9, MESSAGES, {}, PLAIN],
  ['the least that the protocol takes', 16, { ...MESSAGES, upstream_protocol: 'responses' }],
  ['the older field that alone is taken, of the newer one', 7, NEWER, AT_OLDER],
  ['the newer field that alone is taken, of the older one', 500, {}, AT_NEWER],
  ['both, where the upstream gets both', 900, BOTH, AT_OLDER],
  ['the field that alone is taken, translated', 7, { ...NEWER, protocol: 'messages' }, AT_OLDER],
  ['no bound for the field that alone is taken', LONGEST, UNBOUNDED, AT_OLDER],
  ['the bound of ours, where a protocol has none without', 8192, TO_MESSAGES, {}, UNTOLD],
  ['the bound of ours, from Responses', 8192, { ...TO_MESSAGES, protocol: 'responses' }, {}, UNTOLD],
  ['no bound of ours at an upstream that keeps to none', 200_000, TO_MESSAGES, { enforces: [] }, UNTOLD],
  ['0, which is no bound of ours', 200_000, { ...TO_MESSAGES, max_tokens: 0 }, {}, UNTOLD],
  ['a bound of its own', 9000, { ...TO_MESSAGES, max_tokens: 9000 }, {}, UNTOLD],
  ['no bound, untouched', 200_000, UNBOUNDED, {}, UNTOLD],
  ['no bound, untouched, in Messages', 200_000, { ...TO_MESSAGES, protocol: 'messages' }, {}, UNTOLD],
  ['no bound, written in chat', 200_000, { ...UNBOUNDED, protocol: 'messages' }, {}, UNTOLD],
  ['no bound, written in Responses', 200_000, { ...UNBOUNDED, upstream_protocol: 'responses' }, {}, UNTOLD],
];

describe('the maximum tokens of a response', () => {
  for (const [what, output, ...asked] of OUTPUTS) {
    it(`are those of ${what}`, () => assert.equal(most(...asked).output, output));
  }

  it('count a run for every use of a tool that the upstream runs, and as many as usual without a bound', () => {
    const messages = { protocol: 'messages', upstream_protocol: 'messages' } as const;
    const runs: readonly (readonly [runs: number, ...Parameters<typeof most>])[] = [
      [4, { iterations: 4 }],
      [10, { iterations: 0 }],
      [100, { iterations: 0, protocol: 'responses', upstream_protocol: 'responses' }],
      [3, { iterations: 0 }, { tool_iterations: 3 }],
      [8, { iterations: 4, choices: 2 }],
      // A rejected use is a run as well.
      [10, { ...messages, iterations: 4 }],
      [12, { ...messages, iterations: 12 }],
      [4, { ...messages, iterations: 4 }, { tool_iterations: 3 }],
      [1, { ...messages, iterations: 1 }],
    ];
    for (const [expected, ...asked] of runs) assert.equal(most(...asked).runs, expected, JSON.stringify(asked));
  });

  it('include the summary of the conversation, which no bound of the request limits', () => {
    const { compactions, compaction_output } = most({ iterations: 4, compacts: true });
    assert.deepEqual([compactions, compaction_output], [4, LONGEST]);
  });
});
