import type { ResponseEvent } from '../../contract/stage.ts';
import { isError } from '../read-error.ts';
import {
  asObject,
  countTool,
  isCount,
  jsonTextLength,
  noteModel,
  noteServed,
  overlayTotals,
  parseObject,
  readTotals,
  TOOL_USES_MAX,
  type UsageReading,
} from '../usage.ts';

/** Events with text that the model wrote. */
const DELTAS: ReadonlySet<string> = new Set([
  ...['response.output_text.delta', 'response.refusal.delta', 'response.reasoning_text.delta'],
  ...['response.reasoning_summary_text.delta', 'response.function_call_arguments.delta'],
  ...['response.custom_tool_call_input.delta', 'response.mcp_call_arguments.delta'],
  ...['response.code_interpreter_call_code.delta', 'response.shell_call_command.delta'],
  ...['response.audio.transcript.delta'],
]);

/** Events that end an answer; some servers say in its status how. */
const FAILED: ReadonlySet<string> = new Set(['response.failed', 'response.cancelled']);
const ENDS: ReadonlySet<string> = new Set(['response.completed', 'response.incomplete', 'response.done', ...FAILED]);

const DELTA_TEXT = /"delta"\s*:\s*"(?!")/;

const OUTPUT = /"output"\s*:\s*\[/;
const OUTPUT_TEXT = /"(?:text|refusal|arguments|input)"\s*:\s*"(?!")/g;

/** Where most upstreams say what an event is. */
const TYPE_FIRST = '{"type":"';

/** Items of the provider's tools that may have a price by use. */
const TOOL_ITEM = /"type"\s*:\s*"(?:web_search|file_search|code_interpreter|image_generation)_call"/;
const TOOL_TYPE = /^(web_search|file_search|code_interpreter|image_generation)_call$/;

/** Takes in what an upstream that speaks Responses sent. Only the few events that carry usage or a tool are parsed. */
export function readResponsesUsage(reading: UsageReading, { name, data }: ResponseEvent): void {
  if (name === undefined) {
    readDocument(reading, parseObject(data));
    return;
  }
  reading.streamed = true;
  const type = name === 'message' ? typeOf(data) : name;
  if (DELTAS.has(type)) countDelta(reading, data);
  else if (type === 'response.output_item.done') readItem(reading, data);
  else if (type === 'error') reading.failed = true;
  else if (ENDS.has(type)) {
    const event = parseObject(data);
    const response = asObject(event?.response);
    const has_failed = FAILED.has(type) || FAILED.has(`response.${response?.status}`);
    if (has_failed) reading.failed = true;
    readEnd(reading, response, !has_failed, event?.usage);
    if (reading.complete && !reading.counted && reading.deltas === 0) countOutput(reading, data);
  }
}

function typeOf(data: string): string {
  if (data.startsWith(TYPE_FIRST)) return data.slice(TYPE_FIRST.length, data.indexOf('"', TYPE_FIRST.length));
  return String(parseObject(data)?.type);
}

function countDelta(reading: UsageReading, data: string): void {
  const found = DELTA_TEXT.exec(data);
  if (found === null) return;
  reading.deltas++;
  reading.delta_chars += jsonTextLength(data, found.index + found[0].length);
}

/** A whole answer where a stream was asked for: all that it says. After deltas it would be a repetition. */
function countOutput(reading: UsageReading, data: string): void {
  const output = data.search(OUTPUT);
  if (output < 0) return;
  // They are told back, and can be texts as well.
  const instructions = data.indexOf('"instructions"', output);
  const end = instructions < 0 ? data.length : instructions;
  OUTPUT_TEXT.lastIndex = output;
  while (OUTPUT_TEXT.test(data) && OUTPUT_TEXT.lastIndex < end) {
    reading.deltas++;
    reading.delta_chars += jsonTextLength(data, OUTPUT_TEXT.lastIndex);
  }
}

function readItem(reading: UsageReading, data: string): void {
  const tool = TOOL_ITEM.test(data) ? toolOf(parseObject(data)?.item) : undefined;
  if (tool !== undefined) countTool(reading, tool);
}

/** The tool that an item charges for. Of what a web search does, only searching has a price. */
function toolOf(value: unknown): string | undefined {
  const item = asObject(value);
  const tool = typeof item?.type === 'string' ? TOOL_TYPE.exec(item.type)?.[1] : undefined;
  const searches = (asObject(item?.action)?.type ?? 'search') === 'search';
  return tool === 'web_search' && !searches ? undefined : tool;
}

function readEnd(
  reading: UsageReading,
  response: Record<string, unknown> | undefined,
  is_whole: boolean,
  beside?: unknown,
): void {
  noteModel(reading, response?.model);
  const { service_tier } = response ?? {};
  noteServed(reading, { ...asObject(response?.usage), ...(service_tier != null && { service_tier }) });
  takeResponseUsage(reading, response, is_whole, beside);
  if (reading.complete) reportTools(reading, response);
}

/**
 * Takes in the usage at the end of a stream, or of a document: the one reader for the bill and for translated answers.
 * @param beside what the event says of usage beside its response, as some servers do.
 */
export function takeResponseUsage(
  reading: UsageReading,
  response: Readonly<Record<string, unknown>> | undefined,
  is_whole: boolean,
  beside?: unknown,
): void {
  const report = readTotals(response?.usage) ?? readTotals(beside);
  if (report !== undefined) {
    reading.seen = true;
    reading.unusable ||= report.unusable;
    reading.reported = overlayTotals(reading.reported, report.counts, reading.complete);
  }
  const is_counted = report?.counts.output !== undefined;
  reading.counted ||= is_counted;
  // Of an answer that failed nothing more comes either, once its tokens are told.
  reading.complete ||= is_whole || is_counted;
}

/** Uses are the items that were seen, in the stream or at its end; of searches some upstreams tell the number that they charge. */
function reportTools(reading: UsageReading, response: Record<string, unknown> | undefined): void {
  const used = Object.create(null) as Record<string, number>;
  for (const item of Array.isArray(response?.output) ? response.output : []) {
    const tool = toolOf(item);
    if (tool !== undefined) used[tool] = Math.min(TOOL_USES_MAX, (used[tool] ?? 0) + 1);
  }
  for (const tool in reading.tools_begun) used[tool] = Math.max(used[tool] ?? 0, reading.tools_begun[tool]!);
  const charged = asObject(asObject(response?.tool_usage)?.web_search)?.num_requests;
  if (isCount(charged, TOOL_USES_MAX)) used.web_search = charged;
  else if (charged !== undefined && charged !== null) reading.unusable = true;
  for (const tool in reading.server_tools) used[tool] = Math.max(used[tool] ?? 0, reading.server_tools[tool]!);
  if (Object.keys(used).length > 0) reading.server_tools = used;
}

function readDocument(reading: UsageReading, response: Record<string, unknown> | undefined): void {
  if (response === undefined) return;
  if (isError(response)) reading.failed = true;
  if (!Array.isArray(response.output) && asObject(response.usage) === undefined) return;
  readEnd(reading, response, true);
  reading.counted = true;
}
