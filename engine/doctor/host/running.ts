import { isIP } from 'node:net';
import type { GatewayConfig } from '../../contract/config.ts';
import { PROTOCOL_PATH } from '../../http/sign-in/paths.ts';
import { issuerOf } from '../../identity/provider/issuer.ts';
import { parseListenAddress } from '../../kit/net/addresses.ts';
import { readCertificates } from '../../kit/net/certificates.ts';
import { type Exchange, type ExchangeRequest, exchange } from '../../kit/net/exchange.ts';

/** What `/readyz` of a gateway says. */
export interface Readiness {
  readonly status: number;
  /** `ok`, `degraded`, `unavailable` or `stopping`, and why. */
  readonly state: string;
  readonly reason: string | undefined;
  /** When the configuration in force was loaded, in milliseconds since the epoch. */
  readonly loaded_at: number | undefined;
  /** Since when the files hold a configuration that can't be put in force. */
  readonly failing_since: string | undefined;
  /** State of each upstream by name, as far as it is told to anybody. */
  readonly upstreams: Readonly<Record<string, string>>;
}

/** A gateway of this program that answers where the configuration says one listens. */
export interface RunningGateway {
  /** Where it was asked, without a slash at the end. */
  readonly url: string;
  readonly version: string;
  /** The public URL it says it has. */
  readonly issuer: string;
  readonly readiness: Readiness | undefined;
}

/** How a gateway is asked at its own socket: the certificate in the file is believed, whoever signed it. */
export type DirectAsk = (path: string, request: Omit<ExchangeRequest, 'pinned'>) => Promise<Exchange>;

/** Where the gateway of a configuration is reached on its own machine; `undefined` for any free port. */
export function directUrl({ server: { listen, tls } }: Pick<GatewayConfig, 'server'>): string | undefined {
  const { host, port } = parseListenAddress(listen)!;
  if (port === 0) return undefined;
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${tls === undefined ? 'http' : 'https'}://${isIP(reachable) === 6 ? `[${reachable}]` : reachable}:${port}`;
}

/** Makes what asks the gateway at its own socket. Raises Error where its certificate can't be read. */
export function createDirectAsk({ server: { tls, public_url } }: GatewayConfig, url: string): DirectAsk {
  const { hostname } = new URL(public_url);
  const name = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 ? hostname : '';
  const pinned = tls === undefined ? undefined : { certificate: readCertificates(tls.cert_file)[0]!, name };
  return (path, request) => exchange(url + path, { ...request, ...(pinned && { pinned }) });
}

const SPOKEN = /^# Model gateway: protocol\s+Spoken by appscli (\S{1,40}) at (\S{1,2000}?), written/;

/** The version and public URL in the answer of `/protocol`, which is how gateways of this program are known. */
export function recognise({ status, text }: { readonly status: number; readonly text: string }) {
  const [, version, issuer] = SPOKEN.exec(text.slice(0, 4096)) ?? [];
  return status !== 200 || version === undefined || issuer === undefined ? undefined : { version, issuer };
}

/** Whether a gateway says that it has the public URL of a configuration. */
export function isOfConfiguration(config: GatewayConfig, { issuer }: { readonly issuer: string }): boolean {
  return issuer === issuerOf(config);
}

/** What answers at a path where a gateway of this program tells of itself; rejects where nothing does. */
export async function askWhoItIs(ask: DirectAsk, seconds: number) {
  const { status, body } = await ask(PROTOCOL_PATH, { seconds });
  return recognise({ status, text: body.toString('utf8') });
}

/** What `/readyz` says; `undefined` where it says nothing that is known. */
export async function askReadiness(ask: DirectAsk, seconds: number): Promise<Readiness | undefined> {
  try {
    const answer = await ask('/readyz', { seconds });
    return readReadiness(answer.status, JSON.parse(answer.body.toString('utf8')));
  } catch {
    return undefined;
  }
}

function readReadiness(status: number, body: unknown): Readiness | undefined {
  const { status: state, reason, configuration, upstreams } = (body ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof state !== 'string') return undefined;
  const { loaded_at, failing_since } = (configuration ?? {}) as Readonly<Record<string, unknown>>;
  const loaded = typeof loaded_at === 'string' ? Date.parse(loaded_at) : Number.NaN;
  const states = typeof upstreams === 'object' && upstreams !== null ? Object.entries(upstreams) : [];
  return {
    status,
    state,
    reason: typeof reason === 'string' ? reason : undefined,
    loaded_at: Number.isNaN(loaded) ? undefined : loaded,
    failing_since: typeof failing_since === 'string' ? failing_since : undefined,
    upstreams: Object.fromEntries(states.map(([name, told]) => [name, stateOf(told)])),
  };
}

function stateOf(told: unknown): string {
  if (typeof told === 'string') return told;
  const { state } = (told ?? {}) as { readonly state?: unknown };
  return typeof state === 'string' ? state : 'unknown';
}
