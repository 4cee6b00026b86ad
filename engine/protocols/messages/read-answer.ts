import type { ResponseEvent } from '../../contract/stage.ts';
import { brokenAnswer, notComplete, parseEvent } from '../answer-parts.ts';
import { readProblem } from '../errors.ts';
import { isError } from '../read-error.ts';
import { isObject, present } from '../read-json.ts';
import { readEnd, saysReason } from '../stop-reasons.ts';
import {
  type Emit,
  type Json,
  type ModelEvent,
  type StreamReader,
  startOfAnswer,
} from '../translation/conversation.ts';
import type { Notes } from '../translation/rules.ts';
import { newUsageReading, usageIn } from '../usage.ts';
import { takeMessageUsage } from './reported-usage.ts';

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

  /** Who says why the model stopped has said everything; not all send the event that ends the stream. */
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
    // An end without a reason, of an answer without anything in it, is none.
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
