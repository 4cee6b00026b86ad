/**
 * How long an answer of a model can be, which the catalogue of prices does not tell. Facts of the vendors' documentation, as
 * `model_prices_and_context_window.json` of litellm 1.110.2 (MIT, 2026-11) lists them, and of Anthropic's list of models.
 */
const LONGEST: readonly (readonly [tokens: number, ...models: readonly RegExp[]])[] = [
  [128_000, /claude-(?:fable-5|opus-5|opus-4-[678]|sonnet-5|sonnet-4-6)/],
  [64_000, /claude-(?:haiku-4-5|opus-4-5|sonnet-4|4-sonnet|3-7-sonnet)/],
  [32_000, /claude-(?:opus-4|4-opus)/],
  [8192, /claude-3-5/],
  [4096, /claude-(?:3|2|v\d|instant)/],
  [16_384, /gpt-5(?:-\d)?-chat/, /gpt-4o(?!-2024-05-13)/],
  [272_000, /gpt-5-pro/],
  [128_000, /gpt-[56]/],
  [32_768, /gpt-4-1(?!\d)/],
  [4096, /gpt-4o-2024-05-13/, /gpt-4(?:-turbo)?$/, /gpt-3-5/],
  [100_000, /(?:^|[/-])o[13](?:-pro|-mini|-deep-research)?$/, /(?:^|[/-])o4-mini/],
  [65_536, /gemini-(?:2-5|3)/, /deepseek-reasoner/],
  [8192, /gemini-(?:1|2-0)/, /deepseek-chat/],
  [393_216, /deepseek-v4/],
  [128_000, /glm-5/, /minimax-m3/],
];

/** The longest answer of a model by its name, in tokens; `undefined` where it is not known. */
export function longestAnswer(name: string): number | undefined {
  const plain = name.toLowerCase().replace(/[._]/g, '-');
  return LONGEST.find(([, ...models]) => models.some((model) => model.test(plain)))?.[0];
}
