import { failed } from '../../base/contract/checks.ts';
import { type Exchange, exchange } from '../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../base/kit/net/format-network-error.ts';
import type { Way } from '../../base/kit/net/way.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import { type Ask, methodOf, type SelfCheckOutcome, type Subject } from './check.ts';

/** How a gateway is asked. */
export interface AskOptions {
  /** Without `/v1` and without a trailing slash. */
  readonly root_url: string;
  readonly token: string;
  readonly header_prefixes: readonly string[];
  /** For one request, where it says nothing else. */
  readonly seconds: number;
  /** For everything together. */
  readonly total_seconds: number;
  /** How the gateway is reached; directly where nothing is said. Raises UnusableProxy. */
  readonly wayTo?: (url: URL) => Way;
  /** Certificates to trust, in PEM, in place of the usual ones. */
  readonly ca?: readonly string[];
}

/** Why nothing more is asked: somebody stopped it, or time was up. The message is a sentence without a full stop. */
export class NotAsked extends Error {
  override readonly name = 'NotAsked';
}

/** A request whose time was over before the head of an answer came. */
class NoAnswerInTime extends Error {
  override readonly name = 'TimeoutError';
  readonly seconds: number;

  constructor(seconds: number) {
    super(`no answer within ${seconds} seconds`);
    this.seconds = seconds;
  }
}

/** Version of the Messages API that is asked for. */
const VERSION = '2023-06-01';

/** So often the time of a request is lost by waiting for nothing; then the gateway is not asked again. */
const WAITS_MAX = 3;

/** What asks one gateway, and ends the asking. */
export interface Asker extends Pick<Subject, 'ask' | 'holdsToken'> {
  readonly signal: AbortSignal;
  /** Ends what is being asked, and keeps everything from being asked after it. */
  stop(reason: NotAsked): void;
  /** Forgets the time limit of everything together. */
  close(): void;
}

