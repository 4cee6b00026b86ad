import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import type { Log } from '../contract/services.ts';
import { createRetryPause } from '../kit/retry-pause.ts';
import { isTrouble, PATIENCE_SECONDS, type PostgresConnections } from './postgres-client.ts';

/** A statement on its way. */
export interface SentStatement {
  /** Resolves when all of it is with the operating system, which delivers it whatever becomes of this process; absent: it is. */
  readonly handed: Promise<void> | undefined;
  /** Rejects with pg's own errors, and where no answer comes. */
  readonly answered: Promise<void>;
}

/** A connection with at most one unanswered statement. */
export interface Lane {
  /** Sends a named prepared statement; only to be called while the lane is free. */
  send(name: string, text: string, values: readonly unknown[]): SentStatement;
}

/** Where it takes more turns of the event loop until all is sent, they are not spent on looking. */
const FEW_TURNS = 20;

/**
 * Nothing ends these statements but themselves: nobody may be there to send them again. Each is planned once: they look rows up by
 * key. Settings that a server does not know are left out.
 */
const SETTINGS = `
select set_config(s.name, s.setting, false)
from (values ('statement_timeout', '0'), ('lock_timeout', '0'), ('idle_session_timeout', '0'),
  ('transaction_timeout', '0'),
  ('client_connection_check_interval', '0'), ('jit', 'off'), ('plan_cache_mode', 'force_generic_plan'),
  ('enable_seqscan', 'off'), ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off')) as s (name, setting)
where s.name in (select k.name from pg_settings k)`;

/** The parts of a client that pg has no types for. */
interface OpenClient {
  readonly processID: number | null;
  readonly connection: { readonly stream: { readonly writableLength: number; destroy(): void } };
}

/** Opens lanes, in the background. Behind a connection pooler there are none, since it may keep what was sent to itself. */
export function openLanes(connections: PostgresConnections, count: number, log: Log) {
  let is_told = false;
  const onPooled = () => {
    if (!is_told)
      log.info({}, 'a connection pooler is in front of the database; reservations are not placed in leases');
    is_told = true;
  };
  const lanes = Array.from({ length: count }, () => keepLane(connections, onPooled));
  return {
    /** How many there are at most; none behind a connection pooler. */
    get count(): number {
      return lanes.filter((lane) => !lane.is_pooled).length;
    },
    /** A lane on which nothing is unanswered; `undefined` where there is none now. */
    free: (): Lane | undefined => lanes.find((lane) => lane.is_free)?.lane,
    close(): void {
      for (const lane of lanes) lane.end();
    },
  };
}

/**
 * Connections for statements that must be executed even if this process ends as soon as they are sent. Each has at most one
 * unanswered statement: a backend that cannot give its answer to anybody executes nothing that comes after it.
 */
export type Lanes = ReturnType<typeof openLanes>;

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
        // Never again: what is between does not go away.
        is_pooled = true;
        onPooled();
        return next.end();
      }
      // Not before it is known whose connection it is: a pooler gives it to others, with its settings.
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

  const lane: Lane = {
    send(name, text, values) {
      const through = client!;
      const { stream } = (through as unknown as OpenClient).connection;
      is_busy = true;
      const answered = new Promise<void>((resolve, reject) => {
        const too_late = setTimeout(() => stream.destroy(), PATIENCE_SECONDS * 1000);
        through.query({ name, text, values: values as unknown[] }, (error) => {
          clearTimeout(too_late);
          // On the next turn the client is ready for another one.
          is_busy = false;
          if (error) {
            // As in the pool: what it remembers of the database may be outdated, or the server read-only by now.
            if (isTrouble(error)) stream.destroy();
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
      // pg says so itself: a statement in its queue would be one that was not sent.
      return client !== undefined && !is_busy && (client as unknown as { readyForQuery: boolean }).readyForQuery;
    },
    end() {
      retry.end();
      client?.end().catch(() => {});
    },
  };
}

/** Over TLS it takes a turn of the event loop or two; over a slow network longer. */
async function written(stream: { readonly writableLength: number; readonly destroyed?: boolean }): Promise<void> {
  for (let turn = 0; stream.writableLength > 0; turn++) {
    if (stream.destroyed === true) throw new Error('the connection was lost before a statement was sent');
    if (turn < FEW_TURNS) await new Promise((resolve) => setImmediate(resolve));
    else await delay(1, undefined, { ref: false });
  }
  if (stream.destroyed === true) throw new Error('the connection was lost before a statement was sent');
}
