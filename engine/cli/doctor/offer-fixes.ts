import { showDiff } from '../../client-files/show-diff.ts';
import { type FileChange, writeUserFiles } from '../../client-files/user-file.ts';
import type { ComposedFixes } from '../../doctor/fixes.ts';
import type { Input } from '../client/client-input.ts';
import type { CommandContext } from '../context.ts';

/** What became of a file, for programs. */
export interface MendedFile {
  readonly path: string;
  readonly change: 'proposed' | 'written' | 'removed';
  readonly backup: string | null;
}

/** Shows what would change, asks unless it may `write`, and changes all files or none. Raises StartError. */
export async function offerFixes(
  { terminal }: Pick<CommandContext, 'terminal'>,
  { changes, hides, failures }: ComposedFixes,
  how: { readonly write: boolean; readonly input: Input },
): Promise<{ readonly is_written: boolean; readonly files: readonly MendedFile[] }> {
  for (const failure of failures) terminal.info(`Not mended: ${failure}\n`);
  if (changes.length === 0) {
    terminal.info('There is nothing that --fix can mend.\n');
    return { is_written: false, files: [] };
  }
  for (const change of changes) terminal.info(shown(change, hides, terminal.info_color));
  const is_written = await mayWrite(terminal, how);
  const backups = is_written ? writeUserFiles(changes) : [];
  const files = changes.map(({ path, after }, index): MendedFile => {
    const change = !is_written ? 'proposed' : after === undefined ? 'removed' : 'written';
    return { path, change, backup: backups[index] ?? null };
  });
  for (const file of files) terminal.info(`${formatMended(file)}\n`);
  return { is_written, files };
}

function shown(change: FileChange, hides: readonly string[], color: boolean): string {
  const { path, before, after, secret } = change;
  if (after === undefined) return `${path} would be moved to a backup beside it\n`;
  const rights = secret ? `${path} will be readable by you alone\n` : '';
  return before === after ? rights : `${showDiff(change, hides, color)}${rights}`;
}

function formatMended({ path, change, backup }: MendedFile): string {
  if (change === 'proposed') return `${path} was not changed`;
  if (change === 'removed') return `${path} is gone; what it was is in ${backup}`;
  return backup === null ? `${path} is mended` : `${path} is mended; what it was is in ${backup}`;
}

async function mayWrite(
  terminal: CommandContext['terminal'],
  { write, input }: { readonly write: boolean; readonly input: Input },
): Promise<boolean> {
  if (write) return true;
  if (!input.answers) {
    terminal.info('Nobody is there to ask: run this again with --write to write it.\n');
    return false;
  }
  return /^y(?:es)?$/i.test((await input.line('Write this? [y/N] ', false)).trim());
}
