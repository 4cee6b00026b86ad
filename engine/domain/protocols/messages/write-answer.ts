import {
  type AnswerContext,
  gatherAnswer,
  type Json,
  type ModelEvent,
  type ModelUsage,
  type PartStart,
  type ReasoningProof,
  type StopReason,
  type StreamWriter,
  type WholePart,
} from '../translation/conversation.ts';
import { proofToText } from '../translation/made-reasoning.ts';
import type { Notes } from '../translation/rules.ts';
import { cacheWritten } from '../usage.ts';
import { messagesErrors } from './index.ts';
import { argumentsObject } from './write-request.ts';

/** Omits unknown counts of cached tokens, as one client cannot parse null; every response has the others. */
function writeUsage(usage: ModelUsage): Json {
  const { cache_write_5m, cache_write_1h, reasoning } = usage;
  const split = cache_write_5m !== undefined || cache_write_1h !== undefined;
  // Upstreams that report one of them have no other.
  const has_cache = split || usage.cache_read !== undefined || usage.cache_write !== undefined;
  return {
    input_tokens: usage.input ?? 0,
    ...(has_cache && {
      cache_creation_input_tokens: cacheWritten(usage),
      cache_read_input_tokens: usage.cache_read ?? 0,
    }),
    ...(split && {
      cache_creation: {
        ephemeral_5m_input_tokens: cache_write_5m ?? 0,
        ephemeral_1h_input_tokens: cache_write_1h ?? 0,
      },
    }),
    output_tokens: usage.output ?? 0,
    ...(reasoning !== undefined && { output_tokens_details: { thinking_tokens: reasoning } }),
  };
}

/** The head, with an own identifier: other servers repeat theirs, and coding clients merge equal ones. */
function writeHead({ model }: { readonly model?: string }, answer: AnswerContext): Json {
  return {
    id: `msg_${answer.request_id.replaceAll('-', '')}`,
    type: 'message',
    role: 'assistant',
    model: model ?? answer.model,
  };
}

const STOP_REASONS: Readonly<Record<StopReason, string>> = {
  finished: 'end_turn',
  stop_sequence: 'stop_sequence',
  tool_calls: 'tool_use',
  paused: 'pause_turn',
  refusal: 'refusal',
  content_filter: 'refusal',
  max_tokens: 'max_tokens',
  context_window: 'model_context_window_exceeded',
};

/** `stop_reason` of a response. A refusal may be a separate text with an ordinary reason. */
function writeStopReason(reason: StopReason, has_refusal: boolean): string {
  return STOP_REASONS[reason === 'finished' && has_refusal ? 'refusal' : reason];
}

interface Part {
  readonly start: PartStart;
  held: string;
  proof?: ReasoningProof;
  ended: boolean;
  /** Whether its block has begun. Empty blocks never begin, because clients could not send them back. */
  begun: boolean;
}

const DELTAS = {
  text: '"text_delta","text"',
  refusal: '"text_delta","text"',
  reasoning: '"thinking_delta","thinking"',
  tool_call: '"input_json_delta","partial_json"',
} as const satisfies Record<PartStart['kind'], string>;

/** Writes a stream for a client, one block after the other; overlapping parts are buffered. */
export class MessagesWriter implements StreamWriter {
  readonly #answer: AnswerContext;
  readonly #notes: Notes;
  /** State without text, buffered until the next part: it must not be the only part after a text. */
  #states: ReasoningProof[] = [];
  #called = false;
  /** Incomplete parts, in order; the first one is being written. */
  readonly #parts = new Map<number, Part>();
  #usage: ModelUsage = {};
  #started = false;
  #blocks = 0;
  #refused = false;

  constructor(answer: AnswerContext, notes: Notes) {
    this.#answer = answer;
    this.#notes = notes;
  }

  write(event: ModelEvent): string {
    const part = 'index' in event ? this.#parts.get(event.index) : undefined;
    switch (event.type) {
      case 'part_delta':
        if (part !== undefined) part.held += event.text;
        return this.#advance();
      case 'start':
        return this.#start(event);
      case 'part_start':
        this.#parts.set(event.index, { start: event.part, held: '', ended: false, begun: false });
        this.#refused ||= event.part.kind === 'refusal';
        return this.#advance();
      case 'proof':
        if (part !== undefined) part.proof = event.proof;
        return '';
      case 'part_end':
        if (part !== undefined) part.ended = true;
        return this.#advance();
      case 'ping':
        return 'event: ping\ndata: {"type":"ping"}\n\n';
      case 'end':
        return this.#end(event);
      case 'error':
        return sse('error', JSON.stringify(messagesErrors.write(event.problem, this.#answer.request_id)));
    }
  }

  #start(event: Extract<ModelEvent, { type: 'start' }>): string {
    if (this.#started) return '';
    this.#started = true;
    this.#usage = event.usage ?? {};
    const message = {
      ...writeHead(event, this.#answer),
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: writeUsage(this.#usage),
    };
    return sse('message_start', `{"type":"message_start","message":${JSON.stringify(message)}}`);
  }

  /** Writes the current part so far and, once it has ended, the parts that waited for it. */
  #advance(): string {
    let out = '';
    for (const [index, part] of this.#parts) {
      if (part.start.kind === 'tool_call' && !part.begun) out += this.#begin(part);
      if (part.held !== '') out += this.#say(part);
      if (!part.ended) break;
      out += this.#finish(part);
      this.#parts.delete(index);
    }
    return out;
  }

  #say(part: Part): string {
    const begin = part.begun ? '' : this.#begin(part);
    const text = part.held;
    part.held = '';
    const delta = `{"type":"content_block_delta","index":${this.#blocks - 1},"delta":{"type":${DELTAS[part.start.kind]}:${JSON.stringify(text)}}}`;
    return `${begin}event: content_block_delta\ndata: ${delta}\n\n`;
  }

  #begin(part: Part): string {
    part.begun = true;
    const { kind } = part.start;
    const states = this.#sayStates();
    const first = this.#answer.thinks_first === true && this.#blocks === 0 && kind !== 'reasoning';
    this.#called ||= kind === 'tool_call';
    return states + (first ? this.#silence(undefined) : '') + this.#block(startOf(part.start));
  }

  /** An empty thinking block: for state, or at the start for clients whose next request must begin with one. */
  #silence(proof: ReasoningProof | undefined): string {
    return this.#block(startOf({ kind: 'reasoning' })) + this.#sign(proof) + this.#stop();
  }

  #sayStates(): string {
    const states = this.#states.map((state) => this.#silence(state)).join('');
    this.#states = [];
    return states;
  }

  #block(content_block: Json): string {
    const index = this.#blocks++;
    const data = `{"type":"content_block_start","index":${index},"content_block":${JSON.stringify(content_block)}}`;
    return sse('content_block_start', data);
  }

