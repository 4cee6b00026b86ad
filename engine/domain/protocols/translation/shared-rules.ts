/** Rules shared by protocols. The `rules.ts` of a protocol lists those that concern it; an unlisted rule concerns all. @module */

import { ruleRows } from './rule.ts';

export const SHARED_RULES = {
  ...ruleRows('request', 'rejected', {
    too_many_pieces: [
      'more than 100,000 messages, parts of messages and tools',
      'a request of more than 100,000 messages, parts and tools is not translated. Send fewer, or compact the conversation.',
    ],
    too_many_stops: [
      'more than 64 stop sequences, or 16,384 characters of them, that the upstream does not accept',
      'the upstream does not accept these stop sequences, and the gateway itself handles at most 64, of 16,384 characters together. Send fewer.',
    ],
    only_provider_tools: [
      'tools that a provider runs or trains its models on, and no others',
      'tools that a provider runs or trains its models on exist only at that provider. Use a model of that provider, or define the tool with a schema.',
    ],
    file_reference: [
      'files kept at a provider (file_id)',
      'a file kept at one provider cannot be read by another. Send the bytes of the file instead.',
    ],
    audio: [
      'input_audio, audio, modalities with audio',
      'the protocol of the upstream has no audio. Use chat completions, and a model whose upstream speaks it.',
    ],
  }),
  ...ruleRows('request', 'changed', {
    tool_name: ['tool names above 64 (Messages: 128) characters, or odd ones', 'The upstream gets them with a hash.'],
    output_bound: ['a bound above the longest output of the model', 'It becomes the max_output_tokens of the model.'],
    tool_schema: ['tool schemas that are no JSON Schema, or an older draft', 'They are converted to draft 2020-12.'],
    schema_alternatives: ['anyOf, oneOf, allOf at the top of a tool', 'One object has the properties of all of them.'],
    schema_constraints: ['constraints in schemas that upstreams reject', 'They go into the description, unenforced.'],
    schema_closed: ['open objects in strict schemas', 'They are closed: upstreams enforce closed objects only.'],
    image_type: ['images other than JPEG, PNG, GIF and WebP', 'A text replaces them; upstreams reject them.'],
    strict_schema: ['strict, with a schema that upstreams cannot enforce', 'The schema stays, without strict.'],
    broken_arguments: ['arguments of a call that are no JSON object', 'The text becomes a field `arguments`.'],
    assistant_first: ['a conversation that the model begins', 'A short text of the user comes before it.'],
    instructions_turn: ['system messages in mid-conversation', 'They become text of the user, in system_message tags.'],
    user_after_results: ['user messages after tool results, with strict turns', 'A text of the assistant precedes.'],
    free_text_tool: ['custom tools', 'They become functions with one text, input. Calls come back as plain text.'],
    tool_grammar: ['the grammar of a custom tool', 'It goes into the description of the tool.'],
    allowed_tools: ['tool_choice allowed_tools', 'Only the allowed tools are sent.'],
    long_user: ['identifiers of end users above 64 characters', 'The upstream gets their SHA-256.'],
    text_document: ['documents that are plain text', 'The text is sent as text, below a line with the title.'],
    thinking_budget: ['thinking.budget_tokens', 'It becomes an effort: from 4,096 tokens medium, from 16,384 high.'],
    result_error: ['is_error of tool results, status failed of patches', 'The text of the result begins so.'],
  }),
  ...ruleRows('request', 'dropped', {
    unknown_field: ['a field this version does not know', 'It is left out; without translation it passes untouched.'],
    provider_tool: ['tools that a provider runs or has trained its models on', 'They are dropped while others remain.'],
    no_sampling: ['temperature, top_p, top_k', 'The model has supports.sampling: false, and upstreams reject them.'],
    unknown_effort: ['unknown reasoning efforts', 'The model thinks as much as it does by default.'],
    duplicate_tool: ['tools with the name of another', 'The first stays; upstreams reject two tools of one name.'],
    foreign_reasoning: ['reasoning of another provider', 'It is dropped: a provider accepts only its own.'],
    no_thinking: ['thinking and effort', 'The model has supports.thinking: none, and upstreams reject them.'],
    service_tier: ['service_tier that the upstream does not have', 'The upstream uses its default.'],
    provider_tool_history: ['tools that the provider ran, in the history', 'They are dropped; texts about them stay.'],
    foreign_state: ['state that a chat upstream made', 'Only upstreams with its state_boundary get it; texts stay.'],
    seed: ['seed', 'These protocols have no repeatable responses.'],
    penalties: ['frequency_penalty, presence_penalty', 'These protocols have no such parameters.'],
    part_cache: ['cache marks on parts of the prompt', 'Upstreams of this protocol choose cached prefixes themselves.'],
    top_k: ['top_k', 'The protocol has no such parameter, and some upstreams reject it.'],
    stream_obfuscation: ['stream_options.include_obfuscation', 'Chunks are not padded.'],
    second_user: ['safety_identifier, beside another user', 'The upstream gets `user` only.'],
    token_probabilities: ['logprobs, top_logprobs', 'The response has no token probabilities.'],
    prompt_cache_options: ['prompt_cache_options, ttl of breakpoints', 'Twelve hours become one, others five minutes.'],
  }),
  ...ruleRows('response', 'changed', {
    paused_turn: ['stop_reason pause_turn', 'The response has an ordinary stop.'],
    unknown_stop_reason: ['unknown stop reasons', 'The response ends as cut, or as the word suggests.'],
    refusal_stop: ['stop_reason refusal', 'The response is complete; without any text it has a refusal.'],
    full_window: [
      'stop_reason model_context_window_exceeded',
      'The response is incomplete with the reason max_output_tokens.',
    ],
  }),
  ...ruleRows('response', 'dropped', {
    answer_citations: ['citations and annotations of text', 'The text stays, without its sources.'],
    answer_provider_tool: ['calls and results of tools that the provider ran', 'The text about them stays.'],
    stop_sequence_found: ['stop_sequence', 'The response has an ordinary stop, without the sequence.'],
  }),
};

export type SharedRule = keyof typeof SHARED_RULES;

/** Shared rules for requests and responses of a protocol (`from`), and for translations to it (`to`). */
export interface SharedRules {
  readonly from: readonly SharedRule[];
  readonly to: readonly SharedRule[];
}

/** The shared rules that concern chat completions and Responses alike. */
export const COMPAT_RULES: SharedRules = {
  from: [
    'broken_arguments',
    'free_text_tool',
    'audio',
    'tool_grammar',
    'allowed_tools',
    'stream_obfuscation',
    'second_user',
    'token_probabilities',
    'prompt_cache_options',
  ],
  to: [
    'part_cache',
    'long_user',
    'text_document',
    'thinking_budget',
    'top_k',
    'paused_turn',
    'result_error',
    'stop_sequence_found',
  ],
};
