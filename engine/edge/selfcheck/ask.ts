import { failed } from '../../base/contract/checks.ts';
import { type Exchange, exchange } from '../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../base/kit/net/format-network-error.ts';
import type { Way } from '../../base/kit/net/proxy-route.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { type CheckRequest, methodOf, type SelfCheckOutcome, type Subject } from './check.ts';

/** Options of a gateway client. */
export interface GatewayClientOptions {
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  readonly token: string;
  readonly header_prefixes: readonly string[];
  /** Default timeout of one request. */
  readonly seconds: number;
  /** Time limit of all requests together. */
  readonly total_seconds: number;
  /** Chooses the network path; direct by default. Raises UnusableProxy. */
  readonly proxyRouteTo?: (url: URL) => Way;
  /** CA certificates in PEM, instead of the default ones. */
  readonly ca?: readonly string[];
}

/** No more requests: interrupted, or out of time. The message is a sentence without a full stop. */
export class ChecksStopped extends Error {
  override readonly name = 'ChecksStopped';
}

/** A request that timed out before its response headers. */
class NoAnswerInTime extends Error {
  override readonly name = 'TimeoutError';
  readonly seconds: number;

  constructor(seconds: number) {
    super(`no response within ${seconds} seconds`);
    this.seconds = seconds;
  }
}

/** Requested version of the Messages API. */
const VERSION = '2023-06-01';

/** Give up on the gateway after this many timeouts. */
const WAITS_MAX = 3;

/** HTTP client for one gateway. */
export interface GatewayClient extends Pick<Subject, 'ask' | 'holdsToken'> {
  readonly signal: AbortSignal;
  /** Aborts pending requests and rejects all later ones. */
  stop(reason: ChecksStopped): void;
  /** Cancels the timer of the total time limit. */
  close(): void;
}

/** Creates a gateway client, which gives up after repeated timeouts. */
export function createGatewayClient(options: GatewayClientOptions): GatewayClient {
  const { root_url, token, seconds: usual_seconds, total_seconds } = options;
  const stopped = new AbortController();
  const stop = (reason: ChecksStopped) => stopped.abort(reason);
  const deadline = setTimeout(
    () => stop(new ChecksStopped(`the time limit of all checks, ${total_seconds} seconds, has passed`)),
    total_seconds * 1000,
  );
  let waited_seconds = 0;
  const recordWait = (seconds: number) => {
    waited_seconds += seconds;
    if (waited_seconds < WAITS_MAX * usual_seconds) return;
    stop(new ChecksStopped('too many requests to the gateway timed out'));
  };
  const ask = async (request: CheckRequest): Promise<Exchange> => {
    stopped.signal.throwIfAborted();
    const seconds = Math.min(request.seconds ?? usual_seconds, usual_seconds);
    const body = request.body ?? (request.json === undefined ? undefined : JSON.stringify(request.json));
    try {
      const url = `${root_url}${request.path}`;
      const answer = await exchange(url, {
        method: methodOf(request),
        headers: headersOf(request, options, body !== undefined),
        ...(body === undefined ? {} : { body }),
        seconds,
        signal: stopped.signal,
        proxy: options.proxyRouteTo?.(new URL(url)).proxy,
        ...(options.ca === undefined ? {} : { ca: options.ca }),
      });
      stopped.signal.throwIfAborted();
      if (answer.ending === 'too_late') recordWait(seconds);
      return answer;
    } catch (error) {
      if (!isTimeout(error)) throw error;
      recordWait(seconds);
      throw new NoAnswerInTime(seconds);
    }
  };
  const written = [token, encodeURIComponent(token)];
  return {
    ask,
    holdsToken: (text) => written.some((each) => text.includes(each)),
    signal: stopped.signal,
    stop,
    close: () => clearTimeout(deadline),
  };
}

/** Paths that get the version header. Other clients omit it, and some gateways respond differently with it. */
const MESSAGES_PATH = /^\/v1\/(messages\b|models\?)/;

function headersOf(
  { headers = {}, token, path }: CheckRequest,
  options: Pick<GatewayClientOptions, 'token' | 'header_prefixes'>,
  has_body: boolean,
): Record<string, string> {
  const credential = token === undefined ? options.token : token;
  const prefixes = MESSAGES_PATH.test(path) ? options.header_prefixes : [];
  return {
    'user-agent': `appscli/${programVersion()}`,
    accept: 'application/json, text/event-stream',
    // As real clients, so that a proxy that compresses their streams also compresses these.
    'accept-encoding': 'gzip, deflate, br, zstd',
    ...(has_body ? { 'content-type': 'application/json' } : {}),
    ...Object.fromEntries(prefixes.map((prefix) => [`${prefix}-version`, VERSION])),
    ...(credential === null ? {} : { authorization: `Bearer ${credential}` }),
    ...headers,
  };
}

