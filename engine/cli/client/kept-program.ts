import { readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { failFile, makeDirectory } from '../../kit/files/user-files.ts';
import { PACKAGE_ROOT, packageGateway } from '../../kit/package-root.ts';
import { isPassing, type Program } from './client-location.ts';

/**
 * Where the program of a key helper stays that npx runs from its cache, and how it gets there: `appscli/client` below
 * `$XDG_DATA_HOME` (`~/.local/share`). `undefined` for a program that is installed, or of which this package is only a part.
 */
export function keptProgram(
  program: Program,
  env: NodeJS.ProcessEnv,
): { readonly program: Program; readonly keep: () => void } | undefined {
  if (packageGateway() === undefined || !isPassing(program)) return undefined;
  const set = (name: string) => env[name] || undefined;
  const folder = join(set('XDG_DATA_HOME') ?? join(set('HOME') ?? homedir(), '.local', 'share'), 'appscli', 'client');
  const script = join(folder, program.script.slice(PACKAGE_ROOT.length + 1));
  return { program: { ...program, script }, keep: () => copyPackage(folder) };
}

/** Each file is replaced at once: clients may be running it. Raises StartError. */
function copyPackage(folder: string): void {
  for (const entry of readdirSync(PACKAGE_ROOT, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const target = join(folder, path.slice(PACKAGE_ROOT.length + 1));
    try {
      makeDirectory(dirname(target));
      writeFileSync(`${target}.new`, readFileSync(path));
      renameSync(`${target}.new`, target);
    } catch (error) {
      failFile(target, 'written', error);
    }
  }
}
