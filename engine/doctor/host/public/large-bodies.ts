import { request as askPlain } from 'node:http';
import { request as askSecure } from 'node:https';
import { formatNetworkError } from '../../../kit/net/format-network-error.ts';
import { printableLine } from '../../../kit/text/printable.ts';
import type { Diagnosis } from '../../diagnosis.ts';
import { sizeText } from '../sizes.ts';
import type { PublicGiven } from './public-url.ts';

/** Default of widespread proxies. */
const USUAL_LIMIT_BYTES = 1024 * 1024;
const NAME_MAX = 40;

/** Whether proxies let requests through that are as large as the gateway itself takes; no byte of them is sent. */
export async function examineLargeBodies({ host, root_url, where }: PublicGiven): Promise<Diagnosis[]> {
  const { config, timeout_seconds: seconds } = host;
  const { body_bytes } = config.server.limits;
  const base = { id: 'public_url.body_size', title: 'large requests', where };
  try {
    const whole = await announceBody(root_url, { bytes: body_bytes, seconds });
    if (whole.kind === 'taken') {
      return [
        {
          ...base,
          verdict: 'ok',
          found: `requests of ${sizeText(body_bytes)} (server.limits.body_bytes) are let through`,
        },
      ];
    }
    if (whole.kind === 'unclear') {
      const why = whole.status === undefined ? 'no answer in time' : `status ${whole.status}`;
      return [
        {
          ...base,
          verdict: 'skipped',
          found: `whether requests of ${sizeText(body_bytes)} are let through can't be told (${why})`,
        },
      ];
    }
    const small = await announceBody(root_url, { bytes: USUAL_LIMIT_BYTES + 1, seconds });
    const who = whole.server === undefined ? 'a proxy on the way' : printableLine(whole.server).slice(0, NAME_MAX);
    const even = small.kind === 'too_large' ? `; even those above ${sizeText(USUAL_LIMIT_BYTES)} are` : '';
    const found = `requests of ${sizeText(body_bytes)} are refused by ${who} (status 413)${even}`;
    const remedy = `let it take what the gateway takes (nginx: client_max_body_size ${Math.ceil(body_bytes / USUAL_LIMIT_BYTES)}m): long sessions and pictures need it`;
    return [{ ...base, verdict: small.kind === 'too_large' ? 'failed' : 'warning', found, remedy }];
  } catch (error) {
    const found = `can't be told: ${formatNetworkError(error, seconds)}`;
    return [{ ...base, verdict: 'skipped', found }];
  }
}

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
