import { StartError } from '../../base/contract/start-error.ts';
import { type Exchange, exchange } from '../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../base/kit/net/format-network-error.ts';
import { wayTo } from '../../base/kit/net/way.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { printable } from '../../base/kit/text/printable.ts';

const TIMEOUT_SECONDS = 10;
const BODY_BYTES_MAX = 1024 * 1024;

/** A complete answer. */
export interface HttpAnswer {
  readonly status: number;
  /** `json`: `body` is what it says. `empty`, `other`: there is no body, or one that is not JSON. */
  readonly kind: 'json' | 'empty' | 'other';
  readonly body: unknown;
  /** How long the gateway asks to wait; `undefined` when it does not say, or not in whole seconds. */
  readonly retry_after_seconds: number | undefined;
}

/**
 * Sends one request and reads the whole answer: at most 10 seconds, at most 1 MiB, no redirect followed. Raises
 * Unreachable without an answer, StartError for one that no gateway gives; rejects with the signal's reason when stopped.
 */
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

/** Makes the function that talks to gateways, through the proxy that a variable of `env` may name. */
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
        proxy: wayTo(new URL(url), env).proxy,
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
      `answers with a redirect (status ${status}), and credentials are sent to no other address; give the address the gateway itself has`,
    );
  }
  if (ending === 'too_large')
    throw noGateway('sends more than 1 MiB, which no gateway does here; is the address right?');
  if (ending === 'too_late') throw new DOMException('the answer is not complete in time', 'TimeoutError');
  if (ending === 'cut') throw Object.assign(new Error('the answer is cut'), { code: 'ECONNRESET' });
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
  const remedy = /not trusted/.test(reason)
    ? '; set NODE_EXTRA_CA_CERTS to a PEM file with the certificate of the authority it comes from'
    : '';
  return new Unreachable(`no answer from ${new URL(url).origin}: ${reason}${remedy}`, { cause: error });
}

/** Exit code of a command that the gateway, or the person at the browser, said no to. */
export const EXIT_REFUSED = 1;

const TEXT_LENGTH_MAX = 300;

/** A gateway that gives no answer at the moment: no connection, none in time, or an error of its own. */
export class Unreachable extends StartError {
  override readonly name = 'Unreachable';
}

/** A sign-in that is over: nothing but another one helps. */
export class SignInOver extends StartError {
  override readonly name = 'SignInOver';
}

/** The error of a sign-in that is over, with the reason in a few words. */
export function signInOver(base_url: string, because: string): SignInOver {
  return new SignInOver(
    `you are not signed in at ${base_url} any more: ${because.replace(/\.$/, '')}. Run: appscli login --base-url ${base_url}`,
    { exit_code: EXIT_REFUSED },
  );
}

/** The error of somebody who has not signed in at a gateway. */
export function notSignedIn(base_url: string): SignInOver {
  return new SignInOver(`you are not signed in at ${base_url}. Run: appscli login --base-url ${base_url}`, {
    exit_code: EXIT_REFUSED,
  });
}

/** What a gateway says, as one line that is safe to show on a terminal; `undefined` when it says nothing. */
export function sentence(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  const line = printable(text.slice(0, TEXT_LENGTH_MAX).replace(/\s+/g, ' ').trim());
  return line === '' ? undefined : line;
}
