import { type ErrorDetails, StageError } from '../../../base/contract/errors.ts';
import { PROTOCOLS } from '../../../base/contract/protocol.ts';
import { CHAT_RULES } from '../chat/rules.ts';
import { MESSAGES_RULES } from '../messages/rules.ts';
import { RESPONSES_RULES } from '../responses/rules.ts';
import { rulesBetween } from './rule.ts';

const anywhere = rulesBetween('request', PROTOCOLS, PROTOCOLS);
const fromCompat = rulesBetween('request', ['chat', 'responses'], PROTOCOLS);
const toCompat = rulesBetween('request', PROTOCOLS, ['chat', 'responses']);

const SHARED_RULES = {
  ...anywhere.dropped({
    unknown_field: [
      'a field this version does not know',
      'It is left out; where both sides speak the same protocol it passes untouched.',
    ],
    provider_tool: [
      'tools that a provider runs or has trained its models on',
      'They exist at that provider only, and are left out while other tools remain.',
    ],
    no_sampling: [
      'temperature, top_p and top_k, for a model that takes none of them',
      'The model is configured with supports.sampling: false, and upstreams refuse such requests.',
    ],
    unknown_effort: [
      'reasoning efforts that this version does not know',
      'The model thinks as much as it does by default.',
    ],
    duplicate_tool: ['tools with the name of another', 'The first stays; upstreams refuse two tools of one name.'],
    foreign_reasoning: [
      'reasoning made by another provider',
      'A provider accepts only its own reasoning, so it is left out of the history.',
    ],
    no_thinking: [
      'thinking and reasoning effort, for a model that cannot think',
      'The model is configured with supports.thinking: none, and upstreams refuse the parameters of thinking for it.',
    ],
    service_tier: [
      'service_tier, with a tier that the protocol of the upstream does not have',
      'The upstream uses its own default.',
    ],
  }),
  ...anywhere.refused({
    too_many_pieces: [
      'more than 100,000 messages, parts of messages and tools',
      'a request of more than 100,000 messages, parts and tools is not translated. Send fewer, or compact the conversation.',
    ],
    too_many_stops: [
      'more than 64 stop sequences, or 16,384 characters of them, that the upstream does not accept',
      'the upstream does not accept these stop sequences, and the gateway itself handles at most 64, of 16,384 characters together. Send fewer.',
    ],
    only_provider_tools: [
      'tools that a provider runs or has trained its models on, and no others',
      'tools that a provider runs or has trained its models on exist only at that provider. Use a model of that provider, or define the tool with a schema.',
    ],
    file_reference: [
      'files kept at a provider (file_id)',
      'a file kept at one provider cannot be read by another. Send the bytes of the file instead.',
    ],
  }),
  ...anywhere.changed({
    tool_name: [
      'names of tools above 64 characters, or with others than letters, digits, _ and -',
      'The upstream gets a valid name, which ends in a hash; the client sees its own name in calls. Messages upstreams accept 128.',
    ],
    output_bound: [
      'max_tokens, max_completion_tokens, max_output_tokens above the longest output of the model',
      'It is lowered to the configured max_output_tokens of the model; upstreams refuse more.',
    ],
    tool_schema: [
      'schemas of tools that are no JSON Schema, or one of an older draft',
      'They are converted to draft 2020-12; unknown keywords go into the description. One such tool would cause a refusal of the whole request.',
    ],
    schema_alternatives: [
      'tools whose schema has anyOf, oneOf or allOf at the top',
      'The protocols refuse them there; the tool is described as one object with the properties of all of them.',
    ],
    schema_constraints: [
      'constraints that the protocol does not accept, in schemas of strict tools and of responses, and enum, const and not at the top of a tool',
      'They go into the description: the model knows them, but the upstream does not enforce them.',
    ],
    schema_closed: [
      'objects without additionalProperties in schemas of strict tools and of responses, and open objects of a response',
      'They are closed: upstreams enforce closed objects only.',
    ],
    image_type: [
      'images other than JPEG, PNG, GIF and WebP',
      'A text stands in their place, as upstreams would refuse the whole request.',
    ],
    strict_schema: [
      'strict, with a schema that upstreams of the protocol cannot enforce, such as one with open objects, or with optional keys outside Messages',
      'strict is dropped, as upstreams refuse such schemas: the model gets the schema, but the upstream does not enforce it.',
    ],
  }),
  ...rulesBetween('request', ['messages', 'responses'], PROTOCOLS).dropped({
    provider_tool_history: [
      'calls of tools that the provider ran, and their results, in the history',
      'Only that provider can read them; the text of the model about them stays.',
    ],
    foreign_state: [
      'state of messages and calls that a chat upstream made: thought signatures, reasoning_details and the like',
      'It goes back only to upstreams with the same state_boundary, and only where it is still readable; texts stay.',
    ],
  }),
  ...rulesBetween('request', ['chat', 'responses'], ['messages']).changed({
    broken_arguments: [
      'arguments of a tool call that are no JSON object',
      'The text becomes the field `arguments` of an object.',
    ],
  }),
  ...rulesBetween('request', ['chat'], ['messages', 'responses']).dropped({
    seed: ['seed', 'These protocols have no parameter for repeatable responses.'],
    penalties: ['frequency_penalty, presence_penalty', 'These protocols have no penalties on repetition.'],
  }),
  ...rulesBetween('request', PROTOCOLS, ['messages', 'chat']).changed({
    assistant_first: [
      'a conversation that the model begins',
      'A short text of the user is inserted, as Messages upstreams and models with strict turns refuse it otherwise.',
    ],
    instructions_turn: [
      'system and developer messages in the middle of a conversation',
      'They become text of the user, in system_message tags, as many upstreams refuse them there.',
    ],
  }),
  ...rulesBetween('request', PROTOCOLS, ['chat']).changed({
    user_after_results: [
      'user messages right after tool results, for models with strict turns of user and assistant',
      'A short text of the assistant is inserted, as chat templates of such models refuse it otherwise.',
    ],
  }),
  ...toCompat.dropped({
    part_cache: [
      'cache marks on single parts of the prompt (cache_control, prompt_cache_breakpoint)',
      'Upstreams of this protocol choose the cached prefixes of a prompt themselves.',
    ],
  }),
  ...rulesBetween('request', ['chat', 'responses'], ['messages', 'chat']).changed({
    free_text_tool: [
      'tools called with plain text (custom tools)',
      'They become functions with one text, input. Calls come back as plain text.',
    ],
  }),
  ...fromCompat.refused({
    audio: [
      'input_audio, audio, modalities with audio',
      'the protocol of the upstream has no audio. Use a model whose upstream speaks chat completions, and that protocol.',
    ],
  }),
  ...fromCompat.changed({
    tool_grammar: ['the grammar of a custom tool', 'It goes into the description of the tool.'],
    allowed_tools: ['tool_choice allowed_tools', 'Only the allowed tools are sent.'],
  }),
  ...toCompat.changed({
    long_user: [
      'identifiers of end users above 64 characters',
      'The upstream gets the SHA-256 of the identifier, in hexadecimal.',
    ],
    text_document: ['documents that are plain text', 'The text is sent as text, below a line with the title.'],
  }),
  ...rulesBetween('request', ['messages'], ['chat', 'responses']).changed({
    thinking_budget: [
      'thinking.budget_tokens',
      'It becomes an effort: low below 4,096 tokens, medium below 16,384, high from there.',
    ],
  }),
  ...rulesBetween('request', ['messages', 'chat'], ['chat', 'responses']).dropped({
    top_k: ['top_k', 'The protocol has no such parameter, and some of its upstreams refuse requests that have it.'],
  }),
  ...fromCompat.dropped({
    stream_obfuscation: ['stream_options.include_obfuscation', 'Chunks are not padded.'],
    second_user: ['safety_identifier, beside another user', 'The upstream gets `user` only.'],
    token_probabilities: ['logprobs, top_logprobs', 'The answer comes without probabilities of tokens.'],
    prompt_cache_options: [
      'prompt_cache_options, and lifetimes of prompt_cache_breakpoint',
      'Messages upstreams cache a prompt for five minutes, or for one hour where the request has twelve; others choose themselves.',
    ],
  }),
  ...rulesBetween('response', ['messages'], ['chat', 'responses']).changed({
    paused_turn: ['stop_reason pause_turn', 'The response has an ordinary stop.'],
  }),
  ...rulesBetween('request', ['messages', 'responses'], ['chat', 'responses']).changed({
    result_error: [
      'is_error of results of tools, status failed of patches',
      'The text of the result begins with "Error: ".',
    ],
  }),
  ...rulesBetween('response', ['messages', 'responses'], PROTOCOLS).dropped({
    answer_citations: ['citations and annotations of text', 'The text stays, without its sources.'],
    answer_provider_tool: [
      'calls and results of tools that the provider ran',
      'The text of the model about them stays.',
    ],
  }),
  ...rulesBetween('response', PROTOCOLS, PROTOCOLS).changed({
    unknown_stop_reason: [
      'reasons for stopping that this version does not know',
      'The response ends as cut at its bound, or as the word suggests, so that half a response does not look finished. One with complete tool calls ends with these.',
    ],
  }),
  ...rulesBetween('response', ['messages'], ['chat', 'responses']).dropped({
    stop_sequence_found: ['stop_sequence', 'The response has an ordinary stop, without the sequence.'],
  }),
};

