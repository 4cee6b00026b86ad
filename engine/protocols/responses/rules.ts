import { rulesBetween, rulesOf, type TranslationRule } from '../translation/rule.ts';

const { asked, unasked, answered } = rulesOf('responses');
const fromMessages = rulesBetween('response', ['messages'], ['responses']);

/** What is lost or changed on the way from or to this protocol. */
export const RESPONSES_RULES = {
  kept_conversation: asked(
    'refused',
    'previous_response_id, conversation, item_reference',
    'the upstream keeps no conversations. Send the whole conversation in `input`; SDKs do so when told `store: false`.',
  ),
  prompt_template: asked(
    'refused',
    'prompt',
    'a prompt template exists at its provider only. Send its text in `instructions` and `input`.',
  ),
  background: asked(
    'refused',
    'background',
    'the upstream cannot answer later. Leave `background` out and stream the answer.',
  ),
  cache_prewarm: asked(
    'refused',
    'prompt_cache_options.prewarm, generate: false',
    'the upstream would write an answer, and charge it, where only the prompt was to be kept. Leave the request out.',
  ),
  compaction_item: asked(
    'refused',
    'input items compaction and compaction_trigger',
    'only the provider that shortened a conversation can read it. Let the client shorten the conversation itself, or start a new one.',
  ),
  provider_tool_choice: asked(
    'refused',
    'tool_choice that forces a tool of the provider',
    'the tool exists at its own provider only. Choose `auto` or one of the tools of the client.',
  ),
  tool_namespace: asked(
    'changed',
    'tools in namespaces',
    'Each becomes a tool named after its namespace and itself; calls come back with both.',
  ),
  tool_search: asked(
    'changed',
    'tool_search run by the client',
    'It becomes a tool with arguments; what it found is added to the tools and named in its result.',
  ),
  tool_options: asked(
    'dropped',
    'tools: async, allowed_callers, defer_loading, output_schema',
    'Tools are called directly, one answer each, and the model sees all of them.',
  ),
  annotations: asked('dropped', 'annotations of text in the history', 'The text stays, without its sources.'),
  message_phase: asked('dropped', 'phase of messages', 'Other protocols do not tell commentary from answers.'),
  file_detail: asked('dropped', 'detail of files', 'The upstream decides how closely it looks at a document.'),
  reasoning_options: asked(
    'dropped',
    'reasoning.context, reasoning.mode, and the length of the summary',
    'The upstream decides how it says what it thought.',
  ),
  reasoning_content: asked(
    'dropped',
    'content of reasoning that has a summary too',
    'The summary is what the upstream gets back.',
  ),
  include: asked('dropped', 'include of results of provider tools', 'There are no such results.'),
  provider_tool_calls: asked('dropped', 'max_tool_calls', 'It bounds tools that the provider runs; there are none.'),
  truncation: asked(
    'dropped',
    'truncation auto',
    'A conversation that is too long is refused by the upstream, not shortened.',
  ),
  client_metadata: asked('dropped', 'client_metadata', 'It is meant for the provider of the client.'),
  provider_options: asked(
    'dropped',
    'access_programs, context_management, image, moderation, configuration_update',
    'They are settings of one provider.',
  ),
  stop_sequences: unasked(
    'changed',
    'stop sequences',
    'The protocol has none, so the gateway cuts the text at the first of them, also across texts that follow one another, and says so; what the model writes after it is paid for.',
  ),
  small_output: unasked(
    'changed',
    'bounds of the answer below 16 tokens',
    'It becomes 16, the least that the protocol takes.',
  ),
  lone_reasoning: unasked(
    'dropped',
    'reasoning that no answer or call follows',
    'The protocol refuses it, and nothing came of it.',
  ),
  assistant_file: unasked(
    'dropped',
    'images and documents said by the model',
    'The protocol has no words for them in the history.',
  ),
  client_tool_history: asked(
    'changed',
    'calls of shells, of patches and of a computer in the history, with their results',
    'They become calls of tools of these names; calls without a result are left out.',
  ),
  answer_phase: answered(
    'dropped',
    'phase commentary of messages',
    'What the model says on its way and its answer are texts of one answer.',
  ),
  answer_unknown_part: answered(
    'dropped',
    'parts of messages of a type this version does not know',
    'They are left out; where both sides speak the same protocol they pass untouched.',
  ),
  second_reasoning: answered('dropped', 'reasoning text beside a summary of it', 'Whichever comes first is passed on.'),
  refusal_stop: fromMessages(
    'changed',
    'stop_reason refusal',
    'The answer is complete and its text is text; where there is none, a refusal says that the model declined.',
  ),
  full_window: fromMessages(
    'changed',
    'stop_reason model_context_window_exceeded',
    'The answer is incomplete for max_output_tokens.',
  ),
} satisfies Record<string, TranslationRule>;
