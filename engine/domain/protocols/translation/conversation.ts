import type { ChatBound } from '../../../base/contract/config.ts';
import type { Protocol } from '../../../base/contract/protocol.ts';
import type { ResponseEvent } from '../../../base/contract/stage.ts';
import type { MadeReasoning } from './made-reasoning.ts';
import type { Notes } from './rules.ts';

/**
 * A model request in the words that all protocols have in common. Each protocol has one reader and one writer for it, so
 * that a new protocol needs one adapter and no pairs. A reader notes as lost what the vocabulary cannot express.
 */

/** A model request. Absent fields are absent in the client's request. */
export interface Conversation {
  /** Identifier for the side the request is written to. */
  readonly model: string;
  /** Instructions before the conversation, in order. */
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
  /** The longest prompt cache lifetime of the whole request, beside marks on parts. */
  readonly cache?: PromptCache;
  readonly stream: boolean;
}

/** Prompt caching of the whole request. */
export interface PromptCache {
  readonly key?: string;
  readonly ttl: CacheTtl;
  /** Whether every mark is to last for an hour, its own lifetime or not. */
  readonly long_marks?: boolean;
  /** Whether parts that are not marked are not to be kept. */
  readonly only_marked?: boolean;
}

/** Lifetime of a prompt cache entry. */
export type CacheTtl = '5m' | '1h';

/** Words for how much a model shall think, from the least to the most. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

/** How much the model shall think. With both `budget_tokens` and `effort`, a writer uses what its protocol has. */
export interface ReasoningRequest {
  readonly effort?: (typeof EFFORTS)[number];
  readonly budget_tokens?: number;
  /** Whether the client wants to see what was thought, whole or summarised. */
  readonly show?: boolean;
}

/** The shape the answer must have. */
export type OutputFormat =
  | { readonly kind: 'json_object' }
  | {
      readonly kind: 'json_schema';
      readonly schema: Readonly<Record<string, unknown>>;
      readonly name?: string;
      readonly description?: string;
      readonly strict?: boolean;
    };

/** A tool the client runs. Tools that the provider runs are no part of a conversation: see `rules.ts`. */
export interface Tool {
  readonly name: string;
  readonly description?: string;
  /** JSON Schema of the arguments. For a free-text tool: one required string `input`. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly strict?: boolean;
  /** Whether the client's protocol calls it with plain text; the arguments are `{"input": text}` in a conversation. */
  readonly free_text?: boolean;
  /** How the client's protocol calls it, where that is more than its name here. */
  readonly address?: ToolAddress;
  readonly cache?: CacheTtl;
}

/** How a protocol calls a tool for which its name in a conversation is not enough. */
export interface ToolAddress {
  readonly name: string;
  readonly namespace?: string;
  /** Whether it is the client's own search for further tools, which is called by an item of its own kind. */
  readonly search?: boolean;
}

/** Which tools the model may or must call. */
export type ToolChoice = { readonly kind: 'auto' | 'none' | 'any' } | { readonly kind: 'tool'; readonly name: string };

/**
 * A turn of one side. `instructions` is a system or developer message in the middle of a conversation. Neighbours may have
 * the same role. Tool results stand in a `user` turn, at its beginning, in the turn after the calls they answer.
 */
export interface Turn {
  readonly role: 'user' | 'assistant' | 'instructions';
  readonly parts: readonly Part[];
}

/** A piece of a turn. */
export type Part = TextPart | ImagePart | DocumentPart | ReasoningPart | ToolCallPart | ToolResultPart | RefusalPart;

/** Text. */
export interface TextPart {
  readonly kind: 'text';
  readonly text: string;
  /** The prompt up to and with this part shall be cached. */
  readonly cache?: CacheTtl;
}

/** Where the bytes of an image or document are. Files that live at a provider cannot be named at another. */
export type Source =
  | { readonly kind: 'base64'; readonly media_type: string; readonly data: string }
  | { readonly kind: 'url'; readonly url: string };

