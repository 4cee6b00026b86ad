import { rulesBetween, rulesOf } from '../translation/rule.ts';

const { asked, unasked, answered } = rulesOf('responses');

/** What is lost or changed on the way from or to this protocol. */
export const RESPONSES_RULES = {
  ...asked.refused({
    kept_conversation: [
      'previous_response_id, conversation, item_reference',
      'the upstream keeps no conversations. Send the whole conversation in `input`; SDKs do so with `store: false`.',
    ],
    prompt_template: [
      'prompt',
      'a prompt template exists at its provider only. Send its text in `instructions` and `input`.',
    ],
    background: ['background', 'the upstream cannot answer later. Leave `background` out and stream the answer.'],
    cache_prewarm: [
      'prompt_cache_options.prewarm, generate: false',
      'the upstream would write an answer, and charge it, where only the prompt was to be kept. Leave the request out.',
    ],
    compaction_item: [
      'input items compaction and compaction_trigger',
      'only the provider that shortened a conversation can read it. Let the client shorten the conversation itself, or start a new one.',
    ],
    provider_tool_choice: [
      'tool_choice that forces a tool of the provider',
      'the tool exists at its own provider only. Choose `auto` or one of the tools of the client.',
    ],
  }),
  ...asked.changed({
    tool_namespace: [
      'tools in namespaces',
      'Each becomes a tool named after its namespace and itself; calls come back with both.',
    ],
    tool_search: [
      'tool_search run by the client',
      'It becomes a tool with arguments; what it found is added to the tools and named in its result.',
    ],
    client_tool_history: [
      'calls of shells, of patches and of a computer in the history, with their results',
      'They become calls of tools of these names; calls without a result are left out.',
    ],
  }),
  ...asked.dropped({
    tool_options: [
      'tools: async, allowed_callers, defer_loading, output_schema',
      'Tools are called directly, one answer each, and the model sees all of them.',
    ],
    annotations: ['annotations of text in the history', 'The text stays, without its sources.'],
    message_phase: ['phase of messages', 'Other protocols do not tell commentary from answers.'],
    file_detail: ['detail of files', 'The upstream decides how closely it looks at a document.'],
    reasoning_options: [
      'reasoning.context, reasoning.mode, and the length of the summary',
      'The upstream chooses the form of its reasoning.',
    ],
    reasoning_content: ['content of reasoning that has a summary too', 'The summary is what the upstream gets back.'],
    include: ['include of results of provider tools', 'There are no such results.'],
    provider_tool_calls: ['max_tool_calls', 'It bounds tools that the provider runs; there are none.'],
    truncation: ['truncation auto', 'A conversation that is too long is refused by the upstream, not shortened.'],
    client_metadata: ['client_metadata', 'It is meant for the provider of the client.'],
    provider_options: [
      'access_programs, context_management, image, moderation, configuration_update',
      'They are settings of one provider.',
    ],
  }),
  ...unasked.changed({
    stop_sequences: [
      'stop sequences',
      'The protocol has none: the gateway cuts the text at the first of them, also across consecutive texts. Output after the cut is billed.',
    ],
    small_output: ['bounds of the answer below 16 tokens', 'It becomes 16, the least that the protocol takes.'],
  }),
  ...unasked.dropped({
    lone_reasoning: ['reasoning that no answer or call follows', 'The protocol refuses it, and nothing came of it.'],
    assistant_file: ['images and documents said by the model', 'The protocol has no words for them in the history.'],
  }),
  ...answered.dropped({
    answer_phase: ['phase commentary of messages', 'Commentary and final text become texts of one response.'],
    answer_unknown_part: [
      'parts of messages of a type this version does not know',
      'They are left out; where both sides speak the same protocol they pass untouched.',
    ],
    second_reasoning: ['reasoning text beside a summary of it', 'Whichever comes first is passed on.'],
  }),
  ...rulesBetween('response', ['messages'], ['responses']).changed({
    refusal_stop: ['stop_reason refusal', 'The response is complete; without any text it has a refusal.'],
    full_window: ['stop_reason model_context_window_exceeded', 'The answer is incomplete for max_output_tokens.'],
  }),
};
