/** A disk that stops in the middle of things, and may lose what was never synchronised. */
import { existsSync, linkSync, mkdirSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Disk } from '../../../engine/store/spool/spool-file.ts';
import { away, faultyDisk } from '../../support/spool.ts';

/** Counts what a process does, and ends it at one of its steps. */
export class CrashingDisk {
  readonly disk: Disk = faultyDisk((operation, path, to) => this.#step(operation, path, to));
  readonly #directory: string;
  readonly #grave: string;
  readonly #random: () => number;
  #steps_left: number;
  /** Bytes that are safe, by path. */
  readonly #synced = new Map<string, number>();
  /** Names that are safe. */
  #names = new Set<string>();

  /** @param random numbers from 0 to 999. */
  constructor(directory: string, steps: number, random: () => number) {
    this.#directory = directory;
    this.#grave = `${directory}-grave-${crypto.randomUUID()}`;
    mkdirSync(this.#grave, { recursive: true });
    this.#steps_left = steps;
    this.#random = random;
    // What predecessors left has survived.
    for (const name of this.#list()) {
      this.#names.add(name);
      this.#synced.set(join(directory, name), statSync(join(directory, name)).size);
    }
  }

  get crashed(): boolean {
    return this.#steps_left < 0;
  }

  /** A step that is none of the disk's, such as a statement. Raises store_unavailable once the process has ended. */
  step(): void {
    if (--this.#steps_left < 0) throw away();
  }

  #list(): string[] {
    return existsSync(this.#directory) ? readdirSync(this.#directory) : [];
  }

  #step(operation: string, path: string, to?: string) {
    if (--this.#steps_left < 0) {
      const just_now = this.#steps_left === -1;
      return { error: new Error('the process has ended'), bytes: just_now ? this.#random() : 0 };
    }
    if (operation === 'datasync') this.#synced.set(path, statSync(path, { throwIfNoEntry: false })?.size ?? 0);
    if (operation === 'sync') this.#names = new Set(this.#list());
    if (operation === 'unlink') linkSync(path, join(this.#grave, basename(path)));
    if (to !== undefined) {
      this.#synced.set(to, this.#synced.get(path) ?? 0);
      this.#names.add(basename(to));
    }
    return undefined;
  }

  /** Does to the files what a loss of power may do to them. */
  losePower(): void {
    for (const name of readdirSync(this.#grave)) {
      if (this.#random() < 500) continue;
      linkSync(join(this.#grave, name), join(this.#directory, name));
      this.#names.add(name);
    }
    for (const name of this.#list()) {
      const path = join(this.#directory, name);
      if (this.#names.has(name)) this.#truncate(path, this.#synced.get(path) ?? 0);
      else if (this.#random() < 500) rmSync(path);
      else this.#truncate(path, 0);
    }
  }

  #truncate(path: string, safe: number): void {
    const { size } = statSync(path);
    if (size > safe) truncateSync(path, safe + Math.floor(((size - safe) * this.#random()) / 1000));
  }

  /** Removes what it kept. */
  forget(): void {
    rmSync(this.#grave, { recursive: true, force: true });
  }
}