/** An image. */
export interface ImagePart {
  readonly kind: 'image';
  readonly source: Source;
  readonly detail?: string;
  readonly cache?: CacheTtl;
}

/** A document: bytes such as a PDF, or plain text. */
export interface DocumentPart {
  readonly kind: 'document';
  readonly source: Source | { readonly kind: 'text'; readonly text: string };
  readonly name?: string;
  readonly cache?: CacheTtl;
}

/** What the model thought. */
export interface ReasoningPart {
  readonly kind: 'reasoning';
  /** What can be read of it; empty where the provider keeps it secret. */
  readonly text: string;
  readonly proof?: ReasoningProof;
}

/**
 * What makes reasoning believable to the provider that made it: a signature, or the encrypted thought itself. To other
 * protocols it means nothing; a client of another protocol keeps it as text made by `made-reasoning.ts` and gives it back.
 */
export interface ReasoningProof {
  readonly protocol: Protocol;
  /**
   * `signature`: belongs to the text. `encrypted`: stands for the thought; there may be a readable summary beside it. `state`:
   * state that a chat upstream expects back with the message and its calls, as JSON. `none`: its upstream gave no proof.
   */
  readonly kind: 'signature' | 'encrypted' | 'state' | 'none';
  readonly value: string;
  /** The upstream that made it, as far as a client of another protocol has kept that. */
  readonly upstream?: string;
  /** Which state boundary it was made in, as `boundaryMark` writes it. */
  readonly boundary?: string;
  /** Identifier of the item, where the protocol wants it back. */
  readonly id?: string;
}

/** A call of a tool by the model. */
export interface ToolCallPart {
  readonly kind: 'tool_call';
  readonly id: string;
  readonly name: string;
  /** JSON text of an object, as the model wrote it. */
  readonly arguments: string;
  readonly cache?: CacheTtl;
}

/** What a tool gave back. */
export interface ToolResultPart {
  readonly kind: 'tool_result';
  readonly call_id: string;
  readonly parts: readonly (TextPart | ImagePart | DocumentPart)[];
  readonly is_error: boolean;
  readonly cache?: CacheTtl;
}

/** The model's words when it declined to answer. */
export interface RefusalPart {
  readonly kind: 'refusal';
  readonly text: string;
}

/**
 * A model's answer in the words that all protocols have in common, as it streams. A document is the same events at once.
 *
 * Order: `start`, then parts, then `end`. A part is `part_start`, any number of `part_delta` and at most one `proof`, then
 * `part_end`; `index` counts parts from 0 in the order they start. Parts may overlap (parallel tool calls of some upstreams).
 * `ping` may come anywhere; nothing follows `error`.
 */

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
      /** The sequence that stopped the model, where known. */
      readonly stop_sequence?: string;
      readonly usage?: ModelUsage;
    }
  | { readonly type: 'error'; readonly problem: Problem };

/** Takes the events of an answer, one by one. */
export type Emit = (event: ModelEvent) => void;

/** The start of a part. `id` of a tool call is never empty: a reader makes one where the upstream sends none. */
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
  /** HTTP status; in a stream that of the kind of error. */
  readonly status: number;
  readonly message: string;
  /** What the upstream called it: `error.type` and `error.code`. */
  readonly type?: string;
  readonly code?: string;
  readonly param?: string;
  /** Whether the prompt is larger than the model's context window. Clients compact the conversation when they see it. */
  readonly context_overflow: boolean;
}

/** The start of a response: identifier and model, where the upstream reports them. */
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

interface WholeAnswer {
  readonly start: Extract<ModelEvent, { type: 'start' }>;
  readonly parts: readonly WholePart[];
  readonly end: Extract<ModelEvent, { type: 'end' }>;
  readonly usage: ModelUsage;
}

/** A whole response, gathered from events. */
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

/** What translation asks of a protocol. All of it is pure: no clock, no network, no state beyond one request. */

export type Json = Readonly<Record<string, unknown>>;

