import type { ReasoningProof } from './conversation.ts';
import { PROTOCOLS, type Protocol } from './protocol.ts';

const KINDS = ['signature', 'encrypted'] as const;

/**
 * A proof as text that a client of another protocol keeps where its own protocol has a signature or encrypted content:
 * `gw:<protocol>:<kind>:<id>:<value>`.
 */
export function proofToText({ protocol, kind, id, value }: ReasoningProof): string {
  return `gw:${protocol}:${kind}:${id === undefined ? '' : encodeURIComponent(id.toWellFormed())}:${value}`;
}

/** Reads what `proofToText` made; `undefined` for any other text, which is then the client's own protocol's. */
export function proofFromText(text: string): ReasoningProof | undefined {
  const match = /^gw:([a-z]+):([a-z]+):([^:]*):/.exec(text);
  if (match === null) return undefined;
  const [prefix, protocol, kind, id] = match as unknown as [string, Protocol, ReasoningProof['kind'], string];
  if (!PROTOCOLS.includes(protocol) || !KINDS.includes(kind)) return undefined;
  const value = text.slice(prefix.length);
  return { protocol, kind, value, ...(id !== '' && { id: decode(id) }) };
}

function decode(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
