import { createHash } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Drained } from '../../contract/forwarding.ts';
import type { Log } from '../../contract/services.ts';
import { PRIVATE_FILE } from '../../kit/files/user-files.ts';

/** Which upstreams were drained when the database was last asked: for a gateway that starts while it is away. */
export interface DrainedFile {
  /** Nothing where there is no such file, or none that can be read. Never rejects. */
  read(): Promise<ReadonlyMap<string, Drained>>;
  /** Writes what has changed. Never rejects. */
  write(drained: ReadonlyMap<string, Drained>): Promise<void>;
}

const NONE = '[]';

/**
 * Keeps the list in a directory.
 * @param options.directory where; `undefined`: nowhere.
 * @param options.database_address which database says so, without credentials.
 */
export function createDrainedFile(options: {
  readonly directory: () => string | undefined;
  readonly database_address: string;
  readonly log: Log;
}): DrainedFile {
  const { directory, database_address, log } = options;
  const name = createHash('sha256').update(database_address).digest('hex').slice(0, 16);
  let written: string | undefined;
  let in_trouble = false;

  const pathOf = () => {
    const found = directory();
    return found === undefined ? undefined : join(found, `drained-upstreams-${name}.json`);
  };

  return {
    async read() {
      const path = pathOf();
      try {
        const text = path === undefined ? NONE : await readFile(path, 'utf8');
        const drained = parse(text);
        written = text;
        return drained;
      } catch (error) {
        // Where nothing was ever drained there is no file.
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') written = NONE;
        return new Map();
      }
    },
    async write(drained) {
      const path = pathOf();
      const text = JSON.stringify([...drained]);
      if (path === undefined || text === written) return;
      const beside = `${path}.${process.pid}.new`;
      try {
        await mkdir(join(path, '..'), { recursive: true, mode: 0o700 });
        await writeFile(beside, text, { mode: PRIVATE_FILE, flush: true });
        await rename(beside, path);
        written = text;
        in_trouble = false;
      } catch (error) {
        await rm(beside, { force: true }).catch(() => {});
        if (!in_trouble) log.warn({ path, err: error }, 'which upstreams are drained cannot be kept on the disk');
        in_trouble = true;
      }
    },
  };
}

/** Raises SyntaxError, TypeError. */
function parse(text: string): Map<string, Drained> {
  const entries = JSON.parse(text) as unknown;
  if (!Array.isArray(entries)) throw new TypeError('no list');
  return new Map(
    entries.map(([upstream, { by, at, reason }]: [unknown, Readonly<Record<string, unknown>>]) => {
      const told = typeof reason === 'string' ? { reason } : {};
      return [String(upstream), { by: String(by), at: Number(at), ...told }];
    }),
  );
}
