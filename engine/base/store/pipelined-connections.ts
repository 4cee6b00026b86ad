import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Log } from '../contract/services.ts';
import { createRetryPause } from '../kit/retry-pause.ts';
import { isOutage, type PostgresConnections, STATEMENT_TIMEOUT_SECONDS } from './postgres-client.ts';

/** A statement that has been sent. */
export interface SentStatement {
  /** Resolves when the operating system has the whole statement, and delivers it even if this process ends; absent: it has. */
  readonly handed: Promise<void> | undefined;
  /** Resolves when the statement is executed. Rejects with errors of pg, and after a timeout. */
  readonly answered: Promise<void>;
}

/** A connection with at most one statement in flight. */
export interface PipelinedConnection {
  /** Sends a named prepared statement. Call it only while the connection is free. */
  send(name: string, text: string, values: readonly unknown[]): SentStatement;
}

/** Turns of the event loop to poll for a complete send, before polling by timer. */
const FEW_TURNS = 20;

/**
 * Session settings: no timeouts, because this process may no longer exist to retry; and generic plans with index scans, because the
 * statements look up rows by key. Settings that a server does not know are skipped.
 */
const SETTINGS = `
select set_config(s.name, s.setting, false)
from (values ('statement_timeout', '0'), ('lock_timeout', '0'), ('idle_session_timeout', '0'),
  ('transaction_timeout', '0'),
  ('client_connection_check_interval', '0'), ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan'),
  ('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off')) as s (name, setting)
where s.name in (select k.name from pg_settings k)`;

/** Untyped parts of a pg client. */
interface OpenClient {
  readonly processID: number | null;
  readonly connection: { readonly stream: { readonly writableLength: number; destroy(): void } };
}

/** Opens the connections in the background. Behind a connection pooler none are used, because it may hold statements back. */
export function openPipelinedConnections(connections: PostgresConnections, count: number, log: Log) {
  let is_logged = false;
  const onPooled = () => {
    if (!is_logged) log.info({}, 'a connection pooler is in front of the database; budget leases are off');
    is_logged = true;
  };
  const lanes = Array.from({ length: count }, () => keepLane(connections, onPooled));
  return {
    /** Number of connections; 0 behind a connection pooler. */
    get count(): number {
      return lanes.filter((lane) => !lane.is_pooled).length;
    },
    /** A connection without a statement in flight; `undefined` if all are busy. */
    free: (): PipelinedConnection | undefined => lanes.find((lane) => lane.is_free)?.lane,
    close(): void {
      for (const lane of lanes) lane.end();
    },
  };
}

/**
 * Pipelined connections, for statements that must be executed even if this process ends right after sending. Each has at most one
 * statement in flight: a backend that cannot deliver its response executes no further statement.
 */
export type PipelinedConnections = ReturnType<typeof openPipelinedConnections>;

function keepLane(connections: PostgresConnections, onPooled: () => void) {
  let client: pg.Client | undefined;
  let is_busy = false;
  let is_pooled = false;
  const retry = createRetryPause();

  const connect = async () => {
    const next = new pg.Client(connections.settings());
    next.on('error', () => {});
    try {
      await next.connect();
      const { rows } = await next.query<{ pid: number }>('select pg_backend_pid() as pid');
      if (rows[0]!.pid !== (next as unknown as OpenClient).processID) {
        // Do not retry: a pooler does not go away.
        is_pooled = true;
        onPooled();
        return next.end();
      }
      // Only on a direct connection: a pooler would pass the settings on to other clients.
      await next.query(SETTINGS);
    } catch (error) {
      next.end().catch(() => {});
      throw error;
    }
    const lost = new Promise((resolve) => next.once('end', resolve));
    client = next;
    is_busy = false;
    retry.reset();
    await lost;
    client = undefined;
  };
  const keep = async () => {
    while (!retry.over && !is_pooled) {
      await connect().catch(() => {});
      await retry.wait();
    }
  };
  void keep();

  const lane: PipelinedConnection = {
    send(name, text, values) {
      const through = client!;
      const { stream } = (through as unknown as OpenClient).connection;
      is_busy = true;
      const answered = new Promise<void>((resolve, reject) => {
        const too_late = setTimeout(() => stream.destroy(), STATEMENT_TIMEOUT_SECONDS * 1000);
        through.query({ name, text, values: values as unknown[] }, (error) => {
          clearTimeout(too_late);
          // The client is ready on the next turn.
          is_busy = false;
          if (error) {
            // As in the pool: its prepared statements may be outdated, or the server may be read-only.
            if (isOutage(error)) stream.destroy();
            reject(error);
          } else resolve();
        });
      });
      return { handed: stream.writableLength === 0 ? undefined : written(stream), answered };
    },
  };
  return {
    lane,
    get is_pooled() {
      return is_pooled;
    },
    get is_free() {
      // `readyForQuery` of pg: it would queue a statement instead of sending it.
      return client !== undefined && !is_busy && (client as unknown as { readyForQuery: boolean }).readyForQuery;
    },
    end() {
      retry.end();
      client?.end().catch(() => {});
    },
  };
}

/** Waits until a stream has written its buffer: a turn or two of the event loop over TLS, longer over a slow network. */
async function written(stream: { readonly writableLength: number; readonly destroyed?: boolean }): Promise<void> {
  for (let turn = 0; stream.writableLength > 0; turn++) {
    if (stream.destroyed === true) throw new Error('the connection was lost before a statement was sent');
    if (turn < FEW_TURNS) await new Promise((resolve) => setImmediate(resolve));
    else await delay(1, undefined, { ref: false });
  }
  if (stream.destroyed === true) throw new Error('the connection was lost before a statement was sent');
}
