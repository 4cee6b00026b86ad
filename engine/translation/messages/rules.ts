import type { TranslationRule } from '../rules.ts';

/** A rule about what clients of this API ask of upstreams of others. */
const asked = (field: string, handling: TranslationRule['handling'], meaning: string) =>
  ({ field, part: 'request', from: ['messages'], to: ['chat', 'responses'], handling, meaning }) as const;

/** A rule about what upstreams of this API are asked by clients of others. */
const given = (field: string, handling: TranslationRule['handling'], meaning: string) =>
  ({ field, part: 'request', from: ['chat', 'responses'], to: ['messages'], handling, meaning }) as const;

/** A rule about answers. */
const answered = (
  from: TranslationRule['from'],
  to: TranslationRule['to'],
  field: string,
  handling: TranslationRule['handling'],
  meaning: string,
) => ({ field, part: 'response', from, to, handling, meaning }) as const;

/** What is lost or changed on the way from or to this protocol. */
export const MESSAGES_RULES = {
  container: asked('container', 'dropped', 'Containers of the provider exist there only.'),
  context_management: asked(
    'context_management',
    'dropped',
    'The upstream gets the conversation whole; nothing is cleared from it.',
  ),
  compaction: asked(
    'compaction',
    'dropped',
    'The upstream gets the conversation whole; it is not summarised on the way.',
  ),
  compaction_block: asked(
    'content blocks of type compaction',
    'changed',
    'The summary is given as text; an encrypted one is left out.',
  ),
  safeguards: asked('safeguards', 'dropped', 'It asks something of the provider that has this field.'),
  tags: asked('tags', 'dropped', 'It tells the provider that has this field something about the request.'),
  speed: asked('speed', 'dropped', 'Only the provider that has this field offers other speeds.'),
  inference_geo: asked('inference_geo', 'dropped', 'Where the model runs is decided by the choice of the upstream.'),
  diagnostics: asked('diagnostics', 'dropped', 'Only the provider that has this field can diagnose the request.'),
  fallbacks: asked(
    'fallbacks, fallback_credit_token',
    'dropped',
    'Another model is never used in the place of the one asked for.',
  ),
  billing: asked('billing_policy, user_profile_id, workspace_id', 'dropped', 'They name accounts at the provider.'),
  betas: asked('betas', 'dropped', 'Beta versions of this API mean nothing in another.'),
  thread_create: asked(
    'thread.type create',
    'dropped',
    'No provider keeps the conversation; the client sends the whole of it with every turn.',
  ),
  thread: asked(
    'thread.type continue',
    'refused',
    'a conversation kept by the provider can be continued there only. Send the whole conversation in messages.',
  ),
  task_budget: asked(
    'output_config.task_budget',
    'dropped',
    'The model is not told how many tokens the whole task may take.',
  ),
  effort_without_thinking: asked(
    'output_config.effort beside thinking that is disabled',
    'dropped',
    'The upstream is told not to think, and nothing else.',
  ),
  thinking_between_tools: asked(
    'thinking of type between_tools',
    'changed',
    'The upstream is told to think, wherever it does so.',
  ),
  request_citations: asked(
    'citations of documents and in the history',
    'dropped',
    'The upstream does not cite; texts stay as they are.',
  ),
  document_context: asked('context of a document', 'changed', 'It is given as a text before the document.'),
  document_content: asked(
    'documents made of content blocks',
    'changed',
    'Their blocks are given one by one; text alone stays one document.',
  ),
  image_transformations: asked(
    'transformations of an image',
    'dropped',
    'What happens to large images is decided by the upstream.',
  ),
  search_result: asked('content blocks of type search_result', 'changed', 'Title, source and texts are given as text.'),
  tool_reference: asked(
    'content blocks of type tool_reference',
    'changed',
    'The name of the tool is given as text; all tools are sent from the start.',
  ),
  browser_state: asked('content blocks of type browser_state', 'changed', 'The open pages are given as JSON text.'),
  tool_call_origin: asked(
    'caller and toolset_name of tool calls and results',
    'dropped',
    'Every call is one the model made itself.',
  ),
  tool_examples: asked('input_examples of a tool', 'dropped', 'The model is told name, description and schema.'),
  tool_loading: asked('defer_loading of a tool', 'dropped', 'The tool is sent from the start.'),
  tool_streaming: asked(
    'eager_input_streaming of a tool',
    'dropped',
    'How arguments stream is decided by the upstream.',
  ),
  tool_callers: asked('allowed_callers of a tool', 'dropped', 'Only the model itself calls the tool.'),
  tool_result_order: asked(
    'results of tools after other content of a message',
    'changed',
    'They are moved to the beginning of the message.',
  ),
  unknown_block: asked(
    'content blocks of a type this version does not know',
    'dropped',
    'They are left out; where both sides speak the same API they pass untouched.',
  ),
  instructions_turn: given(
    'system and developer messages in the middle of a conversation',
    'changed',
    'They become text of the user, in system_message tags.',
  ),
  instructions_only: given(
    'a conversation of instructions alone',
    'changed',
    'The last instruction is said by the user, as this API needs a message.',
  ),
  blank_text: given('texts of white space alone', 'dropped', 'Upstreams of this API refuse them.'),
  image_detail_messages: given('detail of an image', 'dropped', 'This API has no levels of detail.'),
  document_type: given(
    'documents that are neither PDF nor text',
    'refused',
    'upstreams of this API read PDF and text only. Send the text of the document.',
  ),
  refusal_history: given('refusals in the history', 'changed', 'They become text of the model.'),
  tool_call_id: given(
    'identifiers of tool calls that occur twice, or with characters outside A-Z, a-z, 0-9, _ and -',
    'changed',
    'Such characters become _, and a number is added to the second identifier.',
  ),
  assistant_first: given(
    'a conversation that the model begins',
    'changed',
    'A short text of the user comes first, as upstreams of this API refuse it otherwise.',
  ),
  trailing_space: given(
    'white space at the end of a text that the model shall continue',
    'changed',
    'It is cut off, as upstreams of this API refuse it.',
  ),
  cache_marks: given(
    'more than four cache marks',
    'dropped',
    'The last four stay; a mark covers everything before it.',
  ),
  tools_of_history: given(
    'calls of tools in the history of a request without tools',
    'changed',
    'The tools are named without their schemas and may not be called, as upstreams of this API want them named.',
  ),
  json_object_mode: given('JSON mode without a schema', 'changed', 'A last instruction asks for one JSON object.'),
  output_format_name: given(
    'name and description of an output schema',
    'dropped',
    'The model is told the schema alone.',
  ),
  thinking_unsupported: given('reasoning', 'dropped', 'The model is configured as one that does not think.'),
  thinking_with_forced_tool: given(
    'reasoning beside a tool choice that forces a call',
    'dropped',
    'Upstreams of this API refuse both together, so the call is forced and the model does not think.',
  ),
  thinking_in_tool_loop: given(
    "reasoning in the middle of tool calls made without this provider's own",
    'dropped',
    'Upstreams of this API refuse it, so the model thinks again from the next question on.',
  ),
  thinking_without_room: given(
    'reasoning with fewer than 1025 output tokens',
    'dropped',
    'The smallest budget for thinking is 1024 tokens.',
  ),
  thinking_effort: given(
    'reasoning efforts and budgets',
    'changed',
    'The nearest that the model has: a budget becomes an effort, or an effort a budget below the bound on output.',
  ),
  sampling_while_thinking: given(
    'temperature, top_k, and top_p below 0.95 beside reasoning',
    'dropped',
    'Upstreams of this API refuse them while the model thinks.',
  ),
  temperature_range: given('temperature above 1', 'changed', 'It becomes 1, the highest of this API.'),
  temperature_and_top_p: given('top_p beside temperature', 'dropped', 'Models of this API take one of them.'),
  blank_stop: given('stop sequences of white space alone', 'dropped', 'Upstreams of this API refuse them.'),
  verbosity: given('verbosity', 'dropped', 'This API has no setting for it.'),
  store: given('store', 'dropped', 'Upstreams of this API keep no answers.'),
  metadata: given('metadata', 'dropped', 'This API takes the identifier of the end user and nothing else.'),
  service_tier_messages: given('service_tier other than auto and default', 'dropped', 'This API has no such tier.'),
  prompt_cache: given(
    'prompt_cache_key, prompt_cache_retention',
    'changed',
    'The instructions, the tools and the last turn are marked with cache_control.',
  ),
  answer_citations: answered(['messages'], ['chat', 'responses'], 'citations', 'dropped', 'The text stays as it is.'),
  answer_provider_tool: answered(
    ['messages'],
    ['chat', 'responses'],
    'content blocks of tools that the provider ran',
    'dropped',
    'What the model says about them stays.',
  ),
  answer_unknown_block: answered(
    ['messages'],
    ['chat', 'responses'],
    'content blocks of a type this version does not know',
    'dropped',
    'They are left out; where both sides speak the same API they pass untouched.',
  ),
  answer_stop_details: answered(
    ['messages'],
    ['chat', 'responses'],
    'stop_details',
    'dropped',
    'That the model refused is told; why is not.',
  ),
  answer_arguments: answered(
    ['chat', 'responses'],
    ['messages'],
    'arguments of a tool call that are no JSON object, in a whole answer',
    'changed',
    'They are given as the one field arguments of an object.',
  ),
} as const satisfies Record<string, TranslationRule>;
