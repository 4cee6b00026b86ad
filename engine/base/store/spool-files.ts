import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import * as file_system from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { crc32 } from 'node:zlib';
import type { ChargedAttempt, Clock, CounterName, LedgerIdentity, Log, Settlement } from '../contract/services.ts';
import { createGroupCommit, type GroupCommit } from '../kit/group-commit.ts';
import { type GatewayProcess, ownProcess } from '../kit/process/gateway-process.ts';
import { isRunning } from '../kit/process/process-identity.ts';

/** Id of a spool file, and of its database; records are never written to another database. */
interface SpoolFileId {
  readonly id: string;
  readonly database_id: string;
}

interface ParsedName extends SpoolFileId {
  readonly machine: string | undefined;
  readonly identity: string | undefined;
}

const FOREIGN_TIMEOUT_MS = 60_000;

/** `database.id.spool`, or with an owner `database.machine.process.id.spool`. */
const NAME = /^([0-9a-f-]{36})\.(?:([0-9a-f]{16})\.([0-9a-z-]+)\.)?([0-9a-f-]{36})\.spool$/;

/** Name of a file; without an owner (machine and process), any gateway of its database may adopt it. */
function spoolName({ id, database_id }: SpoolFileId, ...owner: readonly string[]): string {
  return [database_id, ...owner, id, 'spool'].join('.');
}

function parseSpoolName(name: string): ParsedName | undefined {
  const [, database_id, machine, identity, id] = NAME.exec(name) ?? [];
  return id === undefined || database_id === undefined ? undefined : { id, database_id, machine, identity };
}

/** The spool files of other databases in a directory; empty for a missing directory. Raises errors of `readdir`. */
export async function listForeignSpools(
  directory: string,
  database_id: string,
): Promise<{ readonly name: string; readonly database_id: string }[]> {
  const names = await file_system.readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names.sort().flatMap((name) => {
    const file = parseSpoolName(name);
    return file === undefined || file.database_id === database_id ? [] : [{ name, database_id: file.database_id }];
  });
}

/** A spool file of this process. */
export interface OwnedFile extends SpoolFileId {
  readonly path: string;
  readonly file: SpoolFile;
  requests: number;
}

/** A record in a spool file of this process. */
export interface Spooled {
  readonly owned: OwnedFile;
  readonly span: Span;
}

/** A valid line of an adopted file. */
export interface Found {
  readonly what: SpoolRecord['what'];
  readonly request_id: string;
  readonly span: Span;
}

/** Receives the lines of an adopted file, and returns the number of pending requests in them. */
type Adopt = (owned: OwnedFile, lines: readonly Found[]) => number;

/** The spool cannot accept a request. The message has the reason, without a path. */
export class SpoolError extends Error {
  override name = 'SpoolError';
}

/** Options of `SpoolFiles`. */
export interface SpoolFilesOptions {
  /** Absolute path; read each time, because a reload can change it. `undefined`: spooling is off. */
  readonly spool_dir: () => string | undefined;
  /** Id of the database; `undefined` until it was reached: no spooling and no adoption. */
  readonly database_id: () => string | undefined;
  readonly clock: Clock;
  readonly log: Log;
  readonly process?: GatewayProcess;
  readonly disk?: Disk;
}

/**
 * The spool files of a process: its own and adopted ones. No disk access before the first use. The name of a file contains its owner,
 * so adoption is one atomic rename, which only one of several processes can win.
 */
export class SpoolFiles {
  readonly #options: SpoolFilesOptions;
  readonly #disk: Disk;
  readonly #process: GatewayProcess;
  readonly #machine: string;
  /** When a file of another machine last changed, by the local monotonic clock. */
  readonly #seen = new Map<string, { readonly stamp: string; readonly since_ms: number }>();
  readonly #files = new Map<string, OwnedFile>();
  readonly #appending = new Set<Promise<Span>>();
  /** Files that were already logged: of other databases, and those that cannot be adopted. */
  readonly #logged = new Set<string>();
  #current: OwnedFile | undefined;
  #opening: Promise<void> | undefined;
  #is_failing = false;
  #touched_ms = 0;

