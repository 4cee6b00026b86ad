import { ByDatabase } from '../../store/spool/by-database.ts';
import type { Spooled, SpoolFiles } from '../../store/spool/spool-files.ts';

/** Writes some audit records to the database they belong to, oldest first, each at most once however often it is tried. */
export type WriteRecords = (texts: readonly string[], database_id: string) => Promise<unknown>;

const MAX_BATCH = 500;

/** Audit records in the files of a spool, in their order, until they are in the audit log. */
export class SpooledRecords {
  readonly #files: SpoolFiles;
  readonly #assertRoom: () => void;
  readonly #kept = new ByDatabase<Spooled>();

  /** @param assertRoom raises when the files may take no more. */
  constructor(files: SpoolFiles, assertRoom: () => void) {
    this.#files = files;
    this.#assertRoom = assertRoom;
  }

  /** How many there are. */
  get count(): number {
    return this.#kept.size;
  }

  /** How many of them are of a database. */
  countOf(database_id: string | undefined): number {
    return this.#kept.sizeOf(database_id);
  }

  /** Durable when it resolves. Raises what the disk raises; then none of them is kept. */
  async keep(texts: readonly string[]): Promise<void> {
    this.#assertRoom();
    // One synchronisation for all of them.
    const put = await Promise.allSettled(texts.map((text) => this.#files.put({ what: 'audit', request_id: '', text })));
    const spooled = put.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    const failed = put.find((each) => each.status === 'rejected');
    if (failed !== undefined) {
      for (const { owned } of spooled) await this.#files.vacate(owned);
      throw failed.reason;
    }
    for (const each of spooled) this.#kept.add(each);
  }

  /** Takes one that was found in a file that was taken over. */
  adopt(spooled: Spooled): void {
    this.#kept.add(spooled);
  }

  /** Writes all of a database. Raises what `write` raises; the rest stays for the next time. */
  async drain(write: WriteRecords, database_id: string): Promise<void> {
    for (let batch = this.#oldest(database_id); batch.length > 0; batch = this.#oldest(database_id)) {
      await write(await Promise.all(batch.map(readOne)), database_id);
      // No marks: should the file outlast its removal, they are written once more, which changes nothing.
      for (const kept of batch) {
        this.#kept.delete(kept);
        await this.#files.vacate(kept.owned);
      }
    }
  }

  #oldest(database_id: string): Spooled[] {
    const batch: Spooled[] = [];
    for (const kept of this.#kept.of(database_id)) {
      if (batch.push(kept) === MAX_BATCH) break;
    }
    return batch;
  }
}

async function readOne({ owned: { file }, span }: Spooled): Promise<string> {
  const record = await file.read(span);
  if (record.what !== 'audit') throw new Error('a spooled audit record is something else by now');
  return record.text;
}
