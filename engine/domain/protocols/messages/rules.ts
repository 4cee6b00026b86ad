import { requests, requests_of_others, responses, responses_of_others } from '../translation/rule.ts';
import type { SharedRules } from '../translation/shared-rules.ts';

/** Losses and changes in translations from or to this protocol. */
export const RULES = {
  ...requests.dropped({
    container: ['container', 'Containers of the provider exist there only.'],
    context_management: ['context_management', 'The upstream gets the conversation whole; nothing is cleared from it.'],
    compaction: ['compaction', 'The upstream gets the conversation whole; it is not summarised on the way.'],
    safeguards: ['safeguards', 'Only the provider that has this field can apply them.'],
    tags: ['tags', 'Only the provider that has this field records them.'],
    speed: ['speed', 'Only the provider that has this field offers other speeds.'],
    inference_geo: ['inference_geo', 'Where the model runs is decided by the choice of the upstream.'],
    diagnostics: ['diagnostics', 'Only the provider that has this field can diagnose the request.'],
    fallbacks: ['fallbacks, fallback_credit_token', 'The gateway never replaces the requested model.'],
    billing: ['billing_policy, user_profile_id, workspace_id', 'They name accounts at the provider.'],
    betas: ['betas', 'Beta versions of this protocol mean nothing in another.'],
    thread_create: ['thread.type create', 'No provider keeps the conversation; every turn has the whole of it.'],
    task_budget: ['output_config.task_budget', 'The model does not get the token budget of the task.'],
    effort_without_thinking: ['output_config.effort beside disabled thinking', 'Thinking is disabled.'],
    request_citations: ['citations of documents and in the history', 'The upstream does not cite; texts stay.'],
    image_transformations: ['transformations of an image', 'What happens to large images is decided by the upstream.'],
    tool_call_origin: ['caller and toolset_name of tool calls and results', 'Every call is one the model made itself.'],
    tool_examples: ['input_examples of a tool', 'The model gets name, description and schema.'],
    tool_loading: ['defer_loading of a tool', 'The tool is sent from the start.'],
    tool_streaming: ['eager_input_streaming of a tool', 'The upstream decides how arguments stream.'],
    tool_callers: ['allowed_callers of a tool', 'Only the model itself calls the tool.'],
    unknown_block: ['content blocks of an unknown type', 'They are dropped.'],
  }),
  ...requests.changed({
    compaction_block: ['content blocks of type compaction', 'The summary becomes a text; an encrypted one is dropped.'],
    thinking_display: [
      'thinking.display other than summarized and omitted',
      'The upstream request has visible thinking.',
    ],
    thinking_between_tools: ['thinking of type between_tools', 'Thinking is enabled; the upstream chooses where.'],
    document_context: ['context of a document', 'It becomes a text before the document.'],
    document_content: ['documents made of content blocks', 'They are sent block by block; text stays one document.'],
    search_result: ['content blocks of type search_result', 'Title, source and texts become text.'],
    tool_reference: ['content blocks of type tool_reference', 'The name of the tool becomes text.'],
    browser_state: ['content blocks of type browser_state', 'The open pages become JSON text.'],
    tool_changes: ['content blocks of type tool_addition and tool_removal', 'All tools are sent from the start.'],
    tool_result_order: ['results of tools after other content', 'They are moved to the beginning of the message.'],
    begun_answer: ['a last message of the assistant', 'Upstreams of these protocols may not continue it.'],
  }),
  ...requests.rejected({
    thread: [
      'thread.type continue',
      'a conversation stored at a provider can only be continued there. Send the whole conversation in messages.',
    ],
  }),
  ...requests_of_others.changed({
    instructions_only: ['a conversation of instructions alone', 'The last instruction becomes a user message.'],
    empty_message: [
      'messages of the user without text',
      'They get the text "(empty message)": upstreams reject empty ones.',
    ],
    refusal_history: ['refusals in the history', 'They become text of the model.'],
    tool_call_id: ['call identifiers that are odd or occur twice', 'They get _ for odd characters, and a number.'],
    trailing_space: ['white space at the end of a last message of the model', 'It is removed: upstreams reject it.'],
    tools_of_history: ['calls in the history of a request without tools', 'The tools are named and not callable.'],
    property_name: ['long or odd names of properties of a tool', 'They become patternProperties, described by name.'],
    output_schema: ['schemas that upstreams cannot enforce', 'A last instruction has the schema.'],
    json_object_mode: ['JSON mode without a schema', 'A last instruction requests one JSON object.'],
    thinking_effort: ['reasoning efforts', 'They become the nearest of the model, or a budget; none is no thinking.'],
    temperature_range: ['temperature above 1', 'It becomes 1, the highest of this protocol.'],
    blank_stop: ['blank stop sequences', 'The gateway cuts the text there; what the model writes after it is billed.'],
    prompt_cache: ['prompt_cache_key, prompt_cache_retention', 'Instructions, tools and last turn get cache_control.'],
  }),
  ...requests_of_others.dropped({
    blank_text: ['texts with only white space', 'Upstreams of this protocol reject them.'],
    image_detail: ['detail of an image', 'This protocol has no levels of detail.'],
    cache_marks: ['more than four cache marks', 'The last four stay; a mark covers everything before it.'],
    output_format_name: ['name and description of an output schema', 'The model gets the schema only.'],
    thinking_with_forced_tool: [
      'reasoning beside a forced call',
      'The model does not think: upstreams reject both together.',
    ],
    thinking_in_tool_loop: ['reasoning between calls of another provider', 'Upstreams reject it until the next turn.'],
    thinking_without_room: ['reasoning with fewer than 1025 output tokens', 'The smallest budget is 1024.'],
    sampling_while_thinking: ['temperature, top_k, small top_p beside reasoning', 'Upstreams reject the combination.'],
    temperature_and_top_p: ['top_p beside temperature', 'Models of this protocol take one of them.'],
    verbosity: ['verbosity', 'This protocol has no setting for it.'],
    store: ['store', 'Upstreams of this protocol store no responses.'],
    metadata: ['metadata', 'This protocol accepts only the identifier of the end user.'],
  }),
  ...requests_of_others.rejected({
    document_type: [
      'documents that are neither PDF nor text',
      'upstreams of this protocol read PDF and text only. Send the text of the document.',
    ],
  }),
  ...responses.dropped({
    answer_unknown_block: ['content blocks of an unknown type, and pieces of blocks', 'They are dropped.'],
    answer_stop_details: ['stop_details', 'The refusal passes, without its reason.'],
  }),
  ...responses_of_others.changed({
    answer_call_id: ['call identifiers with odd characters', 'The client gets them in base64url after `gwid_`.'],
    answer_usage: ['unknown usage', 'Clients need input and output: both are estimated.'],
    answer_arguments: ['arguments that are no JSON object, in a document', 'They become a field `arguments`.'],
  }),
  ...responses_of_others.dropped({
    late_state: ['state of a text, sent after it without calls', 'Clients treat the last block as the response.'],
  }),
};

export const SHARED: SharedRules = {
  from: [
    'provider_tool_history',
    'foreign_state',
    'thinking_budget',
    'top_k',
    'paused_turn',
    'result_error',
    'answer_citations',
    'answer_provider_tool',
    'stop_sequence_found',
    'refusal_stop',
    'full_window',
  ],
  to: ['broken_arguments', 'seed', 'penalties', 'assistant_first', 'instructions_turn', 'free_text_tool'],
};
