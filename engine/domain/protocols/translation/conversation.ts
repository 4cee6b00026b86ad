import type { ChatBound } from '../../../base/contract/config.ts';
import type { Protocol } from '../../../base/contract/protocol.ts';
import type { ResponseEvent } from '../../../base/contract/stage.ts';
import type { MadeReasoning } from './made-reasoning.ts';
import type { Notes } from './rules.ts';

/**
 * A model request in a common form of all protocols; absent fields are absent in the client's. Each protocol has one reader and
 * one writer for it, so a new protocol needs one adapter and no pairs. A reader notes losses that the form cannot express.
 */
export interface Conversation {
  readonly model: string;
  readonly instructions: readonly TextPart[];
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  readonly tool_choice?: ToolChoice;
  readonly parallel_tool_calls?: boolean;
  readonly max_output_tokens?: number;
  readonly temperature?: number;
  readonly top_p?: number;
  readonly top_k?: number;
  readonly frequency_penalty?: number;
  readonly presence_penalty?: number;
  readonly seed?: number;
  readonly stop?: readonly string[];
  readonly reasoning?: ReasoningRequest;
  readonly output_format?: OutputFormat;
  readonly verbosity?: string;
  readonly user?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly service_tier?: string;
  readonly store?: boolean;
  /** Prompt caching of the whole request, in addition to marks on parts. */
  readonly cache?: {
    readonly key?: string;
    readonly ttl: CacheTtl;
    /** Whether every mark lasts for an hour, whatever its own lifetime. */
    readonly long_marks?: boolean;
    /** Whether only marked parts are cached. */
    readonly only_marked?: boolean;
  };
  readonly stream: boolean;
}

export type CacheTtl = '5m' | '1h';

/** Reasoning efforts, from the lowest to the highest. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

/** The requested amount of reasoning. With both `budget_tokens` and `effort`, a writer uses the one of its protocol. */
export interface ReasoningRequest {
  readonly effort?: (typeof EFFORTS)[number];
  readonly budget_tokens?: number;
  /** Whether the client wants the reasoning, complete or summarised. */
  readonly show?: boolean;
}

export type OutputFormat =
  | { readonly kind: 'json_object' }
  | {
      readonly kind: 'json_schema';
      readonly schema: Readonly<Record<string, unknown>>;
      readonly name?: string;
      readonly description?: string;
      readonly strict?: boolean;
    };

/** A tool that the client runs. Provider tools are not part of a conversation: see `rules.ts`. */
export interface Tool {
  readonly name: string;
  readonly description?: string;
  /** JSON Schema of the arguments. For a free-text tool: one required string `input`. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly strict?: boolean;
  /** Whether the client's protocol calls it with plain text; the arguments are `{"input": text}` in a conversation. */
  readonly free_text?: boolean;
  /** The tool's address in the client's protocol, if it is more than the name. */
  readonly address?: ToolAddress;
  readonly cache?: CacheTtl;
}

/** The address of a tool in a protocol that needs more than a name. */
export interface ToolAddress {
  readonly name: string;
  readonly namespace?: string;
  /** Whether it is the client's search for further tools, whose calls have their own item type. */
  readonly search?: boolean;
}

export type ToolChoice = { readonly kind: 'auto' | 'none' | 'any' } | { readonly kind: 'tool'; readonly name: string };

/**
 * A turn of one role. `instructions` is a system or developer message in the middle of a conversation. Neighbours may have
 * the same role. Tool results are at the start of the `user` turn after their calls.
 */
export interface Turn {
  readonly role: 'user' | 'assistant' | 'instructions';
  readonly parts: readonly Part[];
}

/** A piece of a turn. */
export type Part = TextPart | ImagePart | DocumentPart | ReasoningPart | ToolCallPart | ToolResultPart | RefusalPart;

export interface TextPart {
  readonly kind: 'text';
  readonly text: string;
  /** Caches the prompt up to and including this part. */
  readonly cache?: CacheTtl;
}

/** The source of an image or document. Files stored at one provider cannot be used at another. */
export type Source =
  | { readonly kind: 'base64'; readonly media_type: string; readonly data: string }
  | { readonly kind: 'url'; readonly url: string };

export interface ImagePart {
  readonly kind: 'image';
  readonly source: Source;
  readonly detail?: string;
  readonly cache?: CacheTtl;
}

export interface DocumentPart {
  readonly kind: 'document';
  readonly source: Source | { readonly kind: 'text'; readonly text: string };
  readonly name?: string;
  readonly cache?: CacheTtl;
}

export interface ReasoningPart {
  readonly kind: 'reasoning';
  /** The readable text; empty if the provider keeps it secret. */
  readonly text: string;
  readonly proof?: ReasoningProof;
}

