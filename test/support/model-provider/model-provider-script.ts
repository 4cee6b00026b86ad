/** A scripted model's output, independent of any API, and its input. */
import { createHash } from 'node:crypto';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';

/** One part of the model's output. */
export type Said =
  | { readonly kind: 'text' | 'thought' | 'refusal'; readonly text: string }
  | { readonly kind: 'call'; readonly name: string; readonly arguments: string; readonly id?: string };

/** The usage of a response; `input` without any cached tokens, `output` with the thoughts. */
export interface Used {
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write: number;
  readonly reasoning: number;
}

/** Numbers of which no two, and no sum of two, are the same. */
const USED: Used = { input: 1003, output: 217, cache_read: 50_000, cache_write: 0, reasoning: 64 };

/** A response of the model. */
export interface Answer {
  readonly said: readonly Said[];
  /** Absent: `calls` when a tool is called, `refused` for a refusal, else `finished`. */
  readonly stop?: 'finished' | 'length' | 'sequence' | 'calls' | 'refused';
  readonly used?: Partial<Used>;
  /** Characters of each delta; absent: 7. */
  readonly piece?: number;
  /** Deltas of consecutive tool calls are interleaved, where the API can do that. */
  readonly mixed?: boolean;
  /** A stream begins with comments or pings. */
  readonly pings?: boolean;
  /** After so many events of a stream: an error in the stream. */
  readonly fails?: { readonly after: number } & Failure;
}

/** An error, as a response of its own or in a stream. */
export interface Failure {
  readonly status: number;
  readonly message: string;
  readonly type?: string;
  readonly code?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The request to the model, as far as it is expressible in the words of no API. */
export interface Asked {
  readonly protocol: Protocol;
  readonly stream: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: a test asserts on whatever shape came
  readonly body: any;
  readonly seen: Seen;
}

/** The content of a request: texts with their roles, tools, images... in order. */
export interface Seen {
  readonly system: readonly string[];
  /** Role and text of each text; a result's text has the role `tool`. */
  readonly texts: readonly (readonly [role: string, text: string])[];
  readonly tools: readonly string[];
  /** Name, identifier and arguments of each call. */
  readonly calls: readonly (readonly [name: string, id: string, args: unknown])[];
  /** Identifier of the call of each result. */
  readonly results: readonly string[];
  /** Data or address of each image. */
  readonly images: readonly string[];
  /** Data, address or text of each document. */
  readonly documents: readonly string[];
  /** Returned thoughts with a signature, or without one where the API has none. */
  readonly thoughts: readonly string[];
}

/** Identifiers of one response. */
export interface AnswerIds {
  readonly id: string;
  readonly model: string;
  readonly created: number;
  call(index: number): string;
}

/** Arguments of a tool call as a value; non-JSON stays text, as models do write such. */
export function parsedArguments(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A proof that this provider thought this. */
export function sign(protocol: Protocol, text: string): string {
  const mac = createHash('sha256').update(`the provider's secret ${protocol}\0${text}`).digest('base64');
  return `${protocol === 'messages' ? 'Eq' : 'gAAAA'}${mac}`;
}

/** The thought as only this provider can read it. */
export function seal(text: string): string {
  return `${sign('responses', text)}.${Buffer.from(text).toString('base64')}`;
}

/** The sealed content; `undefined` when this provider did not seal it. */
export function unseal(sealed: string): string | undefined {
  const text = Buffer.from(sealed.slice(sealed.indexOf('.') + 1), 'base64').toString();
  return seal(text) === sealed ? text : undefined;
}

/** A text in pieces of so many characters, never through the middle of a character. */
export function pieces(text: string, size = 7): string[] {
  const characters = [...text];
  const count = Math.ceil(characters.length / size);
  return Array.from({ length: count }, (_, index) => characters.slice(index * size, (index + 1) * size).join(''));
}

/** Why it stopped, when the script does not say. */
export function stopOf({ said, stop }: Answer): NonNullable<Answer['stop']> {
  if (stop !== undefined) return stop;
  if (said.some(({ kind }) => kind === 'call')) return 'calls';
  return said.some(({ kind }) => kind === 'refusal') ? 'refused' : 'finished';
}

/** Its usage, with defaults for the script. */
export function usedBy({ used }: Answer): Used {
  return { ...USED, ...used };
}

/** Consecutive parts; interleaved tool calls are one group. */
export function groups({ said, mixed }: Answer): { readonly index: number; readonly what: Said }[][] {
  const found: { readonly index: number; readonly what: Said }[][] = [];
  for (const [index, what] of said.entries()) {
    const last = found.at(-1);
    if (mixed && what.kind === 'call' && last?.[0]?.what.kind === 'call') last.push({ index, what });
    else found.push([{ index, what }]);
  }
  return found;
}

/** The first of each list, then the second of each... */
export function interleave<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, index) => lists.flatMap((list) => list.slice(index, index + 1))).flat();
}
