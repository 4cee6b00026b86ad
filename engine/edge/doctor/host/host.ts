import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { type CheckOutcome, failed, ok, skipped, warning } from '../../../base/contract/checks.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { StageDefinition } from '../../../base/contract/stage.ts';
import type { Fields } from '../../../base/kit/json/fields.ts';
import { parseListenAddress } from '../../../base/kit/net/addresses.ts';
import { readCertificates } from '../../../base/kit/net/certificates.ts';
import { type Exchange, type ExchangeRequest, exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError, networkFault } from '../../../base/kit/net/format-network-error.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { printableLine } from '../../../base/kit/text/printable.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import { issuerOf } from '../../../domain/identity/provider/provider.ts';
import { PATHS } from '../../http/sign-in/paths.ts';
import type { Diagnosis } from '../workstation.ts';

/** A gateway host, as checks see it. Tests provide a fake. */
export interface Machine {
  readonly addresses: readonly string[];
  now(): number;
}

/** The machine that this process runs on. */
export function thisMachine(): Machine {
  return {
    addresses: Object.values(networkInterfaces()).flatMap((all) => all?.map(({ address }) => address) ?? []),
    now: () => Date.now(),
  };
}

export interface HostOptions {
  readonly config_file: string;
  readonly stages: readonly StageDefinition[];
  readonly env: NodeJS.ProcessEnv;
  readonly timeout_seconds: number;
  readonly machine: Machine;
}

/** A gateway host with a loaded configuration. */
export interface Host extends HostOptions {
  readonly config: GatewayConfig;
  readonly loaded: Loaded;
  readonly running: RunningGateway | undefined;
}

/** The position of a part of gateway.yaml, by JSON pointer, as `file:line`. */
export function placeOf({ loaded, config_file }: Pick<Host, 'loaded' | 'config_file'>, pointer: string): string {
  const position = loaded.positionOf(pointer);
  return position === undefined ? config_file : `${position.file}:${position.line}`;
}

export interface ClockReading {
  readonly of: string;
  readonly ahead_ms: number;
}

/** The offset of a server's clock by its Date header, in milliseconds; `undefined` for a cached response. */
export function clockIn({ date, age }: IncomingHttpHeaders, now: number): number | undefined {
  const at = date === undefined || age !== undefined ? Number.NaN : Date.parse(date);
  // The header has whole seconds: the middle of the second is the best estimate.
  return Number.isNaN(at) ? undefined : at + 500 - now;
}

/** Largest plausible offset: clocks with NTP agree within milliseconds. */
const APART_MS = 5000;
const FAR_MS = 60_000;

/** Compares this machine's clock to those of the services that other checks queried. */
export function checkClock(readings: readonly ClockReading[], clock_skew_seconds: number | undefined): Diagnosis {
  const base = { id: 'host.clock', title: 'clock of this machine' };
  if (readings.length === 0) return skipped('no service responded whose clock could be compared', base);
  const details = readings.map(({ of, ahead_ms }) => `${of}: ${offsetText(ahead_ms)}`);
  const off = readings.filter(({ ahead_ms }) => Math.abs(ahead_ms) > APART_MS);
  if (off.length === 0) return ok(`agrees with ${readings.map(({ of }) => of).join(', ')}`, { ...base, details });
  const all_far = readings.length > 1 && readings.every(({ ahead_ms }) => Math.abs(ahead_ms) > FAR_MS);
  const skew =
    clock_skew_seconds === undefined
      ? ''
      : `; sign-in fails beyond ${clock_skew_seconds} s (auth.oidc.clock_skew_seconds)`;
  return (all_far ? failed : warning)(
    `differs from ${off.map(({ of, ahead_ms }) => `${of} (${offsetText(ahead_ms)})`).join(', ')}${skew}`,
    'synchronise the clocks over the network (timedatectl set-ntp true; chronyc tracking)',
    { ...base, details },
  );
}

function offsetText(ahead_ms: number): string {
  const seconds = Math.abs(ahead_ms) / 1000;
  if (seconds < 1) return 'the same';
  const span = seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
  return `${span} ${ahead_ms > 0 ? 'ahead' : 'behind'}`;
}

type ConfiguredHost = Omit<Host, 'running'>;

