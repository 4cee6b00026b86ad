import type { IncomingHttpHeaders } from 'node:http';
import { exchange } from '../../../kit/net/exchange.ts';

/** An answer to a probe. */
export interface ProbeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** One GET request without redirects, on a connection of its own. Rejects when there is no whole answer in time. */
export async function probe(
  url: string,
  options: {
    readonly headers?: Readonly<Record<string, string>>;
    readonly timeout_seconds: number;
    readonly read_body: boolean;
    /** Certificates to trust, in PEM, in place of the usual ones. */
    readonly ca?: readonly string[];
    /** The HTTP proxy that it goes through. */
    readonly proxy?: URL | undefined;
  },
): Promise<ProbeAnswer> {
  const { headers, timeout_seconds: seconds, read_body, ca, proxy } = options;
  const asked = { headers: { accept: 'application/json', ...headers }, seconds, read_body, proxy, ...(ca && { ca }) };
  const answer = await exchange(url, asked);
  if (answer.ending === 'too_large') throw new Error('the answer is too large');
  if (answer.ending === 'too_late') throw new DOMException('the answer is not complete in time', 'TimeoutError');
  if (answer.ending === 'cut') throw Object.assign(new Error('the answer is cut'), { code: 'ECONNRESET' });
  return { status: answer.status, headers: answer.headers, body: answer.body.toString('utf8') };
}