/**
 * The proof by which a provider accepts its own reasoning: a signature, or the encrypted reasoning itself. Other protocols
 * cannot use it; their clients keep it as a text of `made-reasoning.ts` and return it.
 */
export interface ReasoningProof {
  readonly protocol: Protocol;
  /**
   * `signature`: belongs to the text. `encrypted`: the reasoning itself, possibly with a readable summary. `state`:
   * state that a chat upstream expects back with the message and its calls, as JSON. `none`: the upstream sent no proof.
   */
  readonly kind: 'signature' | 'encrypted' | 'state' | 'none';
  readonly value: string;
  /** The issuing upstream, if a client of another protocol kept it. */
  readonly upstream?: string;
  /** State boundary of the issuing upstream, as `boundaryMark` writes it. */
  readonly boundary?: string;
  /** Identifier of the item, if the protocol expects it back. */
  readonly id?: string;
}

export interface ToolCallPart {
  readonly kind: 'tool_call';
  readonly id: string;
  readonly name: string;
  /** JSON text of an object, as the model wrote it. */
  readonly arguments: string;
  readonly cache?: CacheTtl;
}

export interface ToolResultPart {
  readonly kind: 'tool_result';
  readonly call_id: string;
  readonly parts: readonly (TextPart | ImagePart | DocumentPart)[];
  readonly is_error: boolean;
  readonly cache?: CacheTtl;
}

/** The model's text when it declined to respond. */
export interface RefusalPart {
  readonly kind: 'refusal';
  readonly text: string;
}

/**
 * A model's response in a common form of all protocols; a document is the same events at once.
 * Order: `start`, then parts, then `end`. A part is `part_start`, any number of `part_delta` and at most one `proof`, then
 * `part_end`; `index` counts parts from 0 in the order they start. Parts may overlap (parallel tool calls of some upstreams).
 * `ping` may come anywhere; nothing follows `error`.
 */
export type ModelEvent =
  | { readonly type: 'start'; readonly id?: string; readonly model?: string; readonly usage?: ModelUsage }
  | { readonly type: 'part_start'; readonly index: number; readonly part: PartStart }
  /** More text of the part; for a tool call, more JSON text of its arguments. */
  | { readonly type: 'part_delta'; readonly index: number; readonly text: string }
  | { readonly type: 'proof'; readonly index: number; readonly proof: ReasoningProof }
  | { readonly type: 'part_end'; readonly index: number }
  | { readonly type: 'ping' }
  | {
      readonly type: 'end';
      readonly reason: StopReason;
      readonly stop_sequence?: string;
      readonly usage?: ModelUsage;
    }
  | { readonly type: 'error'; readonly problem: Problem };

export type Emit = (event: ModelEvent) => void;

/** The start of a part. `id` of a tool call is never empty: a reader generates a missing one. */
export type PartStart =
  | { readonly kind: 'text' | 'refusal' | 'reasoning' }
  | { readonly kind: 'tool_call'; readonly id: string; readonly name: string };

export type StopReason =
  | 'finished'
  | 'max_tokens'
  | 'stop_sequence'
  | 'tool_calls'
  | 'refusal'
  | 'content_filter'
  | 'paused'
  | 'context_window';

/** Token counts as the upstream reports them; unknown counts are absent. `input` excludes all cached tokens. */
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

/** An error of an upstream, as a response or inside a stream. `message` is the upstream's, byte for byte. */
export interface Problem {
  /** HTTP status; in a stream, the status of the error type. */
  readonly status: number;
  readonly message: string;
  /** The upstream's `error.type` and `error.code`. */
  readonly type?: string;
  readonly code?: string;
  readonly param?: string;
  /** Whether the prompt exceeds the model's context window. Clients then compact the conversation. */
  readonly context_overflow: boolean;
}

export interface WholePart {
  readonly start: PartStart;
  readonly text: string;
  readonly proof?: ReasoningProof;
}

/** A complete response, collected from events. */
export function gatherAnswer(events: readonly ModelEvent[]) {
  const parts = new Map<number, { start: PartStart; texts: string[]; proof?: ReasoningProof }>();
  let start: Extract<ModelEvent, { type: 'start' }> = { type: 'start' };
  let end: Extract<ModelEvent, { type: 'end' }> = { type: 'end', reason: 'finished' };
  for (const event of events) {
    if (event.type === 'start') start = event;
    if (event.type === 'part_start') parts.set(event.index, { start: event.part, texts: [] });
    if (event.type === 'part_delta') parts.get(event.index)?.texts.push(event.text);
    if (event.type === 'proof' && parts.has(event.index)) parts.get(event.index)!.proof = event.proof;
    if (event.type === 'end') end = event;
  }
  const whole = [...parts.values()].map(({ texts, ...part }): WholePart => ({ ...part, text: texts.join('') }));
  const usage: ModelUsage = { ...start.usage, ...end.usage };
  return { start, parts: whole, end, usage };
}

