import { type FileHandle, open } from 'node:fs/promises';
import type { Log } from '../../contract/services.ts';

/** A file that lines are appended to, in order, without waiting. */
export interface LineFile {
  /** `line` holds no line break. */
  append(line: string): void;
  /** Resolves when what was appended is written, or can't be. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

const MAX_WAITING = 10_000;

/**
 * Opens a file for appending, readable by its owner only. While it can't be written to, lines wait for the next one
 * that comes; the oldest are dropped beyond 10,000. The log says so once per trouble.
 */
export function openLineFile(path: string, log: Log): LineFile {
  let waiting: string[] = [];
  /** Bytes whose writing began; they end before anything else begins, so that no line is ever torn. */
  let begun: Buffer | undefined;
  let file: FileHandle | undefined;
  let writing: Promise<void> | undefined;
  let dropped = 0;
  let in_trouble = false;

  const writeAll = async () => {
    while (begun !== undefined || waiting.length > 0) {
      if (begun === undefined) {
        begun = Buffer.from(`${waiting.join('\n')}\n`);
        waiting = [];
      }
      file ??= await open(path, 'a', 0o600);
      const { bytesWritten } = await file.write(begun);
      begun = bytesWritten < begun.length ? begun.subarray(bytesWritten) : undefined;
    }
  };
  const write = async () => {
    try {
      await writeAll();
      writing = undefined;
      // What came between the last look and now did not start a writing of its own.
      flush();
      if (in_trouble) log.warn({ path, dropped }, 'lines can be written to this file again');
      in_trouble = false;
      dropped = 0;
    } catch (error) {
      if (!in_trouble) log.error({ path, err: error }, 'lines cannot be written to this file; they wait in memory');
      in_trouble = true;
      await file?.close().catch(() => {});
      file = undefined;
      writing = undefined;
    }
  };
  const flush = () => {
    if (begun !== undefined || waiting.length > 0) writing ??= write();
    return writing ?? Promise.resolve();
  };

  return {
    append(line) {
      waiting.push(line);
      if (waiting.length > MAX_WAITING) {
        waiting.shift();
        dropped++;
      }
      flush();
    },
    flush,
    async close() {
      await flush();
      await flush();
      const left = waiting.length + dropped;
      if (left > 0) log.error({ path, lines: left }, 'lines were lost because this file could not be written to');
      await file?.close();
      file = undefined;
    },
  };
}
