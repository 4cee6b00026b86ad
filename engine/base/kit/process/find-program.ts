import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, extname, join } from 'node:path';

/** The path of a program on the PATH; `undefined` if not found. */
export function findProgram(program: string, env: NodeJS.ProcessEnv, platform: NodeJS.Platform): string | undefined {
  const endings = platform === 'win32' ? (env.PATHEXT ?? '.EXE;.CMD;.BAT').split(';') : [''];
  const names = extname(program) === '' ? endings.map((ending) => program + ending) : [program];
  const folders = (env.PATH ?? '').split(delimiter).filter((folder) => folder !== '');
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
