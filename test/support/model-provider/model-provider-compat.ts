/**
 * Chat completions and Responses of the scripted model provider: their rejections, and the content of a request.
 */
import {
  ANY_OBJECT,
  between,
  COUNT,
  checkEnforcedSchema,
  checker,
  checkTools,
  demand,
  either,
  FLAG,
  FULL_TEXT,
  IMAGE_TYPES,
  kinds,
  listOf,
  METADATA,
  matching,
  object,
  oneOf,
  orNull,
  readDataUrl,
  SCHEMA_OBJECT,
  type Shape,
  TEXT,
} from './model-provider-checks.ts';
import { parsedArguments, type Seen, unseal } from './model-provider-script.ts';

const NAME = matching('^[a-zA-Z0-9_-]{1,64}$');
const EFFORT = orNull(oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'));
const VERBOSITY = orNull(oneOf('low', 'medium', 'high'));
const SETTINGS = {
  stream: orNull(FLAG),
  temperature: orNull(between(0, 2)),
  top_p: orNull(between(0, 1)),
  top_logprobs: orNull({ type: 'integer' }),
  user: { type: 'string', maxLength: 64 },
  safety_identifier: { type: 'string', maxLength: 128 },
  prompt_cache_key: { type: 'string', maxLength: 64 },
  prompt_cache_retention: orNull(oneOf('in_memory', '24h')),
  metadata: orNull(METADATA),
  store: orNull(FLAG),
  service_tier: orNull(oneOf('auto', 'default', 'flex', 'scale', 'priority', 'fast')),
};
const CALL_ID = { type: 'string', minLength: 1, maxLength: 40 };
const TEXT_PART = object({ type: oneOf('text'), text: TEXT });
const TEXTS = either(TEXT, listOf(TEXT_PART, { minItems: 1 }));
const IMAGE_URL = matching('^(https?://|data:)');
const DETAIL = oneOf('auto', 'low', 'high', 'original');
const USER_PART = kinds('type', {
  text: object({ text: TEXT }),
  image_url: object({ image_url: object({ url: IMAGE_URL }, { detail: DETAIL }) }),
  input_audio: object({ input_audio: object({ data: FULL_TEXT, format: oneOf('wav', 'mp3') }) }),
  file: object({ file: object({}, { file_data: FULL_TEXT, filename: FULL_TEXT, file_id: FULL_TEXT }) }),
});
const CALL = kinds('type', {
  function: object({ id: CALL_ID, function: object({ name: NAME, arguments: TEXT }) }),
  custom: object({ id: CALL_ID, custom: object({ name: NAME, input: TEXT }) }),
});
const ASSISTANT_PART = kinds('type', { text: object({ text: TEXT }), refusal: object({ refusal: TEXT }) });
const MESSAGE = kinds('role', {
  system: object({ content: TEXTS }, { name: TEXT }),
  developer: object({ content: TEXTS }, { name: TEXT }),
  user: object({ content: either(TEXT, listOf(USER_PART, { minItems: 1 })) }, { name: TEXT }),
  assistant: object(
    {},
    {
      content: orNull(either(TEXT, listOf(ASSISTANT_PART, { minItems: 1 }))),
      refusal: orNull(TEXT),
      tool_calls: listOf(CALL, { minItems: 1 }),
      reasoning_content: TEXT,
      annotations: listOf(ANY_OBJECT),
      name: TEXT,
    },
  ),
  tool: object({ content: TEXTS, tool_call_id: CALL_ID }),
});
const DESCRIBED = { description: TEXT, strict: orNull(FLAG) };
const FUNCTION = object({ name: NAME }, { ...DESCRIBED, parameters: SCHEMA_OBJECT });
const CUSTOM = object({ name: NAME }, { description: TEXT, format: ANY_OBJECT });
const TOOL = kinds('type', { function: object({ function: FUNCTION }), custom: object({ custom: CUSTOM }) });
const NAMED = object({ name: NAME });
const choiceOf = (shapes: Parameters<typeof kinds>[1]) =>
  either(oneOf('none', 'auto', 'required'), kinds('type', shapes));
const formatOf = (json_schema: Shape) => kinds('type', { text: object({}), json_object: object({}), json_schema });

const checkShape = checker(
  object(
    { model: FULL_TEXT, messages: listOf(MESSAGE, { minItems: 1 }) },
    {
      max_tokens: orNull(COUNT),
      max_completion_tokens: orNull(COUNT),
      ...SETTINGS,
      stream_options: orNull(object({}, { include_usage: FLAG, include_obfuscation: FLAG })),
      n: orNull(COUNT),
      stop: orNull(either(TEXT, listOf(TEXT, { minItems: 1, maxItems: 4 }))),
      frequency_penalty: orNull(between(-2, 2)),
      presence_penalty: orNull(between(-2, 2)),
      seed: orNull({ type: 'integer' }),
      logit_bias: orNull(ANY_OBJECT),
      logprobs: orNull(FLAG),
      tools: listOf(TOOL, { minItems: 1 }),
      tool_choice: choiceOf({ function: object({ function: NAMED }), custom: object({ custom: NAMED }) }),
      parallel_tool_calls: FLAG,
      response_format: formatOf(object({ json_schema: object({ name: NAME }, { ...DESCRIBED, schema: ANY_OBJECT }) })),
      reasoning_effort: EFFORT,
      verbosity: VERBOSITY,
    },
  ),
);

// biome-ignore lint/suspicious/noExplicitAny: the shape was checked
type Checked = any;

const dataOf = (url: string) => url.replace(/^data:[^,]*,/, '');

function checkData(image: string | undefined, file: string | undefined, path: string): void {
  if (image?.startsWith('data:')) {
    const { media_type } = readDataUrl(image, path);
    demand(IMAGE_TYPES.includes(media_type), path, `unsupported image ${media_type}`);
  }
  if (file) demand(readDataUrl(file, path).media_type === 'application/pdf', path, 'expected a PDF');
}

const checkFunctions = (functions: Checked[]) =>
  checkTools(
    functions.map(({ name, parameters, strict }) => ({ name, schema: parameters, strict })),
    'functions',
  );

const partsOf = (input: Checked): Checked[] =>
  typeof input === 'string' ? [{ type: 'text', text: input }] : (input ?? []);

function checkCalls(messages: Checked[]): void {
  let open = new Set<string>();
  let in_tools = false;
  for (const [index, { role, tool_call_id, tool_calls, content, refusal }] of messages.entries()) {
    const path = `messages.${index}`;
    if (role === 'tool') {
      demand(in_tools, path, "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.");
      demand(open.delete(tool_call_id), path, `tool_call_id '${tool_call_id}' was not called`);
      continue;
    }
    const message =
      "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.";
    demand(open.size === 0, path, `${message} Missing: ${[...open]}`);
    in_tools = tool_calls !== undefined;
    open = new Set((tool_calls ?? []).map(({ id }: Checked) => id));
    demand(open.size === (tool_calls?.length ?? 0), path, 'Duplicate tool call id');
    const says = role !== 'assistant' || in_tools || content || refusal;
    demand(says, `${path}.content`, 'expected a string, got null');
  }
  demand(open.size === 0, 'messages', "An assistant message with 'tool_calls' must be followed by tool messages");
}

function checkFiles(messages: Checked[]): void {
  for (const [index, { content }] of messages.entries()) {
    for (const [at, { image_url, file }] of partsOf(content).entries()) {
      const path = `messages.${index}.content.${at}`;
      checkData(image_url?.url, file?.file_data, path);
      demand(!file || file.file_id || (file.file_data && file.filename), path, 'file_data needs a filename');
    }
  }
}

function checkFormat({ response_format, messages }: Checked): void {
  const { schema, strict } = response_format?.json_schema ?? {};
  if (strict) checkEnforcedSchema(schema, 'response_format', 'functions');
  if (response_format?.type !== 'json_object') return;
  demand(/json/i.test(JSON.stringify(messages)), 'messages', "must contain the word 'json' in some form");
}

/** Rejects the API's invalid requests. */
export function checkChat(body: Checked): void {
  checkShape(body);
  checkCalls(body.messages);
  checkFiles(body.messages);
  checkFormat(body);
  const { tools, tool_choice, parallel_tool_calls, stream, stream_options, max_tokens, max_completion_tokens } = body;
  const is_one = !(max_tokens && max_completion_tokens);
  demand(is_one, 'max_tokens', 'max_tokens and max_completion_tokens exclude each other');
  const may_choose = tools || tool_choice === undefined;
  demand(may_choose, 'tool_choice', "'tool_choice' is only allowed when 'tools' are specified.");
  demand(tools || parallel_tool_calls === undefined, 'parallel_tool_calls', "only allowed when 'tools' are specified.");
  demand(stream || !stream_options, 'stream_options', "only allowed when 'stream' is enabled.");
  checkFunctions((tools ?? []).flatMap((tool: Checked) => tool.function ?? []));
  const chosen = tool_choice?.function?.name;
  const known = (tools ?? []).some((tool: Checked) => tool.function?.name === chosen);
  demand(chosen === undefined || known, 'tool_choice', `'${chosen}' is no tool`);
}

/** The content of a request. */
export function seenInChat(body: Checked): Seen {
  const system = body.messages.filter(({ role }: Checked) => role === 'system' || role === 'developer');
  const others = body.messages.filter(({ role }: Checked) => role !== 'system' && role !== 'developer');
  const parts = others.flatMap(({ role, content }: Checked) => partsOf(content).map((part) => ({ ...part, role })));
  const calls = others.flatMap(({ tool_calls }: Checked) => tool_calls ?? []);
  const find = (take: (part: Checked) => string | undefined): string[] =>
    parts.map(take).filter((found: string | undefined) => found !== undefined);
  return {
    system: system.flatMap(({ content }: Checked) => partsOf(content).map(({ text }) => text)),
    texts: parts.filter(({ type }: Checked) => type === 'text').map(({ role, text }: Checked) => [role, text]),
    tools: (body.tools ?? []).map((tool: Checked) => (tool.function ?? tool.custom).name),
    calls: calls.map((call: Checked) =>
      call.custom
        ? [call.custom.name, call.id, call.custom.input]
        : [call.function.name, call.id, parsedArguments(call.function.arguments)],
    ),
    results: others.filter(({ role }: Checked) => role === 'tool').map(({ tool_call_id }: Checked) => tool_call_id),
    images: find(({ image_url }) => image_url && dataOf(image_url.url)),
    documents: find(({ file }) => file?.file_data && dataOf(file.file_data)),
    thoughts: others.flatMap(({ reasoning_content }: Checked) => reasoning_content ?? []),
  };
}

const ITEM_CALL_ID = { type: 'string', minLength: 1, maxLength: 64 };
const STATUS = { status: oneOf('in_progress', 'completed', 'incomplete') };
const FILE = { file_data: FULL_TEXT, filename: FULL_TEXT, file_url: matching('^https?://'), file_id: TEXT };
const INPUT = kinds('type', {
  input_text: object({ text: TEXT }),
  input_image: object({}, { image_url: IMAGE_URL, file_id: TEXT, detail: DETAIL }),
  input_file: object({}, FILE),
});
const OUTPUT = kinds('type', {
  output_text: object({ text: TEXT }, { annotations: listOf(ANY_OBJECT), logprobs: listOf(ANY_OBJECT) }),
  refusal: object({ refusal: TEXT }),
});
const input = { content: either(TEXT, listOf(INPUT, { minItems: 1 })), type: oneOf('message') };
const said = { id: matching('^msg_'), phase: orNull(oneOf('commentary', 'final_answer')), ...STATUS };
const output = { content: either(TEXT, listOf(OUTPUT, { minItems: 1 })), type: oneOf('message') };
const MESSAGE_ITEM = kinds('role', {
  user: object(input),
  system: object(input),
  developer: object(input),
  assistant: object(output, said),
});
const TOOL_OUTPUT = either(TEXT, listOf(INPUT));
const ITEM = kinds('type', {
  function_call: object(
    { call_id: ITEM_CALL_ID, name: NAME, arguments: TEXT },
    { id: matching('^fc_'), namespace: TEXT, ...STATUS },
  ),
  function_call_output: object({ call_id: ITEM_CALL_ID, output: TOOL_OUTPUT }, { id: TEXT, ...STATUS }),
  custom_tool_call: object({ call_id: ITEM_CALL_ID, name: NAME, input: TEXT }, { id: matching('^ctc_'), ...STATUS }),
  custom_tool_call_output: object({ call_id: ITEM_CALL_ID, output: TOOL_OUTPUT }, { id: TEXT }),
  reasoning: object(
    { summary: listOf(object({ type: oneOf('summary_text'), text: TEXT })) },
    {
      id: matching('^rs_'),
      content: orNull(listOf(object({ type: oneOf('reasoning_text'), text: TEXT }))),
      encrypted_content: orNull(TEXT),
      ...STATUS,
    },
  ),
});
const FUNCTION_TOOL = object(
  { name: NAME, parameters: orNull(SCHEMA_OBJECT), strict: orNull(FLAG) },
  { description: orNull(TEXT), defer_loading: FLAG },
);

const checkMessage = checker(MESSAGE_ITEM);
const checkItem = checker(ITEM);
const checkResponseShape = checker(
  object(
    { model: FULL_TEXT, input: either(FULL_TEXT, listOf(ANY_OBJECT, { minItems: 1 })) },
    {
      instructions: orNull(TEXT),
      tools: listOf(
        kinds('type', {
          function: FUNCTION_TOOL,
          custom: CUSTOM,
          namespace: object({ name: NAME, description: TEXT, tools: listOf(ANY_OBJECT) }),
        }),
      ),
      tool_choice: choiceOf({ function: NAMED, custom: NAMED }),
      parallel_tool_calls: orNull(FLAG),
      max_output_tokens: orNull({ ...COUNT, minimum: 16 }),
      ...SETTINGS,
      reasoning: orNull(object({}, { effort: EFFORT, summary: orNull(oneOf('auto', 'concise', 'detailed')) })),
      text: object(
        {},
        { verbosity: VERBOSITY, format: formatOf(object({ name: NAME, schema: ANY_OBJECT }, DESCRIBED)) },
      ),
      include: orNull(listOf(oneOf('reasoning.encrypted_content', 'message.output_text.logprobs'))),
      client_metadata: ANY_OBJECT,
      stream_options: orNull(object({}, { include_obfuscation: FLAG })),
      truncation: orNull(oneOf('auto', 'disabled')),
    },
  ),
);

const itemsOf = ({ input: given }: Checked): Checked[] =>
  typeof given === 'string' ? [{ type: 'message', role: 'user', content: given }] : given;

function checkInputFiles(parts: unknown, path: string): void {
  if (!Array.isArray(parts)) return;
  for (const { type, image_url, file_data, filename, ...other } of parts) {
    const has_file = type !== 'input_file' || file_data || other.file_url || other.file_id;
    demand(has_file, path, 'Missing one of file_data, file_url, file_id');
    const has_image = type !== 'input_image' || image_url || other.file_id;
    demand(has_image, path, 'Missing one of image_url, file_id');
    checkData(image_url, file_data, path);
    demand(file_data === undefined || filename, path, 'file_data needs a filename');
  }
}

function checkItems(items: Checked[]): void {
  for (const [index, item] of items.entries()) {
    const path = `input.${index}`;
    if (item.type === undefined || item.type === 'message') checkMessage({ type: 'message', ...item });
    else checkItem(item);
    checkInputFiles(item.content ?? item.output, path);
    if (item.type !== 'reasoning') continue;
    const thought = unseal(item.encrypted_content ?? '');
    demand(thought !== undefined, path, 'The encrypted content could not be verified.');
    demand(typeof item.id === 'string', path, 'Missing required parameter: id');
    const next = items[index + 1];
    const follows =
      next !== undefined &&
      (next.role === 'assistant' || /^(reasoning|function_call|custom_tool_call)$/.test(next.type));
    demand(follows, path, `Item '${item.id}' of type 'reasoning' was provided without its required following item.`);
  }
}

function checkItemCalls(items: Checked[]): void {
  const calls = new Map<string, boolean>();
  for (const [index, { type, call_id }] of items.entries()) {
    if (type === 'function_call' || type === 'custom_tool_call') {
      demand(!calls.has(call_id), `input.${index}`, `Duplicate call_id ${call_id}`);
      calls.set(call_id, false);
    } else if (call_id !== undefined) {
      const why = `No tool call found for function call output with call_id ${call_id}.`;
      demand(calls.get(call_id) === false, `input.${index}`, why);
      calls.set(call_id, true);
    }
  }
  const unanswered = [...calls].find(([, answered]) => !answered)?.[0];
  demand(unanswered === undefined, 'input', `No tool output found for function call ${unanswered}.`);
}

/** Rejects the API's invalid requests. */
export function checkResponses(body: Checked): void {
  checkResponseShape(body);
  const items = itemsOf(body);
  checkItems(items);
  checkItemCalls(items);
  checkFunctions((body.tools ?? []).filter(({ type }: Checked) => type === 'function'));
  const format = body.text?.format;
  if (format?.strict) checkEnforcedSchema(format.schema, 'text.format', 'functions');
  const said_json = format?.type !== 'json_object' || /json/i.test(JSON.stringify([body.input, body.instructions]));
  demand(said_json, 'input', "must contain the word 'json' to use 'text.format' of type 'json_object'");
  const { name } = typeof body.tool_choice === 'object' ? body.tool_choice : {};
  const known = (body.tools ?? []).some((tool: Checked) => tool.name === name);
  demand(name === undefined || known, 'tool_choice', `Tool choice '${name}' not found in 'tools' parameter.`);
}

const textOf = (part: Checked): string | undefined => part.text ?? part.refusal;

/** The content of a request. */
export function seenInResponses(body: Checked): Seen {
  const items = itemsOf(body);
  const of = (...types: string[]): Checked[] => items.filter(({ type = 'message' }) => types.includes(type));
  const parts = items.flatMap(({ role, content, output: result }) => {
    const given = content ?? result ?? [];
    const list: Checked[] = typeof given === 'string' ? [{ type: 'input_text', text: given }] : given;
    return list.map((part) => ({ ...part, role: role ?? (result === undefined ? 'reasoning' : 'tool') }));
  });
  const is_system = ({ role }: Checked) => role === 'system' || role === 'developer';
  const texts = parts.filter((part) => textOf(part) !== undefined && part.role !== 'reasoning');
  return {
    system: [...(body.instructions ? [body.instructions] : []), ...texts.filter(is_system).map(textOf)],
    texts: texts.filter((part) => !is_system(part)).map((part) => [part.role, textOf(part)!]),
    tools: (body.tools ?? []).map(({ name }: Checked) => name),
    calls: of('function_call', 'custom_tool_call').map(({ name, call_id, arguments: args, input: text }) => [
      name,
      call_id,
      text ?? parsedArguments(args),
    ]),
    results: of('function_call_output', 'custom_tool_call_output').map(({ call_id }) => call_id),
    images: parts.flatMap(({ image_url }) => (image_url === undefined ? [] : [dataOf(image_url)])),
    documents: parts.flatMap(({ file_data, file_url }) => (file_data ? [dataOf(file_data)] : (file_url ?? []))),
    thoughts: of('reasoning').map(({ encrypted_content }) => unseal(encrypted_content)!),
  };
}
