import type { ReasoningProof } from './conversation.ts';
import { PROTOCOLS } from './protocol.ts';

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
  const protocol = PROTOCOLS.find((name) => name === match[1]);
  const kind = KINDS.find((name) => name === match[2]);
  if (protocol === undefined || kind === undefined) return undefined;
  const id = match[3]!;
  return { protocol, kind, value: text.slice(match[0].length), ...(id !== '' && { id: decode(id) }) };
}

function decode(id: string): string {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