/** Makes what asks a gateway, and gives up on one that keeps it waiting again and again. */
export function createAsker(options: AskOptions): Asker {
  const { root_url, token, seconds: usual_seconds, total_seconds } = options;
  const stopped = new AbortController();
  const stop = (reason: NotAsked) => stopped.abort(reason);
  const deadline = setTimeout(
    () => stop(new NotAsked(`the time for all checks together, ${total_seconds} seconds, is over`)),
    total_seconds * 1000,
  );
  let waited_seconds = 0;
  const noteWait = (seconds: number) => {
    waited_seconds += seconds;
    if (waited_seconds < WAITS_MAX * usual_seconds) return;
    stop(new NotAsked('the gateway left too many requests waiting until their time was over'));
  };
  const ask = async (given: Ask): Promise<Exchange> => {
    stopped.signal.throwIfAborted();
    const seconds = Math.min(given.seconds ?? usual_seconds, usual_seconds);
    const body = given.body ?? (given.json === undefined ? undefined : JSON.stringify(given.json));
    try {
      const url = `${root_url}${given.path}`;
      const answer = await exchange(url, {
        method: methodOf(given),
        headers: headersOf(given, options, body !== undefined),
        ...(body === undefined ? {} : { body }),
        seconds,
        signal: stopped.signal,
        proxy: options.wayTo?.(new URL(url)).proxy,
        ...(options.ca === undefined ? {} : { ca: options.ca }),
      });
      stopped.signal.throwIfAborted();
      if (answer.ending === 'too_late') noteWait(seconds);
      return answer;
    } catch (error) {
      if (!isTimeout(error)) throw error;
      noteWait(seconds);
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

/** Some gateways answer in another form where the version of Messages is named, which clients of other protocols do not do. */
const MESSAGES_PATH = /^\/v1\/(messages\b|models\?)/;

function headersOf(
  { headers = {}, token, path }: Ask,
  options: Pick<AskOptions, 'token' | 'header_prefixes'>,
  has_body: boolean,
): Record<string, string> {
  const credential = token === undefined ? options.token : token;
  const prefixes = MESSAGES_PATH.test(path) ? options.header_prefixes : [];
  return {
    'user-agent': `appscli/${programVersion()}`,
    accept: 'application/json, text/event-stream',
    // As real clients do, so that a proxy that compresses streams for them does it here, too.
    'accept-encoding': 'gzip, deflate, br, zstd',
    ...(has_body ? { 'content-type': 'application/json' } : {}),
    ...Object.fromEntries(prefixes.map((prefix) => [`${prefix}-version`, VERSION])),
    ...(credential === null ? {} : { authorization: `Bearer ${credential}` }),
    ...headers,
  };
}

/** What fits an error of the network best, by the beginning of its code. */
const REMEDIES: readonly (readonly [codes: RegExp, remedy: string])[] = [
  [/^(?:ENOTFOUND|EAI_)/, 'is the name right, and does this machine know it? It may need a VPN or another DNS server'],
  [/^ECONNREFUSED/, 'nothing listens there: is the gateway running, and is the port right?'],
  [/^(?:CERT_HAS_EXPIRED|CERT_NOT_YET)/, 'renew the certificate; if it is good, the clock of this machine is wrong'],
  [/^ERR_TLS_CERT_ALTNAME/, 'give the address that the certificate is for, or have one made for this address'],
  [
    /SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/,
    'put the certificate of its authority into a file and name that in NODE_EXTRA_CA_CERTS; coding clients need the same, the coding CLI and the build CLI in SSL_CERT_FILE',
  ],
  [/^(?:EPROTO|ERR_SSL)/, 'https is spoken to something that does not: are scheme and port right?'],
  [
    /^ERR_PROXY_TUNNEL/,
    'have the proxy let it through, with name and password in HTTPS_PROXY where it wants them; or add the host to NO_PROXY',
  ],
  [/^ERR_PROXY_INVALID/, 'write it as in http://proxy.example.com:3128, or take it away'],
  [/^HPE_HEADER_OVERFLOW/, 'no model API has such headers: which proxy or login in front of the gateway adds them?'],
  [/^HPE_/, 'is this the port of the gateway, and is https needed?'],
  [
    /^(?:ECONNRESET|EPIPE|UND_ERR_SOCKET)/,
    'look into the logs of the gateway and of the proxies in front of it; is it http where https is needed?',
  ],
];

const WAITS =
  'look whether the gateway waits for its upstream, or a firewall or proxy on the way drops what is sent; --timeout waits longer';

/** What is said where a request got no answer. */
export function noAnswer(error: unknown, root_url: string, usual_seconds: number): SelfCheckOutcome {
  const { code = '', seconds = usual_seconds } = (error ?? {}) as { code?: string; seconds?: number };
  const known = REMEDIES.find(([codes]) => codes.test(code))?.[1];
  const why = formatNetworkError(error, seconds);
  const host = new URL(root_url).host;
  const reach = `can ${host} be reached from here, and is it the address of the gateway?`;
  return failed(isTimeout(error) ? why : `no answer: ${why}`, known ?? (isTimeout(error) ? WAITS : reach));
}

/** What is worth knowing where the environment names a proxy for an address: then it may be the proxy that gives no answer. */
export function proxyNotes(root_url: string, env: NodeJS.ProcessEnv): string[] {
  const name = root_url.startsWith('https:') ? 'https_proxy' : 'http_proxy';
  const set = [name, name.toUpperCase()].find((each) => (env[each] ?? '') !== '');
  if (set === undefined) return [];
  return [`${set} is set: the way to the gateway leads through that proxy, unless NO_PROXY names the host`];
}

/** Whether time was over before an answer came. */
function isTimeout(error: unknown): boolean {
  const name = (error as { name?: unknown } | null)?.name;
  return name === 'TimeoutError' || name === 'AbortError';
}

/** Whether an error is one of the network or of what came over it, and not of the code that reads it. */
export function isOfNetwork(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  if (isTimeout(error)) return true;
  return typeof code === 'string' && (!(error instanceof TypeError) || code === 'ERR_INVALID_CHAR');
}

/** No connection came about, or none that is safe to send a token over. */
const NO_CONNECTION =
  /^(?:ECONNREFUSED|ENOTFOUND|EAI_|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|EPROTO|CERT_|ERR_TLS|ERR_SSL|DEPTH_ZERO|ERR_PROXY_|SELF_SIGNED|UNABLE_TO_)/;

const ROOT_SECONDS = 5;

/** Whether an error of the first request means that there is nothing to check, and not only one request that gets no answer. */
export async function isUnreachable(error: unknown, subject: Pick<Subject, 'ask'>): Promise<boolean> {
  const isFinal = (each: unknown) =>
    each instanceof NotAsked || NO_CONNECTION.test((each as { code?: string } | null)?.code ?? '');
  if (isFinal(error) || !isTimeout(error)) return isFinal(error);
  try {
    await subject.ask({ path: '/', token: null, seconds: ROOT_SECONDS });
    return false;
  } catch (second) {
    return isFinal(second) || isTimeout(second);
  }
}
