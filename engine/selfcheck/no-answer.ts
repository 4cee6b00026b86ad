import { formatNetworkError } from '../kit/net/format-network-error.ts';
import type { SelfCheckOutcome } from './check.ts';

/** A request whose time was over before the head of an answer came. */
export class NoAnswerInTime extends Error {
  override readonly name = 'TimeoutError';
  readonly seconds: number;

  constructor(seconds: number) {
    super(`no answer within ${seconds} seconds`);
    this.seconds = seconds;
  }
}

/** What fits an error of the network best, by the beginning of its code. */
const REMEDIES: readonly (readonly [codes: RegExp, remedy: string])[] = [
  [/^(?:ENOTFOUND|EAI_)/, 'is the name right, and does this machine know it? It may need a VPN or another DNS server'],
  [/^ECONNREFUSED/, 'nothing listens there: is the gateway running, and is the port right?'],
  [/^(?:CERT_HAS_EXPIRED|CERT_NOT_YET)/, 'renew the certificate; if it is good, the clock of this machine is wrong'],
  [/^ERR_TLS_CERT_ALTNAME/, 'give the address that the certificate is for, or have one made for this address'],
  [
    /SELF_SIGNED|UNABLE_TO_(?:GET|VERIFY)/,
    'put the certificate of its authority into a file and name that in NODE_EXTRA_CA_CERTS; coding clients need the same',
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
  return {
    verdict: 'failed',
    found: isTimeout(error) ? why : `no answer: ${why}`,
    remedy: known ?? (isTimeout(error) ? WAITS : reach),
  };
}

/** What is worth knowing where the environment names a proxy for an address: then it may be the proxy that gives no answer. */
export function proxyNotes(root_url: string, env: NodeJS.ProcessEnv): string[] {
  const name = root_url.startsWith('https:') ? 'https_proxy' : 'http_proxy';
  const set = [name, name.toUpperCase()].find((each) => (env[each] ?? '') !== '');
  if (set === undefined) return [];
  return [`${set} is set: the way to the gateway leads through that proxy, unless NO_PROXY names the host`];
}

/** Whether time was over before an answer came. */
export function isTimeout(error: unknown): boolean {
  const name = (error as { name?: unknown } | null)?.name;
  return name === 'TimeoutError' || name === 'AbortError';
}

/** Whether an error is one of the network or of what came over it, and not of the code that reads it. */
export function isOfNetwork(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  if (isTimeout(error)) return true;
  return typeof code === 'string' && (!(error instanceof TypeError) || code === 'ERR_INVALID_CHAR');
}