export type Json = Readonly<Record<string, unknown>>;

/** One protocol, as client side and as upstream side. Pure: no clock, no network, no state beyond one request. */
export interface ProtocolAdapter {
  /** Reads a client's request. Raises invalid_request if it violates the protocol, not_translatable by a rule. */
  readRequest(body: Json, notes: Notes): Conversation;
  /** Writes a request for an upstream. Raises not_translatable by a rule. */
  writeRequest(conversation: Conversation, target: UpstreamTarget, notes: Notes): Record<string, unknown>;
  /** Finds reasoning in a request that its provider did not issue; absent if the protocol has no proofs of reasoning. */
  findMadeReasoning?(body: Json, keeps_unsigned: boolean): MadeReasoning;
  /** Values of a request that the response repeats; absent if responses repeat none. */
  echoOf?(body: Json): Json;
  createReader(notes: Notes, emit: Emit): StreamReader;
  /** Reads an upstream's whole response. Raises upstream_invalid. */
  readDocument(document: Json, notes: Notes): ModelEvent[];
  createWriter(answer: AnswerContext, notes: Notes): StreamWriter;
  /** Writes a complete response for the client; the events have no `error` and no `ping`. */
  writeDocument(events: readonly ModelEvent[], answer: AnswerContext, notes: Notes): Record<string, unknown>;
}

export interface CallKey {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** State that a chat upstream expects back with a call, beyond the protocol. */
export interface CallState {
  /** The upstream's identifier, if the client has a shorter one. */
  readonly id?: string;
  readonly call?: Json;
  readonly function?: Json;
}

/** State of a call; the first call of a message also has the state of the message. */
export interface KeptState extends CallState {
  readonly id: string;
  readonly message?: Json;
  /** Content parts before the text. */
  readonly parts?: readonly unknown[];
}

export type Recall = (call: CallKey) => KeptState | undefined;

export interface UpstreamTarget {
  readonly max_output_tokens: number;
  /** Default output bound if the protocol requires one; absent: the maximum. */
  readonly default_output_tokens?: number;
  /** The only output bound field of chat completions that the upstream accepts. */
  readonly max_tokens_field?: ChatBound | undefined;
  /** How thinking is enabled in the Messages protocol. */
  readonly thinking: 'none' | 'budget' | 'adaptive';
  /** Whether the model accepts temperature, top_p and top_k. */
  readonly sampling: boolean;
  /** Whether the model's chat template requires alternating user and assistant turns, ignoring tool results. */
  readonly strict_turns?: boolean;
  /** Chat completions: recalls state of calls that the client may have omitted. */
  readonly recall?: Recall | undefined;
}

/** The origin of a response: its reasoning returns only to that upstream. */
export interface Maker {
  readonly protocol: Protocol;
  readonly upstream: string;
  /** Its state boundary, as `boundaryMark` writes it. */
  readonly boundary?: string | undefined;
}

/** Request data for a response writer. */
export interface AnswerContext {
  /** Request identifier of the gateway; the response's identifier is derived from it. */
  readonly request_id: string;
  readonly made_by: Maker;
  /** Messages: whether a response with tool calls must begin with thinking; otherwise its continuation is rejected. */
  readonly thinks_first?: boolean;
  /** The client's name of the model, for upstreams that report none. */
  readonly model: string;
  /** Seconds since the epoch. */
  readonly created_at: number;
  /** Chat completions: whether the client requested usage in its stream. */
  readonly include_usage: boolean;
  /** Names of tools that the client's protocol calls with plain text. */
  readonly free_text_tools: ReadonlySet<string>;
  /** `Tool.address` by the tool's name in the conversation, for the tools that have one. */
  readonly tool_addresses?: ReadonlyMap<string, ToolAddress>;
  /** Values of the request that the response repeats, such as `temperature` and `tools`. */
  readonly echo: Json;
}

export interface StreamReader {
  /** Raises upstream_invalid for an event that cannot be understood; unknown kinds of event are skipped. */
  read(event: ResponseEvent): void;
  /** Whether the response is complete if the stream ends now. */
  readonly finished: boolean;
  /** The stream has ended. Emits the pending events; raises upstream_failed when the response is not complete. */
  end(): void;
}

export interface StreamWriter {
  /** Server-sent events for a model event, each with its blank line; '' if the protocol has none. */
  write(event: ModelEvent): string;
}
