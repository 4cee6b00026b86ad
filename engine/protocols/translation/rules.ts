import { type ErrorDetails, StageError } from '../../contract/errors.ts';
import { PROTOCOLS } from '../../contract/protocol.ts';
import { MESSAGES_RULES } from '../messages/rules.ts';
import { RESPONSES_RULES } from '../responses/rules.ts';
import { rulesBetween, rulesOf, type TranslationRule } from './rule.ts';

const { asked, unasked, answered, unanswered } = rulesOf('chat');

/** What is lost or changed on the way from or to this protocol. */
export const CHAT_RULES = {
  functions: asked(
    'refused',
    'functions, function_call',
    'their successors are tools and tool_choice. Use those, or a model whose upstream speaks this protocol.',
  ),
  function_message: asked(
    'changed',
    'messages of role function, function_call of an assistant message',
    'They become results and calls of tools.',
  ),
  several_choices: asked(
    'refused',
    'n above 1',
    'the upstream gives one answer to a request. Send the request several times instead.',
  ),
  logit_bias: asked('dropped', 'logit_bias', 'It names tokens by numbers that only one model has.'),
  prediction: asked('dropped', 'prediction', 'It would only make the answer faster.'),
  moderation: asked('dropped', 'moderation', 'The answer comes without results of moderation.'),
  message_name: asked('dropped', 'name of a message', 'Messages of one role are not grouped by names.'),
  result_texts: unasked(
    'changed',
    'several texts in one result of a tool',
    'They become one text, line by line: many upstreams take no other form.',
  ),
  result_attachments: unasked(
    'changed',
    'images and documents in results of tools',
    'Results are text there: images and documents go into a user message right after the results.',
  ),
  document_url: unasked(
    'refused',
    'documents by URL',
    'the protocol of the upstream takes documents by their bytes only. Send the bytes of the document.',
  ),
  part_order: unasked(
    'changed',
    'text or reasoning after a call in one turn of the assistant',
    'A message has its reasoning, then its text, then its calls.',
  ),
  unstored_metadata: unasked(
    'dropped',
    'metadata without store: true',
    'Upstreams of this protocol take metadata only for answers they are asked to store.',
  ),
  many_stops: unasked(
    'changed',
    'more than four stop sequences',
    'The upstream is told the first four, and the gateway cuts the text at the others.',
  ),
  reasoning_display: unasked(
    'dropped',
    'thinking.display, reasoning.summary',
    'Upstreams of this protocol show reasoning or do not, and cannot be asked to.',
  ),
  extra_choice: answered('dropped', 'choices after the first', 'A translated answer has one choice.'),
  answer_extras: answered(
    'dropped',
    'annotations, audio, images, citations and logprobs of an answer, and numbers and flags beside its text',
    'Text, reasoning and calls pass, with the state that the upstream wants back; what stands beside them is left out.',
  ),
  large_state: answered(
    'dropped',
    'state of a message and its calls above a million characters',
    'The upstream does not get it back; the texts pass.',
  ),
  reasoning_proof: unanswered(
    'dropped',
    'signatures and encrypted content of reasoning',
    'Clients of this protocol could not send them back; the text of the reasoning passes.',
  ),
} satisfies Record<string, TranslationRule>;

const anywhere = rulesBetween('request', PROTOCOLS, PROTOCOLS);
const fromCompat = rulesBetween('request', ['chat', 'responses'], PROTOCOLS);
const toCompat = rulesBetween('request', PROTOCOLS, ['chat', 'responses']);

