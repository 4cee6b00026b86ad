import { rulesOf } from '../translation/rule.ts';

const { asked, unasked, answered, unanswered } = rulesOf('messages');

/** What is lost or changed on the way from or to this protocol. */
export const MESSAGES_RULES = {
  ...asked.dropped({
    container: ['container', 'Containers of the provider exist there only.'],
    context_management: ['context_management', 'The upstream gets the conversation whole; nothing is cleared from it.'],
    compaction: ['compaction', 'The upstream gets the conversation whole; it is not summarised on the way.'],
    safeguards: ['safeguards', 'It asks something of the provider that has this field.'],
    tags: ['tags', 'It tells the provider that has this field something about the request.'],
    speed: ['speed', 'Only the provider that has this field offers other speeds.'],
    inference_geo: ['inference_geo', 'Where the model runs is decided by the choice of the upstream.'],
    diagnostics: ['diagnostics', 'Only the provider that has this field can diagnose the request.'],
    fallbacks: ['fallbacks, fallback_credit_token', 'Another model is never used in the place of the one asked for.'],
    billing: ['billing_policy, user_profile_id, workspace_id', 'They name accounts at the provider.'],
    betas: ['betas', 'Beta versions of this protocol mean nothing in another.'],
    thread_create: [
      'thread.type create',
      'No provider keeps the conversation; the client sends the whole of it with every turn.',
    ],
    task_budget: ['output_config.task_budget', 'The model is not told how many tokens the whole task may take.'],
    effort_without_thinking: [
      'output_config.effort beside thinking that is disabled',
      'Thinking is disabled, without further settings.',
    ],
    request_citations: [
      'citations of documents and in the history',
      'The upstream does not cite; texts stay as they are.',
    ],
    image_transformations: ['transformations of an image', 'What happens to large images is decided by the upstream.'],
    tool_call_origin: ['caller and toolset_name of tool calls and results', 'Every call is one the model made itself.'],
    tool_examples: ['input_examples of a tool', 'The model gets name, description and schema.'],
    tool_loading: ['defer_loading of a tool', 'The tool is sent from the start.'],
    tool_streaming: ['eager_input_streaming of a tool', 'How arguments stream is decided by the upstream.'],
    tool_callers: ['allowed_callers of a tool', 'Only the model itself calls the tool.'],
    unknown_block: [
      'content blocks of a type this version does not know',
      'They are left out; where both sides speak the same protocol they pass untouched.',
    ],
  }),
  ...asked.changed({
    compaction_block: [
      'content blocks of type compaction',
      'The summary is given as text; an encrypted one is left out.',
    ],
    thinking_display: ['thinking.display other than summarized and omitted', 'The request asks for visible thinking.'],
    thinking_between_tools: ['thinking of type between_tools', 'Thinking is enabled; the upstream chooses where.'],
    document_context: ['context of a document', 'It is given as a text before the document.'],
    document_content: [
      'documents made of content blocks',
      'Their blocks are given one by one; text alone stays one document.',
    ],
    search_result: ['content blocks of type search_result', 'Title, source and texts are given as text.'],
    tool_reference: [
      'content blocks of type tool_reference',
      'The name of the tool is given as text; all tools are sent from the start.',
    ],
    browser_state: ['content blocks of type browser_state', 'The open pages are given as JSON text.'],
    tool_changes: [
      'content blocks of type tool_addition and tool_removal',
      'All tools are sent from the start: those that are added later too, and those that are taken away.',
    ],
    tool_result_order: [
      'results of tools after other content of a message',
      'They are moved to the beginning of the message.',
    ],
    begun_answer: [
      'a last message of the assistant, for the model to go on with',
      'Upstreams of these protocols may answer it instead of going on with it.',
    ],
  }),
  ...asked.refused({
    thread: [
      'thread.type continue',
      'a conversation kept by the provider can be continued there only. Send the whole conversation in messages.',
    ],
  }),
  ...unasked.changed({
    instructions_only: [
      'a conversation of instructions alone',
      'The last instruction is said by the user, as this protocol needs a message.',
    ],
    empty_message: [
      'messages of the user without any text',
      'They say "(empty message)", as upstreams of this protocol refuse empty ones and would answer the message before.',
    ],
    refusal_history: ['refusals in the history', 'They become text of the model.'],
    tool_call_id: [
      'identifiers of tool calls that occur twice, or with characters outside A-Z, a-z, 0-9, _ and -',
      'Such characters become _, and a number is added to the second identifier.',
    ],
    trailing_space: [
      'white space at the end of a text that the model shall continue',
      'It is cut off, as upstreams of this protocol refuse it.',
    ],
    tools_of_history: [
      'calls of tools in the history of a request without tools',
      'The tools are named without their schemas and may not be called, as upstreams of this protocol want them named.',
    ],
    property_name: [
      'properties at the top of a tool whose names have more than 64 characters, or others than A-Z, a-z, 0-9, _, . and -',
      'They become patternProperties that match the same name, which the description tells.',
    ],
    output_schema: [
      'schemas of the answer that the protocol cannot hold a model to: recursive ones, maps, values of any type',
      'A last instruction tells the schema; the model is not held to it.',
    ],
    json_object_mode: ['JSON mode without a schema', 'A last instruction asks for one JSON object.'],
    thinking_effort: [
      'reasoning efforts',
      'They become the nearest that the model has, or a budget below the bound on output; none becomes silence.',
    ],
    temperature_range: ['temperature above 1', 'It becomes 1, the highest of this protocol.'],
    blank_stop: [
      'stop sequences of white space alone',
      'Upstreams of this protocol refuse them, so the gateway cuts the text there; what the model writes after it is paid for.',
    ],
    prompt_cache: [
      'prompt_cache_key, prompt_cache_retention',
      'The instructions, the tools and the last turn are marked with cache_control.',
    ],
  }),
  ...unasked.dropped({
    blank_text: ['texts of white space alone', 'Upstreams of this protocol refuse them.'],
    image_detail: ['detail of an image', 'This protocol has no levels of detail.'],
    cache_marks: ['more than four cache marks', 'The last four stay; a mark covers everything before it.'],
    output_format_name: ['name and description of an output schema', 'The model gets the schema only.'],
    thinking_with_forced_tool: [
      'reasoning beside a tool choice that forces a call',
      'Upstreams of this protocol refuse both together, so the call is forced and the model does not think.',
    ],
    thinking_in_tool_loop: [
      "reasoning in the middle of tool calls made without this provider's own",
      'Upstreams of this protocol refuse it, so the model thinks again from the next question on.',
    ],
    thinking_without_room: [
      'reasoning with fewer than 1025 output tokens',
      'The smallest budget for thinking is 1024 tokens.',
    ],
    sampling_while_thinking: [
      'temperature, top_k, and top_p below 0.95 beside reasoning',
      'Upstreams of this protocol refuse them while the model thinks.',
    ],
    temperature_and_top_p: ['top_p beside temperature', 'Models of this protocol take one of them.'],
    verbosity: ['verbosity', 'This protocol has no setting for it.'],
    store: ['store', 'Upstreams of this protocol keep no answers.'],
    metadata: ['metadata', 'This protocol takes the identifier of the end user and nothing else.'],
  }),
  ...unasked.refused({
    document_type: [
      'documents that are neither PDF nor text',
      'upstreams of this protocol read PDF and text only. Send the text of the document.',
    ],
  }),
  ...answered.dropped({
    answer_unknown_block: [
      'content blocks of a type this version does not know, and pieces of blocks',
      'They are left out; where both sides speak the same protocol they pass untouched.',
    ],
    answer_stop_details: ['stop_details', 'The refusal passes, without its reason.'],
  }),
  ...unanswered.changed({
    answer_call_id: [
      'identifiers of tool calls with characters outside A-Z, a-z, 0-9, _ and -',
      'The client gets them in base64url after `gwid_`; the upstream gets its own back.',
    ],
    answer_usage: [
      'usage that the upstream does not tell',
      'Clients of this protocol need input and output: they are estimated, four bytes or characters to a token. Cached tokens are left out.',
    ],
    answer_arguments: [
      'arguments of a tool call that are no JSON object, in a whole answer',
      'They are given as the one field arguments of an object.',
    ],
  }),
  ...unanswered.dropped({
    late_state: [
      'state of a text, said after it in a stream without calls of tools',
      'Clients take the last block of a message for the answer.',
    ],
  }),
};