/** One protocol, as client side and as upstream side. */
export interface ProtocolAdapter {
  /** Reads a client's request. Raises invalid_request where it breaks the protocol, not_translatable by a rule. */
  readRequest(body: Json, notes: Notes): Conversation;
  /** Writes a request for an upstream. Raises not_translatable by a rule. */
  writeRequest(conversation: Conversation, target: UpstreamTarget, notes: Notes): Record<string, unknown>;
  /** Finds reasoning in a request that its provider has not made; absent where the protocol has no proofs of reasoning. */
  findMadeReasoning?(body: Json, keeps_unsigned: boolean): MadeReasoning;
  /** Values of a client's request that its answer repeats; absent where answers repeat none. */
  echoOf?(body: Json): Json;
  createReader(notes: Notes): StreamReader;
  /** Reads an upstream's whole answer. Raises upstream_invalid. */
  readDocument(document: Json, notes: Notes): ModelEvent[];
  createWriter(answer: AnswerContext, notes: Notes): StreamWriter;
  /** Writes a whole answer for a client; the events have no `error` and no `ping`. */
  writeDocument(events: readonly ModelEvent[], answer: AnswerContext, notes: Notes): Record<string, unknown>;
}

/** What a call is known by. */
export interface CallKey {
  readonly id: string;
  readonly name: string;
  /** JSON text. */
  readonly arguments: string;
}

/** What an upstream of chat completions wants back with a call, beyond the protocol. */
export interface CallState {
  /** Its identifier, where the client knows the call by a shorter one. */
  readonly id?: string;
  readonly call?: Json;
  readonly function?: Json;
}

/** State of a call; with the first call of a message also that of the message. */
export interface KeptState extends CallState {
  readonly id: string;
  readonly message?: Json;
  /** Content parts that stand before its text. */
  readonly parts?: readonly unknown[];
}

/** The remembered state of a call. */
export type Recall = (call: CallKey) => KeptState | undefined;

/** What a writer of requests must know beside the conversation. */
export interface UpstreamTarget {
  readonly max_output_tokens: number;
  /** Bound of the output where the client has none and the protocol requires one; absent: the maximum. */
  readonly default_output_tokens?: number;
  /** Field of chat completions that alone the upstream takes for a bound. */
  readonly max_tokens_field?: ChatBound | undefined;
  /** How thinking is enabled in the Messages protocol. */
  readonly thinking: 'none' | 'budget' | 'adaptive';
  /** Whether the model takes temperature, top_p and top_k. */
  readonly sampling: boolean;
  /** Whether the model's chat template wants user and assistant to take turns, results of tools not counted. */
  readonly strict_turns?: boolean;
  /** Chat completions: remembers state of calls that the client may have left out. */
  readonly recall?: Recall | undefined;
}

/** Who an answer comes from: reasoning goes back to that upstream and to no other. */
export interface Maker {
  readonly protocol: Protocol;
  readonly upstream: string;
  /** Its state boundary, as `boundaryMark` writes it. */
  readonly boundary?: string | undefined;
}

/** What a writer of answers must know of the request. */
export interface AnswerContext {
  /** Identifier of the request at the gateway; the identifier of an answer is made of it. */
  readonly request_id: string;
  readonly made_by: Maker;
  /** Messages: whether answers that call tools must begin with thinking, as those that go on without it are refused. */
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
  /** Values of the request that an answer repeats, such as `temperature` and `tools`. */
  readonly echo: Json;
}

/** Reads one upstream stream, event by event. */
export interface StreamReader {
  /** Raises upstream_invalid for an event that cannot be understood; unknown kinds of event are skipped. */
  read(event: ResponseEvent, emit: Emit): void;
  /** Whether the answer is whole should nothing more come. */
  readonly finished: boolean;
  /** The stream has ended. Emits what is owed; raises upstream_failed when the answer is not complete. */
  end(emit: Emit): void;
}

/** Writes one client stream. */
export interface StreamWriter {
  /** Server-sent events for a model event, each with its blank line; '' where the protocol has none. */
  write(event: ModelEvent): string;
}
