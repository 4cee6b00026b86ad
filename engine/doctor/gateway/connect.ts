import { lookup } from 'node:dns/promises';
import { connect, isIP, type Socket } from 'node:net';
import { openTunnel, type Place } from '../../kit/net/tunnel.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';

/** One try to connect: how long it took, or the code of the error. */
export interface Attempt {
  readonly address: string;
  readonly problem: string | undefined;
  readonly ms: number;
}

const ADDRESSES_MAX = 6;

/** The addresses of a name, or the code of the error. */
export async function addressesOf(
  host: string,
  seconds: number,
): Promise<readonly string[] | { readonly problem: string }> {
  if (isIP(host) !== 0) return [host];
  const asked = lookup(host, { all: true, order: 'verbatim' }).then(
    (found) => found.slice(0, ADDRESSES_MAX).map(({ address }) => address),
    (error: NodeJS.ErrnoException) => ({ problem: error.code ?? 'EAI_FAIL' }),
  );
  let answer: Awaited<typeof asked> = { problem: 'ETIMEDOUT' };
  await waitAtMost(
    seconds * 1000,
    asked.then((found) => (answer = found)),
  );
  return answer;
}

/** Tries to connect to every address of a place, at the same time. */
export function tryAddresses(addresses: readonly string[], port: number, seconds: number): Promise<Attempt[]> {
  return Promise.all(addresses.map((address) => tryAddress(address, port, seconds)));
}

function tryAddress(address: string, port: number, seconds: number): Promise<Attempt> {
  const started = performance.now();
  const socket = connect({ host: address, port });
  return new Promise((resolve) => {
    const end = (problem: string | undefined) => {
      clearTimeout(timer);
      socket.destroy();
      resolve({ address, problem, ms: Math.round(performance.now() - started) });
    };
    const timer = setTimeout(() => end('ETIMEDOUT'), seconds * 1000);
    socket.on('connect', () => end(undefined)).on('error', ({ code }: NodeJS.ErrnoException) => end(code ?? 'EFAIL'));
  });
}

/** Opens a connection to a place, through a proxy where one is named. Rejects with the error of the network, or NoTunnel. */
export function openSocket(place: Place, proxy: URL | undefined, seconds: number): Promise<Socket> {
  return proxy === undefined
    ? openDirect(place, seconds)
    : openTunnel(place, proxy, AbortSignal.timeout(seconds * 1000));
}

function openDirect({ host, port }: Place, seconds: number): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    const timer = setTimeout(() => fail(Object.assign(new Error('timeout'), { code: 'ETIMEDOUT' })), seconds * 1000);
    const fail = (error: Error) => {
      clearTimeout(timer);
      socket.destroy();
      reject(error);
    };
    socket.once('error', fail).once('connect', () => {
      clearTimeout(timer);
      socket.off('error', fail);
      resolve(socket);
    });
  });
}