  #finish(part: Part): string {
    const { proof, start } = part;
    if (!part.begun && proof === undefined) return '';
    if (!part.begun && proof?.kind === 'state') {
      this.#states.push(proof);
      return '';
    }
    const begin = part.begun ? '' : this.#begin(part);
    return begin + (start.kind === 'reasoning' ? this.#sign(proof) : '') + this.#stop();
  }

  #sign(proof: ReasoningProof | undefined): string {
    const signature = JSON.stringify(proofToText(proof, this.#answer.made_by));
    const delta = `{"type":"signature_delta","signature":${signature}}`;
    return sse('content_block_delta', `{"type":"content_block_delta","index":${this.#blocks - 1},"delta":${delta}}`);
  }

  #stop(): string {
    return sse('content_block_stop', `{"type":"content_block_stop","index":${this.#blocks - 1}}`);
  }

  #end({ reason, stop_sequence, usage }: Extract<ModelEvent, { type: 'end' }>): string {
    for (const part of this.#parts.values()) part.ended = true;
    const parts = this.#start({ type: 'start' }) + this.#advance();
    // Some clients treat the last block as the answer.
    if (!this.#called && this.#states.length > 0) this.#notes.note('late_state');
    const rest = parts + (this.#called ? this.#sayStates() : '');
    const delta = {
      type: 'message_delta',
      delta: { stop_reason: writeStopReason(reason, this.#refused), stop_sequence: stop_sequence ?? null },
      usage: writeUsage({ ...this.#usage, ...usage }),
    };
    return `${rest}${sse('message_delta', JSON.stringify(delta))}${sse('message_stop', '{"type":"message_stop"}')}`;
  }
}

function startOf(start: PartStart): Json {
  if (start.kind === 'tool_call') return { type: 'tool_use', id: start.id, name: start.name, input: {} };
  return start.kind === 'reasoning' ? { type: 'thinking', thinking: '', signature: '' } : { type: 'text', text: '' };
}

function sse(name: string, data: string): string {
  return `event: ${name}\ndata: ${data}\n\n`;
}

/** Writes a response without a stream. */
export function writeDocument(events: readonly ModelEvent[], answer: AnswerContext, notes: Notes): Json {
  const { start, parts, end, usage } = gatherAnswer(events);
  const content = statesFirst(parts).flatMap((part) => writeBlock(part, answer, notes));
  return {
    ...writeHead(start, answer),
    content: thinkingFirst(content, answer),
    stop_reason: writeStopReason(
      end.reason,
      parts.some((part) => part.start.kind === 'refusal'),
    ),
    stop_sequence: end.stop_sequence ?? null,
    usage: writeUsage(usage),
  };
}

const isState = ({ start, text, proof }: WholePart): boolean =>
  start.kind === 'reasoning' && text === '' && proof?.kind === 'state';

/** Moves state without text before the last text, because some clients treat the last block as the answer. */
function statesFirst(parts: readonly WholePart[]): readonly WholePart[] {
  if (parts.some(({ start }) => start.kind === 'tool_call')) return parts;
  const end = parts.findLastIndex((part) => !isState(part)) + 1;
  const at = parts.findLastIndex(({ start }, index) => index < end && start.kind === 'reasoning') + 1;
  return [...parts.slice(0, at), ...parts.slice(end), ...parts.slice(at, end)];
}

/** Adds an initial thinking block if the next request of the client must contain one. */
function thinkingFirst(content: Json[], { thinks_first, made_by }: AnswerContext): unknown[] {
  if (thinks_first !== true || content.length === 0 || content[0]!.type === 'thinking') return content;
  return [{ type: 'thinking', thinking: '', signature: proofToText(undefined, made_by) }, ...content];
}

function writeBlock({ start, text, proof }: WholePart, { made_by }: AnswerContext, notes: Notes): Json[] {
  if (start.kind === 'tool_call')
    return [{ type: 'tool_use', id: start.id, name: start.name, input: inputOf(text, notes) }];
  if (start.kind !== 'reasoning') return text === '' ? [] : [{ type: 'text', text }];
  if (text === '' && proof === undefined) return [];
  return [{ type: 'thinking', thinking: text, signature: proofToText(proof, made_by) }];
}

function inputOf(text: string, notes: Notes): Json {
  const input = argumentsObject(text);
  if (input !== undefined) return input;
  notes.note('answer_arguments');
  return { arguments: text };
}
