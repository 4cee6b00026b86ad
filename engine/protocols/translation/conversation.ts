/**
 * A model request in the words that all protocols have in common. Each protocol has one reader and one writer for it, so
 * that a new protocol needs one adapter and no pairs. What the words cannot say, a reader notes as lost.
 * @module
 */

import type { Protocol } from '../../contract/protocol.ts';
import type { EFFORTS } from './features/efforts.ts';

/** A model request. Absent means: not said by the client. */
export interface Conversation {
  /** Identifier for the side the request is written to. */
  readonly model: string;
  /** What the model is told before the conversation, in order. */
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
  readonly reasoning?: ReasoningWish;
  readonly output_format?: OutputFormat;
  readonly verbosity?: string;
  /** Who the end user is, for the provider. */
  readonly user?: string;
  readonly metadata?: Readonly<Record<string, string>>;
  readonly service_tier?: string;
  /** Whether the provider may keep the answer. */
  readonly store?: boolean;
  /** The longest prompt cache lifetime asked for as a whole, where single parts don't say it. */
  readonly cache?: PromptCache;
  readonly stream: boolean;
}

/** What is said about caching the prompt as a whole. */
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

/** How much the model shall think. `budget_tokens` and `effort` may both be there; a writer uses what it can say. */
export interface ReasoningWish {
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
  /** The group of tools it belongs to. */
  readonly namespace?: string;
  /** Whether it is the client's own search for further tools, which is called by an item of its own kind. */
  readonly search?: boolean;
}

/** Which tools the model may or must call. */
export type ToolChoice = { readonly kind: 'auto' | 'none' | 'any' } | { readonly kind: 'tool'; readonly name: string };

/**
 * What one side said. `instructions` is a system or developer message in the middle of a conversation. Neighbours may have
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
 * protocols it means nothing; a client of another protocol keeps it as text made by `proof.ts` and gives it back.
 */
export interface ReasoningProof {
  readonly protocol: Protocol;
  /**
   * `signature`: belongs to the text. `encrypted`: stands for the thought; there may be a readable summary beside it. `state`:
   * what a chat upstream wants back with the message and its calls, as JSON. `none`: its upstream gave no proof.
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
