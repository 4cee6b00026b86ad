/**
 * The Responses API of the scripted model provider: its rejections, and the content of a request.
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
import { parsedArguments, type Seen, unseal } from './model-provider-script.ts';

const NAME = matching('^[a-zA-Z0-9_-]{1,64}$');
const CALL_ID = { type: 'string', minLength: 1, maxLength: 64 };
const STATUS = { status: oneOf('in_progress', 'completed', 'incomplete') };
const INPUT_PARTS = {
  input_text: object({ text: TEXT }),
  input_image: object(
    {},
    { image_url: matching('^(https?://|data:)'), file_id: TEXT, detail: oneOf('auto', 'low', 'high', 'original') },
  ),
  input_file: object(
    {},
    { file_data: FULL_TEXT, filename: FULL_TEXT, file_url: matching('^https?://'), file_id: TEXT },
  ),
};
const INPUT = kinds('type', INPUT_PARTS);
const OUTPUT = kinds('type', {
  output_text: object({ text: TEXT }, { annotations: listOf(ANY_OBJECT), logprobs: listOf(ANY_OBJECT) }),
  refusal: object({ refusal: TEXT }),
});
const input = { content: either(TEXT, listOf(INPUT, { minItems: 1 })), type: oneOf('message') };
const said = { id: matching('^msg_'), phase: orNull(oneOf('commentary', 'final_answer')), ...STATUS };
const output = { content: either(TEXT, listOf(OUTPUT, { minItems: 1 })), type: oneOf('message') };
const MESSAGE = kinds('role', {
  user: object(input),
  system: object(input),
  developer: object(input),
  assistant: object(output, said),
});
const TOOL_OUTPUT = either(TEXT, listOf(INPUT));
const ITEM = kinds('type', {
  function_call: object(
    { call_id: CALL_ID, name: NAME, arguments: TEXT },
    { id: matching('^fc_'), namespace: TEXT, ...STATUS },
  ),
  function_call_output: object({ call_id: CALL_ID, output: TOOL_OUTPUT }, { id: TEXT, ...STATUS }),
  custom_tool_call: object({ call_id: CALL_ID, name: NAME, input: TEXT }, { id: matching('^ctc_'), ...STATUS }),
  custom_tool_call_output: object({ call_id: CALL_ID, output: TOOL_OUTPUT }, { id: TEXT }),
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
const FUNCTION = object(
  { name: NAME, parameters: orNull(SCHEMA_OBJECT), strict: orNull(FLAG) },
  { description: orNull(TEXT), defer_loading: FLAG },
);
const CUSTOM = object({ name: NAME }, { description: TEXT, format: ANY_OBJECT });

const checkMessage = checker(MESSAGE);
const checkItem = checker(ITEM);
const checkShape = checker(
  object(
    { model: FULL_TEXT, input: either(FULL_TEXT, listOf(ANY_OBJECT, { minItems: 1 })) },
    {
      instructions: orNull(TEXT),
      tools: listOf(
        kinds('type', {
          function: FUNCTION,
          custom: CUSTOM,
          namespace: object({ name: NAME, description: TEXT, tools: listOf(ANY_OBJECT) }),
        }),
      ),
      tool_choice: either(
        oneOf('none', 'auto', 'required'),
        kinds('type', { function: object({ name: NAME }), custom: object({ name: NAME }) }),
      ),
      parallel_tool_calls: orNull(FLAG),
      max_output_tokens: orNull({ ...COUNT, minimum: 16 }),
      temperature: orNull(between(0, 2)),
      top_p: orNull(between(0, 1)),
      top_logprobs: orNull({ type: 'integer' }),
      reasoning: orNull(
        object(
          {},
          {
            effort: orNull(oneOf('none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max')),
            summary: orNull(oneOf('auto', 'concise', 'detailed')),
          },
        ),
      ),
      text: object(
        {},
        {
          verbosity: orNull(oneOf('low', 'medium', 'high')),
          format: kinds('type', {
            text: object({}),
            json_object: object({}),
            json_schema: object({ name: NAME, schema: ANY_OBJECT }, { description: TEXT, strict: orNull(FLAG) }),
          }),
        },
      ),
      include: orNull(listOf(oneOf('reasoning.encrypted_content', 'message.output_text.logprobs'))),
      metadata: orNull(METADATA),
      user: { type: 'string', maxLength: 64 },
      safety_identifier: { type: 'string', maxLength: 128 },
      prompt_cache_key: { type: 'string', maxLength: 64 },
      prompt_cache_retention: orNull(oneOf('in_memory', '24h')),
      client_metadata: ANY_OBJECT,
      service_tier: orNull(oneOf('auto', 'default', 'flex', 'scale', 'priority', 'fast')),
      store: orNull(FLAG),
      stream: orNull(FLAG),
      stream_options: orNull(object({}, { include_obfuscation: FLAG })),
      truncation: orNull(oneOf('auto', 'disabled')),
    },
  ),
);

// biome-ignore lint/suspicious/noExplicitAny: the shape was checked
type Checked = any;

const itemsOf = ({ input: given }: Checked): Checked[] =>
  typeof given === 'string' ? [{ type: 'message', role: 'user', content: given }] : given;

function checkFiles(parts: unknown, path: string): void {
  if (!Array.isArray(parts)) return;
  for (const { type, image_url, file_data, filename, ...other } of parts) {
    const has_file = type !== 'input_file' || file_data || other.file_url || other.file_id;
    demand(has_file, path, 'Missing one of file_data, file_url, file_id');
    const has_image = type !== 'input_image' || image_url || other.file_id;
    demand(has_image, path, 'Missing one of image_url, file_id');
    if (image_url?.startsWith('data:')) {
      const { media_type } = readDataUrl(image_url, path);
      demand(IMAGE_TYPES.includes(media_type), path, `unsupported image ${media_type}`);
    }
    if (file_data === undefined) continue;
    demand(filename, path, 'file_data needs a filename');
    demand(readDataUrl(file_data, path).media_type === 'application/pdf', path, 'expected a PDF');
  }
}

function checkItems(items: Checked[]): void {
  for (const [index, item] of items.entries()) {
    const path = `input.${index}`;
    if (item.type === undefined || item.type === 'message') checkMessage({ type: 'message', ...item });
    else checkItem(item);
    checkFiles(item.content ?? item.output, path);
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

function checkCalls(items: Checked[]): void {
  const calls = new Map<string, boolean>();
  for (const [index, { type, call_id }] of items.entries()) {
    if (type === 'function_call' || type === 'custom_tool_call') {
      demand(!calls.has(call_id), `input.${index}`, `Duplicate call_id ${call_id}`);
      calls.set(call_id, false);
    } else if (call_id !== undefined) {
      demand(
        calls.get(call_id) === false,
        `input.${index}`,
        `No tool call found for function call output with call_id ${call_id}.`,
      );
      calls.set(call_id, true);
    }
  }
  const unanswered = [...calls].find(([, answered]) => !answered)?.[0];
  demand(unanswered === undefined, 'input', `No tool output found for function call ${unanswered}.`);
}

/** Rejects the API's invalid requests. */
export function checkResponses(body: Checked): void {
  checkShape(body);
  const items = itemsOf(body);
  checkItems(items);
  checkCalls(items);
  const functions = (body.tools ?? []).filter(({ type }: Checked) => type === 'function');
  checkTools(
    functions.map(({ name, parameters, strict }: Checked) => ({ name, schema: parameters, strict })),
    'functions',
  );
  const format = body.text?.format;
  if (format?.strict) checkEnforcedSchema(format.schema, 'text.format', 'functions');
  const said_json = /json/i.test(JSON.stringify([body.input, body.instructions]));
  demand(
    format?.type !== 'json_object' || said_json,
    'input',
    "must contain the word 'json' to use 'text.format' of type 'json_object'",
  );
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
  const data = (url: string) => url.replace(/^data:[^,]*,/, '');
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
    images: parts.flatMap(({ image_url }) => (image_url === undefined ? [] : [data(image_url)])),
    documents: parts.flatMap(({ file_data, file_url }) => (file_data ? [data(file_data)] : (file_url ?? []))),
    thoughts: of('reasoning').map(({ encrypted_content }) => unseal(encrypted_content)!),
  };
}
