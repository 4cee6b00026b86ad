import { fieldsOf } from '../../../base/kit/json/fields.ts';
import {
  type Attached,
  addImage,
  addKept,
  addReference,
  type BodyReading,
  IMAGE_TOKENS,
  isDataUrl,
  iterationsOf,
  keyedCache,
  listOf,
  NO_USES,
  namesFile,
  nothingAttached,
  outputBounds,
  REFERENCE_TOKENS,
  readingOf,
  TOOL_USES_MAX,
  thinkingBudget,
  withThinking,
} from '../body/fields.ts';
import { countAt, invalid, isAbsent, kindOf, optional } from '../read-json.ts';
import type { Json } from '../translation/conversation.ts';
import { isMadeItem } from '../translation/made-reasoning.ts';

const REFERENCES = ['previous_response_id', 'conversation', 'prompt'] as const;

/** Tools that the client runs itself; all others are the provider's. */
const CLIENT_TOOLS: ReadonlySet<unknown> = new Set([
  ...['function', 'custom', 'local_shell', 'apply_patch', 'computer', 'computer_use_preview'],
]);

/** The provider runs the tool search, unless the client does. */
const isClients = ({ type, execution }: Json) =>
  CLIENT_TOOLS.has(type) || (type === 'tool_search' && execution === 'client');

const PLAIN_PARTS: ReadonlySet<unknown> = new Set([
  ...['input_text', 'output_text', 'text', 'summary_text', 'reasoning_text', 'refusal', undefined],
]);

const WHOLE_ITEMS: ReadonlySet<unknown> = new Set([
  ...['additional_tools', 'function_call', 'custom_tool_call', 'compaction', 'web_search_call', 'file_search_call'],
  ...['code_interpreter_call', 'computer_call', 'local_shell_call', 'local_shell_call_output', 'shell_call'],
  ...['shell_call_output', 'apply_patch_call', 'apply_patch_call_output', 'tool_search_call', 'tool_search_output'],
  ...['mcp_list_tools', 'mcp_call', 'mcp_approval_request', 'mcp_approval_response'],
]);

/** Versions of a tool share one price: `web_search_preview_2025_03_11`. */
const VERSION = /(?:_preview)?(?:_\d{4}_\d{2}_\d{2})?$/;

const TOOL_NAME = /^[a-z][a-z0-9_]{0,63}$/;

/** The other API that a body at the path of Responses is certainly written for. */
export function meantFor({
  messages,
  input,
  prompt,
  system,
}: Json): readonly ['chat' | 'messages', string] | undefined {
  if (isAbsent(messages) || !isAbsent(input) || !isAbsent(prompt)) return undefined;
  return isAbsent(system) ? ['chat', 'messages'] : ['messages', 'system'];
}

export function readResponsesBody(body: Json): BodyReading {
  const { background, input } = body;
  if (background != null && background !== false) {
    const why = 'usage of a background response cannot be metered. Send the request without it and read the stream';
    throw invalid('background', `must be false or left out: ${why}`);
  }
  const items = typeof input === 'string' ? [input] : inputItems(input);
  const tools = [listOf(body, 'tools'), ...items.map(toolsOfItem)].flat().flatMap(toolsIn);
  const run_by_provider = tools.filter((tool) => !isClients(tool));
  const most_calls = optional(body, 'max_tool_calls', countAt);
  const attached = nothingAttached();
  for (const key of REFERENCES) if (body[key] != null) addKept(attached);
  for (const item of items) attachItem(fieldsOf(item), attached);
  return {
    ...readingOf(tools, items, attached, run_by_provider.length > 0, tools.length > 0 || items.some(isCall)),
    ...withThinking(outputBounds(body, ['max_output_tokens']), thinkingBudget(body)),
    iterations: run_by_provider.length > 0 ? iterationsOf(most_calls) : 1,
    compacts: listOf(body, 'context_management').length > 0,
    server_tool_uses: usesOf(run_by_provider, most_calls),
    cache_ttl: keyedCache(body),
  };
}

function isCall(item: unknown): boolean {
  const { type } = fieldsOf(item);
  return type === 'function_call' || type === 'custom_tool_call';
}

function inputItems(input: unknown): readonly unknown[] {
  if (input === undefined || input === null) return [];
  if (!Array.isArray(input)) throw invalid('input', `must be a string or an array, not ${kindOf(input)}`);
  return input;
}

function toolsOfItem(item: unknown): readonly unknown[] {
  const { type, tools } = fieldsOf(item);
  return (type === 'additional_tools' || type === 'tool_search_output') && Array.isArray(tools) ? tools : [];
}

function toolsIn(value: unknown): readonly Json[] {
  const tool = fieldsOf(value);
  if (tool.type !== 'namespace') return [tool];
  return Array.isArray(tool.tools) ? tool.tools.map(fieldsOf) : [];
}

/** The bound is on all tools of the provider together, so each of them may take the whole of it. */
function usesOf(tools: readonly Json[], most: number | undefined): Readonly<Record<string, number>> {
  if (most === undefined || most === 0) return NO_USES;
  let uses: Record<string, number> | undefined;
  for (const { type } of tools) {
    const name = typeof type === 'string' ? type.replace(VERSION, '') : '';
    if (!TOOL_NAME.test(name)) continue;
    uses ??= Object.create(null) as Record<string, number>;
    uses[name] = Math.min(TOOL_USES_MAX, most);
  }
  return uses ?? NO_USES;
}

function attachItem(item: Json, attached: Attached): void {
  if (item.encrypted_content != null && !isMadeItem(item)) attached.holds_state = true;
  switch (item.type) {
    case 'message':
    case undefined:
      // Without content it refers to an item stored at the provider.
      if (item.content == null && item.id != null) addKept(attached);
      attachParts(item.content, attached);
      break;
    case 'reasoning':
      // The body has reasoning only in encrypted form; otherwise the provider stores it.
      if (isMadeItem(item)) attached.unproven_reasoning = 'made';
      else if (item.encrypted_content == null && item.id != null) addKept(attached);
      break;
    case 'function_call_output':
    case 'custom_tool_call_output':
      attachParts(item.output, attached);
      break;
    case 'computer_call_output':
      addImage(attached, isDataUrl(fieldsOf(item.output).image_url));
      break;
    case 'image_generation_call':
      attached.tokens += IMAGE_TOKENS;
      break;
    case 'item_reference':
      addKept(attached);
      break;
    default:
      if (!WHOLE_ITEMS.has(item.type)) attached.tokens += REFERENCE_TOKENS;
  }
}

function attachParts(parts: unknown, attached: Attached): void {
  if (!Array.isArray(parts)) return;
  for (const value of parts) {
    const part = fieldsOf(value);
    if (part.type === 'input_image') {
      if (namesFile(part)) attached.holds_state = true;
      addImage(attached, isDataUrl(part.image_url));
    } else if (!PLAIN_PARTS.has(part.type)) addReference(attached, part);
  }
}