/** Whether the listen address is free, or in use by this gateway or by another program. Identifies the listener over HTTP; binds no port. */
export async function checkListener(host: ConfiguredHost) {
  const { listen } = host.config.server;
  const { running, ...outcome } = await findListener(host);
  const base = { id: 'host.listen', title: `listens on ${listen}`, where: placeOf(host, '/server/listen') };
  return { diagnosis: { ...base, ...outcome }, running };
}

async function findListener({
  config,
  machine,
  timeout_seconds,
}: ConfiguredHost): Promise<CheckOutcome & { readonly running?: RunningGateway }> {
  const { listen } = config.server;
  const { host, port } = parseListenAddress(listen)!;
  const url = directUrl(config);
  if (url === undefined) return skipped('port 0 means any free port, so the address of a running gateway is unknown');
  if (isIP(host) !== 0 && !isOwnAddress(machine.addresses, host)) {
    const remedy = `set server.listen to an address of this machine, such as 127.0.0.1:${port}, or 0.0.0.0:${port} for all`;
    return failed(`${host} is not an address of this machine`, remedy);
  }
  let ask: DirectAsk;
  try {
    ask = createDirectAsk(config, url);
  } catch {
    return skipped('cannot identify the listener without the gateway certificate (server.tls.cert_file)');
  }
  try {
    const known = await askWhoItIs(ask, timeout_seconds);
    if (known === undefined) return taken(listen, 'another program, which is not a gateway');
    const { version, issuer } = known;
    if (issuer !== issuerOf(config))
      return taken(listen, `another gateway, with the public URL ${printableLine(issuer)}`);
    const running = { url, version, readiness: await askReadiness(ask, timeout_seconds) };
    const found = `a gateway with this public URL runs there, version ${printableLine(version)}`;
    const own = programVersion();
    if (version === own) return ok(found, { running });
    const remedy = 'restart the gateway after an upgrade; otherwise run the doctor of its version';
    return warning(`${found}, and this program is ${own}`, remedy, { running });
  } catch (error) {
    const reason = formatNetworkError(error, timeout_seconds);
    const fault = networkFault(error);
    if (fault === 'refused') return ok('nothing listens there: the port is free, and no gateway runs');
    if (fault !== 'untrusted' && fault !== 'expired')
      return taken(listen, `another program, which is not a gateway: ${reason}`);
    const found = `the listener's certificate differs from server.tls.cert_file: ${reason}`;
    const remedy =
      'reload the gateway if the certificate was renewed (kill -HUP PID); otherwise another program uses the port';
    return failed(found, remedy);
  }
}

function isOwnAddress(addresses: readonly string[], host: string): boolean {
  if (host === '0.0.0.0' || host === '::' || /^127\./.test(host) || host === '::1') return true;
  // Without a list of interfaces every address is plausible.
  return addresses.length === 0 || addresses.includes(host);
}

const taken = (listen: string, by: string) =>
  failed(
    `in use by ${by}`,
    `stop it, or change the port of ${listen} in server.listen, and in server.public_url if it has the same port`,
  );

export function checkReadiness({ url, readiness }: RunningGateway): Diagnosis {
  const base = { id: 'gateway.ready', title: 'readiness of the running gateway', where: url };
  if (readiness === undefined) {
    const remedy = 'ignore this if a pipeline of yours serves it; otherwise see the log of the gateway';
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

/** A gateway of this program that runs at the configured listen address. */
interface RunningGateway {
  /** Its local address, without a trailing slash. */
  readonly url: string;
  readonly version: string;
  readonly readiness: Awaited<ReturnType<typeof askReadiness>>;
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

export async function askWhoItIs(ask: DirectAsk, seconds: number) {
  const { status, body } = await ask(PATHS.protocol, { seconds });
  return recognise({ status, text: body.toString('utf8') });
}

/** The response of `/readyz`: `ok`, `degraded`, `unavailable` or `stopping`, and why; `undefined` in an unknown format. */
async function askReadiness(ask: DirectAsk, seconds: number) {
  try {
    const { status, body } = await ask('/readyz', { seconds });
    const { status: state, reason }: Fields = JSON.parse(body.toString('utf8'));
    if (typeof state !== 'string') return undefined;
    return { status, state, reason: typeof reason === 'string' ? reason : undefined };
  } catch {
    return undefined;
  }
}
