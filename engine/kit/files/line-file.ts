import { type FileHandle, open } from 'node:fs/promises';
import type { Log } from '../../contract/services.ts';

const MAX_WAITING = 10_000;

/**
 * A file that lines are appended to, in order, without waiting; readable by its owner only. While it can't be written to,
 * lines wait for the next one that comes; the oldest are dropped beyond 10,000. The log says so once per trouble.
 */
export class LineFile {
  readonly #path: string;
  readonly #log: Log;
  #waiting: string[] = [];
  /** Bytes whose writing began; they end before anything else begins, so that no line is ever torn. */
  #begun: Buffer | undefined;
  #file: FileHandle | undefined;
  #writing: Promise<void> | undefined;
  #dropped = 0;
  #in_trouble = false;

  constructor(path: string, log: Log) {
    this.#path = path;
    this.#log = log;
  }

  /** @param line holds no line break. */
  append(line: string): void {
    this.#waiting.push(line);
    if (this.#waiting.length > MAX_WAITING) {
      this.#waiting.shift();
      this.#dropped++;
    }
    this.#flush();
  }

  /** Resolves when what was appended is written, or can't be. */
  async close(): Promise<void> {
    await this.#flush();
    await this.#flush();
    const lines = this.#waiting.length + this.#dropped;
    if (lines > 0) {
      this.#log.error({ path: this.#path, lines }, 'lines were lost because this file could not be written to');
    }
    await this.#file?.close();
    this.#file = undefined;
  }

  #flush(): Promise<void> {
    if (this.#begun !== undefined || this.#waiting.length > 0) this.#writing ??= this.#write();
    return this.#writing ?? Promise.resolve();
  }

  async #write(): Promise<void> {
    const path = this.#path;
    try {
      await this.#writeAll();
      this.#writing = undefined;
      // What came between the last look and now did not start a writing of its own.
      this.#flush();
      if (this.#in_trouble) this.#log.warn({ path, dropped: this.#dropped }, 'lines can be written to this file again');
      this.#in_trouble = false;
      this.#dropped = 0;
    } catch (error) {
      if (!this.#in_trouble) {
        this.#log.error({ path, err: error }, 'lines cannot be written to this file; they wait in memory');
      }
      this.#in_trouble = true;
      await this.#file?.close().catch(() => {});
      this.#file = undefined;
      this.#writing = undefined;
    }
  }

  async #writeAll(): Promise<void> {
    while (this.#begun !== undefined || this.#waiting.length > 0) {
      if (this.#begun === undefined) {
        this.#begun = Buffer.from(`${this.#waiting.join('\n')}\n`);
        this.#waiting = [];
      }
      this.#file ??= await open(this.#path, 'a', 0o600);
      const { bytesWritten } = await this.#file.write(this.#begun);
      this.#begun = bytesWritten < this.#begun.length ? this.#begun.subarray(bytesWritten) : undefined;
    }
  }
}
