import { createHash } from 'node:crypto';
import { PROTOCOLS } from '../../../base/contract/protocol.ts';
import { percentDecoded } from '../../../base/kit/text/percent.ts';
import { present } from '../read-json.ts';
import type { Json, Maker, ReasoningProof } from './conversation.ts';

/** Prefix of every proof made by a translation; providers' own proofs have no colons. */
const MARK = 'gw:';

const KINDS = ['signature', 'encrypted', 'state', 'none'] as const;

/** Hash of a state boundary: upstreams with the same one accept each other's proofs. Reveals neither address nor credential. */
export function boundaryMark(state_boundary: string): string {
  return createHash('sha256').update(state_boundary).digest('base64url').slice(0, 12);
}

export function isMadeBy(proof: Pick<ReasoningProof, 'upstream' | 'boundary'>, maker: Maker): boolean {
  if (proof.boundary !== undefined && maker.boundary !== undefined) return proof.boundary === maker.boundary;
  return proof.upstream === maker.upstream;
}

/**
 * Writes a proof into the client's signature or encrypted content, as `gw:<protocol>@<upstream>/<boundary>:<kind>:<id>:<value>`;
 * `none` without one. Never empty, so that translated reasoning differs from a provider's own.
 */
export function proofToText(proof: ReasoningProof | undefined, made_by: Maker): string {
  const { protocol = made_by.protocol, kind = 'none', id = '', value = '' } = proof ?? {};
  const boundary = made_by.boundary === undefined ? '' : `/${made_by.boundary}`;
  return `${MARK}${protocol}@${encode(made_by.upstream)}${boundary}:${kind}:${encode(id)}:${value}`;
}

export function isMade(proof: unknown): boolean {
  return typeof proof === 'string' && proof.startsWith(MARK);
}

/** Whether a proof is only valid for its exact text, as signatures are, and state, which may repeat it. */
export function isSignature(proof: string): boolean {
  return !isMade(proof) || /^gw:[a-z]+@[^:]*:(?:signature|state):/.test(proof);
}

/** Reasoning without its provider's proof: `made` by a translation, or `unsigned`, with an empty signature. */
export type Unproven = 'made' | 'unsigned';

/** Whether a block of the Messages protocol is reasoning without a proof, and which kind. */
export function unprovenBlock({ type, signature, data }: Json): Unproven | undefined {
  if (type === 'redacted_thinking') return isMade(data) ? 'made' : undefined;
  if (type !== 'thinking') return undefined;
  if (signature === '') return 'unsigned';
  return isMade(signature) ? 'made' : undefined;
}

export function isMadeItem({ type, encrypted_content }: Json): boolean {
  return type === 'reasoning' && isMade(encrypted_content);
}

/**
 * Parses a proof that a client kept: one of `proofToText`, else a proof of this kind in the client's own protocol. `undefined`
 * for an empty text and for a mark without a proof.
 */
export function proofFromText(
  text: string,
  own: Pick<ReasoningProof, 'protocol' | 'kind' | 'id'>,
): ReasoningProof | undefined {
  if (text === '') return undefined;
  if (!isMade(text)) return { ...own, value: text };
  const match = /^gw:([a-z]+)@([^:/]*)(?:\/([^:/]*))?:([a-z]+):([^:]*):/.exec(text);
  const protocol = PROTOCOLS.find((name) => name === match?.[1]);
  const kind = KINDS.find((name) => name === match?.[4]);
  if (match === null || protocol === undefined || kind === undefined) return undefined;
  const [all, , upstream, boundary, , id] = match;
  return present({
    ...{ protocol, kind, boundary, value: text.slice(all.length), upstream: percentDecoded(upstream!) },
    id: id === '' ? undefined : percentDecoded(id!),
  });
}

function encode(text: string): string {
  return encodeURIComponent(text.toWellFormed());
}

/** The keys and indexes of a value in a body. */
export type Path = readonly (string | number)[];

/** Translated reasoning in a body, which providers reject because it lacks their proof. */
export interface MadeReasoning {
  readonly paths: readonly Path[];
  /** Set if thinking must be off without it: the context edits that a request without thinking cannot have. */
  readonly without_thinking?: readonly Path[];
}
