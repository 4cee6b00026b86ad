import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { currentUser, type PostgresHome } from './postgres-home.ts';

const ELSEWHERE = 'set database.embedded.data_dir to';
const NO_SPACE = `no space left on the disk; free some, or ${ELSEWHERE} a directory on another disk`;
const DAMAGE = /PANIC|valid checkpoint|could not open file|checksum|invalid data/i;

export function damagedCluster(home: PostgresHome, what: string): StartError {
  return new StartError(
    `${home.cluster} is damaged (${what}); restore it from a backup, or move it away to start with an empty database`,
  );
}

/** Converts the output of a failed PostgreSQL program into one line with a remedy. */
export function explainOutput(output: string, home: PostgresHome, failure: string): StartError {
  const what = `the embedded PostgreSQL in ${home.directory} ${failure}`;
  if (/No space left|could not extend file/.test(output)) return new StartError(`${what}: ${NO_SPACE}`);
  const lines = output.split('\n').filter((line) => line.trim() !== '');
  const telling = lines.findLast((line) => /(FATAL|PANIC|ERROR|error):/.test(line)) ?? lines.at(-1);
  const reason = telling?.replace(/^.*?(FATAL|PANIC|ERROR|error):\s*/, '').trim() ?? 'it printed nothing';
  if (DAMAGE.test(output) && !/Permission denied/.test(output)) return damagedCluster(home, reason);
  return new StartError(`${what}: ${reason}; see ${home.log_file}`);
}

const DEEDS: Readonly<Record<string, string>> = { mkdir: 'create', open: 'open', symlink: 'create', scandir: 'read' };

/** Converts a file system or spawn error into one line with a remedy; returns other errors unchanged. */
export function explainFileError(error: unknown, data_dir: string): unknown {
  const { code, syscall = 'use', path: source = data_dir, dest } = error as NodeJS.ErrnoException & { dest?: string };
  // For a symbolic link, `path` is its target and `dest` its location.
  const path = dest ?? source;
  if (error instanceof StartError || !(error instanceof Error) || code === undefined) return error;
  const [call = ''] = syscall.split(' ');
  const failure = (reason: string, remedy: string) =>
    new StartError(`cannot ${call === 'spawn' ? 'run' : (DEEDS[call] ?? call)} ${path}: ${reason}; ${remedy}`, {
      exit_code: EXIT_CONFIGURATION,
      cause: error,
    });
  if (code === 'ENOSPC' || code === 'EDQUOT') return new StartError(`cannot write to ${data_dir}: ${NO_SPACE}`);
  if (call === 'spawn') {
    const reason = code === 'ENOENT' ? 'it does not run on this system (its libraries need glibc)' : code;
    return failure(reason, 'set database.postgres.url_env to use your own PostgreSQL server');
  }
  if (code === 'EACCES' || code === 'EPERM') {
    const remedy = `${ELSEWHERE} a directory that ${currentUser()} may write, or run as its owner (user id ${statSync(nearest(path)).uid})`;
    return failure('permission denied', remedy);
  }
  // Node reports ENOENT for a recursive mkdir on a read-only file system.
  if (code === 'EROFS' || (code === 'ENOENT' && call === 'mkdir')) {
    return failure('the file system does not allow it', `${ELSEWHERE} a directory on another one`);
  }
  if (code === 'ENOENT') return failure('it is missing', `restore it from a backup, or ${ELSEWHERE} a new directory`);
  if (code === 'ENOTDIR' || code === 'EEXIST') return failure('a file is in the way', `${ELSEWHERE} a directory`);
  return failure(code, `${ELSEWHERE} another directory`);
}

function nearest(path: string): string {
  for (let step = path; ; step = dirname(step)) if (existsSync(step) || step === dirname(step)) return step;
}
