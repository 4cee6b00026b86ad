import type { TextKind } from '../../../base/contract/rewriting.ts';
import type { ResponseEvent } from '../../../base/contract/stage.ts';
import { brokenAnswer, notComplete, parseEvent } from '../answer-parts.ts';
import { readProblem } from '../errors.ts';
import { isError } from '../read-error.ts';
import { isObject, present } from '../read-json.ts';
import { type AnswerTexts, keyOf, type Path, textUnlessKnown, valueAt } from '../rewriting.ts';
import { readEnd, saysReason } from '../stop-reasons.ts';
import {
  type Emit,
  type Json,
  type ModelEvent,
  type StreamReader,
  startOfAnswer,
} from '../translation/conversation.ts';
import type { Notes } from '../translation/rules.ts';
import {
  asObject,
  CountFinder,
  countTool,
  hasRoomFor,
  highestOf,
  isCount,
  newUsageReading,
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
  usageIn,
} from '../usage.ts';

/** A content block that has begun; `part` is absent for one that is left out. */
interface OpenBlock {
  readonly part?: number;
  readonly kind?: 'text' | 'reasoning' | 'tool_call';
  signature: string;
  /** Arguments that came whole at the start of the block; used when nothing of them streams. */
  whole_input: string;
}

const LEFT_OUT: OpenBlock = { signature: '', whole_input: '' };

/** Reads an upstream's stream. */
export class MessagesReader implements StreamReader {
  readonly #notes: Notes;
  readonly #blocks = new Map<unknown, OpenBlock>();
  readonly #usage = newUsageReading();
  #started = false;
  #over = false;
  #parts = 0;
  #has_calls = false;
  #is_empty = true;
  #stop_reason: unknown;
  #stop_sequence: string | undefined;

  constructor(notes: Notes) {
    this.#notes = notes;
  }

