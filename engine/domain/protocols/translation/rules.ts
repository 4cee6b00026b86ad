import { type ErrorDetails, StageError } from '../../../base/contract/errors.ts';
import { PROTOCOLS } from '../../../base/contract/protocol.ts';
import { MESSAGES_RULES } from '../messages/rules.ts';
import { RESPONSES_RULES } from '../responses/rules.ts';
import { rulesBetween, rulesOf } from './rule.ts';

const { asked, unasked, answered, unanswered } = rulesOf('chat');

/** What is lost or changed on the way from or to this protocol. */
export const CHAT_RULES = {
  ...asked.refused({
    functions: [
      'functions, function_call',
      'their successors are tools and tool_choice. Use those, or a model whose upstream speaks this protocol.',
    ],
    several_choices: [
      'n above 1',
      'the upstream gives one answer to a request. Send the request several times instead.',
    ],
  }),
  ...asked.changed({
    function_message: [
      'messages of role function, function_call of an assistant message',
      'They become results and calls of tools.',
    ],
  }),
  ...asked.dropped({
    logit_bias: ['logit_bias', 'It names tokens by numbers that only one model has.'],
    prediction: ['prediction', 'It would only make the answer faster.'],
    moderation: ['moderation', 'The answer comes without results of moderation.'],
    message_name: ['name of a message', 'Messages of one role are not grouped by names.'],
  }),
  ...unasked.changed({
    result_texts: [
      'several texts in one result of a tool',
      'They become one text, line by line: many upstreams take no other form.',
    ],
    result_attachments: [
      'images and documents in results of tools',
      'Results are text there: images and documents go into a user message right after the results.',
    ],
    part_order: [
      'text or reasoning after a call in one turn of the assistant',
      'A message has its reasoning, then its text, then its calls.',
    ],
    many_stops: [
      'more than four stop sequences',
      'The upstream is told the first four, and the gateway cuts the text at the others.',
    ],
  }),
  ...unasked.refused({
    document_url: [
      'documents by URL',
      'the protocol of the upstream takes documents by their bytes only. Send the bytes of the document.',
    ],
  }),
  ...unasked.dropped({
    unstored_metadata: [
      'metadata without store: true',
      'Upstreams of this protocol take metadata only for answers they are asked to store.',
    ],
    reasoning_display: [
      'thinking.display, reasoning.summary',
      'Upstreams of this protocol show reasoning or do not, and cannot be asked to.',
    ],
  }),
  ...answered.dropped({
    extra_choice: ['choices after the first', 'A translated answer has one choice.'],
    answer_extras: [
      'annotations, audio, images, citations and logprobs of an answer, and numbers and flags beside its text',
      'Text, reasoning and calls pass, with the state that the upstream wants back; what stands beside them is left out.',
    ],
    large_state: [
      'state of a message and its calls above a million characters',
      'The upstream does not get it back; the texts pass.',
    ],
  }),
  ...unanswered.dropped({
    reasoning_proof: [
      'signatures and encrypted content of reasoning',
      'Clients of this protocol could not send them back; the text of the reasoning passes.',
    ],
  }),
};

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
      'tools that a provider runs, or has taught its models',
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
      'A provider takes back only what it made itself, so it is left out of the history.',
    ],
    no_thinking: [
      'thinking and reasoning effort, for a model that cannot think',
      'The model is configured with supports.thinking: none, and upstreams refuse such models to be told to think.',
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
      'more than 64 stop sequences, or 16,384 characters of them, that the upstream cannot be told',
      'the upstream does not take these stop sequences, and the gateway looks for 64 itself at most, of 16,384 characters together. Send fewer.',
    ],
    only_provider_tools: [
      'tools that a provider runs, or has taught its models, and no others',
      'tools that a provider runs, or has taught its models, exist at that provider only. Use a model of that provider, or define the tool with a schema.',
    ],
    file_reference: [
      'files kept at a provider (file_id)',
      'a file kept at one provider cannot be read by another. Send the bytes of the file instead.',
    ],
  }),
  ...anywhere.changed({
    tool_name: [
      'names of tools above 64 characters, or with others than letters, digits, _ and -',
      'The upstream gets a name it takes, which ends in a hash; in calls the client sees its own. Messages upstreams take 128.',
    ],
    output_bound: [
      'max_tokens, max_completion_tokens, max_output_tokens above what the model can say',
      'It is lowered to the most tokens of one answer of the model, as configured; upstreams refuse more.',
    ],
    tool_schema: [
      'schemas of tools that are no JSON Schema, or one of an older draft',
      'They are brought to draft 2020-12; what has no meaning there is told in the description. One such tool would have the whole request refused.',
    ],
    schema_alternatives: [
      'tools whose schema has anyOf, oneOf or allOf at the top',
      'The protocols refuse them there; the tool is described as one object with the properties of all of them.',
    ],
    schema_constraints: [
      'constraints that the protocol does not take, in schemas of strict tools and of answers, and enum, const and not at the top of a tool',
      'They go into the description: the model is told them and not held to them.',
    ],
    schema_closed: [
      'objects in schemas of strict tools and of answers that do not say whether they are closed, and open ones of an answer',
      'They are closed, so that the model says the properties that are named and no others; protocols hold models to closed objects only.',
    ],
    image_type: [
      'images other than JPEG, PNG, GIF and WebP',
      'A text stands in their place, as upstreams would refuse the whole request.',
    ],
    strict_schema: [
      'strict, with a schema that the protocol cannot hold a model to, such as one that leaves keys open, or optional outside Messages',
      'Strict is left off, as upstreams refuse such schemas: the model is told the schema but not held to it.',
    ],
  }),
  ...rulesBetween('request', ['messages', 'responses'], PROTOCOLS).dropped({
    provider_tool_history: [
      'calls of tools that the provider ran, and their results, in the history',
      'Only the provider that ran them can read them; what the model said about them stays.',
    ],
    foreign_state: [
      'state of messages and calls that a chat upstream made: thought signatures, reasoning_details and the like',
      'It goes back to upstreams with the state_boundary it was made in and to no others, nor where it cannot be read any more; texts stay.',
    ],
  }),
  ...rulesBetween('request', ['chat', 'responses'], ['messages']).changed({
    broken_arguments: [
      'arguments of a tool call that are no JSON object',
      'The text is given as the one field `arguments` of an object.',
    ],
  }),
  ...rulesBetween('request', ['chat'], ['messages', 'responses']).dropped({
    seed: ['seed', 'These protocols have no way to ask for repeatable answers.'],
    penalties: ['frequency_penalty, presence_penalty', 'These protocols have no penalties on repetition.'],
  }),
  ...rulesBetween('request', PROTOCOLS, ['messages', 'chat']).changed({
    assistant_first: [
      'a conversation that the model begins',
      'A short text of the user comes first, as upstreams of the Messages API and models that want user and assistant to take turns refuse it otherwise.',
    ],
    instructions_turn: [
      'system and developer messages in the middle of a conversation',
      'They become text of the user, in system_message tags, as many upstreams refuse them there.',
    ],
  }),
  ...rulesBetween('request', PROTOCOLS, ['chat']).changed({
    user_after_results: [
      'what the user says right after results of tools, to models that want user and assistant to take turns',
      'A short text of the assistant stands between, as templates of such models refuse it otherwise.',
    ],
  }),
  ...toCompat.dropped({
    part_cache: [
      'cache marks on single parts of the prompt (cache_control, prompt_cache_breakpoint)',
      'Upstreams of this protocol decide themselves which prefixes of a prompt they keep.',
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
    tool_grammar: ['the grammar of a custom tool', 'It is put into the description of the tool.'],
    allowed_tools: ['tool_choice allowed_tools', 'Only the tools that are allowed are sent.'],
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
    second_user: ['safety_identifier, beside another user', 'The upstream is told `user` alone.'],
    token_probabilities: ['logprobs, top_logprobs', 'The answer comes without probabilities of tokens.'],
    prompt_cache_options: [
      'prompt_cache_options, and lifetimes of prompt_cache_breakpoint',
      'Messages upstreams keep a prompt for five minutes, or for an hour where twelve are asked for; others decide themselves.',
    ],
  }),
  ...rulesBetween('response', ['messages'], ['chat', 'responses']).changed({
    paused_turn: ['stop_reason pause_turn', 'The answer says that the model stopped.'],
  }),
  ...rulesBetween('request', ['messages', 'responses'], ['chat', 'responses']).changed({
    result_error: [
      'is_error of results of tools, status failed of patches',
      'The text of the result begins with "Error: ".',
    ],
  }),
  ...rulesBetween('response', ['messages', 'responses'], PROTOCOLS).dropped({
    answer_citations: ['citations and annotations of text', 'The text stays, without its sources.'],
    answer_provider_tool: ['calls and results of tools that the provider ran', 'What the model says about them stays.'],
  }),
  ...rulesBetween('response', PROTOCOLS, PROTOCOLS).changed({
    unknown_stop_reason: [
      'reasons for stopping that this version does not know',
      'The answer says that it was cut at its longest, or what the word makes likely, so that half an answer does not look finished; one whose calls of tools are whole says that it calls them.',
    ],
  }),
  ...rulesBetween('response', ['messages'], ['chat', 'responses']).dropped({
    stop_sequence_found: ['stop_sequence', 'The answer says that the model stopped, not at which sequence.'],
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
