import { Socket } from 'node:net';
import pg from 'pg';
import { StageError } from '../contract/errors.ts';
import { clientConfig, type PostgresSettings } from './postgres-connection.ts';

/** Longest wait for a connection, and for one statement on the hot path, in seconds. */
export const PATIENCE_SECONDS = 5;

/** Where a database is. `settings` is asked for every new connection, since an embedded server may change its port. */
export interface PostgresAddress {
  settings(): PostgresSettings;
  /** `host:port/database`, for people. */
  label(): string;
}

const INT8 = 20;
const INT8_ARRAY = 1016;
const DATE = 1082;

/** Parses a PostgreSQL bigint. Raises RangeError beyond 2^53, where a JS number would silently lose money. */
export function parseInt8(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`bigint ${text} does not fit a JS number`);
  return value;
}

const parseInt8Array = (text: string): (number | null)[] =>
  (pg.types.getTypeParser(INT8_ARRAY as number)(text) as (string | null)[]).map((item) =>
    item === null ? null : parseInt8(item),
  );

/** int8 as a safe number, `date` as its own text (pg would make it local midnight), the rest as pg does. */
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

/** Prepares connections to one database. */
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
      connectionTimeoutMillis: PATIENCE_SECONDS * 1000,
      keepAlive: true,
      keepAliveInitialDelayMillis: 10_000,
      stream,
      types,
    });
  return {
    /** Connection settings with the project's timeouts and types, for one client. */
    settings,
    /** A pool whose statements are cancelled after `statement_seconds`; 0 means never. */
    createPool(max: number, statement_seconds: number): pg.Pool {
      const statement_ms = statement_seconds * 1000;
      class MovingClient extends pg.Client {
        constructor() {
          super({ ...settings(), ...(statement_ms === 0 ? {} : { query_timeout: statement_ms }) });
          // The pool listens while a connection is idle, nobody while it is with knex or between two statements: an error
          // that nobody hears would end the process. Whoever uses the connection learns of it from the statement.
          this.on('error', () => {});
        }
      }
      const pool = new pg.Pool({
        max,
        Client: MovingClient,
        connectionTimeoutMillis: PATIENCE_SECONDS * 1000,
        idleTimeoutMillis: 60_000,
        // Without the time limit a statement that its caller has given up could still commit later. Most servers compile
        // what they think to be expensive, which takes a second for a batch that runs in a millisecond. Not start-up parameters:
        // connection poolers in front of PostgreSQL refuse those.
        onConnect: async (client) => {
          await client.query(`set statement_timeout = ${statement_ms}; set jit = off`);
        },
      });
      // An idle connection that breaks is simply replaced; without a listener it would end the process.
      pool.on('error', () => {});
      return pool;
    },
    /** Closes every socket at once; a server that does not answer can't hold up a shutdown. */
    cut(): void {
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Connections of one process; whatever is still open can be cut at shutdown. */
export type PostgresConnections = ReturnType<typeof createConnections>;

/**
 * SQLSTATEs that say the database is not there, rather than that the statement was wrong. 26000 and 0A000 are a
 * prepared statement that a pooler lost or a migration outdated; a new connection prepares it again.
 */
const UNAVAILABLE = /^(08|53|57P|58|28|3D000|57014|25006|26000|0A000)/;
/** Undefined table, function, column, type; no schema to look in. */
const UNDEFINED = /^(42P01|42883|42703|42704|3F000)$/;
/** A prepared statement that is gone or outdated, and what a plan refers to that is gone. */
const OUTDATED = /^(26000|0A000)$/;
const GONE = /cache lookup failed|could not open relation/;
const CHECK_VIOLATION = '23514';
const WRITE_TROUBLE = /^(25006|53100|58030)$/;

/** Whether an error means that the database could not be used, as opposed to a statement it refused. */
export function isTrouble(error: unknown): boolean {
  if (error instanceof pg.DatabaseError) return UNAVAILABLE.test(error.code ?? '') || isOutdated(error);
  return error instanceof Error && !(error instanceof TypeError || error instanceof RangeError);
}

/** Whether a statement named a table or function that is not there, i.e. the schema is not the one this program made. */
export function isSchemaMissing(error: unknown): boolean {
  return error instanceof pg.DatabaseError && UNDEFINED.test(error.code ?? '');
}

/**
 * Whether a statement failed, without any effect, for what its connection remembered of a database that was replaced
 * meanwhile: another connection may run it.
 */
export function isOutdated(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return false;
  return OUTDATED.test(error.code ?? '') || (error.code === 'XX000' && GONE.test(error.message));
}

/**
 * Whether a row was refused, and nothing was written, because the partition it belongs in was made while it waited for the default
 * one: the next attempt finds it. A check of ours has a name.
 */
export function isPartitionNew(error: unknown): boolean {
  return error instanceof pg.DatabaseError && error.code === CHECK_VIOLATION && error.constraint === undefined;
}

/** Whether an error means that the database can be read at most: it is read-only, or its disk is full. */
export function isWriteTrouble(error: unknown): boolean {
  return error instanceof pg.DatabaseError && WRITE_TROUBLE.test(error.code ?? '');
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection lost',
  EPIPE: 'connection lost',
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not found',
  ETIMEDOUT: `no answer within ${PATIENCE_SECONDS} seconds`,
  EHOSTUNREACH: 'host unreachable',
  ENETUNREACH: 'network unreachable',
  '25006': 'it is read-only',
  '53100': 'no space is left on its disk',
  '57014': `no answer within ${PATIENCE_SECONDS} seconds`,
  '57P01': 'the server is shutting down',
  '57P03': 'the server is starting up or shutting down',
  '53300': 'too many connections',
  '3D000': 'the database does not exist',
  '28P01': 'the login was refused',
  '28000': 'the login was refused',
};

/** Says in a few words why the database could not be used; never holds credentials, host names or SQL. */
export function describeTrouble(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string };
  if (code !== undefined && REASONS[code] !== undefined) return REASONS[code];
  if (/does not support SSL/i.test(message ?? '')) return 'it offers no encryption, which sslmode in its URL demands';
  if (/CERT|SELF_SIGNED|UNABLE_TO_/.test(code ?? '')) return `its certificate is not accepted: ${code}`;
  if (/time(d )?-?out/i.test(message ?? '')) return `no answer within ${PATIENCE_SECONDS} seconds`;
  if (/terminated|ended|closed|not queryable/i.test(message ?? '')) return 'connection lost';
  return code === undefined ? 'connection failed' : `error ${code}`;
}

/** The error a request is answered with when the database can't be used. */
export function storeUnavailable(reason: string, cause?: unknown): StageError {
  return new StageError('store_unavailable', `The gateway cannot use its database: ${reason}. Try again shortly.`, {
    cause,
  });
}

/** Runs one named prepared statement. A refused statement keeps its connection; any trouble drops it. */
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
        // A value that cannot be sent is reported at once, and again as success when the connection is ready.
        if (is_over) return;
        is_over = true;
        client.removeListener('error', onLost);
        release(lost ?? (failure && isTrouble(failure) ? failure : undefined));
        if (failure) reject(failure);
        else resolve(result.rows as Row[]);
      });
    });
  });
}
