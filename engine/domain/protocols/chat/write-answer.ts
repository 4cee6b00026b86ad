import {
  type AnswerContext,
  gatherAnswer,
  type Json,
  type ModelEvent,
  type ModelUsage,
  type PartStart,
  type StopReason,
  type StreamWriter,
  type WholePart,
} from '../translation/conversation.ts';
import { FreeTextDecoder, freeTextOf } from '../translation/free-text.ts';
import type { Notes } from '../translation/rules.ts';
import { CHAT_TOTALS, writeTotals } from '../usage.ts';
import { chatErrors } from './index.ts';

function nameAnswer(event: ModelEvent & { type: 'start' }, answer: AnswerContext): { id: string; model: string } {
  return {
    id: event.id ?? `chatcmpl_${answer.request_id.replaceAll('-', '')}`,
    model: event.model ?? answer.model,
  };
}

const STOP_REASONS: Readonly<Record<StopReason, string>> = {
  finished: 'stop',
  stop_sequence: 'stop',
  tool_calls: 'tool_calls',
  paused: 'stop',
  refusal: 'content_filter',
  content_filter: 'content_filter',
  max_tokens: 'length',
  context_window: 'length',
};

/** `finish_reason` of a response. A refusal in a separate field is an ordinary end. */
function finishReason(end: ModelEvent & { type: 'end' }, has_refusal_text: boolean, notes: Notes): string {
  if (end.reason === 'stop_sequence' || end.stop_sequence !== undefined) notes.note('stop_sequence_found');
  if (end.reason === 'paused') notes.note('paused_turn');
  return STOP_REASONS[end.reason === 'refusal' && has_refusal_text ? 'finished' : end.reason];
}

interface OpenPart {
  readonly kind: PartStart['kind'];
  readonly call: number;
  readonly plain: FreeTextDecoder | undefined;
  /** Buffered text, while another part of the same kind is open. */
  held: string;
  sent: boolean;
  ended: boolean;
}

const TEXT_KEYS = { text: 'content', refusal: 'refusal', reasoning: 'reasoning_content' } as const;

export class ChatWriter implements StreamWriter {
  readonly #answer: AnswerContext;
  readonly #notes: Notes;
  readonly #parts = new Map<number, OpenPart>();
  #calls = 0;
  #refused = false;
  #usage: ModelUsage | undefined;
  #head = '';
  readonly #tail: string;

  constructor(answer: AnswerContext, notes: Notes) {
    this.#answer = answer;
    this.#notes = notes;
    this.#tail = `,"finish_reason":null}]${answer.include_usage ? ',"usage":null' : ''}}\n\n`;
  }

  write(event: ModelEvent): string {
    switch (event.type) {
      case 'part_delta':
        return this.#addTo(event.index, event.text);
      case 'start':
        return this.#start(event);
      case 'part_start':
        return this.#startPart(event.index, event.part);
      case 'part_end':
        return this.#endPart(event.index);
      case 'proof':
        this.#notes.note('reasoning_proof');
        return '';
      case 'ping':
        return ': ping\n\n';
      case 'end':
        return this.#end(event);
      case 'error':
        return `data: ${JSON.stringify({ error: chatErrors.fields(event.problem) })}\n\n`;
    }
  }

  #start(event: ModelEvent & { type: 'start' }): string {
    const { id, model } = nameAnswer(event, this.#answer);
    const { created_at: created } = this.#answer;
    this.#usage = event.usage;
    this.#head = `data: ${JSON.stringify({ id, object: 'chat.completion.chunk', created, model }).slice(0, -1)},"choices":[`;
    return this.#chunk('"role":"assistant"');
  }

