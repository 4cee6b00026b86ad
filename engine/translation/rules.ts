import { CHAT_RULES } from './chat/rules.ts';
import { MESSAGES_RULES } from './messages/rules.ts';
import type { Protocol } from './protocol.ts';
import { RESPONSES_RULES } from './responses/rules.ts';

/** What happens to something that one protocol can say and another cannot. */
export interface TranslationRule {
  /** The field or feature, as the side that has it names it. */
  readonly field: string;
  /** Whether it is in what the client asks or in what the upstream answers. */
  readonly part: 'request' | 'response';
  /** Protocols that have it. */
  readonly from: readonly Protocol[];
  /** Protocols that cannot say it. */
  readonly to: readonly Protocol[];
  readonly handling: 'dropped' | 'changed' | 'refused';
  /** One sentence: what happens, and for a refusal what to do instead. */
  readonly meaning: string;
}

/** Rules that are no protocol's own. */
const SHARED_RULES = {
  unknown_field: {
    field: 'a field this version does not know',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning: 'It is left out; where both sides speak the same API it passes untouched.',
  },
  tool_name: {
    field: 'names of tools above 64 characters, or with others than letters, digits, _ and -',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'changed',
    meaning:
      'The upstream gets a name it takes, with a hash; calls have the name of the client. Messages upstreams take 128.',
  },
  provider_tool: {
    field: 'tools that the provider runs',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning: 'They exist at their own provider only, and are left out while tools of the client remain.',
  },
  only_provider_tools: {
    field: 'tools that the provider runs, and no others',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'refused',
    meaning: 'tools run by the provider exist at their own provider only. Use a model whose upstream speaks this API.',
  },
  provider_tool_history: {
    field: 'calls of tools that the provider ran, and their results, in the history',
    part: 'request',
    from: ['messages', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning: 'Only the provider that ran them can read them; what the model said about them stays.',
  },
  broken_arguments: {
    field: 'arguments of a tool call that are no JSON object',
    part: 'request',
    from: ['chat', 'responses'],
    to: ['messages'],
    handling: 'changed',
    meaning: 'The text is given as the one field `arguments` of an object.',
  },
  seed: {
    field: 'seed',
    part: 'request',
    from: ['chat'],
    to: ['messages', 'responses'],
    handling: 'dropped',
    meaning: 'These APIs have no way to ask for repeatable answers.',
  },
  penalties: {
    field: 'frequency_penalty, presence_penalty',
    part: 'request',
    from: ['chat'],
    to: ['messages', 'responses'],
    handling: 'dropped',
    meaning: 'These APIs have no penalties on repetition.',
  },
  foreign_reasoning: {
    field: 'reasoning made by another provider',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning: 'A provider takes back only what it made itself, so it is left out of the history.',
  },
  file_reference: {
    field: 'files kept at a provider (file_id)',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'refused',
    meaning: 'a file kept at one provider cannot be read by another. Send the bytes of the file instead.',
  },
  part_cache: {
    field: 'cache marks on single parts of the prompt (cache_control, prompt_cache_breakpoint)',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['chat', 'responses'],
    handling: 'dropped',
    meaning: 'Upstreams of this API decide themselves which prefixes of a prompt they keep.',
  },
  free_text_tool: {
    field: 'tools called with plain text (custom tools)',
    part: 'request',
    from: ['chat', 'responses'],
    to: ['messages', 'chat'],
    handling: 'changed',
    meaning: 'They become functions with one text, input. Calls come back as plain text.',
  },
  tool_grammar: {
    field: 'the grammar of a custom tool',
    part: 'request',
    from: ['chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'changed',
    meaning: 'It is put into the description of the tool.',
  },
  allowed_tools: {
    field: 'tool_choice allowed_tools',
    part: 'request',
    from: ['chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'changed',
    meaning: 'Only the tools that are allowed are sent.',
  },
  long_user: {
    field: 'identifiers of end users above 64 characters',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['chat', 'responses'],
    handling: 'changed',
    meaning: 'The upstream gets the SHA-256 of the identifier, in hexadecimal.',
  },
  strict_schema: {
    field: 'strict, with a schema that leaves keys optional or open',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['chat', 'responses'],
    handling: 'changed',
    meaning:
      'Strict is left off, as upstreams of this API refuse such schemas: the model is told the schema but not held to it.',
  },
  no_thinking: {
    field: 'thinking and reasoning effort, for a model that cannot think',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning:
      'The model is configured with supports.thinking: none, and upstreams refuse such models to be told to think.',
  },
  thinking_budget: {
    field: 'thinking.budget_tokens',
    part: 'request',
    from: ['messages'],
    to: ['chat', 'responses'],
    handling: 'changed',
    meaning: 'It becomes an effort: low below 4,096 tokens, medium below 16,384, high from there.',
  },
  top_k: {
    field: 'top_k',
    part: 'request',
    from: ['messages', 'chat'],
    to: ['chat', 'responses'],
    handling: 'dropped',
    meaning: 'The API has no such parameter, and some of its upstreams refuse requests that have it.',
  },
  service_tier: {
    field: 'service_tier, with a tier that the API of the upstream does not have',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning: 'The upstream uses its own default.',
  },
  stream_obfuscation: {
    field: 'stream_options.include_obfuscation',
    part: 'request',
    from: ['chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning: 'Chunks are not padded.',
  },
  second_user: {
    field: 'safety_identifier, beside another user',
    part: 'request',
    from: ['chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning: 'Only user is said to the upstream.',
  },
  token_probabilities: {
    field: 'logprobs, top_logprobs',
    part: 'request',
    from: ['chat', 'responses'],
    to: ['messages', 'chat', 'responses'],
    handling: 'dropped',
    meaning: 'The answer comes without probabilities of tokens.',
  },
  text_document: {
    field: 'documents that are plain text',
    part: 'request',
    from: ['messages', 'chat', 'responses'],
    to: ['chat', 'responses'],
    handling: 'changed',
    meaning: 'The text is sent as text, below a line with the title.',
  },
  paused_turn: {
    field: 'stop_reason pause_turn',
    part: 'response',
    from: ['messages'],
    to: ['chat', 'responses'],
    handling: 'changed',
    meaning: 'The answer says that the model stopped.',
  },
  result_error: {
    field: 'is_error of results of tools',
    part: 'request',
    from: ['messages'],
    to: ['chat', 'responses'],
    handling: 'changed',
    meaning: 'The text of the result begins with "Error: ".',
  },
} as const satisfies Record<string, TranslationRule>;

/** All rules by name; the names are what audit rows show. */
export const TRANSLATION_RULES = {
  ...SHARED_RULES,
  ...MESSAGES_RULES,
  ...CHAT_RULES,
  ...RESPONSES_RULES,
} satisfies Record<string, TranslationRule>;

/** Name of a rule. */
export type RuleName = keyof typeof TRANSLATION_RULES;