/** All rules by name; the names are what audit rows show. */
export const TRANSLATION_RULES = {
  ...SHARED_RULES,
  ...MESSAGES_RULES,
  ...CHAT_RULES,
  ...RESPONSES_RULES,
};

/** Name of a rule. */
export type RuleName = keyof typeof TRANSLATION_RULES;

/** Names of unknown fields that are recorded; others could hold any text. */
const FIELD_NAME = /^[a-z][a-z0-9_]{0,39}$/;

/** Words of an upstream that are recorded. */
const WORD = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;

/** Bound on the notes of one request. */
const NOTES_MAX = 50;

/** The rules of translation that applied to one request. */
export class Notes {
  readonly #names = new Set<string>();

  /** Names of the rules that applied, in the order they first did; unknown fields as `unknown_field:name`. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  /** Records that a rule applied. */
  note(rule: RuleName): void {
    if (this.#names.size < NOTES_MAX) this.#names.add(rule);
  }

  /** Records that a rule applied to a word of the upstream, as `rule:word`. */
  noteWord(rule: RuleName, word: string): void {
    if (this.#names.size < NOTES_MAX) this.#names.add(WORD.test(word) ? `${rule}:${word}` : rule);
  }

  /** Records a dropped field that is unknown here. */
  unknownField(name: string): void {
    if (this.#names.size < NOTES_MAX)
      this.#names.add(FIELD_NAME.test(name) ? `unknown_field:${name}` : 'unknown_field');
  }

  /**
   * Refuses the request by a rule. `param` is the path in the body, such as `messages.3.content`; `more` has details for
   * clients. Raises not_translatable.
   */
  refuse(rule: RuleName, param: string, more: ErrorDetails = {}): never {
    const { meaning } = TRANSLATION_RULES[rule];
    throw new StageError('not_translatable', `${param}: ${meaning}`, { details: { param, rule, ...more } });
  }
}
