import type * as file_system from 'node:fs/promises';
import type { FileHandle } from 'node:fs/promises';
import { dirname } from 'node:path';
import { crc32 } from 'node:zlib';
import type { ChargedAttempt, CounterName, LedgerIdentity, Settlement } from '../../contract/services.ts';
import { createGroupCommit, type GroupCommit } from '../../kit/group-commit.ts';

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

/** A line of a file; `record` is `undefined` for a damaged line. */
interface FoundLine {
  readonly span: Span;
  readonly line: Buffer;
  readonly record: SpoolRecord | undefined;
}

const MAX_BATCH = 1000;
const CHUNK_BYTES = 65_536;
/** Longest line; a longer one is damaged. */
const MAX_LINE_BYTES = 1_048_576;
const NEWLINE = 0x0a;
const DIGITS = 8;

/** Creates a private file, and syncs its directory so that it survives a loss of power. */
export async function createSpoolFile(disk: Disk, path: string): Promise<SpoolFile> {
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
export async function readSpoolFile(disk: Disk, path: string, take: (found: FoundLine) => void): Promise<SpoolFile> {
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
export class SpoolFile {
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

  /** Size in bytes, including pending writes. */
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
