import { readdir } from 'node:fs/promises';
import { ownerlessName, parseSpoolName } from './spool-names.ts';

/** A spool file that no gateway of a database takes over. */
export interface ForeignSpool {
  readonly name: string;
  /** The database it belongs to; `undefined` for a file of an earlier version, which does not say. */
  readonly database_id: string | undefined;
  /** What it has to be called for gateways of the database that was asked about to take it over. */
  readonly rename_to: string;
}

/** The files in a spool directory that are not of a database; none where there is no directory. Raises what `readdir` raises. */
export async function listForeignSpools(directory: string, database_id: string): Promise<ForeignSpool[]> {
  const names = await readdir(directory).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return [];
    throw error;
  });
  return names.sort().flatMap((name) => {
    const file = parseSpoolName(name);
    if (file === undefined || file.database_id === database_id) return [];
    return [{ name, database_id: file.database_id, rename_to: ownerlessName({ id: file.id, database_id }) }];
  });
}
