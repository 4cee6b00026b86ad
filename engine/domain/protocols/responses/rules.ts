import { requests, requests_of_others, responses } from '../translation/rule.ts';
import { COMPAT_RULES, type SharedRules } from '../translation/shared-rules.ts';

/** Losses and changes in translations from or to this protocol. */
export const RULES = {
  ...requests.rejected({
    kept_conversation: [
      'previous_response_id, conversation, item_reference',
      'the upstream stores no conversations. Send the whole conversation in `input`; SDKs do so with `store: false`.',
    ],
    prompt_template: [
      'prompt',
      'a prompt template exists only at its provider. Send its text in `instructions` and `input`.',
    ],
    background: [
      'background',
      'the upstream has no background responses. Leave `background` out and stream the response.',
    ],
    cache_prewarm: [
      'prompt_cache_options.prewarm, generate: false',
      'the upstream would generate and bill a response instead of only caching the prompt. Do not send such requests.',
    ],
    compaction_item: [
      'input items compaction and compaction_trigger',
      'only the provider that compacted a conversation can read it. Compact the conversation in the client, or start a new one.',
    ],
    provider_tool_choice: [
      'tool_choice that forces a tool of the provider',
      'the tool exists only at its own provider. Choose `auto` or a tool of the client.',
    ],
  }),
  ...requests.changed({
    tool_namespace: ['tools in namespaces', 'Each is named after its namespace and itself; calls come back with both.'],
    tool_search: ['tool_search run by the client', 'It becomes a tool; what it found is named in its result.'],
    client_tool_history: ['calls of shells, patches and a computer in the history', 'They become calls of tools.'],
  }),
  ...requests.dropped({
    tool_options: ['tools: async, allowed_callers, defer_loading, output_schema', 'The model may call all tools.'],
    annotations: ['annotations of text in the history', 'The text stays, without its sources.'],
    message_phase: ['phase of messages', 'Other protocols do not distinguish commentary from the final text.'],
    file_detail: ['detail of files', 'The upstream decides how closely it looks at a document.'],
    reasoning_options: ['reasoning.context, reasoning.mode, length of the summary', 'The upstream chooses its own.'],
    reasoning_content: ['content of reasoning that has a summary too', 'The summary is what the upstream gets back.'],
    include: ['include of results of provider tools', 'There are no such results.'],
    provider_tool_calls: ['max_tool_calls', 'It bounds tools that the provider runs; there are none.'],
    truncation: ['truncation auto', 'The upstream rejects a conversation that is too long instead of shortening it.'],
    client_metadata: ['client_metadata', 'It is meant for the provider of the client.'],
    provider_options: ['access_programs, context_management, image, moderation', 'They are settings of one provider.'],
  }),
  ...requests_of_others.changed({
    stop_sequences: ['stop sequences', 'The gateway cuts the text at the first; output after it is billed.'],
    small_output: ['output limits below 16 tokens', 'It becomes 16, the minimum of the protocol.'],
  }),
  ...requests_of_others.dropped({
    lone_reasoning: ['reasoning that nothing follows', 'The protocol rejects it.'],
    assistant_file: ['images and documents in messages of the model', 'The protocol has no words for them.'],
  }),
  ...responses.dropped({
    answer_phase: ['phase commentary of messages', 'Commentary and final text become texts of one response.'],
    answer_unknown_part: ['parts of messages of an unknown type', 'They are dropped.'],
    second_reasoning: ['reasoning text beside a summary of it', 'Whichever comes first is passed on.'],
  }),
};

export const SHARED: SharedRules = {
  from: [
    ...([
      'provider_tool_history',
      'foreign_state',
      'result_error',
      'answer_citations',
      'answer_provider_tool',
    ] as const),
    ...COMPAT_RULES.from,
  ],
  to: ['seed', 'penalties', 'refusal_stop', 'full_window', ...COMPAT_RULES.to],
};
