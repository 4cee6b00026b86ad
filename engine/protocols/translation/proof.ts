import { PROTOCOLS, type Protocol } from '../../contract/protocol.ts';
import type { Json } from './adapter.ts';
import type { ReasoningProof } from './conversation.ts';

/** How every proof begins that a translation has made; no provider's own does, as they have no colons. */
const MARK = 'gw:';

const KINDS = ['signature', 'encrypted', 'none'] as const;

/** Who an answer comes from: reasoning goes back to that upstream and to no other. */
export interface Maker {
  readonly protocol: Protocol;
  /** Name of the upstream. */
  readonly upstream: string;
}

/**
 * What a client keeps where its own protocol has a signature or encrypted content: the proof of another protocol's
 * upstream, or that there is none, as `gw:<protocol>@<upstream>:<kind>:<id>:<value>`. Never an empty text, so that reasoning
 * a translation has made can always be told from a provider's own.
 */
export function proofToText(proof: ReasoningProof | undefined, made_by: Maker): string {
  const { protocol = made_by.protocol, kind = 'none', id = '', value = '' } = proof ?? {};
  return `${MARK}${protocol}@${encode(made_by.upstream)}:${kind}:${encode(id)}:${value}`;
}

/** Whether a translation has made this proof. */
export function isMade(proof: unknown): boolean {
  return typeof proof === 'string' && proof.startsWith(MARK);
}

/** Whether a proof is a signature, which fits no other words than those it was made of: a provider's own, or what a translation made of one. */
export function isSignature(proof: string): boolean {
  return !isMade(proof) || /^gw:[a-z]+(?:@[^:]*)?:signature:/.test(proof);
}

/** Reasoning that its upstream has not proven: `made` by a translation, or `unsigned`, with an empty signature. */
export type Unproven = 'made' | 'unsigned';

/** Whether and how a block of the Messages protocol is a thought that nobody has proven. */
export function unprovenBlock({ type, signature, data }: Json): Unproven | undefined {
  if (type === 'redacted_thinking') return isMade(data) ? 'made' : undefined;
  if (type !== 'thinking') return undefined;
  if (signature === '') return 'unsigned';
  return isMade(signature) ? 'made' : undefined;
}

/** Whether an item of the Responses protocol is reasoning that a translation has made. */
export function isMadeItem({ type, encrypted_content }: Json): boolean {
  return type === 'reasoning' && isMade(encrypted_content);
}

/**
 * The proof in what a client kept: what `proofToText` made, or else the client's own protocol's, of this kind. `undefined`
 * for an empty text and for a mark that says nothing.
 */
export function proofFromText(
  text: string,
  own: Pick<ReasoningProof, 'protocol' | 'kind' | 'id'>,
): ReasoningProof | undefined {
  if (text === '') return undefined;
  if (!isMade(text)) return { ...own, value: text };
  // Before upstreams were named, there was no "@".
  const match = /^gw:([a-z]+)(?:@([^:]*))?:([a-z]+):([^:]*):/.exec(text);
  const protocol = PROTOCOLS.find((name) => name === match?.[1]);
  const kind = KINDS.find((name) => name === match?.[3]);
  if (match === null || protocol === undefined || kind === undefined) return undefined;
  const [all, , upstream, , id] = match;
  return {
    protocol,
    kind,
    value: text.slice(all.length),
    ...(id !== '' && { id: decode(id!) }),
    ...(upstream !== undefined && { upstream: decode(upstream) }),
  };
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
