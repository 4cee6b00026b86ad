import { isIP } from 'node:net';
import { parseListenAddress } from '../../kit/net/addresses.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { programVersion } from '../../kit/package-root.ts';
import { printableLine } from '../../kit/text/printable.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type Host, placeOf } from './host.ts';
import {
  askReadiness,
  askWhoItIs,
  createDirectAsk,
  type DirectAsk,
  directUrl,
  isOfConfiguration,
  type RunningGateway,
} from './running.ts';

/** Who answers where a gateway is to listen. */
export interface FoundListening {
  readonly diagnoses: readonly Diagnosis[];
  readonly running: RunningGateway | undefined;
  readonly direct: DirectAsk | undefined;
}

type Given = Omit<Host, 'running' | 'direct'>;
type Tell = (said: Said, running?: RunningGateway, direct?: DirectAsk) => FoundListening;
type Said = Pick<Diagnosis, 'verdict' | 'found' | 'remedy' | 'details'>;

/** Whether the gateway's address is free, taken by it, or by somebody else. Binds nothing; asks what listens there who it is. */
export async function examineListening(given: Given): Promise<FoundListening> {
  const { config, machine } = given;
  const { host, port } = parseListenAddress(config.server.listen)!;
  const told: Tell = (said, running, direct) => ({
    diagnoses: [
      {
        id: 'host.listen',
        title: `listens on ${config.server.listen}`,
        where: placeOf(given, '/server/listen'),
        ...said,
      },
    ],
    running,
    direct,
  });
  const url = directUrl(config);
  if (url === undefined) {
    return told({ verdict: 'skipped', found: 'port 0 takes any free one, so it is not known where a gateway listens' });
  }
  const is_away = isIP(host) !== 0 && !isOwnAddress(machine.addresses, host);
  if (is_away) {
    return told({
      verdict: 'failed',
      found: `${host} is not an address of this machine`,
      remedy: `set server.listen to one that is, such as 127.0.0.1:${port}, or 0.0.0.0:${port} for all`,
    });
  }
  return askListener(given, url, told);
}

function isOwnAddress(addresses: readonly string[], host: string): boolean {
  if (host === '0.0.0.0' || host === '::' || /^127\./.test(host) || host === '::1') return true;
  // Where there is no list at all, nothing can be said.
  return addresses.length === 0 || addresses.includes(host);
}

const FREE: Said = { verdict: 'ok', found: 'nothing listens there: the port is free, and no gateway runs' };

async function askListener(given: Given, url: string, told: Tell): Promise<FoundListening> {
  const { config, timeout_seconds } = given;
  let ask: DirectAsk;
  try {
    ask = createDirectAsk(config, url);
  } catch {
    const found = "whether the gateway listens there can't be told without its certificate (server.tls.cert_file)";
    return told({ verdict: 'skipped', found });
  }
  try {
    const known = await askWhoItIs(ask, timeout_seconds);
    if (known === undefined) return told(taken(config.server.listen, 'it is no gateway of this program'));
    if (!isOfConfiguration(config, known)) {
      const other = `a gateway with the public URL ${printableLine(known.issuer)} runs there`;
      return told(taken(config.server.listen, other));
    }
    const readiness = await askReadiness(ask, timeout_seconds);
    const running = { url, ...known, readiness };
    return told(
      {
        verdict: 'ok',
        found: `a gateway with this public URL runs there, version ${printableLine(known.version)}`,
      },
      running,
      ask,
    );
  } catch (error) {
    const reason = formatNetworkError(error, timeout_seconds);
    if (reason === 'connection refused') return told(FREE);
    if (/certificate/.test(reason)) {
      return told({
        verdict: 'failed',
        found: `what listens there has another certificate than server.tls.cert_file: ${reason}`,
        remedy: 'reload the gateway if the file was renewed (kill -HUP PID); else another program has the port',
      });
    }
    return told(taken(config.server.listen, `it does not answer as a gateway: ${reason}`));
  }
}