  constructor(options: SpoolFilesOptions) {
    const { process = ownProcess(), disk = file_system } = options;
    this.#options = options;
    this.#disk = disk;
    this.#process = process;
    this.#machine = createHash('sha256').update(process.machine).digest('hex').slice(0, 16);
  }

  get bytes(): number {
    let bytes = 0;
    for (const { file } of this.#files.values()) bytes += file.bytes;
    return bytes;
  }

  /** Writes the first record of a request and counts the request in its file. Durable when it resolves. Raises SpoolError and disk errors. */
  async put(record: SpoolRecord): Promise<Spooled> {
    const owned = await this.#openCurrent();
    try {
      return { owned, span: await this.append(owned, record) };
    } catch (error) {
      await this.vacate(owned);
      throw error;
    }
  }

  /** Ends a request of a file; removes a file without requests. Never rejects. */
  async vacate(owned: OwnedFile): Promise<void> {
    if (--owned.requests > 0) return;
    this.#files.delete(owned.id);
    if (this.#current === owned) this.#current = undefined;
    try {
      await this.#disk.unlink(owned.path);
    } catch (error) {
      // All its records are in the ledger, and writing them again has no effect.
      this.#options.log.debug({ path: owned.path, err: error }, 'a completed spool file cannot be removed');
    }
    await owned.file.close().catch(() => {});
  }

  /** Durable when it resolves. Raises disk errors; logs once per outage. */
  async append({ file }: OwnedFile, record: SpoolRecord): Promise<Span> {
    const appended = file.append(record);
    this.#appending.add(appended);
    try {
      const span = await appended;
      if (this.#is_failing)
        this.#options.log.info({ spool_dir: this.#options.spool_dir() }, 'the spool can be written to again');
      this.#is_failing = false;
      return span;
    } catch (error) {
      throw this.#recordFailure(error);
    } finally {
      this.#appending.delete(appended);
    }
  }

  /** Quarantines lines that the ledger cannot use in a file `.aside`, and logs it. Raises disk errors. */
  async setAside({ id, path }: OwnedFile, text: string, why: object): Promise<void> {
    const aside = join(path, '..', `${id}.aside`);
    try {
      await this.#disk.appendFile(aside, `${text}\n`, { mode: 0o600, flush: true });
    } catch (error) {
      throw this.#recordFailure(error);
    }
    this.#options.log.error(
      { path: aside, ...why },
      'a part of the spool cannot be written to the ledger; it was set aside',
    );
  }

  /** Heartbeat: touches the files, so that other machines see that this process is alive. Never rejects. */
  async touch(): Promise<void> {
    // Strictly increasing, even with fast calls or a clock that is set back.
    this.#touched_ms = Math.max(Date.now(), this.#touched_ms + 1);
    for (const owned of this.#files.values()) {
      const now = new Date(this.#touched_ms);
      await this.#disk.utimes(owned.path, now, now).catch((error) => {
        // Another machine considered this process dead and adopted the file. New records need a new file.
        if (isMissing(error) && this.#current === owned) this.#current = undefined;
      });
    }
  }

  /** Adopts the files of dead processes for this database. Never rejects. */
  async adoptOrphans(adopt: Adopt): Promise<void> {
    const directory = this.#options.spool_dir();
    try {
      if (directory === undefined || this.#options.database_id() === undefined) return;
      const found = await this.#disk.readdir(directory);
      for (const name of this.#seen.keys()) if (!found.includes(name)) this.#seen.delete(name);
      for (const name of this.#logged) if (!found.includes(name)) this.#logged.delete(name);
      for (const name of found) {
        await this.#adopt(directory, name, adopt).catch((error) => {
          if (!isMissing(error)) this.#logOnce(name, { err: error }, 'a spool cannot be taken over');
        });
      }
    } catch (error) {
      if (!isMissing(error))
        this.#options.log.debug({ spool_dir: directory, err: error }, 'the spool directory cannot be read');
    }
  }

  /** Closes the files and gives up ownership, so that any process can adopt them. Never rejects. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#appending);
    this.#current = undefined;
    for (const owned of this.#files.values()) {
      const { path, file } = owned;
      await file.close().catch(() => {});
      await this.#disk.rename(path, join(path, '..', spoolName(owned))).catch(() => {});
    }
  }

  async #openCurrent(): Promise<OwnedFile> {
    const { spool_dir, database_id } = this.#options;
    const directory = spool_dir();
    // These are no failures of the disk.
    if (directory === undefined) throw new SpoolError('no directory is configured for it');
    if (database_id() === undefined) throw new SpoolError('the database has not been reached since the start');
    try {
      while (this.#current === undefined || this.#current.database_id !== database_id()) {
        this.#opening ??= this.#open(directory, database_id()!).finally(() => {
          this.#opening = undefined;
        });
        await this.#opening;
      }
    } catch (error) {
      throw this.#recordFailure(error);
    }
    this.#current.requests++;
    return this.#current;
  }

  async #open(directory: string, database_id: string): Promise<void> {
    await this.#disk.mkdir(directory, { recursive: true, mode: 0o700 });
    const named = { id: crypto.randomUUID(), database_id };
    const path = join(directory, this.#ownName(named));
    this.#current = { ...named, path, file: await createSpoolFile(this.#disk, path), requests: 0 };
    this.#files.set(named.id, this.#current);
  }

  async #adopt(directory: string, name: string, adopt: Adopt): Promise<void> {
    const path = join(directory, name);
    const found = parseSpoolName(name);
    if (found === undefined || (await this.#isOwned(found, name, path)) || this.#files.has(found.id)) return;
    const { id, database_id } = found;
    const own_database = this.#options.database_id();
    if (database_id !== own_database) {
      const fields = { database_id: own_database, of_database_id: database_id };
      return this.#logOnce(name, fields, 'a spool file belongs to another database; it is not read');
    }
    const named = { id, database_id };
    const own = join(directory, this.#ownName(named));
    await this.#disk.rename(path, own);
    await this.#read(named, own, adopt).catch(async (error) => {
      await this.#disk.rename(own, join(directory, spoolName(named)));
      throw error;
    });
  }

  #ownName(named: SpoolFileId): string {
    return spoolName(named, this.#machine, this.#process.identity);
  }

  /** Whether the owner of a file has not ended. Raises errors of `stat`. */
  async #isOwned({ machine, identity }: ParsedName, name: string, path: string): Promise<boolean> {
    if (machine === undefined || identity === undefined) return false;
    if (machine === this.#machine) return isRunning(identity);
    const { mtimeMs, size } = await this.#disk.stat(path);
    const stamp = `${mtimeMs} ${size}`;
    const before = this.#seen.get(name);
    if (before?.stamp === stamp) return this.#options.clock.monotonic() - before.since_ms < FOREIGN_TIMEOUT_MS;
    this.#seen.set(name, { stamp, since_ms: this.#options.clock.monotonic() });
    return true;
  }

  async #read(named: SpoolFileId, path: string, adopt: Adopt): Promise<void> {
    const found: Found[] = [];
    const broken: Buffer[] = [];
    const file = await readSpoolFile(this.#disk, path, ({ span, line, record }) => {
      if (record === undefined) broken.push(line);
      else found.push({ what: record.what, request_id: requestOf(record), span });
    });
    const owned: OwnedFile = { ...named, path, file, requests: 1 };
    try {
      if (broken.length > 0) await this.setAside(owned, broken.join('\n'), { lines: broken.length });
    } catch (error) {
      await file.close();
      throw error;
    }
    this.#files.set(owned.id, owned);
    const requests = adopt(owned, found);
    owned.requests += requests;
    this.#options.log.warn({ requests }, 'took over the spool of a gateway that ended');
    await this.vacate(owned);
  }

  #logOnce(name: string, fields: object, message: string): void {
    if (this.#logged.has(name)) return;
    this.#logged.add(name);
    this.#options.log.warn({ spool_dir: this.#options.spool_dir(), name, ...fields }, message);
  }

  #recordFailure(error: unknown): unknown {
    if (!this.#is_failing)
      this.#options.log.error({ spool_dir: this.#options.spool_dir(), err: error }, 'the spool cannot be written to');
    this.#is_failing = true;
    return error;
  }
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

const REASONS: Readonly<Record<string, string>> = {
  ENOSPC: 'no space is left on its disk',
  EDQUOT: 'no space is left on its disk',
  EACCES: 'its directory is not writable',
  EPERM: 'its directory is not writable',
  EROFS: 'its disk is read-only',
  ENOTDIR: 'its directory is a file',
  EEXIST: 'its directory is a file',
};

/** Converts a disk error into a SpoolError without a path. */
export function asSpoolError(error: unknown): SpoolError {
  if (error instanceof SpoolError) return error;
  const { code = 'unknown' } = error as NodeJS.ErrnoException;
  return new SpoolError(REASONS[code] ?? `error ${code}`, { cause: error });
}

/** The file system functions of a spool; tests replace them by failing ones. */
export type Disk = Pick<
  typeof file_system,
  'appendFile' | 'mkdir' | 'open' | 'readdir' | 'rename' | 'stat' | 'unlink' | 'utimes'
>;

/** The ledger data of a request that is sent without a reservation. */
export interface SpooledRequest extends LedgerIdentity {
  readonly most_nano_usd: number;
  readonly counters: readonly CounterName[];
  /** Earlier attempts, with the money counters of those with a cost. */
  readonly held?: readonly (ChargedAttempt & { readonly counters?: readonly CounterName[] })[];
}

/** One line of a spool file. Times are milliseconds since the epoch. */
export type SpoolRecord =
  /** Repeated when the request goes to another upstream: the last record counts. */
  | { readonly what: 'forwarded'; readonly at_ms: number; readonly request: SpooledRequest }
  | { readonly what: 'settled'; readonly at_ms: number; readonly settlement: Settlement }
  /** An audit record, as the text for the audit log. */
  | { readonly what: 'audit'; readonly request_id: string; readonly text: string }
  /** Complete: it is in the ledger, or was never sent. */
  | { readonly what: 'done'; readonly request_id: string };

/** Byte range of a line in its file. */
export interface Span {
  readonly offset: number;
  readonly length: number;
}

interface FoundLine {
  readonly span: Span;
  readonly line: Buffer;
  readonly record: SpoolRecord | undefined;
}

const MAX_BATCH = 1000;
const CHUNK_BYTES = 65_536;
const MAX_LINE_BYTES = 1_048_576;
const NEWLINE = 0x0a;
const DIGITS = 8;

/** Creates a private file, and syncs its directory so that it survives a loss of power. */
async function createSpoolFile(disk: Disk, path: string): Promise<SpoolFile> {
  const handle = await disk.open(path, 'wx+', 0o600);
  try {
    await syncDirectory(disk, dirname(path));
  } catch (error) {
    await handle.close().catch(() => {});
    await disk.unlink(path).catch(() => {});
    throw error;
  }
  return new SpoolFile(handle, 0);
}

/** Opens a file of another process and passes each line to `take`; drops an incomplete last line. */
async function readSpoolFile(disk: Disk, path: string, take: (found: FoundLine) => void): Promise<SpoolFile> {
  const handle = await disk.open(path, 'r+');
  try {
    let end = 0;
    for await (const { span, line } of linesOf(handle)) {
      end = span.offset + span.length;
      take({ span, line, record: decode(line) });
    }
    await handle.truncate(end);
    return new SpoolFile(handle, end);
  } catch (error) {
    await handle.close().catch(() => {});
    throw error;
  }
}

/** An open spool file: an append-only log of records with group commit. Raises file system errors. */
class SpoolFile {
  readonly #handle: FileHandle;
  readonly #writing: GroupCommit<Buffer, Span>;
  #end: number;
  #bytes: number;
  #torn = false;

  constructor(handle: FileHandle, end: number) {
    this.#handle = handle;
    this.#end = end;
    this.#bytes = end;
    const execute = (lines: readonly Buffer[]) => this.#write(lines);
    this.#writing = createGroupCommit({ lanes: 1, max_items: MAX_BATCH, isolates: () => false, execute });
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Resolves when the record is durable (fdatasync). A failed record leaves no trace. */
  async append(record: SpoolRecord): Promise<Span> {
    const line = encode(record);
    this.#bytes += line.length;
    try {
      return await this.#writing.run(line);
    } catch (error) {
      this.#bytes -= line.length;
      throw error;
    }
  }

  async read({ offset, length }: Span): Promise<SpoolRecord> {
    const line = Buffer.alloc(length - 1);
    await this.#handle.read(line, 0, line.length, offset);
    const record = decode(line);
    if (record === undefined) throw new Error(`the line at byte ${offset} has changed since it was written`);
    return record;
  }

  close(): Promise<void> {
    return this.#handle.close();
  }

  async #write(lines: readonly Buffer[]): Promise<Span[]> {
    // The rest of a failed write would be read as part of the next line.
    if (this.#torn) await this.#truncate();
    try {
      await writeWhole(this.#handle, Buffer.concat(lines), this.#end);
      await this.#handle.datasync();
    } catch (error) {
      this.#torn = true;
      await this.#truncate().catch(() => {});
      throw error;
    }
    return lines.map(({ length }) => {
      const offset = this.#end;
      this.#end += length;
      return { offset, length };
    });
  }

  async #truncate(): Promise<void> {
    await this.#handle.truncate(this.#end);
    this.#torn = false;
  }
}

async function writeWhole(handle: FileHandle, bytes: Buffer, position: number): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await handle.write(bytes, done, bytes.length - done, position + done);
    done += bytesWritten;
  }
}

async function* linesOf(handle: FileHandle): AsyncGenerator<Omit<FoundLine, 'record'>> {
  let rest: Buffer = Buffer.alloc(0);
  let offset = 0;
  for (;;) {
    const chunk = Buffer.alloc(CHUNK_BYTES);
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, offset + rest.length);
    if (bytesRead === 0) return;
    rest = Buffer.concat([rest, chunk.subarray(0, bytesRead)]);
    let begin = 0;
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE, begin)) {
      yield { span: { offset: offset + begin, length: end + 1 - begin }, line: rest.subarray(begin, end) };
      begin = end + 1;
    }
    if (rest.length - begin > MAX_LINE_BYTES) {
      yield { span: { offset: offset + begin, length: rest.length - begin }, line: rest.subarray(begin) };
      begin = rest.length;
    }
    offset += begin;
    rest = rest.subarray(begin);
  }
}