const SHARED_RULES = {
  unknown_field: anywhere(
    'dropped',
    'a field this version does not know',
    'It is left out; where both sides speak the same protocol it passes untouched.',
  ),
  too_many_pieces: anywhere(
    'refused',
    'more than 100,000 messages, parts of messages and tools',
    'a request of more than 100,000 messages, parts and tools is not translated. Send fewer, or compact the conversation.',
  ),
  tool_name: anywhere(
    'changed',
    'names of tools above 64 characters, or with others than letters, digits, _ and -',
    'The upstream gets a name it takes, which ends in a hash; in calls the client sees its own. Messages upstreams take 128.',
  ),
  too_many_stops: anywhere(
    'refused',
    'more than 64 stop sequences, or 16,384 characters of them, that the upstream cannot be told',
    'the upstream does not take these stop sequences, and the gateway looks for 64 itself at most, of 16,384 characters together. Send fewer.',
  ),
  provider_tool: anywhere(
    'dropped',
    'tools that a provider runs, or has taught its models',
    'They exist at that provider only, and are left out while other tools remain.',
  ),
  only_provider_tools: anywhere(
    'refused',
    'tools that a provider runs, or has taught its models, and no others',
    'tools that a provider runs, or has taught its models, exist at that provider only. Use a model of that provider, or define the tool with a schema.',
  ),
  provider_tool_history: rulesBetween('request', ['messages', 'responses'], PROTOCOLS)(
    'dropped',
    'calls of tools that the provider ran, and their results, in the history',
    'Only the provider that ran them can read them; what the model said about them stays.',
  ),
  broken_arguments: rulesBetween('request', ['chat', 'responses'], ['messages'])(
    'changed',
    'arguments of a tool call that are no JSON object',
    'The text is given as the one field `arguments` of an object.',
  ),
  seed: rulesBetween('request', ['chat'], ['messages', 'responses'])(
    'dropped',
    'seed',
    'These protocols have no way to ask for repeatable answers.',
  ),
  penalties: rulesBetween('request', ['chat'], ['messages', 'responses'])(
    'dropped',
    'frequency_penalty, presence_penalty',
    'These protocols have no penalties on repetition.',
  ),
  output_bound: anywhere(
    'changed',
    'max_tokens, max_completion_tokens, max_output_tokens above what the model can say',
    'It is lowered to the most tokens of one answer of the model, as configured; upstreams refuse more.',
  ),
  no_sampling: anywhere(
    'dropped',
    'temperature, top_p and top_k, for a model that takes none of them',
    'The model is configured with supports.sampling: false, and upstreams refuse such requests.',
  ),
  unknown_effort: anywhere(
    'dropped',
    'reasoning efforts that this version does not know',
    'The model thinks as much as it does by default.',
  ),
  tool_schema: anywhere(
    'changed',
    'schemas of tools that are no JSON Schema, or one of an older draft',
    'They are brought to draft 2020-12; what has no meaning there is told in the description. One such tool would have the whole request refused.',
  ),
  schema_alternatives: anywhere(
    'changed',
    'tools whose schema has anyOf, oneOf or allOf at the top',
    'The protocols refuse them there; the tool is described as one object with the properties of all of them.',
  ),
  schema_constraints: anywhere(
    'changed',
    'constraints that the protocol does not take, in schemas of strict tools and of answers, and enum, const and not at the top of a tool',
    'They go into the description: the model is told them and not held to them.',
  ),
  schema_closed: anywhere(
    'changed',
    'objects in schemas of strict tools and of answers that do not say whether they are closed, and open ones of an answer',
    'They are closed, so that the model says the properties that are named and no others; protocols hold models to closed objects only.',
  ),
  image_type: anywhere(
    'changed',
    'images other than JPEG, PNG, GIF and WebP',
    'A text stands in their place, as upstreams would refuse the whole request.',
  ),
  duplicate_tool: anywhere(
    'dropped',
    'tools with the name of another',
    'The first stays; upstreams refuse two tools of one name.',
  ),
  assistant_first: rulesBetween('request', PROTOCOLS, ['messages', 'chat'])(
    'changed',
    'a conversation that the model begins',
    'A short text of the user comes first, as upstreams of the Messages API and models that want user and assistant to take turns refuse it otherwise.',
  ),
  user_after_results: rulesBetween('request', PROTOCOLS, ['chat'])(
    'changed',
    'what the user says right after results of tools, to models that want user and assistant to take turns',
    'A short text of the assistant stands between, as templates of such models refuse it otherwise.',
  ),
  instructions_turn: rulesBetween('request', PROTOCOLS, ['messages', 'chat'])(
    'changed',
    'system and developer messages in the middle of a conversation',
    'They become text of the user, in system_message tags, as many upstreams refuse them there.',
  ),
  foreign_reasoning: anywhere(
    'dropped',
    'reasoning made by another provider',
    'A provider takes back only what it made itself, so it is left out of the history.',
  ),
  foreign_state: rulesBetween('request', ['messages', 'responses'], PROTOCOLS)(
    'dropped',
    'state of messages and calls that a chat upstream made: thought signatures, reasoning_details and the like',
    'It goes back to upstreams with the state_boundary it was made in and to no others, nor where it cannot be read any more; texts stay.',
  ),
  file_reference: anywhere(
    'refused',
    'files kept at a provider (file_id)',
    'a file kept at one provider cannot be read by another. Send the bytes of the file instead.',
  ),
  part_cache: toCompat(
    'dropped',
    'cache marks on single parts of the prompt (cache_control, prompt_cache_breakpoint)',
    'Upstreams of this protocol decide themselves which prefixes of a prompt they keep.',
  ),
  free_text_tool: rulesBetween('request', ['chat', 'responses'], ['messages', 'chat'])(
    'changed',
    'tools called with plain text (custom tools)',
    'They become functions with one text, input. Calls come back as plain text.',
  ),
  audio: fromCompat(
    'refused',
    'input_audio, audio, modalities with audio',
    'the protocol of the upstream has no audio. Use a model whose upstream speaks chat completions, and that protocol.',
  ),
  tool_grammar: fromCompat('changed', 'the grammar of a custom tool', 'It is put into the description of the tool.'),
  allowed_tools: fromCompat('changed', 'tool_choice allowed_tools', 'Only the tools that are allowed are sent.'),
  long_user: toCompat(
    'changed',
    'identifiers of end users above 64 characters',
    'The upstream gets the SHA-256 of the identifier, in hexadecimal.',
  ),
  strict_schema: anywhere(
    'changed',
    'strict, with a schema that the protocol cannot hold a model to, such as one that leaves keys open, or optional outside Messages',
    'Strict is left off, as upstreams refuse such schemas: the model is told the schema but not held to it.',
  ),
  no_thinking: anywhere(
    'dropped',
    'thinking and reasoning effort, for a model that cannot think',
    'The model is configured with supports.thinking: none, and upstreams refuse such models to be told to think.',
  ),
  thinking_budget: rulesBetween('request', ['messages'], ['chat', 'responses'])(
    'changed',
    'thinking.budget_tokens',
    'It becomes an effort: low below 4,096 tokens, medium below 16,384, high from there.',
  ),
  top_k: rulesBetween('request', ['messages', 'chat'], ['chat', 'responses'])(
    'dropped',
    'top_k',
    'The protocol has no such parameter, and some of its upstreams refuse requests that have it.',
  ),
  service_tier: anywhere(
    'dropped',
    'service_tier, with a tier that the protocol of the upstream does not have',
    'The upstream uses its own default.',
  ),
  stream_obfuscation: fromCompat('dropped', 'stream_options.include_obfuscation', 'Chunks are not padded.'),
  second_user: fromCompat('dropped', 'safety_identifier, beside another user', 'The upstream is told `user` alone.'),
  token_probabilities: fromCompat(
    'dropped',
    'logprobs, top_logprobs',
    'The answer comes without probabilities of tokens.',
  ),
  text_document: toCompat(
    'changed',
    'documents that are plain text',
    'The text is sent as text, below a line with the title.',
  ),
  paused_turn: rulesBetween('response', ['messages'], ['chat', 'responses'])(
    'changed',
    'stop_reason pause_turn',
    'The answer says that the model stopped.',
  ),
  result_error: rulesBetween('request', ['messages', 'responses'], ['chat', 'responses'])(
    'changed',
    'is_error of results of tools, status failed of patches',
    'The text of the result begins with "Error: ".',
  ),
  prompt_cache_options: fromCompat(
    'dropped',
    'prompt_cache_options, and lifetimes of prompt_cache_breakpoint',
    'Messages upstreams keep a prompt for five minutes, or for an hour where twelve are asked for; others decide themselves.',
  ),
  answer_citations: rulesBetween('response', ['messages', 'responses'], PROTOCOLS)(
    'dropped',
    'citations and annotations of text',
    'The text stays, without its sources.',
  ),
  answer_provider_tool: rulesBetween('response', ['messages', 'responses'], PROTOCOLS)(
    'dropped',
    'calls and results of tools that the provider ran',
    'What the model says about them stays.',
  ),
  unknown_stop_reason: rulesBetween('response', PROTOCOLS, PROTOCOLS)(
    'changed',
    'reasons for stopping that this version does not know',
    'The answer says that it was cut at its longest, or what the word makes likely, so that half an answer does not look finished; one whose calls of tools are whole says that it calls them.',
  ),
  stop_sequence_found: rulesBetween('response', ['messages'], ['chat', 'responses'])(
    'dropped',
    'stop_sequence',
    'The answer says that the model stopped, not at which sequence.',
  ),
} satisfies Record<string, TranslationRule>;

