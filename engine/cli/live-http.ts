import { get as getPlain, type IncomingHttpHeaders } from 'node:http';
import { get as getSecure } from 'node:https';

/** An answer to a probe. */
export interface ProbeAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

const MAX_BODY_BYTES = 1024 * 1024;

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was cut',
  EPIPE: 'the connection was cut',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not found',
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  ETIMEDOUT: 'no connection',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is not trusted: it is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate is not trusted: its authority is unknown',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is not trusted: its authority is unknown',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is not trusted: its authority is unknown',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another host',
  EPROTO: 'it does not speak TLS',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS',
  HPE_INVALID_CONSTANT: 'it does not speak HTTP',
  ERR_INVALID_CHAR: 'the credential holds a character that no HTTP header can carry',
};

/** Why a probe failed, in a few words without credentials. */
export function describeProbeError(error: unknown, timeout_seconds: number): string {
  const { name, code = '' } = error as { name?: string; code?: string };
  if (name === 'TimeoutError' || name === 'AbortError') return `no answer within ${timeout_seconds} seconds`;
  return REASONS[code] ?? (/^HPE_/.test(code) ? 'it does not speak HTTP' : code === '' ? 'it failed' : `error ${code}`);
}

/** One GET request without redirects, on a connection of its own. Rejects when there is no answer in time. */
export function probe(
  url: string,
  options: {
    readonly headers?: Readonly<Record<string, string>>;
    readonly timeout_seconds: number;
    readonly read_body: boolean;
  },
): Promise<ProbeAnswer> {
  const { headers = {}, timeout_seconds, read_body } = options;
  const signal = AbortSignal.timeout(timeout_seconds * 1000);
  return new Promise((resolve, reject) => {
    const get = url.startsWith('https:') ? getSecure : getPlain;
    const request = get(url, { headers: { accept: 'application/json', ...headers }, agent: false, signal });
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
