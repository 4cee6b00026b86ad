import type { EventEmitter } from 'node:events';
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { StageError } from '../contract/errors.ts';
import type { Log } from '../contract/services.ts';
import { createRetryPause } from '../kit/retry-pause.ts';

/** Longest wait for a connection, and for one statement on the hot path, in seconds. */
export const STATEMENT_TIMEOUT_SECONDS = 5;

/** Address of a database. `settings` is called for every new connection, because an embedded server may change its port. */
export interface PostgresAddress {
  settings(): PostgresSettings;
  /** `host:port/database`, for people. */
  label(): string;
}

const INT8 = 20;
const INT8_ARRAY = 1016;
const DATE = 1082;

/** Parses a PostgreSQL bigint. Raises RangeError beyond 2^53, where a number would silently lose precision. */
export function parseInt8(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`bigint ${text} does not fit a JS number`);
  return value;
}

const parseInt8Array = (text: string): (number | null)[] =>
  (pg.types.getTypeParser(INT8_ARRAY as number)(text) as (string | null)[]).map((item) =>
    item === null ? null : parseInt8(item),
  );

/** int8 as a safe number, `date` as text (pg would make it local midnight), other types as pg does. */
const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (format !== 'binary') {
      if (oid === INT8) return parseInt8;
      if (oid === INT8_ARRAY) return parseInt8Array;
      if (oid === DATE) return (text: string) => text;
    }
    return pg.types.getTypeParser(oid, format as 'text');
  },
} as pg.CustomTypesConfig;

