import type { ResponseEvent } from '../../contract/stage.ts';
import { saysReason } from '../stop-reasons.ts';
import { readIterations } from '../usage/iterations.ts';
import {
  asObject,
  countTool,
  hasRoomFor,
  isCount,
  parseObject,
  SPLIT,
  TOKENS_MAX,
  TOOL_USES_MAX,
  TOTALS,
  type UsageField,
  type UsageReading,
} from '../usage/reading.ts';
import { noteModel, noteServed } from '../usage/telling.ts';

/** How the wire names the uses of a tool: `web_search_requests`. */
const TOOL_FIELD = /^([a-z][a-z0-9_]{0,63})_requests$/;

const TOOL_NAME = /^[a-z][a-z0-9_]{0,63}$/;

/** How a delta begins, for the upstreams that give their events no names. */
const UNNAMED_DELTA = '{"type":"content_block_delta"';

/** What surrounds the text in the data of a delta event. */
const DELTA_FRAME_CHARS = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}'.length;

/** Takes in what an upstream that speaks Messages sent. Only the few events that carry usage are parsed: deltas are most of a stream. */
export function readMessagesUsage(reading: UsageReading, { name, data }: ResponseEvent): void {
  if (name !== undefined) reading.streamed = true;
  if (name === 'content_block_delta') countDelta(reading, data);
  else if (name === 'error') reading.failed = true;
  else if (name === 'message_stop') reading.complete ||= !reading.failed;
  else if (name === 'content_block_start') readBlockStart(reading, data);
  else if (name === 'message' && data.startsWith(UNNAMED_DELTA)) countDelta(reading, data);
  else if (name === undefined || name === 'message' || name === 'message_start' || name === 'message_delta') {
    readMessage(reading, name === 'message' ? undefined : name, data);
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
      overlay(reading, asObject(message.message)?.usage);
      noteModel(reading, asObject(message.message)?.model);
      break;
    case 'message_delta':
      overlay(reading, message.usage);
      reading.counted ||= isCount(asObject(message.usage)?.output_tokens, TOKENS_MAX);
      // An upstream may send several; only the one with the stop reason carries the final counts.
      if (saysReason(asObject(message.delta)?.stop_reason)) reading.complete = true;
      break;
    case 'message_stop':
      reading.complete ||= !reading.failed;
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
      overlay(reading, message.usage);
      noteModel(reading, message.model);
      reading.counted = true;
      reading.complete = true;
      break;
  }
}

/** Lays one `usage` object over what was reported before: the last usable number of each field counts. */
function overlay(reading: UsageReading, value: unknown): void {
  const usage = asObject(value);
  if (usage === undefined) return;
  reading.seen = true;
  const take = (field: UsageField, found: unknown) => {
    if (isCount(found, TOKENS_MAX)) reading.reported[field] = found;
    else if (found !== undefined && found !== null) reading.unusable = true;
  };
  for (const field of TOTALS) take(field, usage[field]);
  const split = asObject(usage.cache_creation);
  for (const field of SPLIT) take(field, split?.[field]);
  noteServed(reading, usage);
  readIterations(reading, usage.iterations);
  if (usage.server_tool_use != null) overlayTools(reading, asObject(usage.server_tool_use));
}

function overlayTools(reading: UsageReading, tools: Record<string, unknown> | undefined): void {
  if (tools === undefined) reading.unusable = true;
  reading.server_tools ??= Object.create(null) as Record<string, number>;
  for (const [field, uses] of Object.entries(tools ?? {})) {
    const tool = TOOL_FIELD.exec(field)?.[1];
    if (tool === undefined || uses === null) continue;
    if (isCount(uses, TOOL_USES_MAX) && hasRoomFor(reading.server_tools, tool)) reading.server_tools[tool] = uses;
    else reading.unusable = true;
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
