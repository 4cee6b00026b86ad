import type { TextKind } from '../../../base/contract/rewriting.ts';
import type { ResponseEvent } from '../../../base/contract/stage.ts';
import { AnswerReader, brokenAnswer, notComplete, parseEvent } from '../answer-parts.ts';
import { TOOL_USES_MAX } from '../body/fields.ts';
import { isError } from '../read-error.ts';
import { isObject, itemsOf, textOf } from '../read-json.ts';
import { type AnswerTexts, keyOf, type Path, textUnlessKnown, valueAt } from '../rewriting.ts';
import { saysReason } from '../stop-reasons.ts';
import type { Json, ModelEvent, PartStart, StreamReader } from '../translation/conversation.ts';
import type { Notes } from '../translation/rules.ts';
import {
  asObject,
  CountFinder,
  countTool,
  hasRoomFor,
  highestOf,
  isCount,
  noteModel,
  noteServed,
  objectsUnder,
  parseObject,
  readIterations,
  readTotals,
  reportOf,
  type UsageReading,
  type UsageReport,
  usageIn,
} from '../usage.ts';

/** An open content block; `part` is absent for a dropped one. */
interface OpenBlock {
  readonly part?: number;
  readonly kind?: PartStart['kind'];
  signature: string;
  /** Complete arguments at the start of the block; used if no deltas follow. */
  whole_input: string;
}

const LEFT_OUT: OpenBlock = { signature: '', whole_input: '' };

const PROVIDER_BLOCK = /^(server_tool_use|mcp_tool_use|container_upload|[a-z_]+_tool_result)$/;

export class MessagesReader extends AnswerReader implements StreamReader {
  readonly #blocks = new Map<unknown, OpenBlock>();
  #is_empty = true;
  #stop_reason: unknown;
  #stop_sequence: string | undefined;

  read({ name, data }: ResponseEvent): void {
    // Some servers end the streams of every protocol as those of chat completions.
    if (this.over || data === '[DONE]') return;
    if (name === 'error') this.fail(data);
    else this.take(parseEvent(data));
  }

  take(event: Json) {
    takeMessageUsage(this.usage, event.type, event);
    switch (event.type) {
      case 'content_block_delta':
        return this.#delta(event);
      case 'message_start':
        return this.start(event.message, usageIn(this.usage));
      case 'content_block_start':
        return this.#open(event);
      case 'content_block_stop':
        return this.#close(event.index);
      case 'message_delta':
        return isObject(event.delta) ? this.#readStop(event.delta) : undefined;
      case 'message_stop':
        return this.#stop();
      case 'ping':
        return this.emit({ type: 'ping' });
      default:
        if (event.type === 'error' || (event.type === undefined && isError(event))) this.fail(event);
    }
  }

  /** Complete after the stop reason: not all servers send an end event. */
  get finished(): boolean {
    return this.over || saysReason(this.#stop_reason);
  }

  end(): void {
    if (!this.finished) throw notComplete();
    if (!this.over) this.#stop();
  }

  /** Reads the stop reason; a later delta without one does not clear it. */
  #readStop({ stop_reason, stop_sequence, stop_details }: Json): void {
    if (saysReason(stop_reason)) this.#stop_reason = stop_reason;
    if (typeof stop_sequence === 'string') this.#stop_sequence = stop_sequence;
    if (isObject(stop_details)) this.notes.note('answer_stop_details');
  }

