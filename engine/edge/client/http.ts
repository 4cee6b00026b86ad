import { StartError } from '../../base/contract/start-error.ts';
import { type Exchange, exchange } from '../../base/kit/net/exchange.ts';
import { formatNetworkError, networkFault } from '../../base/kit/net/format-network-error.ts';
import { proxyRouteTo } from '../../base/kit/net/proxy-route.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { printable } from '../../base/kit/text/printable.ts';

const TIMEOUT_SECONDS = 10;
const BODY_BYTES_MAX = 1024 * 1024;

export interface HttpAnswer {
  readonly status: number;
  /** `json`: `body` is the parsed JSON. `empty`, `other`: no body, or not JSON. */
  readonly kind: 'json' | 'empty' | 'other';
  readonly body: unknown;
  /** The retry-after header; `undefined` unless it is in whole seconds. */
  readonly retry_after_seconds: number | undefined;
}

/** One request: 10 seconds, 1 MiB, no redirects. Raises Unreachable, or StartError for a response of another server. */
export type Ask = (
  method: string,
  url: string,
  send?: {
    readonly headers?: Readonly<Record<string, string>>;
    readonly form?: Readonly<Record<string, string>>;
    readonly json?: unknown;
    readonly signal?: AbortSignal | undefined;
  },
) => Promise<HttpAnswer>;

/** Creates the HTTP client for gateways. Uses the proxy in the variables of `env`. */
export function createAsk(options: { readonly timeout_seconds?: number; readonly env?: NodeJS.ProcessEnv } = {}): Ask {
  const { env = process.env, timeout_seconds: seconds = TIMEOUT_SECONDS } = options;
  const user_agent = `appscli/${programVersion()}`;
  return async (method, url, { headers = {}, form, json, signal } = {}) => {
    const [type, body] =
      form !== undefined
        ? ['application/x-www-form-urlencoded;charset=UTF-8', String(new URLSearchParams(form))]
        : ['application/json', json === undefined ? undefined : JSON.stringify(json)];
    try {
      const answer = await exchange(url, {
        method,
        headers: {
          ...headers,
          'user-agent': user_agent,
          accept: 'application/json',
          'accept-encoding': 'identity',
          ...(body !== undefined && { 'content-type': type }),
        },
        ...(body !== undefined && { body }),
        seconds,
        bytes_max: BODY_BYTES_MAX,
        proxy: proxyRouteTo(new URL(url), env).proxy,
        ...(signal && { signal }),
      });
      signal?.throwIfAborted();
      return readAnswer(answer, url);
    } catch (error) {
      signal?.throwIfAborted();
      if (error instanceof StartError) throw error;
      throw unreachable(url, error, seconds);
    }
  };
}

function readAnswer({ status, headers, body, ending }: Exchange, url: string): HttpAnswer {
  const noGateway = (what: string) => new StartError(`${url} ${what}`);
  if (status >= 300 && status < 400) {
    throw noGateway(
      `redirects (status ${status}), but credentials are not sent to another address; use the gateway's own address`,
    );
  }
  if (ending === 'too_large') throw noGateway('sent more than 1 MiB; check the address of the gateway');
  if (ending === 'too_late') throw new DOMException('the response is not complete in time', 'TimeoutError');
  if (ending === 'cut') throw Object.assign(new Error('the response was cut off'), { code: 'ECONNRESET' });
  const wait = headers['retry-after'] ?? '';
  const retry_after_seconds = /^\d{1,6}$/.test(wait) ? Number(wait) : undefined;
  const text = body.toString('utf8');
  if (text.trim() === '') return { status, kind: 'empty', body: undefined, retry_after_seconds };
  try {
    return { status, kind: 'json', body: JSON.parse(text), retry_after_seconds };
  } catch {
    return { status, kind: 'other', body: undefined, retry_after_seconds };
  }
}

function unreachable(url: string, error: unknown, timeout_seconds: number): Unreachable {
  const reason = formatNetworkError(error, timeout_seconds);
  const remedy =
    networkFault(error) === 'untrusted'
      ? '; set NODE_EXTRA_CA_CERTS to a PEM file with the certificate of its authority'
      : '';
  return new Unreachable(`no response from ${new URL(url).origin}: ${reason}${remedy}`, { cause: error });
}

export const EXIT_REJECTED = 1;

const TEXT_LENGTH_MAX = 300;

/** A gateway without a usable response at the moment: no connection, none in time, or an error of its own. */
export class Unreachable extends StartError {
  override readonly name = 'Unreachable';
}

export class SignInOver extends StartError {
  override readonly name = 'SignInOver';
}

export function signInOver(base_url: string, because: string): SignInOver {
  return new SignInOver(
    `your sign-in at ${base_url} has ended: ${because.replace(/\.$/, '')}. Run: appscli login --base-url ${base_url}`,
    { exit_code: EXIT_REJECTED },
  );
}

export function notSignedIn(base_url: string): SignInOver {
  return new SignInOver(`you are not signed in at ${base_url}. Run: appscli login --base-url ${base_url}`, {
    exit_code: EXIT_REJECTED,
  });
}

/** A text from a gateway as one printable line; `undefined` if it is empty or not a text. */
export function sentence(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  const line = printable(text.slice(0, TEXT_LENGTH_MAX).replace(/\s+/g, ' ').trim());
  return line === '' ? undefined : line;
}
