import type { ResponseEvent } from '../api.ts';

/** Fields of a `usage` object that hold a total, as the wire names them. */
const TOTALS = ['input_tokens', 'output_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens'] as const;
/** Fields of `usage.cache_creation`. */
const SPLIT = ['ephemeral_5m_input_tokens', 'ephemeral_1h_input_tokens'] as const;

type UsageField = (typeof TOTALS)[number] | (typeof SPLIT)[number];

/** What is remembered of one response: numbers and names of tools, never text. */
export interface UsageReading {
  /** Usage as the upstream reported it; a field is absent until a usable number arrives. */
  readonly reported: Partial<Record<UsageField, number>>;
  /** Uses of tools that the upstream ran, by name, as it reported them; `undefined` until it does. */
  server_tools: Record<string, number> | undefined;
  /** Uses of such tools that were seen to begin, by name. */
  tools_begun: Record<string, number> | undefined;
  /** Whether any usage was reported. */
  seen: boolean;
  /** Whether the upstream said that its output was complete. */
  complete: boolean;
  /** Whether output was counted after it began; until then a count may only be how it began. */
  counted: boolean;
  /** Whether the upstream reported an error inside a successful response. */
  failed: boolean;
  /** Whether a number was reported that can't be one. */
  unusable: boolean;
  /** Whether the response is a stream of events. */
  streamed: boolean;
  deltas: number;
  delta_chars: number;
}

/** No response can use this many tokens; a larger number is a fault, and priced it would leave the exact integers. */
const TOKENS_MAX = 100_000_000;

/** No response can use a tool this often; a larger number is a fault. */
const TOOL_USES_MAX = 10_000;

/** The most kinds of tools that are remembered of a response. */
const TOOLS_MAX = 32;

/** How the wire names the uses of a tool: `web_search_requests`. */
const TOOL_FIELD = /^([a-z][a-z0-9_]{0,63})_requests$/;

const TOOL_NAME = /^[a-z][a-z0-9_]{0,63}$/;

/** Characters of JSON text that one output token is taken for when the upstream's count never came. */
const CHARS_PER_TOKEN = 4;

/** What surrounds the text in the data of a delta event. */
const DELTA_FRAME_CHARS = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}'.length;

/** What is known of a response before its first byte. */
export function newUsageReading(): UsageReading {
  return {
    reported: {},
    server_tools: undefined,
    tools_begun: undefined,
    seen: false,
    complete: false,
    counted: false,
    failed: false,
    unusable: false,
    streamed: false,
    deltas: 0,
    delta_chars: 0,
  };
}

/** Takes in one observed event. Only the few that carry usage are parsed: deltas are most of a stream. */
export function readUsage(reading: UsageReading, { name, data }: ResponseEvent): void {
  if (name !== undefined) reading.streamed = true;
  if (name === 'content_block_delta') countDelta(reading, data);
  else if (name === 'error') reading.failed = true;
  else if (name === 'content_block_start') readBlockStart(reading, data);
  else if (name === undefined || name === 'message_start' || name === 'message_delta') {
    readMessage(reading, name, data);
  }
}

/** Output tokens that were relayed, judged by size: every delta is at least one token. */
export function relayedOutput(reading: UsageReading, relayed_bytes: number): number {
  if (!reading.streamed) return Math.ceil(relayed_bytes / CHARS_PER_TOKEN);
  return Math.max(reading.deltas, Math.ceil(reading.delta_chars / CHARS_PER_TOKEN));
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
      break;
    case 'message_delta':
      overlay(reading, message.usage);
      reading.counted ||= isCount(asObject(message.usage)?.output_tokens, TOKENS_MAX);
      // An upstream may send several; only the one with the stop reason carries the final counts.
      if (asObject(message.delta)?.stop_reason != null) reading.complete = true;
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
  reading.tools_begun ??= Object.create(null) as Record<string, number>;
  if (!hasRoomFor(reading.tools_begun, block.name)) return;
  reading.tools_begun[block.name] = Math.min(TOOL_USES_MAX, (reading.tools_begun[block.name] ?? 0) + 1);
}

function hasRoomFor(tools: Record<string, number>, tool: string): boolean {
  return tool in tools || Object.keys(tools).length < TOOLS_MAX;
}

function countDelta(reading: UsageReading, data: string): void {
  reading.deltas++;
  reading.delta_chars += Math.max(0, data.length - DELTA_FRAME_CHARS);
}

function isCount(value: unknown, most: number): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= most;
}

function asObject(value: unknown): Record<string, unknown> | undefined {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}