  #open({ index, content_block: block }: Json): void {
    if (!isObject(block)) throw brokenAnswer('content_block_start has no content_block');
    this.start(undefined, usageIn(this.usage));
    this.#is_empty = false;
    // A new block with an open index closes the old one.
    this.#close(index);
    this.#blocks.set(index, this.#begin(block));
  }

  #begin(block: Json): OpenBlock {
    switch (block.type) {
      case 'text':
        return this.#opened({ kind: 'text' }, block.text);
      case 'thinking':
      case 'redacted_thinking': {
        const opened = this.#opened({ kind: 'reasoning' }, block.thinking);
        this.#prove(opened.part!, 'encrypted', textOf(block.data));
        return { ...opened, signature: textOf(block.signature) };
      }
      case 'tool_use': {
        const name = textOf(block.name);
        if (name === '') throw brokenAnswer('a tool_use block has no name');
        const id = textOf(block.id) || `toolu_${this.parts}`;
        return { ...this.#opened({ kind: 'tool_call', id, name }), whole_input: inputText(block.input) };
      }
      default:
        this.notes.note(PROVIDER_BLOCK.test(textOf(block.type)) ? 'answer_provider_tool' : 'answer_unknown_block');
        return LEFT_OUT;
    }
  }

  #opened(start: PartStart, text?: unknown): OpenBlock {
    const part = this.open(start);
    this.say(part, text);
    return { part, kind: start.kind, signature: '', whole_input: '' };
  }

  #prove(index: number, kind: 'encrypted' | 'signature', value: string): void {
    if (value !== '') this.prove(index, { protocol: 'messages', kind, value });
  }

  #delta({ index, delta }: Json) {
    const block = this.#blocks.get(index);
    if (block === undefined) throw brokenAnswer('content_block_delta names a block that is not open');
    if (block.part === undefined || !isObject(delta)) return;
    switch (delta.type) {
      case 'text_delta':
        return this.say(block.part, delta.text);
      case 'thinking_delta':
        return this.say(block.part, delta.thinking);
      case 'input_json_delta':
        if (textOf(delta.partial_json) !== '') block.whole_input = '';
        return this.say(block.part, delta.partial_json);
      case 'signature_delta':
        if (typeof delta.signature === 'string') block.signature = delta.signature;
        return;
      case 'citations_delta':
        return this.notes.note('answer_citations');
      default:
        return this.notes.note('answer_unknown_block');
    }
  }

  #close(index: unknown): void {
    const block = this.#blocks.get(index);
    if (block === undefined) return;
    this.#blocks.delete(index);
    const { part, kind, signature, whole_input } = block;
    if (part === undefined) return;
    if (kind === 'tool_call') this.say(part, whole_input);
    if (kind === 'reasoning') this.#prove(part, 'signature', signature);
    this.close(part);
  }

  #stop(): void {
    // An empty response without a stop reason is incomplete.
    if (!saysReason(this.#stop_reason) && this.#is_empty) throw notComplete();
    this.start(undefined, usageIn(this.usage));
    const is_cut = [...this.#blocks.values()].some(({ kind }) => kind === 'tool_call');
    for (const index of [...this.#blocks.keys()]) this.#close(index);
    this.finish(this.endBy(this.#stop_reason, is_cut), this.#stop_sequence);
  }
}

/** Reads a response without a stream, as the equivalent stream. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const { content, usage, stop_reason } = document;
  if (!Array.isArray(content)) throw brokenAnswer('it has no content');
  if (content.length === 0 && !saysReason(stop_reason)) throw brokenAnswer('it is empty and does not say why');
  const events: ModelEvent[] = [];
  const reader = new MessagesReader(notes, (event) => events.push(event));
  reader.take({ type: 'message_start', message: document });
  for (const [index, content_block] of content.entries()) {
    if (isObject(content_block) && itemsOf(content_block.citations).length > 0) notes.note('answer_citations');
    reader.take({ type: 'content_block_start', index, content_block });
    reader.take({ type: 'content_block_stop', index });
  }
  reader.take({ type: 'message_delta', delta: document, usage });
  reader.take({ type: 'message_stop' });
  return events;
}

function inputText(input: unknown): string {
  try {
    return isObject(input) ? JSON.stringify(input) : '{}';
  } catch {
    throw brokenAnswer('the input of a tool_use block is nested too deeply');
  }
}

const TOOL_FIELD = /^([a-z][a-z0-9_]{0,63})_requests$/;

const TOOL_NAME = /^[a-z][a-z0-9_]{0,63}$/;

const UNNAMED_DELTA = '{"type":"content_block_delta"';

const DELTA_FRAME_CHARS = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}'.length;

const BEDROCK = 'amazon-bedrock-invocationMetrics';

const NAMES = {
  input: ['input_tokens', 'inputTokenCount'],
  output: ['output_tokens', 'outputTokenCount'],
  cache_read: ['cache_read_input_tokens', 'cacheReadInputTokenCount'],
  cache_write: ['cache_creation_input_tokens', 'cacheWriteInputTokenCount'],
} as const;

/** Reads usage from Messages. Parses only the few events with usage; most events are deltas. */
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

/** Reads a document or an event; `type` in its data overrides the event name. */
function readMessage(reading: UsageReading, name: string | undefined, data: string): void {
  const message = parseObject(data);
  if (message === undefined) return;
  // A document with usage but no type is a response.
  const type = message.type ?? name ?? (asObject(message.usage) && 'message');
  if (type === 'message_start') {
    reading.streamed = true;
    noteModel(reading, asObject(message.message)?.model);
  } else if (type === 'content_block_start') readBlockStart(reading, data);
  else if (type === 'content_block_delta') countDelta(reading, data);
  else if (type === 'error' || (type === undefined && isError(message))) reading.failed = true;
  else if (type === 'message') noteModel(reading, message.model);
  takeMessageUsage(reading, type, message);
}

function takeMessageUsage(reading: UsageReading, type: unknown, said: Json): void {
  if (type !== 'message_start' && type !== 'message_delta' && type !== 'message_stop' && type !== 'message') return;
  const delta = asObject(said.delta);
  let is_counted = type === 'message';
  for (const place of [said[BEDROCK], asObject(said.message)?.usage, delta?.usage, said.usage]) {
    if (place === undefined || place === null) continue;
    const is_output = overlay(reading, place);
    is_counted ||= is_output && type !== 'message_start';
  }
  reading.counted ||= is_counted;
  // Of several reports, only the one with the stop reason has the final counts.
  if (type === 'message' || (type === 'message_delta' && saysReason(delta?.stop_reason))) reading.complete = true;
  else if (type === 'message_stop') reading.complete ||= !reading.failed;
}

/** Merges a `usage` object: the last number counts, the highest after the end. @returns whether it has output */
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

function readCounts(usage: Json): UsageReport | undefined {
  const finder = new CountFinder();
  const split = objectsUnder([usage], ['cache_creation']);
  const counts = {
    input: finder.highest([usage], NAMES.input),
    output: finder.highest([usage], NAMES.output),
    cache_read: finder.highest([usage], NAMES.cache_read),
    cache_write: finder.highest([usage], NAMES.cache_write),
    cache_write_5m: finder.highest(split, ['ephemeral_5m_input_tokens']),
    cache_write_1h: finder.highest(split, ['ephemeral_1h_input_tokens']),
  };
  const { unusable } = finder;
  const reasoning = finder.highest(objectsUnder([usage], ['output_tokens_details']), ['thinking_tokens']);
  return reportOf({ ...counts, reasoning }, unusable);
}

function overlayTools(reading: UsageReading, tools: Json | undefined): void {
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

/** Counts one use of a provider tool per block of this type, in case the final count is missing. */
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

const KINDS: Readonly<Record<string, TextKind>> = { text: 'text', thinking: 'reasoning', partial_json: 'tool_input' };

const DELTA_TYPES: Readonly<Record<string, string>> = {
  text: 'text_delta',
  thinking: 'thinking_delta',
  partial_json: 'input_json_delta',
};

function textAt(index: unknown, field: string) {
  return { key: JSON.stringify([index, field]), part: index, kind: KINDS[field] ?? 'other' } as const;
}

function isBlock(path: Path): boolean {
  return (path.length === 2 && path[0] === 'content_block') || (path.length === 3 && path[0] === 'content');
}

export const messagesTexts: AnswerTexts = {
  placeOf(path, event) {
    const key = keyOf(path);
    const comes_in_pieces = path.length === 2 && (path[0] === 'delta' || path[0] === 'content_block');
    if (comes_in_pieces && event.index !== undefined) {
      if (key === 'signature') return { is: 'proof', of: textAt(event.index, 'thinking') };
      if (key === 'partial_json') return { is: 'json_piece', id: textAt(event.index, key) };
      if (path[0] === 'delta' || key! in DELTA_TYPES)
        return textUnlessKnown(path) && { is: 'piece', id: textAt(event.index, key!) };
    }
    if (isBlock(path) && key === 'input') return { is: 'values', kind: 'tool_input' };
    if (isBlock(path) && key === 'signature') {
      const thinking = valueAt(event, [...path.slice(0, -1), 'thinking']);
      return typeof thinking === 'string' ? { is: 'proof', of: thinking } : undefined;
    }
    return textUnlessKnown(path, isBlock(path) ? KINDS[key!] : undefined);
  },
  endsBefore({ type, index, delta }, { part }) {
    // A signature covers the complete thinking text, so buffered text goes first.
    const is_proof = isObject(delta) && 'signature' in delta;
    if (type === 'content_block_stop' || type === 'content_block_start' || is_proof) return index === part;
    return type === 'message_delta' || type === 'message_stop' || type === 'error';
  },
  pieceLike(event: Json, path, text) {
    const field = keyOf(path)!;
    const type = DELTA_TYPES[field] ?? valueAt(event, ['delta', 'type']);
    return { type: 'content_block_delta', index: event.index, delta: { type, [field]: text } };
  },
};
