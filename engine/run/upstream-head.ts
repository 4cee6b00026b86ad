import type { ResponseHead } from '../contract/stage.ts';
import { checkHeader } from './contained/result.ts';

/** An upstream's response head, with its end-to-end headers, before it is sent. */
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

  /** Throws for a name or value that no header can have, and for a header of the connection. */
  set(name: string, value: string): void {
    checkHeader(name, value);
    this.remove(name);
    this.headers.push(name, value);
  }

  remove(name: string): void {
    for (let at = this.#indexOf(name); at >= 0; at = this.#indexOf(name)) this.headers.splice(at, 2);
  }

  /** Takes what shipped stages give it as it is; a lease checks what others do. */
  replaceAll(prefix: string, replacement: Readonly<Record<string, string>>): void {
    const { headers } = this;
    const first = prefix.charCodeAt(0) | 0x20;
    let kept = 0;
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!;
      // Few names get past the first letter; this runs for every header of every response.
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
      // Few are as long.
      if (found.length === length && (found === name || found.toLowerCase() === name.toLowerCase())) return i;
    }
    return -1;
  }
}
