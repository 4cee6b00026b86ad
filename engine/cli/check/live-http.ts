import { get as getPlain, type IncomingHttpHeaders } from 'node:http';
import { get as getSecure } from 'node:https';

/** An answer to a probe. */
export interface ProbeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const MAX_BODY_BYTES = 1024 * 1024;

/** One GET request without redirects, on a connection of its own. Rejects when there is no answer in time. */
export function probe(
  url: string,
  options: {
    readonly headers?: Readonly<Record<string, string>>;
    readonly timeout_seconds: number;
    readonly read_body: boolean;
    /** Certificates to trust, in PEM, in place of the usual ones. */
    readonly ca?: readonly string[];
  },
): Promise<ProbeAnswer> {
  const { headers = {}, timeout_seconds, read_body, ca } = options;
  const signal = AbortSignal.timeout(timeout_seconds * 1000);
  return new Promise((resolve, reject) => {
    const get = url.startsWith('https:') ? getSecure : getPlain;
    const trust = ca === undefined ? {} : { ca: [...ca] };
    const request = get(url, { headers: { accept: 'application/json', ...headers }, agent: false, signal, ...trust });
    const fail = (error: unknown) => reject(signal.aborted ? signal.reason : error);
    request.on('error', fail);
    request.on('response', (response) => {
      const answer = { status: response.statusCode ?? 0, headers: response.headers };
      if (!read_body) {
        resolve({ ...answer, body: '' });
        request.destroy();
        return;
      }
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        body += chunk;
        if (body.length > MAX_BODY_BYTES) request.destroy(new Error('the answer is too large'));
      });
      response.on('end', () => resolve({ ...answer, body }));
      response.on('error', fail);
    });
  });
}
