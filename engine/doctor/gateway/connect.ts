import { connect, type Socket } from 'node:net';
import type { CheckOutcome } from '../../contract/checks.ts';
import { isLoopbackUrl } from '../../kit/net/addresses.ts';
import { formatNetworkError } from '../../kit/net/format-network-error.ts';
import { openTunnel, type Place, placeOf } from '../../kit/net/tunnel.ts';
import { noAnswer } from '../../selfcheck/ask.ts';
import type { Inquiry } from './inquiry.ts';

/** Whether a machine is found by its name and takes connections: the gateway's, or that of the proxy in front of this desk. */
export async function reachGateway({ way, url, root_url, seconds }: Inquiry): Promise<CheckOutcome> {
  const place = placeOf(way.proxy ?? url);
  const what = way.proxy === undefined ? 'the gateway' : `the proxy that ${way.variable} names`;
  const where = `${place.host}:${place.port}`;
  try {
    (await openSocket(place, undefined, seconds)).destroy();
    return { verdict: 'ok', found: `${what} takes connections at ${where}` };
  } catch (error) {
    const remedy =
      way.proxy !== undefined
        ? `is the proxy running, and is ${way.variable} right? Where ${url.hostname} is reached without it, add that to NO_PROXY`
        : isLoopbackUrl(url.href)
          ? 'nothing listens there on this machine: start the gateway, or give clients the address of the one of your company'
          : `${noAnswer(error, root_url, seconds).remedy}; is the VPN on?`;
    const why = formatNetworkError(error, seconds);
    return { verdict: 'failed', found: `${what} takes no connection at ${where}: ${why}`, remedy };
  }
}

/** Opens a connection to a place, through a proxy where one is named. Rejects with the error of the network, or NoTunnel. */
export function openSocket(place: Place, proxy: URL | undefined, seconds: number): Promise<Socket> {
  if (proxy !== undefined) return openTunnel(place, proxy, AbortSignal.timeout(seconds * 1000));
  return new Promise((resolve, reject) => {
    const socket = connect(place);
    const late = new DOMException('no connection in time', 'TimeoutError');
    const timer = setTimeout(() => socket.destroy(late), seconds * 1000);
    socket.once('error', reject).once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
    socket.once('close', () => clearTimeout(timer)).once('connect', () => clearTimeout(timer));
  });
}
