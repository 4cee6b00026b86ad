import type { ResponseEvent } from '../../contract/stage.ts';
import { isError } from '../read-error.ts';
import { saysReason } from '../stop-reasons.ts';
import {
  asObject,
  CountFinder,
  countTool,
  hasRoomFor,
  highestOf,
  isCount,
  noteModel,
  noteServed,
  objectsOf,
  parseObject,
  readIterations,
  readTotals,
  reportOf,
  TOOL_USES_MAX,
  type UsageReading,
  type UsageReport,
} from '../usage.ts';

/** How the wire names the uses of a tool: `web_search_requests`. */
const TOOL_FIELD = /^([a-z][a-z0-9_]{0,63})_requests$/;

const TOOL_NAME = /^[a-z][a-z0-9_]{0,63}$/;

/** How a delta begins, for the upstreams that give their events no names. */
const UNNAMED_DELTA = '{"type":"content_block_delta"';

/** What surrounds the text in the data of a delta event. */
const DELTA_FRAME_CHARS = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}'.length;

/** Where Amazon Bedrock tells the counts of a stream, in its last event. */
const BEDROCK = 'amazon-bedrock-invocationMetrics';

/** What the counts of a `usage` object are called, by the protocol and by Amazon Bedrock. */
const NAMES = {
  input: ['input_tokens', 'inputTokenCount'],
  output: ['output_tokens', 'outputTokenCount'],
  cache_read: ['cache_read_input_tokens', 'cacheReadInputTokenCount'],
  cache_write: ['cache_creation_input_tokens', 'cacheWriteInputTokenCount'],
} as const;

/** Takes in what an upstream that speaks Messages sent. Only the few events that carry usage are parsed: deltas are most of a stream. */
export function readMessagesUsage(reading: UsageReading, { name, data }: ResponseEvent): void {
  if (name !== undefined) reading.streamed = true;
  if (name === 'content_block_delta') countDelta(reading, data);
  else if (name === 'error') reading.failed = true;
  else if (name === 'content_block_start') readBlockStart(reading, data);
  else if (name === 'message' && data.startsWith(UNNAMED_DELTA)) countDelta(reading, data);
  else if (name === undefined || name === 'message') readMessage(reading, undefined, data);
  else if (name === 'message_start' || name === 'message_delta' || name === 'message_stop') {
    readMessage(reading, name, data);
  }
}

/** Takes in a document, or an event; what it says itself that it is counts before what it is called. */
function readMessage(reading: UsageReading, name: string | undefined, data: string): void {
  const message = parseObject(data);
  if (message === undefined) return;
  // A document that only has usage can be nothing but the answer.
  const type = message.type ?? name ?? (asObject(message.usage) && 'message');
  switch (type) {
    case 'message_start':
      reading.streamed = true;
      noteModel(reading, asObject(message.message)?.model);
      break;
    case 'content_block_start':
      readBlockStart(reading, data);
      break;
    case 'content_block_delta':
      countDelta(reading, data);
      break;
    case 'error':
      reading.failed = true;
      break;
    case 'message':
      noteModel(reading, message.model);
      break;
    case undefined:
      if (isError(message)) reading.failed = true;
      break;
  }
  takeMessageUsage(reading, type, message);
}

/** Takes in what an event of a stream, or a document, says of usage: the one reader for the bill and for translated answers. */
export function takeMessageUsage(reading: UsageReading, type: unknown, said: Readonly<Record<string, unknown>>): void {
  if (type !== 'message_start' && type !== 'message_delta' && type !== 'message_stop' && type !== 'message') return;
  const delta = asObject(said.delta);
  let is_counted = type === 'message';
  for (const place of [said[BEDROCK], asObject(said.message)?.usage, delta?.usage, said.usage]) {
    if (place === undefined || place === null) continue;
    const is_output = overlay(reading, place);
    is_counted ||= is_output && type !== 'message_start';
  }
  reading.counted ||= is_counted;
  // An upstream may send several; only the one with the stop reason carries the final counts.
  if (type === 'message' || (type === 'message_delta' && saysReason(delta?.stop_reason))) reading.complete = true;
  else if (type === 'message_stop') reading.complete ||= !reading.failed;
}

/**
 * Lays one `usage` object over what was reported before: the last usable number of each field counts. Once the answer is complete
 * no count falls. Returns whether output was counted.
 */
function overlay(reading: UsageReading, value: unknown): boolean {
  const usage = asObject(value);
  if (usage === undefined) return false;
  reading.seen = true;
  const report = readCounts(usage) ?? readTotals(usage);
  if (report !== undefined) {
    const { counts, unusable } = report;
    reading.unusable ||= unusable;
    reading.reported = reading.complete ? highestOf(reading.reported, counts) : { ...reading.reported, ...counts };
  }
  noteServed(reading, usage);
  readIterations(reading, usage.iterations, readCounts);
  if (usage.server_tool_use != null) overlayTools(reading, asObject(usage.server_tool_use));
  return report?.counts.output !== undefined;
}

function readCounts(usage: Readonly<Record<string, unknown>>): UsageReport | undefined {
  const finder = new CountFinder();
  const split = objectsOf([usage.cache_creation]);
  const counts = {
    input: finder.highest([usage], NAMES.input),
    output: finder.highest([usage], NAMES.output),
    cache_read: finder.highest([usage], NAMES.cache_read),
    cache_write: finder.highest([usage], NAMES.cache_write),
    cache_write_5m: finder.highest(split, ['ephemeral_5m_input_tokens']),
    cache_write_1h: finder.highest(split, ['ephemeral_1h_input_tokens']),
  };
  const { unusable } = finder;
  const reasoning = finder.highest(objectsOf([usage.output_tokens_details]), ['thinking_tokens']);
  return reportOf({ ...counts, reasoning }, unusable);
}

function overlayTools(reading: UsageReading, tools: Record<string, unknown> | undefined): void {
  if (tools === undefined) reading.unusable = true;
  reading.server_tools ??= Object.create(null) as Record<string, number>;
  for (const [field, uses] of Object.entries(tools ?? {})) {
    const tool = TOOL_FIELD.exec(field)?.[1];
    if (tool === undefined || uses === null) continue;
    if (isCount(uses, TOOL_USES_MAX) && hasRoomFor(reading.server_tools, tool)) {
      const before = reading.complete ? (reading.server_tools[tool] ?? 0) : 0;
      reading.server_tools[tool] = Math.max(before, uses);
    } else reading.unusable = true;
  }
}

/** An upstream's tool is used once for each block of this kind; it matters where the final count never comes. */
function readBlockStart(reading: UsageReading, data: string): void {
  if (!data.includes('server_tool_use')) return;
  const block = asObject(parseObject(data)?.content_block);
  if (block?.type !== 'server_tool_use' || typeof block.name !== 'string' || !TOOL_NAME.test(block.name)) return;
  countTool(reading, block.name);
}

function countDelta(reading: UsageReading, data: string): void {
  reading.deltas++;
  reading.delta_chars += Math.max(0, data.length - DELTA_FRAME_CHARS);
}