  read({ name, data }: ResponseEvent, emit: Emit): void {
    // Some servers end the streams of every protocol as those of chat completions.
    if (this.#over || data === '[DONE]') return;
    if (name === 'error') this.#fail(data, emit);
    else this.take(parseEvent(data), emit);
  }

  /** Reads an event that is parsed already. Raises upstream_invalid. */
  take(event: Json, emit: Emit): void {
    takeMessageUsage(this.#usage, event.type, event);
    switch (event.type) {
      case 'content_block_delta':
        this.#delta(event, emit);
        break;
      case 'message_start':
        this.#start(event.message, emit);
        break;
      case 'content_block_start':
        this.#open(event, emit);
        break;
      case 'content_block_stop':
        this.#close(event.index, emit);
        break;
      case 'message_delta':
        if (isObject(event.delta)) this.#readStop(event.delta);
        break;
      case 'message_stop':
        this.#finish(emit);
        break;
      case 'ping':
        emit({ type: 'ping' });
        break;
      default:
        if (event.type === 'error' || (event.type === undefined && isError(event))) this.#fail(event, emit);
    }
  }

  #fail(error: unknown, emit: Emit): void {
    this.#over = true;
    emit({ type: 'error', problem: readProblem(undefined, error) });
  }

  /** Complete after the stop reason: not all servers send the event that ends the stream. */
  get finished(): boolean {
    return this.#over || saysReason(this.#stop_reason);
  }

  end(emit: Emit): void {
    if (!this.finished) throw notComplete();
    if (!this.#over) this.#finish(emit);
  }

  /** A later delta may repeat that there is no reason yet. */
  #readStop({ stop_reason, stop_sequence, stop_details }: Json): void {
    if (saysReason(stop_reason)) this.#stop_reason = stop_reason;
    if (typeof stop_sequence === 'string') this.#stop_sequence = stop_sequence;
    if (isObject(stop_details)) this.#notes.note('answer_stop_details');
  }

  #start(message: unknown, emit: Emit): void {
    if (this.#started) return;
    this.#started = true;
    emit(startOfAnswer(message, usageIn(this.#usage)));
  }

  #open({ index, content_block: block }: Json, emit: Emit): void {
    if (!isObject(block)) throw brokenAnswer('content_block_start has no content_block');
    this.#start(undefined, emit);
    this.#is_empty = false;
    // An upstream that does not end one block before the next with the same number has ended it all the same.
    this.#close(index, emit);
    this.#blocks.set(index, this.#begin(block, emit));
  }

  #begin(block: Json, emit: Emit): OpenBlock {
    const index = this.#parts;
    switch (block.type) {
      case 'text':
        emit({ type: 'part_start', index, part: { kind: 'text' } });
        emitText(block.text, index, emit);
        return this.#opened('text');
      case 'thinking':
      case 'redacted_thinking': {
        emit({ type: 'part_start', index, part: { kind: 'reasoning' } });
        emitText(block.thinking, index, emit);
        const { data, signature } = block;
        if (typeof data === 'string' && data !== '') {
          emit({
            type: 'proof',
            index,
            proof: { protocol: 'messages', kind: 'encrypted', value: data },
          });
        }
        return { ...this.#opened('reasoning'), signature: typeof signature === 'string' ? signature : '' };
      }
      case 'tool_use': {
        const { id, name, input } = block;
        if (typeof name !== 'string' || name === '') throw brokenAnswer('a tool_use block has no name');
        this.#has_calls = true;
        emit({
          type: 'part_start',
          index,
          part: { kind: 'tool_call', id: typeof id === 'string' && id !== '' ? id : `toolu_${index}`, name },
        });
        return { ...this.#opened('tool_call'), whole_input: inputText(input) };
      }
      default:
        this.#notes.note(isProviderBlock(block.type) ? 'answer_provider_tool' : 'answer_unknown_block');
        return LEFT_OUT;
    }
  }

  #opened(kind: NonNullable<OpenBlock['kind']>): OpenBlock {
    return { part: this.#parts++, kind, signature: '', whole_input: '' };
  }

  #delta({ index, delta }: Json, emit: Emit): void {
    const block = this.#blocks.get(index);
    if (block === undefined) throw brokenAnswer('content_block_delta names a block that is not open');
    if (block.part === undefined || !isObject(delta)) return;
    switch (delta.type) {
      case 'text_delta':
        emitText(delta.text, block.part, emit);
        break;
      case 'thinking_delta':
        emitText(delta.thinking, block.part, emit);
        break;
      case 'input_json_delta':
        if (typeof delta.partial_json !== 'string' || delta.partial_json === '') break;
        block.whole_input = '';
        emitText(delta.partial_json, block.part, emit);
        break;
      case 'signature_delta':
        if (typeof delta.signature === 'string') block.signature = delta.signature;
        break;
      case 'citations_delta':
        this.#notes.note('answer_citations');
        break;
      default:
        this.#notes.note('answer_unknown_block');
    }
  }

  #close(index: unknown, emit: Emit): void {
    const block = this.#blocks.get(index);
    if (block === undefined) return;
    this.#blocks.delete(index);
    const { part, kind, signature, whole_input } = block;
    if (part === undefined) return;
    if (kind === 'tool_call') emitText(whole_input, part, emit);
    if (kind === 'reasoning' && signature !== '') {
      emit({
        type: 'proof',
        index: part,
        proof: { protocol: 'messages', kind: 'signature', value: signature },
      });
    }
    emit({ type: 'part_end', index: part });
  }

  #finish(emit: Emit): void {
    // An empty response without a stop reason is incomplete.
    if (!saysReason(this.#stop_reason) && this.#is_empty) throw notComplete();
    this.#over = true;
    this.#start(undefined, emit);
    const is_cut = [...this.#blocks.values()].some(({ kind }) => kind === 'tool_call');
    for (const index of [...this.#blocks.keys()]) this.#close(index, emit);
    const stop_sequence = this.#stop_sequence;
    const end = readEnd(this.#stop_reason, { has_calls: this.#has_calls, is_cut }, this.#notes);
    if ('problem' in end) emit({ type: 'error', problem: end.problem });
    else emit({ type: 'end', ...end, ...present({ stop_sequence, usage: usageIn(this.#usage) }) });
  }
}

/** Reads an upstream's whole answer: as the stream that would have brought it. Raises upstream_invalid. */
export function readDocument(document: Json, notes: Notes): ModelEvent[] {
  const { content, usage } = isObject(document) ? document : {};
  if (!Array.isArray(content)) throw brokenAnswer('it has no content');
  if (content.length === 0 && !saysReason(document.stop_reason)) throw brokenAnswer('it is empty and does not say why');
  const events: ModelEvent[] = [];
  const reader = new MessagesReader(notes);
  const read = (event: Json): void => reader.take(event, (read_event) => events.push(read_event));
  read({ type: 'message_start', message: document });
  for (const [index, content_block] of content.entries()) {
    if (isObject(content_block) && Array.isArray(content_block.citations) && content_block.citations.length > 0) {
      notes.note('answer_citations');
    }
    read({ type: 'content_block_start', index, content_block });
    read({ type: 'content_block_stop', index });
  }
  read({ type: 'message_delta', delta: document, usage });
  read({ type: 'message_stop' });
  return events;
}

function emitText(text: unknown, index: number, emit: Emit): void {
  if (typeof text === 'string' && text !== '') emit({ type: 'part_delta', index, text });
}

function isProviderBlock(type: unknown): boolean {
  return typeof type === 'string' && /^(server_tool_use|mcp_tool_use|container_upload|[a-z_]+_tool_result)$/.test(type);
}

/** Arguments as JSON text; the start of a block that streams has an empty object. */
function inputText(input: unknown): string {
  try {
    return isObject(input) ? JSON.stringify(input) : '{}';
  } catch {
    throw brokenAnswer('the input of a tool_use block is nested too deeply');
  }
}

/** Usage of a response. */

/** How the wire names the uses of a tool: `web_search_requests`. */
const TOOL_FIELD = /^([a-z][a-z0-9_]{0,63})_requests$/;

const TOOL_NAME = /^[a-z][a-z0-9_]{0,63}$/;

/** How a delta begins, for the upstreams that give their events no names. */
const UNNAMED_DELTA = '{"type":"content_block_delta"';

/** What surrounds the text in the data of a delta event. */
const DELTA_FRAME_CHARS = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}'.length;

/** Counts in the last event of a stream of Amazon Bedrock. */
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

/** Reads a document or an event; `type` in its data overrides the event name. */
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

/** Reads the usage of an event or document, for the bill and for translated responses. */
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

function readCounts(usage: Json): UsageReport | undefined {
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

/** Where an answer has its texts. */

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

/** Where the texts of a Messages answer stand. */
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
    // A proof is of the whole thought, and so comes behind what was held back of it.
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