/** Creates connections to one database, with shared settings. */
export function createConnections(address: PostgresAddress) {
  const sockets = new Set<Socket>();
  const stream = () => {
    const socket = new Socket();
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    return socket;
  };
  const settings = () =>
    clientConfig({
      application_name: 'appscli',
      ...address.settings(),
      connectionTimeoutMillis: STATEMENT_TIMEOUT_SECONDS * 1000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      stream,
      types,
    });
  return {
    settings,
    /** A pool with a statement timeout; 0 means none. */
    createPool(max: number, statement_seconds: number): pg.Pool {
      const statement_ms = statement_seconds * 1000;
      class MovingClient extends pg.Client {
        constructor() {
          super({ ...settings(), ...(statement_ms === 0 ? {} : { query_timeout: statement_ms }) });
          // The pool handles errors of idle connections only. An unhandled error would end the process; the next statement on
          // the connection reports it.
          this.on('error', () => {});
        }
      }
      const pool = new pg.Pool({
        max,
        Client: MovingClient,
        connectionTimeoutMillis: STATEMENT_TIMEOUT_SECONDS * 1000,
        idleTimeoutMillis: 60_000,
        // Without a timeout, an abandoned statement could still commit later. JIT compilation takes a second for a batch that runs
        // in a millisecond. These are no start-up parameters, because connection poolers reject those.
        onConnect: async (client) => {
          await client.query(`set statement_timeout = ${statement_ms}; set jit = off`);
        },
      });
      // The pool replaces a broken idle connection; an unhandled error would end the process.
      pool.on('error', () => {});
      return pool;
    },
    /** Closes every socket at once, so that an unresponsive server cannot delay a shutdown. */
    cut(): void {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Connections of one process; `cut` closes them at shutdown. */
export type PostgresConnections = ReturnType<typeof createConnections>;

/**
 * SQLSTATEs of an unavailable database, as opposed to a wrong statement. 26000 and 0A000: a prepared statement that a pooler lost or a
 * migration outdated; a new connection prepares it again.
 */
const UNAVAILABLE = /^(08|53|57P|58|28|3D000|57014|25006|26000|0A000)/;
/** Undefined table, function, column or type; no usable schema. */
const UNDEFINED = /^(42P01|42883|42703|42704|3F000)$/;
/** A lost or outdated prepared statement; a plan that refers to a dropped object. */
const OUTDATED = /^(26000|0A000)$/;
const GONE = /cache lookup failed|could not open relation/;
const CHECK_VIOLATION = '23514';
const WRITE_TROUBLE = /^(25006|53100|58030)$/;

/** Whether an error means that the database is unavailable, as opposed to a rejected statement. */
export function isOutage(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return UNAVAILABLE.test(error.code ?? '') || isOutdated(error);
  return error instanceof Error && !(error instanceof TypeError || error instanceof RangeError);
}

/** Whether a statement named a missing table or function: the schema is not the one of this program. */
export function isSchemaMissing(error: unknown): boolean {
  return error instanceof pg.DatabaseError && UNDEFINED.test(error.code ?? '');
}

/** Whether a statement failed without effect because its connection has outdated metadata; another connection may run it. */
export function isOutdated(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return false;
  return OUTDATED.test(error.code ?? '') || (error.code === 'XX000' && GONE.test(error.message));
}

/**
 * Whether a row was rejected because its partition was created while it waited for the default partition. Nothing was written; a
 * retry succeeds. Own check constraints have names.
 */
export function isPartitionNew(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === CHECK_VIOLATION && error.constraint === undefined;
}

/** Whether an error means that the database cannot be written: it is read-only, or its disk is full. */
export function isWriteOutage(error: unknown): boolean {
  return error instanceof pg.DatabaseError && WRITE_TROUBLE.test(error.code ?? '');
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection lost',
  EPIPE: 'connection lost',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not found',
  ETIMEDOUT: `no response within ${STATEMENT_TIMEOUT_SECONDS} seconds`,
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  '25006': 'it is read-only',
  '53100': 'no space is left on its disk',
  '57014': `no response within ${STATEMENT_TIMEOUT_SECONDS} seconds`,
  '57P01': 'the server is shutting down',
  '57P03': 'the server is starting up or shutting down',
  '53300': 'too many connections',
  '3D000': 'the database does not exist',
  '28P01': 'the login was rejected',
  '28000': 'the login was rejected',
};

/** Why the database is unavailable, in a few words without credentials, host names or SQL. */
export function describeOutage(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string };
  if (code !== undefined && REASONS[code] !== undefined) return REASONS[code];
  if (/does not support SSL/i.test(message ?? ''))
    return 'it does not support encryption, which sslmode in its URL requires';
  if (/CERT|SELF_SIGNED|UNABLE_TO_/.test(code ?? '')) return `its certificate is not accepted: ${code}`;
  if (/time(d )?-?out/i.test(message ?? '')) return `no response within ${STATEMENT_TIMEOUT_SECONDS} seconds`;
  if (/terminated|ended|closed|not queryable/i.test(message ?? '')) return 'connection lost';
  return code === undefined ? 'connection failed' : `error ${code}`;
}

/** The error of a request while the database is unavailable. */
export function storeUnavailable(reason: string, cause?: unknown): StageError {
  return new StageError('store_unavailable', `The gateway cannot use its database: ${reason}. Try again shortly.`, {
    cause,
  });
}

/** Runs one named prepared statement. The connection is closed if the database is unavailable, not if it rejects the statement. */
export function runStatement<Row>(
  pool: pg.Pool,
  name: string,
  text: string,
  values: readonly unknown[],
): Promise<Row[]> {
  return new Promise((resolve, reject) => {
    pool.connect((error, client, release) => {
      if (error || client === undefined) return reject(error);
      let lost: Error | undefined;
      let is_over = false;
      const onLost = (reason: Error) => {
        lost = reason;
      };
      client.once('error', onLost);
      client.query({ name, text, values: values as unknown[] }, (failure, result) => {
        // pg reports a value that it cannot send at once, and again as success when the connection is ready.
        if (is_over) return;
        is_over = true;
        client.removeListener('error', onLost);
        release(lost ?? (failure && isOutage(failure) ? failure : undefined));
        if (failure) reject(failure);
        else resolve(result.rows as Row[]);
      });
    });
  });
}

/** Settings of a connection: those of pg, and extensions. */
export interface PostgresSettings extends pg.ClientConfig {
  /** With `ssl`: falls back to no encryption if the server does not support it, as libpq does for `sslmode=prefer`. */
  readonly plain_allowed?: boolean;
  /** The server must prove that it has the key of its certificate and knows the password (RFC 5929 section 4). */
  readonly channel_binding?: 'require';
}

interface Wire extends EventEmitter {
  readonly stream: Duplex;
  connect(port: number | string, host?: string): void;
  attachListeners(stream: Duplex): void;
  password(text: string): void;
  sendSASLInitialResponseMessage(mechanism: string, response: string): void;
}

const PgConnection = pg.Connection as unknown as new (config: object) => Wire;

/** Response of a server without TLS to an SSLRequest (PostgreSQL documentation, section 54.2.10). */
const NO_TLS = 'N';
const CHANNEL_BOUND = 'SCRAM-SHA-256-PLUS';

class NegotiatedConnection extends PgConnection {
  readonly #plain_allowed: boolean;
  readonly #must_bind: boolean;
  #is_bound = false;

  constructor({ plain_allowed, channel_binding, ...config }: PostgresSettings) {
    super({ ...config, sslNegotiation: config.sslnegotiation });
    this.#plain_allowed = plain_allowed === true;
    this.#must_bind = channel_binding === 'require';
    this.on('authenticationOk', () => {
      if (this.#must_bind && !this.#is_bound) this.#refuse();
    });
  }

  override connect(port: number | string, host?: string): void {
    super.connect(port, host);
    if (!this.#plain_allowed) return;
    const [negotiate] = this.stream.listeners('data') as ((answer: Buffer) => void)[];
    this.stream.removeAllListeners('data').once('data', (answer: Buffer) => {
      if (answer.toString('latin1') !== NO_TLS) return negotiate!(answer);
      this.attachListeners(this.stream);
      this.emit('sslconnect');
    });
  }

  override password(text: string): void {
    if (this.#must_bind) this.#refuse();
    else super.password(text);
  }

  override sendSASLInitialResponseMessage(mechanism: string, response: string): void {
    this.#is_bound = mechanism === CHANNEL_BOUND;
    if (this.#must_bind && !this.#is_bound) this.#refuse();
    else super.sendSASLInitialResponseMessage(mechanism, response);
  }

  #refuse(): void {
    this.emit('error', new Error('the server does not bind the login to its certificate (channel_binding=require)'));
    this.stream.destroy();
  }
}

/** The settings for one pg client, with an own connection class where pg lacks a feature. */
export function clientConfig(settings: PostgresSettings): pg.ClientConfig {
  const { plain_allowed, channel_binding, ...config } = settings;
  if (!config.ssl || (plain_allowed !== true && channel_binding === undefined)) return config;
  const connection = new NegotiatedConnection(settings);
  return { ...config, enableChannelBinding: channel_binding !== undefined, connection } as pg.ClientConfig;
}

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

interface OpenClient {
  readonly processID: number | null;
  readonly connection: { readonly stream: { readonly writableLength: number; destroy(): void } };
}

/** Opens the connections in the background. Behind a connection pooler none are used, because it may delay statements. */
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
