import { isIP } from 'node:net';
import { basename } from 'node:path';
import type { Machine } from './machine.ts';

/** Who listens on a port of this machine. */
export interface Listener {
  /** `undefined` where the process belongs to somebody else and can't be looked at. */
  readonly pid: number | undefined;
  /** Name of its program; never its arguments, which may hold passwords. */
  readonly program: string | undefined;
}

const LISTENING = '0A';
const PROGRAM_MAX = 60;

/**
 * Who listens where a gateway wants to, by the kernel's list of sockets: nothing is connected to or bound. `undefined` where
 * there is no such list, as outside of Linux.
 */
export function findListeners(machine: Machine, host: string, port: number): readonly Listener[] | undefined {
  const tables = ['/proc/net/tcp', '/proc/net/tcp6'].map((path) => machine.read(path));
  if (tables.every((table) => table === undefined)) return undefined;
  const inodes = tables.flatMap((table) => (table === undefined ? [] : inodesIn(table, host, port)));
  if (inodes.length === 0) return [];
  const found = holdersOf(machine, new Set(inodes));
  return found.length > 0 ? found : [{ pid: undefined, program: undefined }];
}

/** Lines of these tables: number, local address, remote address, state, ..., and the inode as the tenth. */
function inodesIn(table: string, host: string, port: number): string[] {
  return table
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const fields = line.trim().split(/\s+/);
      const [address = '', hex = ''] = (fields[1] ?? '').split(':');
      const is_it = fields[3] === LISTENING && Number.parseInt(hex, 16) === port && overlaps(address, host);
      return is_it && fields[9] !== undefined ? [fields[9]] : [];
    });
}

/** Whether a socket at an address takes what is meant for another; names of hosts are taken to be the same. */
function overlaps(address: string, host: string): boolean {
  if (/^0+$/.test(address) || host === '0.0.0.0' || host === '::' || isIP(host) !== 4) return true;
  const own = host.split('.').map((byte) => Number(byte).toString(16).toUpperCase().padStart(2, '0'));
  // The kernel writes each 32 bits as a number of this machine, nearly always with the lowest byte first.
  return address.length !== 8 || address === own.toReversed().join('') || address === own.join('');
}

function holdersOf(machine: Machine, inodes: ReadonlySet<string>): Listener[] {
  const pids = machine.list('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    const folder = `/proc/${pid}/fd`;
    const holds = machine.list(folder).some((name) => {
      const inode = /^socket:\[(\d+)\]$/.exec(machine.link(`${folder}/${name}`) ?? '')?.[1];
      return inode !== undefined && inodes.has(inode);
    });
    return holds ? [{ pid: Number(pid), program: programNamed(machine, pid) }] : [];
  });
}

/** Only the program's name: arguments of other programs may hold passwords. */
function programNamed(machine: Machine, pid: string): string | undefined {
  const thread = machine.read(`/proc/${pid}/comm`)?.trim();
  // Node.js calls its first thread so, whatever runs in it.
  const name = thread === 'MainThread' ? basename(machine.link(`/proc/${pid}/exe`) ?? 'node') : thread;
  return name?.slice(0, PROGRAM_MAX);
}

/** Whether this user may listen on a port, by what the kernel says; `undefined` where that can't be told. */
export function mayListen(machine: Machine, port: number): boolean | undefined {
  if (machine.platform !== 'linux') return port >= FIRST_FREE_PORT ? true : undefined;
  const first = Number(machine.read('/proc/sys/net/ipv4/ip_unprivileged_port_start') ?? FIRST_FREE_PORT);
  if (port >= first) return true;
  const capabilities = /^CapEff:\s*([0-9a-f]+)$/m.exec(machine.read('/proc/self/status') ?? '')?.[1];
  if (capabilities === undefined) return machine.uid === 0 ? true : undefined;
  return ((BigInt(`0x${capabilities}`) >> BIND_SERVICE) & 1n) === 1n;
}

const FIRST_FREE_PORT = 1024;
/** CAP_NET_BIND_SERVICE of capabilities(7). */
const BIND_SERVICE = 10n;
