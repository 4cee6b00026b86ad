import { isIP } from 'node:net';
import { type CheckOutcome, failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { parseListenAddress } from '../../../base/kit/net/addresses.ts';
import { readCertificates } from '../../../base/kit/net/certificates.ts';
import { type Exchange, type ExchangeRequest, exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError, networkFault } from '../../../base/kit/net/format-network-error.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { printableLine } from '../../../base/kit/text/printable.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { PROTOCOL_PATH } from '../../http/sign-in/paths.ts';
import type { Diagnosis } from '../workstation.ts';
import { type Host, placeOf } from './host.ts';

interface FoundListening {
  readonly diagnoses: readonly Diagnosis[];
  readonly running: RunningGateway | undefined;
  readonly direct: DirectAsk | undefined;
}

type ConfiguredHost = Omit<Host, 'running' | 'direct'>;
type MakeResult = (outcome: CheckOutcome, running?: RunningGateway, direct?: DirectAsk) => FoundListening;

/** Whether the listen address is free, or in use by this gateway or by another program. Identifies the listener over HTTP; binds no port. */
export async function checkListener(base_host: ConfiguredHost): Promise<FoundListening> {
  const { config, machine } = base_host;
  const { host, port } = parseListenAddress(config.server.listen)!;
  const base = {
    ...{ id: 'host.listen', title: `listens on ${config.server.listen}` },
    where: placeOf(base_host, '/server/listen'),
  };
  const result: MakeResult = (outcome, running, direct) => ({ diagnoses: [{ ...base, ...outcome }], running, direct });
  const url = directUrl(config);
  if (url === undefined)
    return result(skipped('port 0 means any free port, so the address of a running gateway is unknown'));
  if (isIP(host) !== 0 && !isOwnAddress(machine.addresses, host)) {
    const remedy = `set server.listen to an address of this machine, such as 127.0.0.1:${port}, or 0.0.0.0:${port} for all`;
    return result(failed(`${host} is not an address of this machine`, remedy));
  }
  return askListener(base_host, url, result);
}

function isOwnAddress(addresses: readonly string[], host: string): boolean {
  if (host === '0.0.0.0' || host === '::' || /^127\./.test(host) || host === '::1') return true;
  // Without a list of interfaces every address is plausible.
  return addresses.length === 0 || addresses.includes(host);
}

async function askListener(host: ConfiguredHost, url: string, result: MakeResult): Promise<FoundListening> {
  const { config, timeout_seconds } = host;
  let ask: DirectAsk;
  try {
    ask = createDirectAsk(config, url);
  } catch {
    return result(skipped('cannot identify the listener without the gateway certificate (server.tls.cert_file)'));
  }
  try {
    const known = await askWhoItIs(ask, timeout_seconds);
    if (known === undefined) return result(taken(config.server.listen, 'not a gateway of this program'));
    if (!isOfConfiguration(config, known)) {
      const other = `a gateway with the public URL ${printableLine(known.issuer)} runs there`;
      return result(taken(config.server.listen, other));
    }
    const running = { url, ...known, readiness: await askReadiness(ask, timeout_seconds) };
    const found = `a gateway with this public URL runs there, version ${printableLine(known.version)}`;
    const own = programVersion();
    if (known.version === own) return result(ok(found), running, ask);
    const remedy = 'restart the gateway after an upgrade; else run the doctor of its version';
    return result(warning(`${found}, and this program is ${own}`, remedy), running, ask);
  } catch (error) {
    const reason = formatNetworkError(error, timeout_seconds);
    const fault = networkFault(error);
    if (fault === 'refused') return result(ok('nothing listens there: the port is free, and no gateway runs'));
    if (fault !== 'untrusted' && fault !== 'expired')
      return result(taken(config.server.listen, `not a gateway: ${reason}`));
    return result(
      failed(
        `the listener's certificate differs from server.tls.cert_file: ${reason}`,
        'reload the gateway if the certificate was renewed (kill -HUP PID); else another program uses the port',
      ),
    );
  }
}

const taken = (listen: string, why: string) =>
  failed(
    `in use by another program: ${why}`,
    `stop it, or change the port of ${listen} in server.listen, and in server.public_url if it has the same port`,
  );

/** Whether the running gateway is ready. */
export function checkReadiness({ url, readiness }: RunningGateway): Diagnosis {
  const base = { id: 'gateway.ready', title: 'readiness of the running gateway', where: url };
  if (readiness === undefined) {
    const remedy = 'ignore this if a pipeline of yours serves it; else see the log of the gateway';
    return warning('GET /readyz does not respond as the shipped pipeline does', remedy, base);
  }
  const { status, state, reason } = readiness;
  if (status === 200 && state === 'ok') return ok('ready', base);
  const why = reason === undefined ? '' : `: ${printableLine(reason)}`;
  return (status === 200 ? warning : failed)(
    `${printableLine(state)}${why}`,
    'see the checks of the database below, and the log of the gateway',
    base,
  );
}

/** The response of a gateway's `/readyz`. */
export interface Readiness {
  readonly status: number;
  /** `ok`, `degraded`, `unavailable` or `stopping`, and why. */
  readonly state: string;
  readonly reason: string | undefined;
}

/** A gateway of this program that runs at the configured listen address. */
export interface RunningGateway {
  /** Its local address, without a trailing slash. */
  readonly url: string;
  readonly version: string;
  /** Its public URL. */
  readonly issuer: string;
  readonly readiness: Readiness | undefined;
}

/** Sends a request to the gateway's own socket. Trusts only the configured certificate, whatever its issuer. */
export type DirectAsk = (path: string, request: Omit<ExchangeRequest, 'pinned'>) => Promise<Exchange>;

/** The gateway's address on its own machine; `undefined` for port 0. */
function directUrl({ server: { listen, tls } }: Pick<GatewayConfig, 'server'>): string | undefined {
  const { host, port } = parseListenAddress(listen)!;
  if (port === 0) return undefined;
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;
  return `${tls === undefined ? 'http' : 'https'}://${isIP(reachable) === 6 ? `[${reachable}]` : reachable}:${port}`;
}

/** Creates a DirectAsk. Raises Error if the certificate cannot be read. */
export function createDirectAsk({ server: { tls, public_url } }: GatewayConfig, url: string): DirectAsk {
  const { hostname } = new URL(public_url);
  const name = isIP(hostname.replace(/^\[|\]$/g, '')) === 0 ? hostname : '';
  const pinned = tls === undefined ? undefined : { certificate: readCertificates(tls.cert_file)[0]!, name };
  return (path, request) => exchange(url + path, { ...request, ...(pinned && { pinned }) });
}

const SPOKEN = /^# Model gateway: protocol\s+Spoken by appscli (\S{1,40}) at (\S{1,2000}?), written/;

/** The version and public URL in the response of `/protocol`, which identifies gateways of this program. */
export function recognise({ status, text }: { readonly status: number; readonly text: string }) {
  const [, version, issuer] = SPOKEN.exec(text.slice(0, 4096)) ?? [];
  return status !== 200 || version === undefined || issuer === undefined ? undefined : { version, issuer };
}

/** Whether a gateway reports the public URL of the configuration. */
export function isOfConfiguration(config: GatewayConfig, { issuer }: { readonly issuer: string }): boolean {
  return issuer === issuerOf(config);
}

/** Identifies the listener; `undefined` for another program. Rejects without a response. */
export async function askWhoItIs(ask: DirectAsk, seconds: number) {
  const { status, body } = await ask(PROTOCOL_PATH, { seconds });
  return recognise({ status, text: body.toString('utf8') });
}

/** The response of `/readyz`; `undefined` in an unknown format. */
async function askReadiness(ask: DirectAsk, seconds: number): Promise<Readiness | undefined> {
  try {
    const answer = await ask('/readyz', { seconds });
    const { status: state, reason } = JSON.parse(answer.body.toString('utf8'));
    if (typeof state !== 'string') return undefined;
    return { status: answer.status, state, reason: typeof reason === 'string' ? reason : undefined };
  } catch {
    return undefined;
  }
}
