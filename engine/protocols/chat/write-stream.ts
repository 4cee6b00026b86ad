import type { AnswerContext, StreamWriter } from '../translation/adapter.ts';
import type { ModelEvent, ModelUsage, PartStart } from '../translation/events.ts';
import { FreeTextDecoder } from '../translation/features/free-text.ts';
import type { Notes } from '../translation/notes.ts';
import { CHAT_TOTALS, writeTotals } from '../translation/usage.ts';
import { finishReason, nameAnswer } from './answer.ts';
import { chatErrors } from './errors.ts';

/** What is known of a part while it is open. */
interface OpenPart {
  readonly kind: PartStart['kind'];
  /** For calls: which one it is. */
  readonly call: number;
  /** For calls with plain text: takes it out of the arguments. */
  readonly plain: FreeTextDecoder | undefined;
  /** Text that cannot be said yet, as another part of the same kind is open. */
  held: string[] | undefined;
  /** Whether any text came. */
  said: boolean;
  ended: boolean;
}

/** Keys of the delta that text of each kind goes to. */
const TEXT_KEYS = { text: 'content', refusal: 'refusal', reasoning: 'reasoning_content' } as const;

/** Writes a stream for a client. */
export class ChatWriter implements StreamWriter {
  readonly #answer: AnswerContext;
  readonly #notes: Notes;
  readonly #parts = new Map<number, OpenPart>();
  #calls = 0;
  #refused = false;
  #usage: ModelUsage | undefined;
  /** What stands in each chunk before its choices. */
  #head = '';
  /** What stands in each chunk between its delta and its end. */
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
    const is_call = part.kind === 'tool_call';
    const plain = is_call && this.#answer.free_text_tools.has(part.name);
    const open: OpenPart = {
      kind: part.kind,
      call: this.#calls,
      plain: plain ? new FreeTextDecoder() : undefined,
      held: !is_call && this.#isOpen(part.kind) ? [] : undefined,
      said: false,
      ended: false,
    };
    this.#parts.set(index, open);
    this.#refused ||= part.kind === 'refusal';
    if (!is_call) return '';
    this.#calls += 1;
    const type = plain ? '"type":"custom","custom":{"name":' : '"type":"function","function":{"name":';
    const rest = plain ? ',"input":""}}]' : ',"arguments":""}}]';
    const call = `"tool_calls":[{"index":${open.call},"id":${JSON.stringify(part.id)},`;
    return this.#chunk(`${call}${type}${JSON.stringify(part.name)}${rest}`);
  }

  #addTo(index: number, text: string): string {
    const part = this.#parts.get(index);
    if (part === undefined || text === '') return '';
    part.said = true;
    if (part.held === undefined) return this.#textChunk(part, text);
    part.held.push(text);
    return '';
  }

  #isOpen(kind: PartStart['kind']): boolean {
    return [...this.#parts.values()].some((part) => part.kind === kind);
  }

  #textChunk(part: OpenPart, text: string): string {
    if (part.plain !== undefined) return this.#inputChunk(part, part.plain.push(text));
    if (part.kind === 'tool_call') return this.#argumentsChunk(part, text);
    return text === '' ? '' : this.#chunk(`"${TEXT_KEYS[part.kind]}":${JSON.stringify(text)}`);
  }

  #inputChunk({ call }: OpenPart, text: string): string {
    if (text === '') return '';
    return this.#chunk(`"tool_calls":[{"index":${call},"custom":{"input":${JSON.stringify(text)}}}]`);
  }

  #argumentsChunk({ call }: OpenPart, text: string): string {
    return this.#chunk(`"tool_calls":[{"index":${call},"function":{"arguments":${JSON.stringify(text)}}}]`);
  }

  #endPart(index: number): string {
    const part = this.#parts.get(index);
    if (part === undefined) return '';
    part.ended = true;
    if (part.kind !== 'tool_call') return part.held === undefined ? this.#endText(index, part) : '';
    this.#parts.delete(index);
    if (part.plain !== undefined) return this.#inputChunk(part, part.plain.end());
    // Clients parse the arguments, and nothing is not JSON.
    return part.said ? '' : this.#argumentsChunk(part, '{}');
  }

  /** All text of a kind is one text for the client, so parts that overlapped say what they held one after the other. */
  #endText(index: number, { kind }: OpenPart): string {
    this.#parts.delete(index);
    let text = '';
    for (const [at, part] of this.#parts) {
      if (part.kind !== kind) continue;
      text += this.#textChunk(part, part.held?.join('') ?? '');
      part.held = undefined;
      if (!part.ended) break;
      this.#parts.delete(at);
    }
    return text;
  }

  #end(event: ModelEvent & { type: 'end' }): string {
    const usage_key = this.#answer.include_usage ? ',"usage":null' : '';
    const reason = JSON.stringify(finishReason(event, this.#refused, this.#notes));
    const last = `${this.#head}{"index":0,"delta":{},"finish_reason":${reason}}]${usage_key}}\n\n`;
    return `${last}${this.#usageChunk({ ...this.#usage, ...event.usage })}data: [DONE]\n\n`;
  }

  #usageChunk(told: ModelUsage): string {
    const usage = this.#answer.include_usage ? writeTotals(told, CHAT_TOTALS) : undefined;
    return usage === undefined ? '' : `${this.#head}],"usage":${JSON.stringify(usage)}}\n\n`;
  }
}