  #chunk(delta: string): string {
    return `${this.#head}{"index":0,"delta":{${delta}}${this.#tail}`;
  }

  #startPart(index: number, part: PartStart): string {
    const { kind } = part;
    const plain = kind === 'tool_call' && this.#answer.free_text_tools.has(part.name);
    const decoder = plain ? new FreeTextDecoder() : undefined;
    this.#parts.set(index, { kind, call: this.#calls, plain: decoder, held: '', sent: false, ended: false });
    this.#refused ||= kind === 'refusal';
    if (kind !== 'tool_call') return '';
    const type = plain ? '"type":"custom","custom":{"name":' : '"type":"function","function":{"name":';
    const rest = plain ? ',"input":""}}]' : ',"arguments":""}}]';
    const call = `"tool_calls":[{"index":${this.#calls++},"id":${JSON.stringify(part.id)},`;
    return this.#chunk(`${call}${type}${JSON.stringify(part.name)}${rest}`);
  }

  #addTo(index: number, text: string): string {
    const part = this.#parts.get(index);
    if (part === undefined || text === '') return '';
    part.sent = true;
    if (part.kind === 'tool_call')
      return this.#callChunk(part, part.plain === undefined ? text : part.plain.push(text));
    part.held += text;
    return this.#advance(part.kind);
  }

  #callChunk({ call, plain }: OpenPart, text: string): string {
    if (text === '') return '';
    const sent = JSON.stringify(text);
    const inner = plain === undefined ? `"function":{"arguments":${sent}}` : `"custom":{"input":${sent}}`;
    return this.#chunk(`"tool_calls":[{"index":${call},${inner}}]`);
  }

  #endPart(index: number): string {
    const part = this.#parts.get(index);
    if (part === undefined) return '';
    part.ended = true;
    if (part.kind !== 'tool_call') return this.#advance(part.kind);
    this.#parts.delete(index);
    // Clients parse the arguments, and an empty text is not JSON.
    return this.#callChunk(part, part.plain?.end() ?? (part.sent ? '' : '{}'));
  }

  /** Clients see all text of a kind as one, so overlapping parts are written in sequence. */
  #advance(kind: keyof typeof TEXT_KEYS): string {
    let text = '';
    for (const [index, part] of this.#parts) {
      if (part.kind !== kind) continue;
      if (part.held !== '') text += this.#chunk(`"${TEXT_KEYS[kind]}":${JSON.stringify(part.held)}`);
      part.held = '';
      if (!part.ended) break;
      this.#parts.delete(index);
    }
    return text;
  }

  #end(event: ModelEvent & { type: 'end' }): string {
    const usage_key = this.#answer.include_usage ? ',"usage":null' : '';
    const reason = JSON.stringify(finishReason(event, this.#refused, this.#notes));
    const last = `${this.#head}{"index":0,"delta":{},"finish_reason":${reason}}]${usage_key}}\n\n`;
    return `${last}${this.#usageChunk({ ...this.#usage, ...event.usage })}data: [DONE]\n\n`;
  }

  #usageChunk(reported: ModelUsage): string {
    const usage = this.#answer.include_usage ? writeTotals(reported, CHAT_TOTALS) : undefined;
    return usage === undefined ? '' : `${this.#head}],"usage":${JSON.stringify(usage)}}\n\n`;
  }
}

/** Writes a response without a stream. */
export function writeDocument(events: readonly ModelEvent[], answer: AnswerContext, notes: Notes): Json {
  const { start, parts, end, usage } = gatherAnswer(events);
  if (events.some(({ type }) => type === 'proof')) notes.note('reasoning_proof');
  const { id, model } = nameAnswer(start, answer);
  const finish_reason = finishReason(end, hasRefusal(parts), notes);
  const reported = writeTotals(usage, CHAT_TOTALS);
  return {
    id,
    object: 'chat.completion',
    created: answer.created_at,
    model,
    choices: [{ index: 0, message: writeMessage(parts, answer), logprobs: null, finish_reason }],
    ...(reported !== undefined && { usage: reported }),
  };
}

const hasRefusal = (parts: readonly WholePart[]): boolean => parts.some(({ start }) => start.kind === 'refusal');

function writeMessage(parts: readonly WholePart[], { free_text_tools }: AnswerContext): Json {
  const textOf = (kind: PartStart['kind']): string =>
    parts.flatMap(({ start, text }) => (start.kind === kind ? text : [])).join('');
  const reasoning = textOf('reasoning');
  const calls = parts.flatMap(({ start, text }) =>
    start.kind === 'tool_call' ? writeCall(start.id, start.name, text, free_text_tools.has(start.name)) : [],
  );
  return {
    role: 'assistant',
    content: textOf('text') || (calls.length > 0 || hasRefusal(parts) ? null : ''),
    refusal: textOf('refusal') || null,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

function writeCall(id: string, name: string, text: string, plain: boolean): object {
  if (plain) return { id, type: 'custom', custom: { name, input: freeTextOf(text) } };
  return { id, type: 'function', function: { name, arguments: text === '' ? '{}' : text } };
}
