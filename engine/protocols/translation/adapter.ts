/**
 * What translation asks of a protocol. All of it is pure: no clock, no network, no state beyond one request.
 * @module
 */

import type { ChatBound } from '../../contract/config.ts';
import type { ResponseEvent } from '../../contract/stage.ts';
import type { Conversation, ToolAddress } from './conversation.ts';
import type { Emit, ModelEvent } from './events.ts';
import type { Notes } from './notes.ts';
import type { Maker } from './proof.ts';

/** A JSON object that nobody has checked. */
export type Json = Readonly<Record<string, unknown>>;

/** One protocol, as client side and as upstream side. */
export interface ProtocolAdapter {
  /** Reads a client's request. Raises invalid_request where it breaks the protocol, not_translatable by a rule. */
  readRequest(body: Json, notes: Notes): Conversation;
  /** Writes a request for an upstream. Raises not_translatable by a rule. */
  writeRequest(conversation: Conversation, target: UpstreamTarget, notes: Notes): Record<string, unknown>;
  /** Reads an upstream's stream. */
  createReader(notes: Notes): StreamReader;
  /** Reads an upstream's whole answer. Raises upstream_invalid. */
  readDocument(document: Json, notes: Notes): ModelEvent[];
  /** Writes a stream for a client. */
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
  /** Fields of the call. */
  readonly call?: Json;
  /** Fields of its function. */
  readonly function?: Json;
}

/** What is remembered of a call: its state, and with the first call of a message that of the message. */
export interface KeptState extends CallState {
  readonly id: string;
  /** Fields of the message. */
  readonly message?: Json;
  /** Content parts that stand before its text. */
  readonly parts?: readonly unknown[];
}

/** Remembers what an upstream said with a call. */
export type Recall = (call: CallKey) => KeptState | undefined;

/** What a writer of requests must know beside the conversation. */
export interface UpstreamTarget {
  /** Most tokens of one answer of the model. */
  readonly max_output_tokens: number;
  /** Bound of an answer for which the client says none, in protocols that must say one; absent: the most. */
  readonly default_output_tokens?: number;
  /** Field of chat completions that alone the upstream takes for a bound. */
  readonly max_tokens_field?: ChatBound | undefined;
  /** How the model is told to think in the Messages protocol. */
  readonly thinking: 'none' | 'budget' | 'adaptive';
  /** Whether the model takes temperature, top_p and top_k. */
  readonly sampling: boolean;
  /** Whether the model's chat template wants user and assistant to take turns, results of tools not counted. */
  readonly strict_turns?: boolean;
  /** Chat completions: remembers state of calls that the client may have left out. */
  readonly recall?: Recall | undefined;
}

/** What a writer of answers must know of the request. */
export interface AnswerContext {
  /** Identifier of the request at the gateway; the identifier of an answer is made of it. */
  readonly request_id: string;
  readonly made_by: Maker;
  /** Messages: whether answers that call tools must begin with thinking, as those that go on without it are refused. */
  readonly thinks_first?: boolean;
  /** What the client called the model; for upstreams that don't say. */
  readonly model: string;
  /** Seconds since the epoch. */
  readonly created_at: number;
  /** Chat completions: whether the client asked for usage in its stream. */
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
  /** Server-sent events for a model event, each with its blank line; '' when the protocol has nothing to say here. */
  write(event: ModelEvent): string;
}