/** All rules by name; the names are what audit rows show. */
export const TRANSLATION_RULES = {
  ...SHARED_RULES,
  ...MESSAGES_RULES,
  ...CHAT_RULES,
  ...RESPONSES_RULES,
} satisfies Record<string, TranslationRule>;

/** Name of a rule. */
export type RuleName = keyof typeof TRANSLATION_RULES;

/** The names of unknown fields that are told; others could be anything. */
const FIELD_NAME = /^[a-z][a-z0-9_]{0,39}$/;

/** The words of an upstream that are told. */
const WORD = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;

/** The most different notes of one request. */
const NOTES_MAX = 50;

/** Collects, for one request, which rules of translation changed or dropped something. */
export class Notes {
  readonly #names = new Set<string>();

  /** Names of the rules that applied, in the order they first did; unknown fields as `unknown_field:name`. */
  get names(): readonly string[] {
    return [...this.#names];
  }

  /** Something was changed or dropped, as the rule says. */
  note(rule: RuleName): void {
    if (this.#names.size < NOTES_MAX) this.#names.add(rule);
  }

  /** Something that an upstream said in a word of its own was changed, as the rule says: `rule:word`. */
  noteWord(rule: RuleName, word: string): void {
    if (this.#names.size < NOTES_MAX) this.#names.add(WORD.test(word) ? `${rule}:${word}` : rule);
  }

  /** A field that no version of the protocol known here has was dropped. */
  unknownField(name: string): void {
    if (this.#names.size < NOTES_MAX)
      this.#names.add(FIELD_NAME.test(name) ? `unknown_field:${name}` : 'unknown_field');
  }

  /**
   * Refuses the request, as the rule says. `param` is the path in the body, such as `messages.3.content`; `more` what
   * clients act on. Raises not_translatable.
   */
  refuse(rule: RuleName, param: string, more: ErrorDetails = {}): never {
    const { meaning } = TRANSLATION_RULES[rule];
    throw new StageError('not_translatable', `${param}: ${meaning}`, { details: { param, rule, ...more } });
  }
}
