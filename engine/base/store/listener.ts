import pg from 'pg';
import { createRetryPause } from '../kit/retry-pause.ts';
import type { PostgresConnections } from './postgres-client.ts';

interface Subscription {
  readonly channel: string;
  readonly onMessage: (payload: string) => void;
  readonly onReconnect: () => void;
  /** Whether `listen` has returned; a notification lost after that counts as missed. */
  reliedOn: boolean;
}

const HEARTBEAT_MS = 10_000;

/** Creates a listener; it connects at the first subscription. */
export function createListener(connections: PostgresConnections) {
  const subscriptions: Subscription[] = [];
  const closing = new AbortController();
  const retry = createRetryPause();
  let client: pg.Client | undefined;
  let running: Promise<void> | undefined;

  const subscribe = async (target: pg.Client, subscription: Subscription) => {
    await target.query(`listen ${target.escapeIdentifier(subscription.channel)}`);
    if (subscription.reliedOn) subscription.onReconnect();
  };

  const connect = async () => {
    const next = new pg.Client({ ...connections.settings(), query_timeout: 5000 });
    next.on('error', () => {});
    next.on('notification', ({ channel, payload }) => {
      for (const subscription of subscriptions) {
        if (subscription.channel === channel) subscription.onMessage(payload ?? '');
      }
    });
    try {
      await next.connect();
      // By index: another subscription may arrive meanwhile.
      for (let index = 0; index < subscriptions.length; index++) await subscribe(next, subscriptions[index]!);
      client = next;
    } catch (error) {
      next.end().catch(() => {});
      throw error;
    }
    return next;
  };

  /** Resolves when the connection is lost. A heartbeat detects a silent peer. */
  const lost = (target: pg.Client) =>
    new Promise<void>((resolve) => {
      const heartbeat = setInterval(() => target.query('select 1').catch(finish), HEARTBEAT_MS);
      const finish = () => {
        clearInterval(heartbeat);
        closing.signal.removeEventListener('abort', finish);
        resolve();
      };
      target.once('end', finish);
      closing.signal.addEventListener('abort', finish);
      if (closing.signal.aborted) finish();
    });

  const run = async (attempted: () => void) => {
    while (!retry.over) {
      try {
        const current = await connect();
        retry.reset();
        attempted();
        await lost(current);
      } catch {
        attempted();
      }
      client?.end().catch(() => {});
      client = undefined;
      await retry.wait();
    }
  };

  return {
    /**
     * Subscribes to a channel. Resolves after the first attempt, successful or not. `onReconnect` runs whenever listening starts late
     * or again, because notifications may have been missed.
     */
    async listen(channel: string, onMessage: (payload: string) => void, onReconnect: () => void): Promise<void> {
      const subscription: Subscription = { channel, onMessage, onReconnect, reliedOn: false };
      subscriptions.push(subscription);
      if (running === undefined) {
        await new Promise<void>((resolve) => {
          running = run(resolve);
        });
      } else if (client !== undefined) {
        // On failure the connection is lost, and the next one subscribes to all channels.
        await subscribe(client, subscription).catch(() => {});
      }
      subscription.reliedOn = true;
    },
    async close(): Promise<void> {
      retry.end();
      closing.abort();
      await running;
    },
  };
}

/** LISTEN on one dedicated connection that always reconnects. */
export type Listener = ReturnType<typeof createListener>;