/** `checksum json`: the checksum detects lines cut by a crash, a full disk or an editor. */
function encode(record: SpoolRecord): Buffer {
  const json = JSON.stringify(record);
  return Buffer.from(`${checksum(Buffer.from(json))} ${json}\n`);
}

function decode(line: Buffer): SpoolRecord | undefined {
  const json = line.subarray(DIGITS + 1);
  if (line.toString('latin1', 0, DIGITS + 1) !== `${checksum(json)} `) return undefined;
  try {
    const record: SpoolRecord = JSON.parse(json.toString('utf8'));
    return typeof requestOf(record) === 'string' ? record : undefined;
  } catch {
    return undefined;
  }
}

/** Request id of a record; `undefined` at run time for a record of a later version. */
export function requestOf(record: SpoolRecord): string {
  switch (record.what) {
    case 'forwarded':
      return record.request.request_id;
    case 'settled':
      return record.settlement.request_id;
    case 'audit':
    case 'done':
      return record.request_id;
  }
}

function checksum(bytes: Buffer): string {
  return crc32(bytes).toString(16).padStart(DIGITS, '0');
}

/** Makes the entries of a directory durable. File systems whose directories cannot be opened do this themselves. */
async function syncDirectory(disk: Disk, directory: string): Promise<void> {
  const handle = await disk.open(directory, 'r').catch(() => undefined);
  if (handle === undefined) return;
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
