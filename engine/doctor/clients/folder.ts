import { pathOfFile } from '../../client-files/names.ts';
import type { Desk } from '../desk.ts';
import type { Diagnosis } from '../diagnosis.ts';
import type { TomlLayers } from './toml-layers.ts';

/** What is wrong with a folder that a variable names in place of the usual one: the file may have stayed where it was. */
export function examineFolder(
  {
    desk,
    names: { config_file, folder_variable },
    layers: { user, user_path },
  }: {
    readonly desk: Desk;
    readonly names: { readonly config_file: string; readonly folder_variable: string };
    readonly layers: Pick<TomlLayers, 'user' | 'user_path'>;
  },
  named: Pick<Diagnosis, 'id' | 'title'>,
): Diagnosis[] {
  const usual = pathOfFile(config_file, desk.env);
  if (user_path === usual || user !== undefined || !isThere(desk, usual)) return [];
  const found = `${folder_variable} is set, so ${usual} is not read, and ${user_path} is not there`;
  const remedy = `unset ${folder_variable}, or move the file`;
  return [{ ...named, verdict: 'failed', where: folder_variable, found, remedy }];
}

function isThere(desk: Desk, path: string): boolean {
  try {
    return desk.read(path) !== undefined;
  } catch {
    // What can't be read is there.
    return true;
  }
}
