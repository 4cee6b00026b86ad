import { createHash } from 'node:crypto';
import { PROTOCOLS, type Protocol } from '../../contract/protocol.ts';
import { percentDecoded } from '../../kit/text/percent.ts';
import type { Json } from './adapter.ts';
import type { ReasoningProof } from './conversation.ts';

/** How every proof begins that a translation has made; no provider's own does, as they have no colons. */
const MARK = 'gw:';

const KINDS = ['signature', 'encrypted', 'state', 'none'] as const;

/** Who an answer comes from: reasoning goes back to that upstream and to no other. */
export interface Maker {
  readonly protocol: Protocol;
  /** Name of the upstream. */
  readonly upstream: string;
  /** Its state boundary, as `boundaryMark` writes it. */
  readonly boundary?: string | undefined;
}

/** A state boundary in short: upstreams with the same one believe each other's proofs. It tells nothing of address or credential. */
export function boundaryMark(state_boundary: string): string {
  return createHash('sha256').update(state_boundary).digest('base64url').slice(0, 12);
}

/** Whether an upstream believes a proof that was made where this says. */
export function isMadeBy(proof: Pick<ReasoningProof, 'upstream' | 'boundary'>, maker: Maker): boolean {
  if (proof.boundary !== undefined && maker.boundary !== undefined) return proof.boundary === maker.boundary;
  return proof.upstream === maker.upstream;
}

/**
 * What a client keeps where its own protocol has a signature or encrypted content: the proof of another protocol's
 * upstream, or that there is none, as `gw:<protocol>@<upstream>/<boundary>:<kind>:<id>:<value>`. Never an empty text, so that
 * reasoning a translation has made can always be told from a provider's own.
 */
export function proofToText(proof: ReasoningProof | undefined, made_by: Maker): string {
  const { protocol = made_by.protocol, kind = 'none', id = '', value = '' } = proof ?? {};
  const boundary = made_by.boundary === undefined ? '' : `/${made_by.boundary}`;
  return `${MARK}${protocol}@${encode(made_by.upstream)}${boundary}:${kind}:${encode(id)}:${value}`;
}

/** Whether a translation has made this proof. */
export function isMade(proof: unknown): boolean {
  return typeof proof === 'string' && proof.startsWith(MARK);
}

/**
 * Whether a proof is a signature, which fits no other words than those it was made of: a provider's own, or what a translation made
 * of one. State counts as one, as it may repeat the words.
 */
export function isSignature(proof: string): boolean {
  return !isMade(proof) || /^gw:[a-z]+(?:@[^:]*)?:(?:signature|state):/.test(proof);
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
  // Before upstreams were named, there was no "@", and before their boundaries were, no "/".
  const match = /^gw:([a-z]+)(?:@([^:/]*)(?:\/([^:/]*))?)?:([a-z]+):([^:]*):/.exec(text);
  const protocol = PROTOCOLS.find((name) => name === match?.[1]);
  const kind = KINDS.find((name) => name === match?.[4]);
  if (match === null || protocol === undefined || kind === undefined) return undefined;
  const [all, , upstream, boundary, , id] = match;
  return {
    protocol,
    kind,
    value: text.slice(all.length),
    ...(id !== '' && { id: percentDecoded(id!) }),
    ...(upstream !== undefined && { upstream: percentDecoded(upstream) }),
    ...(boundary !== undefined && { boundary }),
  };
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}