/** Remedies by the beginning of a network error's code. */
const REMEDIES: readonly (readonly [codes: RegExp, remedy: string])[] = [
  [/^(?:ENOTFOUND|EAI_)/, 'check the host name; it may need a VPN or another DNS server'],
  [/^ECONNREFUSED/, 'nothing listens there: check that the gateway runs, and the port'],
  [/^(?:CERT_HAS_EXPIRED|CERT_NOT_YET)/, "renew the certificate; if it is valid, set this machine's clock"],
  [/^ERR_TLS_CERT_ALTNAME/, 'use the address in the certificate, or issue one for this address'],
  [
    /SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/,
    'set NODE_EXTRA_CA_CERTS to a file with the certificate of its authority; coding clients need the same, the coding CLI and the build CLI in SSL_CERT_FILE',
  ],
  [/^(?:EPROTO|ERR_SSL)/, 'the server does not speak https: check scheme and port'],
  [
    /^ERR_PROXY_TUNNEL/,
    'allow the host at the proxy, with user and password in HTTPS_PROXY if it requires them; or add the host to NO_PROXY',
  ],
  [/^ERR_PROXY_INVALID/, 'set it to an address such as http://proxy.example.com:3128, or unset it'],
  [/^HPE_HEADER_OVERFLOW/, 'no model API sends such large headers: find the proxy or login in front that adds them'],
  [/^HPE_/, 'check the port, and whether the gateway needs https'],
  [
    /^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET)/,
    'see the logs of the gateway and of proxies in front; check whether it needs https',
  ],
];

const WAITS = 'check whether the upstream is slow, or a firewall or proxy drops requests; --timeout waits longer';

/** The outcome of a request without a response. */
export function noResponse(error: unknown, root_url: string, usual_seconds: number): SelfCheckOutcome {
  const { code = '', seconds = usual_seconds } = (error ?? {}) as { code?: string; seconds?: number };
  const known = REMEDIES.find(([codes]) => codes.test(code))?.[1];
  const why = formatNetworkError(error, seconds);
  const host = new URL(root_url).host;
  const reach = `check that ${host} is the address of the gateway, and reachable from here`;
  return failed(isTimeout(error) ? why : `no response: ${why}`, known ?? (isTimeout(error) ? WAITS : reach));
}

/** A note that requests go through a proxy, which may be the cause of a missing response. */
export function proxyNotes(root_url: string, env: NodeJS.ProcessEnv): string[] {
  const name = root_url.startsWith('https:') ? 'https_proxy' : 'http_proxy';
  const set = [name, name.toUpperCase()].find((each) => (env[each] ?? '') !== '');
  if (set === undefined) return [];
  return [`${set} is set: requests go through that proxy, unless NO_PROXY names the host`];
}

/** Whether an error is a timeout. */
function isTimeout(error: unknown): boolean {
  const name = (error as { name?: unknown } | null)?.name;
  return name === 'TimeoutError' || name === 'AbortError';
}

/** Whether an error comes from the network or the response, in contrast to a bug in a check. */
export function isOfNetwork(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  if (isTimeout(error)) return true;
  return typeof code === 'string' && (!(error instanceof TypeError) || code === 'ERR_INVALID_CHAR');
}

/** Codes of errors without a connection, or without a trusted one. */
const NO_CONNECTION =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|EPROTO|CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|ERR_PROXY_|SELF_SIGNED|UNABLE_TO_)/;

const ROOT_SECONDS = 5;

/** Whether the failure of the first request means that the gateway is unreachable, in contrast to one slow path. */
export async function isUnreachable(error: unknown, subject: Pick<Subject, 'ask'>): Promise<boolean> {
  const isFinal = (each: unknown) =>
    each instanceof ChecksStopped || NO_CONNECTION.test((each as { code?: string } | null)?.code ?? '');
  if (isFinal(error) || !isTimeout(error)) return isFinal(error);
  try {
    await subject.ask({ path: '/', token: null, seconds: ROOT_SECONDS });
    return false;
  } catch (second) {
    return isFinal(second) || isTimeout(second);
  }
}
