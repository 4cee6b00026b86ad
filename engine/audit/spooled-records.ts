import type { Place } from '../store/spool/spool-file.ts';
import type { OwnedFile, SpoolFiles } from '../store/spool/spool-files.ts';

/** Writes some audit records to the database they belong to, oldest first, each at most once however often it is tried. */
export type WriteRecords = (texts: readonly string[], database_id: string) => Promise<unknown>;

/** Audit records in the files of a spool, in their order, until they are in the audit log. */
export interface SpooledRecords {
  /** How many there are. */
  readonly count: number;
  /** How many of them are of a database. */
  countOf(database_id: string | undefined): number;
  /** Durable when it resolves. Raises what the disk raises; then none of them is kept. */
  keep(texts: readonly string[]): Promise<void>;
  /** One that was found in a file that was taken over. */
  adopt(owned: OwnedFile, place: Place): void;
  /** Writes all of a database. Raises what `write` raises; the rest stays for the next time. */
  drain(write: WriteRecords, database_id: string): Promise<void>;
}

const MAX_BATCH = 500;

interface Kept {
  readonly owned: OwnedFile;
  readonly place: Place;
}

/** Keeps audit records in the files of a spool; `assertRoom` raises when they may take no more. */
export function createSpooledRecords(files: SpoolFiles, assertRoom: () => void): SpooledRecords {
  /** By the database they are of. */
  const kept = new Map<string, Kept[]>();
  const keptOf = (database_id: string): Kept[] => kept.get(database_id) ?? [];
  const add = (each: Kept) => {
    const { database_id } = each.owned;
    if (!kept.has(database_id)) kept.set(database_id, []);
    kept.get(database_id)!.push(each);
  };

  const keepOne = async (owned: OwnedFile, text: string): Promise<Kept> => {
    const place = await files.append(owned, { what: 'audit', request_id: '', text });
    return { owned, place };
  };
  const readOne = async ({ owned: { file }, place }: Kept): Promise<string> => {
    const record = await file.read(place);
    if (record.what !== 'audit') throw new Error('a spooled audit record is something else by now');
    return record.text;
  };

  return {
    get count() {
      let count = 0;
      for (const { length } of kept.values()) count += length;
      return count;
    },
    countOf: (database_id) => (database_id === undefined ? 0 : keptOf(database_id).length),
    async keep(texts) {
      assertRoom();
      const places: OwnedFile[] = [];
      try {
        for (const _ of texts) places.push(await files.occupy());
        // One synchronisation for all of them.
        for (const each of await Promise.all(texts.map((text, i) => keepOne(places[i]!, text)))) add(each);
      } catch (error) {
        for (const owned of places) await files.vacate(owned);
        throw error;
      }
    },
    adopt(owned, place) {
      add({ owned, place });
    },
    async drain(write, database_id) {
      while (keptOf(database_id).length > 0) {
        const batch = keptOf(database_id).slice(0, MAX_BATCH);
        const texts = await Promise.all(batch.map(readOne));
        await write(texts, database_id);
        // No marks: should the file outlast its removal, they are written once more, which changes nothing.
        kept.set(database_id, keptOf(database_id).slice(batch.length));
        for (const { owned } of batch) await files.vacate(owned);
      }
    },
  };
}
