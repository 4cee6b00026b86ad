import { AsyncLocalStorage } from 'node:async_hooks';
import { type AddressInfo, isIP, Socket } from 'node:net';

/** Who runs now, as far as connections are concerned. */
interface Confined {
  /** Ports of the loopback address that may be reached. */
  readonly ports: ReadonlySet<number>;
  onRefused(destination: string, stage: string | undefined): void;
  readonly stage: string | undefined;
}

const confined = new AsyncLocalStorage<Confined>();
let installed = false;

type Connect = (this: Socket, ...given: readonly unknown[]) => Socket;

/** Host and port that a socket is told to connect to, in any of the ways Node takes them; `undefined` for a local path. */
function destinationOf(given: readonly unknown[]): { host: string; port: number } | undefined {
  // Node's own callers hand over the normalised arguments as one array.
  const [first, second] = Array.isArray(given[0]) ? given[0] : given;
  if (typeof first === 'object' && first !== null) {
    const { host, port, path } = first as { host?: string; port?: number | string; path?: string };
    return path !== undefined && port === undefined
      ? undefined
      : { host: host ?? 'localhost', port: Number(port ?? 0) };
  }
  if (Number.isNaN(Number(first))) return undefined;
  return { host: typeof second === 'string' ? second : 'localhost', port: Number(first) };
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

function install(): void {
  if (installed) return;
  installed = true;
  const connect = Socket.prototype.connect as Connect;
  Socket.prototype.connect = function (this: Socket, ...given: readonly unknown[]) {
    const current = confined.getStore();
    const to = current && destinationOf(given);
    if (current === undefined || to === undefined || (isLoopback(to.host) && current.ports.has(to.port))) {
      return connect.apply(this, given as never);
    }
    const shown = `${to.host}:${to.port}`;
    current.onRefused(shown, current.stage);
    const error = Object.assign(new Error(`connect ECONNREFUSED ${shown}: tests have no network`), {
      code: 'ECONNREFUSED',
    });
    process.nextTick(() => this.destroy(error));
    return this;
  } as typeof Socket.prototype.connect;
}

/** Keeps what runs below from opening connections, except to a few ports of the loopback address. */
export interface Confinement {
  /** Allows connections to a server that the test itself runs. */
  allow(address: AddressInfo | URL): void;
  /** Runs a task, and whatever it starts, in the name of a stage. */
  run<T>(stage: string, task: () => T): T;
}

/** Creates a confinement. `onRefused` is told of every connection that was refused; the caller of it gets ECONNREFUSED. */
export function createConfinement(onRefused: Confined['onRefused']): Confinement {
  install();
  const ports = new Set<number>();
  return {
    allow: ({ port }) => void ports.add(Number(port)),
    run: (stage, task) => confined.run({ ports, onRefused, stage }, task),
  };
}
