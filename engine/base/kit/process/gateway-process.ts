import { readFileSync, readlinkSync } from 'node:fs';
import { hostname, networkInterfaces } from 'node:os';
import { identify } from './process-identity.ts';

/** Name of this replica, for people and in the database: host and process id. */
export const REPLICA = `${hostname()} ${process.pid}`;

/** Identity of a gateway process; another process on the same machine can check whether it still runs. */
export interface GatewayProcess {
  /** Scope of the process id: host, boot and process namespace. */
  readonly machine: string;
  readonly identity: string;
}

export function ownProcess(): GatewayProcess {
  return { machine: ownMachine(), identity: identify(process.pid) ?? String(process.pid) };
}

/** Replicas may share a host name, and containers a kernel, so a process id alone is ambiguous. */
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
