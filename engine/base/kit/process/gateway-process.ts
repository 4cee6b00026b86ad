import { readFileSync, readlinkSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { identify } from './process-identity.ts';

/** A gateway process such that another one on the same machine can tell whether it still runs. */
export interface GatewayProcess {
  /** Where its process id means something: a host, its boot, and the namespace of process ids. */
  readonly machine: string;
  readonly identity: string;
}

export function ownProcess(): GatewayProcess {
  return { machine: ownMachine(), identity: identify(process.pid) ?? String(process.pid) };
}

/** Replicas may share a host name, and containers a kernel: the same process id then means different processes. */
function ownMachine(): string {
  if (process.platform !== 'linux') return `${hostname()} ${hardwareAddresses()}`;
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${hostname()} ${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return `${hostname()} ${crypto.randomUUID()}`;
  }
}

function hardwareAddresses(): string {
  const all = Object.values(networkInterfaces()).flatMap((addresses) => addresses?.map(({ mac }) => mac) ?? []);
  return [...new Set(all)].sort().join(' ');
}
