import { rulesOf, type TranslationRule } from '../translation/rule.ts';

const { asked, unasked, answered, unanswered } = rulesOf('messages');

/** What is lost or changed on the way from or to this protocol. */
export const MESSAGES_RULES = {
  container: asked('dropped', 'container', 'Containers of the provider exist there only.'),
  context_management: asked(
    'dropped',
    'context_management',
    'The upstream gets the conversation whole; nothing is cleared from it.',
  ),
  compaction: asked(
    'dropped',
    'compaction',
    'The upstream gets the conversation whole; it is not summarised on the way.',
  ),
  compaction_block: asked(
    'changed',
    'content blocks of type compaction',
    'The summary is given as text; an encrypted one is left out.',
  ),
  safeguards: asked('dropped', 'safeguards', 'It asks something of the provider that has this field.'),
  tags: asked('dropped', 'tags', 'It tells the provider that has this field something about the request.'),
  speed: asked('dropped', 'speed', 'Only the provider that has this field offers other speeds.'),
  inference_geo: asked('dropped', 'inference_geo', 'Where the model runs is decided by the choice of the upstream.'),
  diagnostics: asked('dropped', 'diagnostics', 'Only the provider that has this field can diagnose the request.'),
  fallbacks: asked(
    'dropped',
    'fallbacks, fallback_credit_token',
    'Another model is never used in the place of the one asked for.',
  ),
  billing: asked('dropped', 'billing_policy, user_profile_id, workspace_id', 'They name accounts at the provider.'),
  betas: asked('dropped', 'betas', 'Beta versions of this protocol mean nothing in another.'),
  thread_create: asked(
    'dropped',
    'thread.type create',
    'No provider keeps the conversation; the client sends the whole of it with every turn.',
  ),
  thread: asked(
    'refused',
    'thread.type continue',
    'a conversation kept by the provider can be continued there only. Send the whole conversation in messages.',
  ),
  task_budget: asked(
    'dropped',
    'output_config.task_budget',
    'The model is not told how many tokens the whole task may take.',
  ),
  thinking_display: asked(
    'changed',
    'thinking.display other than summarized and omitted',
    'The upstream is asked to show what it thinks.',
  ),
  effort_without_thinking: asked(
    'dropped',
    'output_config.effort beside thinking that is disabled',
    'The upstream is told not to think, and nothing else.',
  ),
  thinking_between_tools: asked(
    'changed',
    'thinking of type between_tools',
    'The upstream is told to think, wherever it does so.',
  ),
  request_citations: asked(
    'dropped',
    'citations of documents and in the history',
    'The upstream does not cite; texts stay as they are.',
  ),
  document_context: asked('changed', 'context of a document', 'It is given as a text before the document.'),
  document_content: asked(
    'changed',
    'documents made of content blocks',
    'Their blocks are given one by one; text alone stays one document.',
  ),
  image_transformations: asked(
    'dropped',
    'transformations of an image',
    'What happens to large images is decided by the upstream.',
  ),
  search_result: asked('changed', 'content blocks of type search_result', 'Title, source and texts are given as text.'),
  tool_reference: asked(
    'changed',
    'content blocks of type tool_reference',
    'The name of the tool is given as text; all tools are sent from the start.',
  ),
  browser_state: asked('changed', 'content blocks of type browser_state', 'The open pages are given as JSON text.'),
  tool_changes: asked(
    'changed',
    'content blocks of type tool_addition and tool_removal',
    'All tools are sent from the start: those that are added later too, and those that are taken away.',
  ),
  tool_call_origin: asked(
    'dropped',
    'caller and toolset_name of tool calls and results',
    'Every call is one the model made itself.',
  ),
  tool_examples: asked('dropped', 'input_examples of a tool', 'The model is told name, description and schema.'),
  tool_loading: asked('dropped', 'defer_loading of a tool', 'The tool is sent from the start.'),
  tool_streaming: asked(
    'dropped',
    'eager_input_streaming of a tool',
    'How arguments stream is decided by the upstream.',
  ),
  tool_callers: asked('dropped', 'allowed_callers of a tool', 'Only the model itself calls the tool.'),
  tool_result_order: asked(
    'changed',
    'results of tools after other content of a message',
    'They are moved to the beginning of the message.',
  ),
  begun_answer: asked(
    'changed',
    'a last message of the assistant, for the model to go on with',
    'Upstreams of these protocols may answer it instead of going on with it.',
  ),
  unknown_block: asked(
    'dropped',
    'content blocks of a type this version does not know',
    'They are left out; where both sides speak the same protocol they pass untouched.',
  ),
  instructions_only: unasked(
    'changed',
    'a conversation of instructions alone',
    'The last instruction is said by the user, as this protocol needs a message.',
  ),
  blank_text: unasked('dropped', 'texts of white space alone', 'Upstreams of this protocol refuse them.'),
  empty_message: unasked(
    'changed',
    'messages of the user without any text',
    'They say "(empty message)", as upstreams of this protocol refuse empty ones and would answer the message before.',
  ),
  image_detail: unasked('dropped', 'detail of an image', 'This protocol has no levels of detail.'),
  document_type: unasked(
    'refused',
    'documents that are neither PDF nor text',
    'upstreams of this protocol read PDF and text only. Send the text of the document.',
  ),
  refusal_history: unasked('changed', 'refusals in the history', 'They become text of the model.'),
  tool_call_id: unasked(
    'changed',
    'identifiers of tool calls that occur twice, or with characters outside A-Z, a-z, 0-9, _ and -',
    'Such characters become _, and a number is added to the second identifier.',
  ),
  trailing_space: unasked(
    'changed',
    'white space at the end of a text that the model shall continue',
    'It is cut off, as upstreams of this protocol refuse it.',
  ),
  cache_marks: unasked(
    'dropped',
    'more than four cache marks',
    'The last four stay; a mark covers everything before it.',
  ),
  tools_of_history: unasked(
    'changed',
    'calls of tools in the history of a request without tools',
    'The tools are named without their schemas and may not be called, as upstreams of this protocol want them named.',
  ),
  property_name: unasked(
    'changed',
    'properties at the top of a tool whose names have more than 64 characters, or others than A-Z, a-z, 0-9, _, . and -',
    'They become patternProperties that match the same name, which the description tells.',
  ),
  output_schema: unasked(
    'changed',
    'schemas of the answer that the protocol cannot hold a model to: recursive ones, maps, values of any type',
    'A last instruction tells the schema; the model is not held to it.',
  ),
  json_object_mode: unasked('changed', 'JSON mode without a schema', 'A last instruction asks for one JSON object.'),
  output_format_name: unasked(
    'dropped',
    'name and description of an output schema',
    'The model is told the schema alone.',
  ),
  thinking_with_forced_tool: unasked(
    'dropped',
    'reasoning beside a tool choice that forces a call',
    'Upstreams of this protocol refuse both together, so the call is forced and the model does not think.',
  ),
  thinking_in_tool_loop: unasked(
    'dropped',
    "reasoning in the middle of tool calls made without this provider's own",
    'Upstreams of this protocol refuse it, so the model thinks again from the next question on.',
  ),
  thinking_without_room: unasked(
    'dropped',
    'reasoning with fewer than 1025 output tokens',
    'The smallest budget for thinking is 1024 tokens.',
  ),
  thinking_effort: unasked(
    'changed',
    'reasoning efforts',
    'They become the nearest that the model has, or a budget below the bound on output; none becomes silence.',
  ),
  sampling_while_thinking: unasked(
    'dropped',
    'temperature, top_k, and top_p below 0.95 beside reasoning',
    'Upstreams of this protocol refuse them while the model thinks.',
  ),
  temperature_range: unasked('changed', 'temperature above 1', 'It becomes 1, the highest of this protocol.'),
  temperature_and_top_p: unasked('dropped', 'top_p beside temperature', 'Models of this protocol take one of them.'),
  blank_stop: unasked(
    'changed',
    'stop sequences of white space alone',
    'Upstreams of this protocol refuse them, so the gateway cuts the text there; what the model writes after it is paid for.',
  ),
  verbosity: unasked('dropped', 'verbosity', 'This protocol has no setting for it.'),
  store: unasked('dropped', 'store', 'Upstreams of this protocol keep no answers.'),
  metadata: unasked('dropped', 'metadata', 'This protocol takes the identifier of the end user and nothing else.'),
  prompt_cache: unasked(
    'changed',
    'prompt_cache_key, prompt_cache_retention',
    'The instructions, the tools and the last turn are marked with cache_control.',
  ),
  answer_unknown_block: answered(
    'dropped',
    'content blocks of a type this version does not know, and pieces of blocks',
    'They are left out; where both sides speak the same protocol they pass untouched.',
  ),
  answer_stop_details: answered('dropped', 'stop_details', 'That the model refused is told; why is not.'),
  answer_call_id: unanswered(
    'changed',
    'identifiers of tool calls with characters outside A-Z, a-z, 0-9, _ and -',
    'The client gets them in base64url after `gwid_`; the upstream gets its own back.',
  ),
  answer_usage: unanswered(
    'changed',
    'usage that the upstream does not tell',
    'Clients of this protocol need input and output: they are estimated, four bytes or characters to a token. Cached tokens are left out.',
  ),
  late_state: unanswered(
    'dropped',
    'state of a text, said after it in a stream without calls of tools',
    'Clients take the last block of a message for the answer.',
  ),
  answer_arguments: unanswered(
    'changed',
    'arguments of a tool call that are no JSON object, in a whole answer',
    'They are given as the one field arguments of an object.',
  ),
} satisfies Record<string, TranslationRule>;
