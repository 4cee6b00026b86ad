import { Readable } from 'node:stream';
import { EXIT_UNAVAILABLE, StartError } from '../contract/start-error.ts';
import { exchange } from '../kit/net/exchange.ts';
import { formatNetworkError } from '../kit/net/format-network-error.ts';
import { wayTo } from '../kit/net/way.ts';
import { wholeResponse } from '../kit/net/whole-response.ts';
import { programVersion } from '../kit/package-root.ts';
import { readAll } from '../kit/read-all.ts';
import { printable } from '../kit/text/printable.ts';

const TIMEOUT_SECONDS = 10;
const BODY_BYTES_MAX = 1024 * 1024;

/** `fetch`, or what a test puts in its place. */
export type Fetch = typeof globalThis.fetch;

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

/** `fetch` where nothing stands between here and a gateway; else one request through the proxy that the environment names. */
const fetchByWay =
  (env: NodeJS.ProcessEnv): Fetch =>
  async (input, init = {}) => {
    const url = String(input);
    const { proxy } = wayTo(new URL(url), env);
    if (proxy === undefined) return globalThis.fetch(url, init);
    const { method = 'GET', body, signal } = init;
    const sent = new Request(url, { ...init, signal: null });
    const answer = await exchange(url, {
      method,
      headers: Object.fromEntries(sent.headers),
      ...(body === null || body === undefined ? {} : { body: Buffer.from(await sent.arrayBuffer()) }),
      seconds: TIMEOUT_SECONDS,
      bytes_max: BODY_BYTES_MAX + 1,
      proxy,
      ...(signal && { signal }),
    });
    if (answer.ending === 'cut') throw Object.assign(new Error('the answer is cut'), { code: 'ECONNRESET' });
    if (answer.ending === 'too_late') throw new DOMException('the answer is not complete in time', 'TimeoutError');
    return wholeResponse(answer.status, answer.headers, answer.body);
  };

/** Makes the function that talks to gateways. */
export function createAsk(
  options: {
    readonly fetch?: Fetch | undefined;
    readonly timeout_seconds?: number;
    /** Its variables may name a proxy. */
    readonly env?: NodeJS.ProcessEnv;
  } = {},
): Ask {
  const { env = process.env, timeout_seconds = TIMEOUT_SECONDS } = options;
  const { fetch = fetchByWay(env) } = options;
  const user_agent = `appscli/${programVersion()}`;
  return async (method, url, { headers = {}, form, json, signal: stop } = {}) => {
    const time = AbortSignal.timeout(timeout_seconds * 1000);
    const signal = stop === undefined ? time : AbortSignal.any([time, stop]);
    try {
      const response = await fetch(url, {
        method,
        headers: {
          ...headers,
          'user-agent': user_agent,
          accept: 'application/json',
          ...(json === undefined ? {} : { 'content-type': 'application/json' }),
        },
        // A form sets its content type by itself.
        body: form === undefined ? (json === undefined ? null : JSON.stringify(json)) : new URLSearchParams(form),
        redirect: 'manual',
        signal,
      });
      return await readAnswer(response, url);
    } catch (error) {
      stop?.throwIfAborted();
      if (error instanceof StartError) throw error;
      throw unreachable(url, error, timeout_seconds);
    }
  };
}

async function readAnswer(response: Response, url: string): Promise<HttpAnswer> {
  const { status, headers } = response;
  if (status >= 300 && status < 400) {
    await response.body?.cancel();
    throw new StartError(
      `${url} answers with a redirect (status ${status}), and credentials are sent to no other address; give the address the gateway itself has`,
      { exit_code: EXIT_UNAVAILABLE },
    );
  }
  const tooLong = () =>
    new StartError(`${url} sends more than 1 MiB, which no gateway does here; is the address right?`, {
      exit_code: EXIT_UNAVAILABLE,
    });
  const text = (await readAll(response.body ?? Readable.from([]), BODY_BYTES_MAX, tooLong)).toString('utf8');
  const wait = headers.get('retry-after') ?? '';
  const retry_after_seconds = /^\d{1,6}$/.test(wait) ? Number(wait) : undefined;
  if (text.trim() === '') return { status, kind: 'empty', body: undefined, retry_after_seconds };
  try {
    return { status, kind: 'json', body: JSON.parse(text), retry_after_seconds };
  } catch {
    return { status, kind: 'other', body: undefined, retry_after_seconds };
  }
}

function unreachable(url: string, error: unknown, timeout_seconds: number): Unreachable {
  // fetch wraps what happened, unless it was stopped.
  const cause = error instanceof TypeError ? (error.cause ?? error) : error;
  const reason = formatNetworkError(cause, timeout_seconds);
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
