import { STATUS_CODES } from 'node:http';
import type { ResponseHead } from '../../base/contract/stage.ts';
import { actsOnOrigin, CONNECTION_HEADERS, nominated } from '../../domain/upstreams/headers.ts';
import { checkHeader } from './contained/result.ts';

/** The gateway's own request identifier, set on every response. */
export const REQUEST_ID_HEADER = 'x-gateway-request-id';

const NOT_FORWARDED: ReadonlySet<string> = new Set([...CONNECTION_HEADERS, REQUEST_ID_HEADER]);

/** The client's response headers, in received order and spelling, without hop-by-hop headers and those about the origin. */
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

const CACHED_MAX = 1000;

const cache = new Map<string, boolean>();

function passes(name: string): boolean {
  let known = cache.get(name);
  if (known === undefined) {
    const lower = name.toLowerCase();
    known = !NOT_FORWARDED.has(lower) && !actsOnOrigin(lower);
    if (cache.size >= CACHED_MAX) cache.clear();
    cache.set(name, known);
  }
  return known;
}

/** The reason phrase: the upstream's where it is short printable ASCII, else the standard one (RFC 9110 section 15). */
export function reasonPhrase(status: number, given: string | undefined): string {
  const standard = STATUS_CODES[status] ?? '';
  // Node's parser lets control characters through, and its writer throws on them.
  return given === undefined || given === standard || !/^[ -~]{0,100}$/.test(given) ? standard : given;
}

/** The head of an upstream's response, with its end-to-end headers, before it is sent. */
export class UpstreamHead implements ResponseHead {
  status: number;
  /** Flat list of names and values, as Node's writeHead takes it. */
  readonly headers: string[];

  constructor(status: number, headers: string[]) {
    this.status = status;
    this.headers = headers;
  }

  get(name: string): string | undefined {
    const at = this.#indexOf(name);
    return at < 0 ? undefined : this.headers[at + 1];
  }

  /** Throws for an invalid name or value, and for a hop-by-hop header. */
  set(name: string, value: string): void {
    checkHeader(name, value);
    this.remove(name);
    this.headers.push(name, value);
  }

  remove(name: string): void {
    for (let at = this.#indexOf(name); at >= 0; at = this.#indexOf(name)) this.headers.splice(at, 2);
  }

  /** Not checked here: `Guard` checks the headers of contained stages. */
  replaceAll(prefix: string, replacement: Readonly<Record<string, string>>): void {
    const { headers } = this;
    const first = prefix.charCodeAt(0) | 0x20;
    let kept = 0;
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!;
      // This runs for every header of every response; the first letter rules out most names.
      const alike = (name.charCodeAt(0) | 0x20) === first;
      if (alike && name.slice(0, prefix.length).toLowerCase() === prefix) continue;
      headers[kept++] = name;
      headers[kept++] = headers[i + 1]!;
    }
    headers.length = kept;
    for (const name of Object.keys(replacement)) headers.push(name, replacement[name]!);
  }

  #indexOf(name: string): number {
    const { headers } = this;
    const { length } = name;
    for (let i = 0; i < headers.length; i += 2) {
      const found = headers[i]!;
      // The length rules out most names.
      if (found.length === length && (found === name || found.toLowerCase() === name.toLowerCase())) return i;
    }
    return -1;
  }
}
