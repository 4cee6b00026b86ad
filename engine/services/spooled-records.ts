import type { Place } from './spool-file.ts';
import type { OwnedFile, SpoolFiles } from './spool-files.ts';

/** Writes some audit records to the database, oldest first, each at most once however often it is tried. */
export type WriteRecords = (texts: readonly string[]) => Promise<unknown>;

/** Audit records in the files of a spool, in their order, until they are in the audit log. */
export interface SpooledRecords {
  /** How many there are. */
  readonly count: number;
  /** Durable when it resolves. Raises what the disk raises; then none of them is kept. */
  keep(texts: readonly string[]): Promise<void>;
  /** One that was found in a file that was taken over. */
  adopt(owned: OwnedFile, place: Place): void;
  /** Writes all of them. Raises what `write` raises; the rest stays for the next time. */
  drain(write: WriteRecords): Promise<void>;
}

const MAX_BATCH = 500;

interface Kept {
  readonly owned: OwnedFile;
  readonly place: Place;
}

/** Keeps audit records in the files of a spool; `assertRoom` raises when they may take no more. */
export function createSpooledRecords(files: SpoolFiles, assertRoom: () => void): SpooledRecords {
  let kept: Kept[] = [];

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
      return kept.length;
    },
    async keep(texts) {
      assertRoom();
      const places: OwnedFile[] = [];
      try {
        for (const _ of texts) places.push(await files.occupy());
        // One synchronisation for all of them.
        for (const each of await Promise.all(texts.map((text, i) => keepOne(places[i]!, text)))) kept.push(each);
      } catch (error) {
        for (const owned of places) await files.vacate(owned);
        throw error;
      }
    },
    adopt(owned, place) {
      kept.push({ owned, place });
    },
    async drain(write) {
      while (kept.length > 0) {
        const batch = kept.slice(0, MAX_BATCH);
        const texts = await Promise.all(batch.map(readOne));
        await write(texts);
        // No marks: should the file outlast its removal, they are written once more, which changes nothing.
        kept = kept.slice(batch.length);
        for (const { owned } of batch) await files.vacate(owned);
      }
    },
  };
}
