import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../contract/services.ts';
import { openTlsTunnel, ProxyUnreachable, placeOf, type TunnelTls } from '../../kit/net/tunnel.ts';

/** For so long after a connection could not be made in time the next ones get less. */
const SUSPICION_MS = 30_000;

/** The longest that a new connection may take meanwhile. */
export const PROBE_MS = 1000;

export interface Reachability {
  /**
   * Ends a connection that is not ready in time, TLS included. After one that was not, a single request at a time probes the
   * upstream, for a second at most; the others are refused at once, until a connection is ready.
   * @param onReady called when a request can be sent.
   * @returns why this connection is not even tried.
   */
  watch(socket: Socket, onReady: () => void): Error | undefined;
  /**
   * The same for a connection that is not one socket yet, as through a proxy.
   * @param end called when it is not ready in time.
   * @returns who is told when it is ready, or over; or why it is not even tried.
   */
  begin(end: (error: Error) => void): Trial | Error;
}

/** A connection that is being made. */
export interface Trial {
  ready(): void;
  over(): void;
}

/** Creates what is known of the connections to one upstream: at first nothing. */
export function createReachability(options: { readonly connect_seconds: number; readonly clock: Clock }): Reachability {
  const { connect_seconds, clock } = options;
  const connect_ms = connect_seconds * 1000;
  let suspected_until = -Infinity;
  let probing = false;
  const begin: Reachability['begin'] = (end) => {
    const is_probe = clock.monotonic() < suspected_until;
    if (is_probe && probing) return notInTime();
    if (is_probe) probing = true;
    const timer = clock.after(is_probe ? Math.min(connect_ms, PROBE_MS) : connect_ms, () => {
      suspected_until = clock.monotonic() + SUSPICION_MS;
      end(notInTime());
    });
    timer.unref();
    const over = () => {
      timer.close();
      if (is_probe) probing = false;
    };
    return {
      over,
      ready() {
        over();
        suspected_until = -Infinity;
      },
    };
  };
  return {
    begin,
    watch(socket, onReady) {
      const trial = begin((error) => socket.destroy(error));
      if (trial instanceof Error) return trial;
      const ready = 'encrypted' in socket ? 'secureConnect' : 'connect';
      const onClose = () => {
        trial.over();
        socket.off(ready, onConnected);
      };
      const onConnected = () => {
        trial.ready();
        socket.off('close', onClose);
        onReady();
      };
      socket.once(ready, onConnected).once('close', onClose);
      return undefined;
    },
  };
}

/** Opens a TLS connection through a proxy, in the time that connections may take. Rejects as `openTlsTunnel` does. */
export async function openWatchedTunnel(
  way: { readonly url: URL; readonly proxy: URL; readonly reachability: Reachability },
  options: TunnelTls = {},
  opening = new AbortController(),
): Promise<TLSSocket> {
  const { url, proxy, reachability } = way;
  const trial = reachability.begin((error) => opening.abort(new ProxyUnreachable(proxy, error)));
  if (trial instanceof Error) throw trial;
  try {
    const socket = await openTlsTunnel(placeOf(url), proxy, { ...options, signal: opening.signal });
    trial.ready();
    return socket;
  } catch (error) {
    trial.over();
    throw error;
  }
}

function notInTime(): Error {
  return Object.assign(new Error('no connection in time'), { code: 'ECONNECT_TIMEOUT' });
}
