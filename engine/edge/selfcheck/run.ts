import { type CheckResult, failed, skipped, warning } from '../../base/contract/checks.ts';
import { type Exchange, exchange } from '../../base/kit/net/exchange.ts';
import { formatNetworkError, type NetworkFault, networkFault } from '../../base/kit/net/format-network-error.ts';
import type { Way } from '../../base/kit/net/proxy-route.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { type CheckRequest, methodOf, type SelfCheck, type SelfCheckOutcome, type Subject } from './check.ts';

/** Default timeout of a request, in seconds. */
export const SECONDS = 60;

interface RunOptions {
  begin?(check: SelfCheck): void;
  refuse?(check: SelfCheck): SelfCheckOutcome | undefined;
  readonly seconds?: number;
}

/** Runs the checks in sequence, and yields each result as soon as it is known. */
export async function* runChecks(
  checks: readonly SelfCheck[],
  subject: Subject,
  options: RunOptions = {},
): AsyncGenerator<CheckResult> {
  for (const check of checks) {
    const { id, title, expected } = check;
    const started = performance.now();
    const outcome = notMade(check, subject, options) ?? (await make(check, subject, options));
    yield { id, title, expected, ...outcome, duration_ms: Math.round(performance.now() - started) };
  }
}

function notMade(check: SelfCheck, subject: Subject, { refuse }: RunOptions): SelfCheckOutcome | undefined {
  const { signal } = subject;
  if (signal?.aborted) return stopped(signal.reason);
  const why = check.skipped?.(subject);
  return why === undefined ? refuse?.(check) : skipped(why);
}

async function make(
  check: SelfCheck,
  subject: Subject,
  { begin, seconds = SECONDS }: RunOptions,
): Promise<SelfCheckOutcome> {
  begin?.(check);
  try {
    return await check.run(subject);
  } catch (error) {
    if (error instanceof ChecksStopped) return stopped(error);
    return isOfNetwork(error) ? noResponse(error, subject.root_url, seconds) : broken(error);
  }
}

function stopped(reason: unknown): SelfCheckOutcome {
  return skipped(`not run: ${reason instanceof Error ? reason.message : 'stopped'}`);
}

/** The outcome of a crashed check. A RangeError means that the response was too large or too deeply nested. */
function broken(error: unknown): SelfCheckOutcome {
  if (error instanceof RangeError) {
    return failed(
      'its response is too large or too deeply nested',
      'check that this is the address of a model gateway, for example with curl',
    );
  }
  const what = error instanceof Error ? `${error.name}: ${error.message}` : 'unknown error';
  return warning(
    `check crashed (${what}); result unknown`,
    'please report it, with the versions of appscli and of the gateway',
  );
}

interface GatewayClientOptions {
  readonly root_url: string;
  readonly token: string;
  readonly header_prefixes: readonly string[];
  readonly seconds: number;
  readonly total_seconds: number;
  /** Chooses the network path; direct by default. Raises UnusableProxy. */
  readonly proxyRouteTo?: (url: URL) => Way;
  readonly ca?: readonly string[];
}

/** No more requests: interrupted, or out of time. The message is a sentence without a full stop. */
export class ChecksStopped extends Error {
  override readonly name = 'ChecksStopped';
}

class NoAnswerInTime extends Error {
  override readonly name = 'TimeoutError';
  readonly seconds: number;

  constructor(seconds: number) {
    super(`no response within ${seconds} seconds`);
    this.seconds = seconds;
  }
}

const VERSION = '2023-06-01';

/** Give up on the gateway after this many timeouts. */
const WAITS_MAX = 3;

/** HTTP client for one gateway. */
export interface GatewayClient extends Pick<Subject, 'ask' | 'holdsToken'> {
  readonly signal: AbortSignal;
  stop(reason: ChecksStopped): void;
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
      if (networkFault(error) !== 'late') throw error;
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

const REMEDIES: Readonly<Partial<Record<NetworkFault, string>>> = {
  unknown_host: 'check the host name; it may need a VPN or another DNS server',
  refused: 'nothing listens there: check that the gateway runs, and the port',
  expired: "renew the certificate; if it is valid, set this machine's clock",
  other_host: 'use the address in the certificate, or issue one for this address',
  untrusted:
    'set NODE_EXTRA_CA_CERTS to a file with the certificate of its authority; coding clients need the same, the coding CLI and the build CLI in SSL_CERT_FILE',
  no_tls: 'the server does not speak https: check scheme and port',
  proxy:
    'allow the host at the proxy, with user and password in HTTPS_PROXY if it requires them, or add the host to NO_PROXY',
  proxy_setting: 'set it to an address such as http://proxy.example.com:3128, or unset it',
  large_head: 'no model API sends such large headers: find the proxy or login in front that adds them',
  no_http: 'check the port, and whether the gateway needs https',
  cut: 'see the logs of the gateway and of proxies in front; check whether it needs https',
  late: 'check whether the upstream is slow, or a firewall or proxy drops requests; --timeout waits longer',
};

/** The outcome of a request without a response. */
export function noResponse(error: unknown, root_url: string, usual_seconds: number): SelfCheckOutcome {
  const { seconds = usual_seconds } = (error ?? {}) as { seconds?: number };
  const fault = networkFault(error);
  const why = formatNetworkError(error, seconds);
  const reach = `check that ${new URL(root_url).host} is the address of the gateway, and reachable from here`;
  return failed(fault === 'late' ? why : `no response: ${why}`, REMEDIES[fault] ?? reach);
}

export function isOfNetwork(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  if (networkFault(error) === 'late') return true;
  return typeof code === 'string' && (!(error instanceof TypeError) || code === 'ERR_INVALID_CHAR');
}

const NO_CONNECTION: ReadonlySet<NetworkFault> = new Set([
  ...(['refused', 'unknown_host', 'no_route', 'expired', 'untrusted', 'other_host', 'no_tls'] as const),
  ...(['proxy', 'proxy_setting'] as const),
]);

/** Whether the failure of the first request means that the gateway is unreachable, in contrast to one slow path. */
export function isUnreachable(error: unknown): boolean {
  return error instanceof ChecksStopped || NO_CONNECTION.has(networkFault(error));
}
