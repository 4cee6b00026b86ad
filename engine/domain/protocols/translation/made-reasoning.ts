import { createHash } from 'node:crypto';
import { PROTOCOLS } from '../../../base/contract/protocol.ts';
import { percentDecoded } from '../../../base/kit/text/percent.ts';
import { present } from '../read-json.ts';
import type { Json, Maker, ReasoningProof } from './conversation.ts';

/** How every proof begins that a translation has made; no provider's own does, as they have no colons. */
const MARK = 'gw:';

const KINDS = ['signature', 'encrypted', 'state', 'none'] as const;

/** Hash of a state boundary: upstreams with the same one accept each other's proofs. Reveals neither address nor credential. */
export function boundaryMark(state_boundary: string): string {
  return createHash('sha256').update(state_boundary).digest('base64url').slice(0, 12);
}

/** Whether an upstream accepts a proof by its origin. */
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

/** Whether a block of the Messages protocol is reasoning without a proof, and which kind. */
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
  return present({
    ...{ protocol, kind, boundary, value: text.slice(all.length) },
    id: id === '' ? undefined : percentDecoded(id!),
    upstream: upstream && percentDecoded(upstream),
  });
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** Keys and indexes that lead to a value of a body. */
export type Path = readonly (string | number)[];

/** Reasoning in a body that a translation has made, which a provider refuses as it has not proven it itself. */
export interface MadeReasoning {
  readonly paths: readonly Path[];
  /** Set where the model must not think without it: edits of the context that a request without thinking cannot have. */
  readonly without_thinking?: readonly Path[];
}
