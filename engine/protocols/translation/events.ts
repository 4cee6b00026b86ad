/**
 * A model's answer in the words that all protocols have in common, as it streams. A document is the same events at once.
 *
 * Order: `start`, then parts, then `end`. A part is `part_start`, any number of `part_delta` and at most one `proof`, then
 * `part_end`; `index` counts parts from 0 in the order they start. Parts may overlap (parallel tool calls of some upstreams).
 * `ping` may come anywhere; nothing follows `error`.
 * @module
 */
import type { ReasoningProof } from './conversation.ts';

/** One step of an answer. */
export type ModelEvent =
  | { readonly type: 'start'; readonly id?: string; readonly model?: string; readonly usage?: ModelUsage }
  | { readonly type: 'part_start'; readonly index: number; readonly part: PartStart }
  /** More text of the part; for a tool call, more JSON text of its arguments. */
  | { readonly type: 'part_delta'; readonly index: number; readonly text: string }
  /** Belongs to a part of kind `reasoning`. */
  | { readonly type: 'proof'; readonly index: number; readonly proof: ReasoningProof }
  | { readonly type: 'part_end'; readonly index: number }
  | { readonly type: 'ping' }
  | {
      readonly type: 'end';
      readonly reason: StopReason;
      /** The sequence that stopped the model, where the upstream tells. */
      readonly stop_sequence?: string;
      readonly usage?: ModelUsage;
    }
  | { readonly type: 'error'; readonly problem: Problem };

/** Takes the events of an answer, one by one. */
export type Emit = (event: ModelEvent) => void;

/** What begins. `id` of a tool call is never empty: a reader makes one where the upstream sends none. */
export type PartStart =
  | { readonly kind: 'text' | 'refusal' | 'reasoning' }
  | { readonly kind: 'tool_call'; readonly id: string; readonly name: string };

/** Why the model stopped. */
export type StopReason =
  | 'finished'
  | 'max_tokens'
  | 'stop_sequence'
  | 'tool_calls'
  | 'refusal'
  | 'content_filter'
  | 'paused'
  | 'context_window';

/** Token counts as the upstream told them; a count that was not told is absent. `input` excludes all cached tokens. */
export interface ModelUsage {
  readonly input?: number;
  readonly output?: number;
  readonly cache_read?: number;
  /** All tokens written to the cache; the split by lifetime may be unknown. */
  readonly cache_write?: number;
  readonly cache_write_5m?: number;
  readonly cache_write_1h?: number;
  /** Part of `output`. */
  readonly reasoning?: number;
  /** Parts of `input` and `output`. */
  readonly audio_input?: number;
  readonly audio_output?: number;
}

/** An error an upstream told, as a response of its own or inside a stream. `message` is the upstream's, byte for byte. */
export interface Problem {
  /** HTTP status; in a stream the one that the kind of error has. */
  readonly status: number;
  readonly message: string;
  /** What the upstream called it: `error.type` and `error.code`. */
  readonly type?: string;
  readonly code?: string;
  readonly param?: string;
  /** Whether the prompt is larger than the model's context window. Clients compact the conversation when they see it. */
  readonly context_overflow: boolean;
}

/** The start of an answer, as far as its upstream says who answered. */
export function startOfAnswer(said: unknown, usage?: ModelUsage): Extract<ModelEvent, { type: 'start' }> {
  const { id, model } = (said ?? {}) as { readonly id?: unknown; readonly model?: unknown };
  return {
    type: 'start',
    ...(typeof id === 'string' && id !== '' && { id }),
    ...(typeof model === 'string' && model !== '' && { model }),
    ...(usage && { usage }),
  };
}

/** A part of a whole answer. */
export interface WholePart {
  readonly start: PartStart;
  readonly text: string;
  readonly proof?: ReasoningProof;
}

/** A whole answer. */
export interface WholeAnswer {
  readonly start: Extract<ModelEvent, { type: 'start' }>;
  readonly parts: readonly WholePart[];
  readonly end: Extract<ModelEvent, { type: 'end' }>;
  readonly usage: ModelUsage;
}

/** What events say together. */
export function gatherAnswer(events: readonly ModelEvent[]): WholeAnswer {
  const parts = new Map<number, { start: PartStart; texts: string[]; proof?: ReasoningProof }>();
  let start: WholeAnswer['start'] = { type: 'start' };
  let end: WholeAnswer['end'] = { type: 'end', reason: 'finished' };
  for (const event of events) {
    if (event.type === 'start') start = event;
    if (event.type === 'part_start') parts.set(event.index, { start: event.part, texts: [] });
    if (event.type === 'part_delta') parts.get(event.index)?.texts.push(event.text);
    if (event.type === 'proof' && parts.has(event.index)) parts.get(event.index)!.proof = event.proof;
    if (event.type === 'end') end = event;
  }
  const whole = [...parts.values()].map(({ texts, ...part }) => ({ ...part, text: texts.join('') }));
  return { start, parts: whole, end, usage: { ...start.usage, ...end.usage } };
}
