import { isIP } from 'node:net';
import { type CheckOutcome, failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { parseListenAddress } from '../../../base/kit/net/addresses.ts';
import { readCertificates } from '../../../base/kit/net/certificates.ts';
import { type Exchange, type ExchangeRequest, exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { printableLine } from '../../../base/kit/text/printable.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { PROTOCOL_PATH } from '../../http/sign-in/paths.ts';
import type { Diagnosis } from '../desk.ts';
import { counted, type Host, placeOf } from './host.ts';

/** Who answers where a gateway is to listen. */
export interface FoundListening {
  readonly diagnoses: readonly Diagnosis[];
  readonly running: RunningGateway | undefined;
  readonly direct: DirectAsk | undefined;
}

type Given = Omit<Host, 'running' | 'direct'>;
type Tell = (said: CheckOutcome, running?: RunningGateway, direct?: DirectAsk) => FoundListening;

/** Whether the gateway's address is free, taken by it, or by somebody else. Binds nothing; asks what listens there who it is. */
export async function examineListening(given: Given): Promise<FoundListening> {
  const { config, machine } = given;
  const { host, port } = parseListenAddress(config.server.listen)!;
  const base = {
    ...{ id: 'host.listen', title: `listens on ${config.server.listen}` },
    where: placeOf(given, '/server/listen'),
  };
  const told: Tell = (said, running, direct) => ({ diagnoses: [{ ...base, ...said }], running, direct });
  const url = directUrl(config);
  if (url === undefined) return told(skipped('port 0 takes any free one, so it is not known where a gateway listens'));
  if (isIP(host) !== 0 && !isOwnAddress(machine.addresses, host)) {
    const remedy = `set server.listen to one that is, such as 127.0.0.1:${port}, or 0.0.0.0:${port} for all`;
    return told(failed(`${host} is not an address of this machine`, remedy));
  }
  return askListener(given, url, told);
}

function isOwnAddress(addresses: readonly string[], host: string): boolean {
  if (host === '0.0.0.0' || host === '::' || /^127\./.test(host) || host === '::1') return true;
  // Where there is no list at all, nothing can be said.
  return addresses.length === 0 || addresses.includes(host);
}

async function askListener(given: Given, url: string, told: Tell): Promise<FoundListening> {
  const { config, timeout_seconds } = given;
  let ask: DirectAsk;
  try {
    ask = createDirectAsk(config, url);
  } catch {
    return told(
      skipped("whether the gateway listens there can't be told without its certificate (server.tls.cert_file)"),
    );
  }
  try {
    const known = await askWhoItIs(ask, timeout_seconds);
    if (known === undefined) return told(taken(config.server.listen, 'it is no gateway of this program'));
    if (!isOfConfiguration(config, known)) {
      const other = `a gateway with the public URL ${printableLine(known.issuer)} runs there`;
      return told(taken(config.server.listen, other));
    }
    const running = { url, ...known, readiness: await askReadiness(ask, timeout_seconds) };
    const found = `a gateway with this public URL runs there, version ${printableLine(known.version)}`;
    const own = programVersion();
    if (known.version === own) return told(ok(found), running, ask);
    const remedy = 'after an upgrade restart the gateway; else run the doctor of its own version';
    return told(warning(`${found}, and this program is ${own}`, remedy), running, ask);
  } catch (error) {
    const reason = formatNetworkError(error, timeout_seconds);
    if (reason === 'connection refused')
      return told(ok('nothing listens there: the port is free, and no gateway runs'));
    if (!/certificate/.test(reason))
      return told(taken(config.server.listen, `it does not answer as a gateway: ${reason}`));
    return told(
      failed(
        `what listens there has another certificate than server.tls.cert_file: ${reason}`,
        'reload the gateway if the file was renewed (kill -HUP PID); else another program has the port',
      ),
    );
  }
}

const taken = (listen: string, why: string) =>
  failed(
    `taken by another program: ${why}`,
    `stop it, or write another port than that of ${listen} into server.listen, and into server.public_url if that names it`,
  );

/** Whether the running gateway is ready, and has the files as they are now. */
export function examineRunning(host: Host): Diagnosis[] {
  const { running } = host;
  if (running === undefined) return [];
  return [judgeReadiness(running), ...judgeLoaded(host, running)].map((said) => ({ where: running.url, ...said }));
}

/** File systems and clocks are not exact to the second. */
const SLACK_MS = 2000;

function judgeLoaded({ loaded, machine }: Host, { readiness }: RunningGateway): Diagnosis[] {
  const { loaded_at, failing_since } = readiness ?? {};
  // A pipeline of the operator's own may not say it.
  if (loaded_at === undefined) return [];
  const base = { id: 'gateway.configuration', title: 'the running gateway has the configuration as it is now' };
  const reload = 'send it a SIGHUP (kill -HUP PID)';
  if (failing_since !== undefined) {
    const found = `its last reload failed: since ${printableLine(failing_since)} the files hold what it can't put in force`;
    return [failed(found, `its log says why; correct it, then ${reload}`, base)];
  }
  const at = new Date(loaded_at).toISOString();
  const newer = loaded.files.filter((file) => (machine.changedAt(file) ?? 0) > loaded_at + SLACK_MS);
  if (newer.length === 0) return [ok(`loaded ${at}`, base)];
  const found = `${counted(newer.length, 'file')} changed after it was loaded (${at})`;
  const remedy = `${reload}, or start it with --watch; server.listen, database and TLS on or off need a restart`;
  return [warning(found, remedy, { ...base, details: newer.slice(0, 10) })];
}

function judgeReadiness({ readiness }: RunningGateway): Diagnosis {
  const base = { id: 'gateway.ready', title: 'the running gateway is ready' };
  if (readiness === undefined) {
    const remedy = 'nothing to do where a pipeline of your own answers it; else see the log of the gateway';
    return warning('GET /readyz does not answer as the shipped pipeline does', remedy, base);
  }
  const { status, state, reason, upstreams } = readiness;
  const details = Object.entries(upstreams)
    .filter(([, told]) => told !== 'closed')
    .map(([name, told]) => `upstream ${name} is ${told}: appscli upstreams list says more`);
  const more = { ...base, details };
  if (status === 200 && state === 'ok') {
    if (details.length === 0) return ok('it is', more);
    const found = 'it is, but not all upstreams are as they should be';
    return warning(found, 'see the checks of these upstreams below', more);
  }
  const why = reason === undefined ? '' : `: ${printableLine(reason)}`;
  return (status === 200 ? warning : failed)(
    `it is ${printableLine(state)}${why}`,
    'see the checks of the database below, and the log of the gateway',
    more,
  );
}

/** What `/readyz` of a gateway says. */
export interface Readiness {
  readonly status: number;
  /** `ok`, `degraded`, `unavailable` or `stopping`, and why. */
  readonly state: string;
  readonly reason: string | undefined;
  /** When the configuration in force was loaded, in milliseconds since the epoch; since when the files can't be put in force. */
  readonly loaded_at: number | undefined;
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
function directUrl({ server: { listen, tls } }: Pick<GatewayConfig, 'server'>): string | undefined {
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
async function askReadiness(ask: DirectAsk, seconds: number): Promise<Readiness | undefined> {
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
  const at = Date.parse(String(loaded_at));
  const states = typeof upstreams === 'object' && upstreams !== null ? Object.entries(upstreams) : [];
  return {
    status,
    state,
    reason: typeof reason === 'string' ? reason : undefined,
    loaded_at: Number.isNaN(at) ? undefined : at,
    failing_since: typeof failing_since === 'string' ? failing_since : undefined,
    upstreams: Object.fromEntries(states.map(([name, told]) => [name, stateOf(told)])),
  };
}

function stateOf(told: unknown): string {
  if (typeof told === 'string') return told;
  const { state } = (told ?? {}) as { readonly state?: unknown };
  return typeof state === 'string' ? state : 'unknown';
}
