import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A question from the bench to one of its processes. */
export interface Ask {
  readonly ask: string;
  readonly argument?: unknown;
}

/** The response to the one outstanding query. */
export interface Reply {
  readonly value?: unknown;
  readonly error?: string;
}

/**
 * Makes this process a child of the bench: sends `ready`, serves queries one at a time, and ends with its parent.
 * Ctrl-C reaches every process of the group, so it is the parent alone that acts on it.
 */
export function serveParent(
  ready: unknown,
  responses: Record<string, (argument: unknown) => Promise<unknown> | unknown>,
  stop: () => Promise<void>,
): void {
  const end = () => stop().finally(() => process.exit(0));
  process.on('SIGINT', () => {});
  process.on('SIGTERM', end);
  process.on('disconnect', end);
  process.on('message', async (message: Ask) => {
    if (message.ask === 'stop') return end();
    try {
      const value = await responses[message.ask]?.(message.argument);
      process.send?.({ value } satisfies Reply);
    } catch (error) {
      process.send?.({ error: String(error) } satisfies Reply);
    }
  });
  // The parent may have ended while this process was still starting.
  if (process.connected) process.send?.({ value: ready } satisfies Reply);
  else void end();
}

/** Makes this process a server of the bench: tells the parent its URL, and ends with it. */
export function serveHttp(server: Server): void {
  server.keepAliveTimeout = 600_000;
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as AddressInfo;
    serveParent({ url: `http://127.0.0.1:${port}` }, {}, async () => {
      server.close();
      server.closeAllConnections();
    });
  });
}
