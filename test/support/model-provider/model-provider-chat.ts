/**
 * The chat completions API of the scripted model provider: its rejections, and the content of a request.
 * @module
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
  TEXT,
} from './model-provider-checks.ts';
import { parsedArguments, type Seen } from './model-provider-script.ts';

const NAME = matching('^[a-zA-Z0-9_-]{1,64}$');
const CALL_ID = { type: 'string', minLength: 1, maxLength: 40 };
const TEXT_PART = object({ type: oneOf('text'), text: TEXT });
const TEXTS = either(TEXT, listOf(TEXT_PART, { minItems: 1 }));
const USER_PART = kinds('type', {
  text: object({ text: TEXT }),
  image_url: object({
    image_url: object({ url: matching('^(https?://|data:)') }, { detail: oneOf('auto', 'low', 'high', 'original') }),
  }),
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
const FUNCTION = object({ name: NAME }, { description: TEXT, parameters: SCHEMA_OBJECT, strict: orNull(FLAG) });
const CUSTOM = object({ name: NAME }, { description: TEXT, format: ANY_OBJECT });

const checkShape = checker(
  object(
    { model: FULL_TEXT, messages: listOf(MESSAGE, { minItems: 1 }) },
    {
      max_tokens: orNull(COUNT),
      max_completion_tokens: orNull(COUNT),
      stream: orNull(FLAG),
      stream_options: orNull(object({}, { include_usage: FLAG, include_obfuscation: FLAG })),
      n: orNull(COUNT),
      stop: orNull(either(TEXT, listOf(TEXT, { minItems: 1, maxItems: 4 }))),
      temperature: orNull(between(0, 2)),
      top_p: orNull(between(0, 1)),
      frequency_penalty: orNull(between(-2, 2)),
      presence_penalty: orNull(between(-2, 2)),
      seed: orNull({ type: 'integer' }),
      logit_bias: orNull(ANY_OBJECT),
      logprobs: orNull(FLAG),
      top_logprobs: orNull({ type: 'integer' }),
      tools: listOf(kinds('type', { function: object({ function: FUNCTION }), custom: object({ custom: CUSTOM }) }), {
        minItems: 1,
      }),
      tool_choice: either(
        oneOf('none', 'auto', 'required'),
        kinds('type', {
          function: object({ function: object({ name: NAME }) }),
          custom: object({ custom: object({ name: NAME }) }),
        }),
      ),
      parallel_tool_calls: FLAG,
      response_format: kinds('type', {
        text: object({}),
        json_object: object({}),
        json_schema: object({
          json_schema: object({ name: NAME }, { description: TEXT, schema: ANY_OBJECT, strict: orNull(FLAG) }),
        }),
      }),
      reasoning_effort: orNull(oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max')),
      verbosity: orNull(oneOf('low', 'medium', 'high')),
      user: { type: 'string', maxLength: 64 },
      safety_identifier: { type: 'string', maxLength: 128 },
      prompt_cache_key: { type: 'string', maxLength: 64 },
      prompt_cache_retention: orNull(oneOf('in_memory', '24h')),
      metadata: orNull(METADATA),
      store: orNull(FLAG),
      service_tier: orNull(oneOf('auto', 'default', 'flex', 'scale', 'priority', 'fast')),
    },
  ),
);

// biome-ignore lint/suspicious/noExplicitAny: the shape was checked
type Checked = any;

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
      if (image_url?.url.startsWith('data:')) {
        const { media_type } = readDataUrl(image_url.url, path);
        demand(IMAGE_TYPES.includes(media_type), path, `unsupported image ${media_type}`);
      }
      if (file?.file_data)
        demand(readDataUrl(file.file_data, path).media_type === 'application/pdf', path, 'expected a PDF');
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
  demand(
    !(max_tokens && max_completion_tokens),
    'max_tokens',
    'max_tokens and max_completion_tokens exclude each other',
  );
  demand(
    tools || tool_choice === undefined,
    'tool_choice',
    "'tool_choice' is only allowed when 'tools' are specified.",
  );
  demand(tools || parallel_tool_calls === undefined, 'parallel_tool_calls', "only allowed when 'tools' are specified.");
  demand(stream || !stream_options, 'stream_options', "only allowed when 'stream' is enabled.");
  const functions = (tools ?? []).flatMap((tool: Checked) => tool.function ?? []);
  checkTools(
    functions.map(({ name, parameters, strict }: Checked) => ({ name, schema: parameters, strict })),
    'functions',
  );
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
    images: find(({ image_url }) => image_url?.url.replace(/^data:[^,]*,/, '')),
    documents: find(({ file }) => file?.file_data?.replace(/^data:[^,]*,/, '')),
    thoughts: others.flatMap(({ reasoning_content }: Checked) => reasoning_content ?? []),
  };
}
