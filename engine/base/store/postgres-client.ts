import { Socket } from 'node:net';
import pg from 'pg';
import { StageError } from '../contract/errors.ts';
import { clientConfig, type PostgresSettings } from './postgres-connection.ts';

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
    /** Settings of one client, with timeouts and type parsers. */
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
  ETIMEDOUT: `no answer within ${STATEMENT_TIMEOUT_SECONDS} seconds`,
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  '25006': 'it is read-only',
  '53100': 'no space is left on its disk',
  '57014': `no answer within ${STATEMENT_TIMEOUT_SECONDS} seconds`,
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
  if (/time(d )?-?out/i.test(message ?? '')) return `no answer within ${STATEMENT_TIMEOUT_SECONDS} seconds`;
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