function taken(listen: string, why: string): Said {
  return {
    verdict: 'failed',
    found: `taken by another program: ${why}`,
    remedy: `stop it, or write another port than that of ${listen} into server.listen, and into server.public_url if that names it`,
  };
}

/** What the running gateway says of itself: its version, whether it is ready, and whether it has the files as they are now. */
export function examineRunning(host: Host): Diagnosis[] {
  const { running } = host;
  if (running === undefined) return [];
  return [judgeVersion(running), judgeReadiness(running), judgeLoaded(host, running)].map((said) => ({
    where: running.url,
    ...said,
  }));
}

function judgeVersion({ version }: RunningGateway): Diagnosis {
  const title = 'version of the running gateway';
  const own = programVersion();
  if (version === own) return { id: 'gateway.version', title, verdict: 'ok', found: version };
  return {
    id: 'gateway.version',
    title,
    verdict: 'warning',
    found: `it is ${printableLine(version)}, and this program is ${own}`,
    remedy: 'after an upgrade restart the gateway; else run the doctor of its own version',
  };
}

function judgeReadiness({ readiness }: RunningGateway): Diagnosis {
  const base = { id: 'gateway.ready', title: 'the running gateway is ready' };
  if (readiness === undefined) {
    return {
      ...base,
      verdict: 'warning',
      found: 'GET /readyz does not answer as the shipped pipeline does',
      remedy: 'nothing to do where a pipeline of your own answers it; else see the log of the gateway',
    };
  }
  const { status, state, reason, upstreams } = readiness;
  const details = Object.entries(upstreams)
    .filter(([, told]) => told !== 'closed')
    .map(([name, told]) => `upstream ${name} is ${told}: appscli upstreams list says more`);
  if (status === 200 && state === 'ok') {
    return {
      ...base,
      verdict: details.length > 0 ? 'warning' : 'ok',
      found: details.length > 0 ? `it is, but not all upstreams are as they should be` : 'it is',
      details,
      ...(details.length > 0 && { remedy: 'see the checks of these upstreams below' }),
    };
  }
  const why = reason === undefined ? '' : `: ${printableLine(reason)}`;
  const serves = status === 200;
  return {
    ...base,
    verdict: serves ? 'warning' : 'failed',
    found: `it is ${printableLine(state)}${why}`,
    remedy: 'see the checks of the database below, and the log of the gateway',
    details,
  };
}

/** File systems and clocks are not exact to the second. */
const SLACK_MS = 2000;

function judgeLoaded({ loaded, machine }: Host, { readiness }: RunningGateway): Diagnosis {
  const base = { id: 'gateway.configuration', title: 'the running gateway has the configuration as it is now' };
  if (readiness?.loaded_at === undefined) {
    return { ...base, verdict: 'skipped', found: 'GET /readyz does not say when it was loaded' };
  }
  const { loaded_at, failing_since } = readiness;
  const reload = 'send it a SIGHUP (kill -HUP PID)';
  if (failing_since !== undefined) {
    return {
      ...base,
      verdict: 'failed',
      found: `its last reload failed: since ${printableLine(failing_since)} the files hold a configuration it can't put in force`,
      remedy: `its log says why; correct it, then ${reload}`,
    };
  }
  const newer = loaded.files.filter((file) => (machine.changedAt(file) ?? 0) > loaded_at + SLACK_MS);
  if (newer.length === 0) return { ...base, verdict: 'ok', found: `loaded ${new Date(loaded_at).toISOString()}` };
  return {
    ...base,
    verdict: 'warning',
    found: `${newer.length === 1 ? 'a file was' : `${newer.length} files were`} changed after it was loaded (${new Date(loaded_at).toISOString()})`,
    remedy: `${reload}, or start it with --watch; server.listen, database and TLS on or off need a restart`,
    details: newer.slice(0, 10),
  };
}
