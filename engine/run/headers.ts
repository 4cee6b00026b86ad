import { STATUS_CODES } from 'node:http';
import { CONNECTION_HEADERS, nominated } from '../upstreams/connection-headers.ts';
import { actsOnOrigin } from '../upstreams/origin-headers.ts';

/** The gateway's own request identifier, set on every response. */
export const REQUEST_ID_HEADER = 'x-gateway-request-id';

/** Headers that never travel further, and our own. */
const NOT_FORWARDED: ReadonlySet<string> = new Set([...CONNECTION_HEADERS, REQUEST_ID_HEADER]);

/**
 * The headers of an upstream's answer that a client gets, in order and spelled as received, as a flat list of names and
 * values: all but those of the connection and those that act on the gateway's host.
 */
export function passedHeaders(raw: readonly string[], connection: string | string[] | undefined): string[] {
  const dropped = nominated(connection);
  const kept: string[] = [];
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i]!;
    if (!passes(name) || (dropped.length > 0 && dropped.includes(name.toLowerCase()))) continue;
    kept.push(name, raw[i + 1]!);
  }
  return kept;
}

/** Most names that are remembered: upstreams send the same few. */
const REMEMBERED_MAX = 1000;

const remembered = new Map<string, boolean>();

function passes(name: string): boolean {
  let known = remembered.get(name);
  if (known === undefined) {
    const lower = name.toLowerCase();
    known = !NOT_FORWARDED.has(lower) && !actsOnOrigin(lower);
    if (remembered.size >= REMEMBERED_MAX) remembered.clear();
    remembered.set(name, known);
  }
  return known;
}

/** The phrase behind a status: what the upstream says where it is short and plain, else the standard one (RFC 9110 section 15). */
export function reasonPhrase(status: number, given: string | undefined): string {
  const standard = STATUS_CODES[status] ?? '';
  // Node's parser lets control characters through, and its writer throws on them.
  return given === undefined || given === standard || !/^[ -~]{0,100}$/.test(given) ? standard : given;
}
