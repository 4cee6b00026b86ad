import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ModelConfig, UpstreamConfig } from '../../../engine/contract/config.ts';
import { type AnswerBounds, mostTokens } from '../../../engine/money/limits/most-tokens.ts';
import { stageConfig } from '../../../engine/simulate/stage-harness.ts';

const ASKED: AnswerBounds = {
  protocol: 'chat',
  upstream_protocol: 'chat',
  input_max: 1000,
  output_bounds: { max_tokens: 500 },
  max_tokens: 500,
  choices: 1,
  iterations: 1,
  compacts: false,
};

function most(asked: Partial<AnswerBounds>, at: Partial<UpstreamConfig> = {}, model: Partial<ModelConfig> = {}) {
  const { models, upstreams } = stageConfig();
  return mostTokens({ ...models[0]!, ...model }, { ...upstreams[0]!, ...at }, { ...ASKED, ...asked });
}

const LONGEST = 64_000;

describe('the most tokens an answer can take', () => {
  it('are bounded by what the upstream keeps to, and by nothing else in the request', () => {
    const newer = { output_bounds: { max_completion_tokens: 1 }, max_tokens: 1 };
    assert.equal(most({}).output, 500);
    assert.equal(most(newer).output, LONGEST, 'by default nobody is taken to know the newer field');
    assert.equal(most(newer, { honours: ['max_tokens', 'max_completion_tokens'] }).output, 1);
    assert.equal(most({}, { honours: [] }).output, LONGEST);
  });

  it('are bounded by the larger of two bounds where the upstream keeps to one, as it may know the other, too', () => {
    const both = { output_bounds: { max_tokens: 900, max_completion_tokens: 5 }, max_tokens: 900 };
    assert.equal(most(both, { honours: ['max_completion_tokens'] }).output, 900);
    assert.equal(most({ ...both, output_bounds: { max_tokens: 5, max_completion_tokens: 900 } }).output, 900);
    assert.equal(most(both, { honours: ['max_completion_tokens', 'max_tokens'] }).output, 900);
  });

  it('are not bounded by 0, which some servers take for no bound', () => {
    assert.equal(most({ output_bounds: { max_tokens: 0 }, max_tokens: 0 }).output, LONGEST);
  });

  it('are bounded by the field that a translated request is written with', () => {
    const translated = { protocol: 'messages', output_bounds: { max_tokens: 9 }, max_tokens: 9 };
    const plain = { supports: { ...stageConfig().models[0]!.supports, thinking: 'none' } } as const;
    assert.equal(most(translated).output, LONGEST, 'a model that thinks is bounded by max_completion_tokens');
    assert.equal(most(translated, {}, plain).output, 9);
    assert.equal(
      most({ ...translated, upstream_protocol: 'responses' }).output,
      16,
      'the least that the protocol takes',
    );
  });

  it('are bounded by the one field that the upstream takes, whichever of the two the request has', () => {
    const newer = { output_bounds: { max_completion_tokens: 7 }, max_tokens: 7 };
    const at = { max_tokens_field: 'max_tokens', honours: ['max_tokens'] } as const;
    assert.equal(most(newer, at).output, 7);
    assert.equal(
      most({}, { max_tokens_field: 'max_completion_tokens', honours: ['max_completion_tokens'] }).output,
      500,
    );
    const both = { output_bounds: { max_tokens: 3, max_completion_tokens: 9 }, max_tokens: 9 };
    assert.equal(most(both, at).output, 9, 'the upstream gets both');
    assert.equal(most({ ...newer, protocol: 'messages' }, at).output, 7, 'translated');
    assert.equal(most({ ...newer, output_bounds: {}, max_tokens: undefined }, at).output, LONGEST);
  });

  it('are what a translated request says where its client bounds nothing, and the longest answer where nothing is said', () => {
    const unbounded = { output_bounds: {}, max_tokens: undefined };
    const untold = { max_output_tokens: 200_000, default_output_tokens: 8192 };
    const to_messages = { ...unbounded, upstream_protocol: 'messages' } as const;
    assert.equal(most(to_messages, {}, untold).output, 8192);
    assert.equal(most({ ...to_messages, protocol: 'responses' }, {}, untold).output, 8192);
    assert.equal(most(to_messages, { honours: [] }, untold).output, 200_000, 'an upstream that keeps to no bound');
    assert.equal(most({ ...to_messages, max_tokens: 0 }, {}, untold).output, 200_000, '0 is no bound of ours');
    assert.equal(most({ ...to_messages, max_tokens: 9000 }, {}, untold).output, 9000);
    assert.equal(most(unbounded, {}, untold).output, 200_000, 'untouched');
    assert.equal(most({ ...to_messages, protocol: 'messages' }, {}, untold).output, 200_000, 'untouched');
    assert.equal(
      most({ ...unbounded, protocol: 'messages' }, {}, untold).output,
      200_000,
      'no bound is written in chat',
    );
    assert.equal(most({ ...unbounded, upstream_protocol: 'responses' }, {}, untold).output, 200_000);
  });

  it('count a run for every use of a tool that the upstream runs, and as many as usual without a bound', () => {
    assert.equal(most({ iterations: 4 }).runs, 4);
    assert.equal(most({ iterations: 0 }).runs, 10);
    assert.equal(most({ iterations: 0, protocol: 'responses', upstream_protocol: 'responses' }).runs, 100);
    assert.equal(most({ iterations: 0 }, { tool_iterations: 3 }).runs, 3);
    assert.equal(most({ iterations: 4, choices: 2 }).runs, 8);
    const messages = { protocol: 'messages', upstream_protocol: 'messages' } as const;
    assert.equal(most({ ...messages, iterations: 4 }).runs, 10, 'a use that is refused is a run as well');
    assert.equal(most({ ...messages, iterations: 12 }).runs, 12);
    assert.equal(most({ ...messages, iterations: 4 }, { tool_iterations: 3 }).runs, 4);
    assert.equal(most({ ...messages, iterations: 1 }).runs, 1);
  });

  it('count what it takes to summarize the conversation, which no bound of the request limits', () => {
    const { compactions, compaction_output } = most({ iterations: 4, compacts: true });
    assert.deepEqual([compactions, compaction_output], [4, LONGEST]);
  });
});
