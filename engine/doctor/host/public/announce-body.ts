import { request as askPlain } from 'node:http';
import { request as askSecure } from 'node:https';

/** What became of a body that was announced and not sent. */
export type Announced =
  /** `server` is the header of that name, as it came. */
  | { readonly kind: 'too_large'; readonly server: string | undefined; readonly is_json: boolean }
  /** Somebody wants to have it, or answered for another reason. */
  | { readonly kind: 'taken' }
  | { readonly kind: 'unclear'; readonly status: number | undefined };

const PATH = '/v1/messages';

/**
 * Announces a large body without a credential and asks whether to send it (RFC 9110 section 10.1.1). What refuses its size says so
 * at once; nothing of it is ever sent. Rejects with the error of the network.
 */
export function announceBody(
  root_url: string,
  { bytes, seconds }: { readonly bytes: number; readonly seconds: number },
): Promise<Announced> {
  const url = root_url + PATH;
  const signal = AbortSignal.timeout(seconds * 1000);
  const headers = { 'content-type': 'application/json', 'content-length': String(bytes), expect: '100-continue' };
  return new Promise((resolve, reject) => {
    const ask = url.startsWith('https:') ? askSecure : askPlain;
    const request = ask(url, { method: 'POST', headers, agent: false, signal });
    const end = (announced: Announced) => {
      resolve(announced);
      request.destroy();
    };
    request.on('continue', () => end({ kind: 'taken' }));
    request.on('response', ({ statusCode: status = 0, headers: answered }) => {
      const is_json = /json/i.test(answered['content-type'] ?? '');
      if (status === 413) end({ kind: 'too_large', server: answered.server?.toString(), is_json });
      // The gateway asks for a credential before it takes a body.
      else end(status === 401 ? { kind: 'taken' } : { kind: 'unclear', status });
    });
    request.on('error', (error) => {
      if (signal.aborted) resolve({ kind: 'unclear', status: undefined });
      else reject(error);
    });
    request.flushHeaders();
  });
}
