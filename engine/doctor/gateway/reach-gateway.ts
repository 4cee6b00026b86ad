import { isIP } from 'node:net';
import type { CheckOutcome } from '../../contract/checks.ts';
import { isLoopbackUrl } from '../../kit/net/addresses.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { type Place, placeOf } from '../../kit/net/tunnel.ts';
import type { Diagnosis } from '../diagnosis.ts';
import { type Attempt, addressesOf, tryAddresses } from './connect.ts';
import { diagnose, type Inquiry } from './inquiry.ts';

/** What was found on the way to a gateway, and whether it is of any use to go on. */
export interface Reached {
  readonly diagnoses: readonly Diagnosis[];
  readonly reached: boolean;
}

/** Whether a machine is found by its name and takes connections: the gateway's, or that of the proxy in front of this desk. */
export async function reachGateway(inquiry: Inquiry): Promise<Reached> {
  const { way, url, seconds } = inquiry;
  const place = placeOf(way.proxy ?? url);
  const what = way.proxy === undefined ? 'the gateway' : `the proxy that ${way.variable} names`;
  const addresses = await addressesOf(place.host, seconds);
  if ('problem' in addresses) {
    const diagnosis = diagnose(inquiry, 'name', nameNotFound(what, place, addresses.problem, way.variable));
    return { diagnoses: [diagnosis], reached: false };
  }
  const named = isIP(place.host) === 0 ? [diagnose(inquiry, 'name', named_ok(place, addresses))] : [];
  const attempts = await tryAddresses(addresses, place.port, seconds);
  const reached = attempts.some(({ problem }) => problem === undefined);
  const outcome = reached ? connected(what, place, attempts) : notConnected(what, place, attempts, inquiry);
  return { diagnoses: [...named, diagnose(inquiry, 'connection', outcome)], reached };
}

function named_ok({ host }: Place, addresses: readonly string[]): CheckOutcome {
  return { verdict: 'ok', found: `${host} is ${addresses.join(', ')}` };
}

function nameNotFound(what: string, { host }: Place, problem: string, variable: string | undefined): CheckOutcome {
  const has_no_answer = problem === 'EAI_AGAIN' || problem === 'ETIMEDOUT';
  return {
    verdict: 'failed',
    found: has_no_answer
      ? `no DNS server answers for ${host}, the name of ${what}`
      : `DNS does not know ${host}, the name of ${what}`,
    remedy: has_no_answer
      ? 'is this machine connected, and its VPN? Then look at its DNS servers'
      : `is the name written right${variable === undefined ? '' : ` (${variable})`}? Names within a company are known on its network or VPN only: connect to that`,
    details: [`DNS: ${problem}`],
  };
}

function connected(what: string, { host, port }: Place, attempts: readonly Attempt[]): CheckOutcome {
  const good = attempts.filter(({ problem }) => problem === undefined);
  const silent = attempts.filter(({ problem }) => problem === 'ETIMEDOUT');
  const details = attempts.map(tellAttempt);
  const found = `${what} takes connections at ${host}:${port} (${Math.min(...good.map(({ ms }) => ms))} ms)`;
  if (silent.length === 0) return { verdict: 'ok', found, details };
  return {
    verdict: 'warning',
    found: `${found}, and ${silent.length} of ${attempts.length} addresses do not answer: clients that try those first wait`,
    remedy: 'take those addresses out of DNS, or let connections to them through; often it is IPv6 that leads nowhere',
    details,
  };
}

function tellAttempt({ address, problem, ms }: Attempt): string {
  return `${address}: ${problem === undefined ? 'connected' : problem} after ${ms} ms`;
}

function notConnected(
  what: string,
  { host, port }: Place,
  attempts: readonly Attempt[],
  { seconds, url, way }: Inquiry,
): CheckOutcome {
  const codes = new Set(attempts.map(({ problem }) => problem!));
  const code = codes.has('ECONNREFUSED') ? 'ECONNREFUSED' : [...codes][0]!;
  const why = code === 'ETIMEDOUT' ? `no answer within ${seconds} seconds` : formatNetworkError({ code }, seconds);
  const is_refused = code === 'ECONNREFUSED';
  const remedy =
    way.proxy !== undefined
      ? `is the proxy running, and is ${way.variable} right? Where ${url.hostname} is reached without it, add that to NO_PROXY`
      : isLoopbackUrl(url.href)
        ? 'nothing listens there on this machine: start the gateway, or give clients the address of the one of your company'
        : is_refused
          ? 'the machine is there and nothing listens at this port: is the gateway running, and the port right?'
          : 'is the VPN on, and does a firewall let this port through? Ask whoever runs the gateway from where it can be reached';
  return {
    verdict: 'failed',
    found: `${what} takes no connection at ${host}:${port}: ${why}`,
    remedy,
    details: attempts.map(tellAttempt),
  };
}
