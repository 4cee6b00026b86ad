import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { BodyRound, Enough, Rounds, StreamRound } from '../measure.ts';
import { cleanAfterwards } from '../processes.ts';
import type { Estimate } from '../statistics.ts';
import { cpuRatio, cpuWithDatabaseRatio, withInterval } from './goals.ts';

/** The permitted factor of the previous CPU time of a request. */
const MOST = 1.05;

const ROOT = resolve(import.meta.dirname, '../../..');

const git = (...args: string[]) =>
  execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

/** The sources of a checkout's packages. */
const packagesOf = (checkout: string) => readFileSync(join(checkout, 'package-lock.json'), 'utf8');

/**
 * Checks a revision out beside the bench's files, with the packages it needs: these here where they are the same ones. The
 * checkout is removed when the bench ends, however it ends.
 * @returns where it is, and the commit
 */
export function checkOut(revision: string, directory: string): { checkout: string; commit: string } {
  const commit = git('rev-parse', '--verify', '--short', `${revision}^{commit}`).trim();
  const checkout = join(directory, 'before');
  cleanAfterwards(() => git('worktree', 'remove', '--force', checkout));
  git('worktree', 'add', '--detach', checkout, commit);
  if (packagesOf(checkout) === packagesOf(ROOT))
    symlinkSync(join(ROOT, 'node_modules'), join(checkout, 'node_modules'));
  else
    execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: checkout, stdio: ['ignore', 'ignore', 'inherit'] });
  return { checkout, commit };
}

/** A directory for one gateway's files, where PostgreSQL's account gets in. */
export function directoryFor(name: string, directory: string): string {
  const own = join(directory, name);
  mkdirSync(own, { mode: 0o711 });
  return own;
}

/** The verdict of an interval on a change. */
export type Verdict = 'fine' | 'worse' | 'unknown';

/** Whether the current CPU time is within the permitted factor: decided only when the whole interval agrees. */
export function verdictOf({ low, high }: Estimate): Verdict {
  if (low > MOST) return 'worse';
  return high <= MOST ? 'fine' : 'unknown';
}

/** The figures that are guarded, of one body or of streams. */
function guarded({ governed, before }: Rounds<BodyRound | StreamRound>): Record<string, Estimate> {
  return {
    'CPU of the gateway': cpuRatio(governed!, before!),
    'CPU with PostgreSQL': cpuWithDatabaseRatio(governed!, before!),
  };
}

/** Whether more rounds could change nothing any more. */
export const verdictIsKnown: Enough<BodyRound | StreamRound> = (rounds) => {
  const verdicts = Object.values(guarded(rounds)).map(verdictOf);
  return verdicts.includes('worse') || !verdicts.includes('unknown');
};

/** One line of the guard's report. */
export interface Guarded {
  readonly figure: string;
  readonly ratio: Estimate;
  readonly verdict: Verdict;
}

/** The report of all measurements. */
export function guard(parts: Readonly<Record<string, Rounds<BodyRound | StreamRound>>>): Guarded[] {
  return Object.entries(parts).flatMap(([part, rounds]) =>
    Object.entries(guarded(rounds)).map(([figure, ratio]) => ({
      figure: `${part}: ${figure}`,
      ratio,
      verdict: verdictOf(ratio),
    })),
  );
}

/** The report as text. */
export function renderGuard(commit: string, response: readonly Guarded[]): string {
  const lines = response.map(
    ({ figure, ratio, verdict }) => `${verdict.padEnd(11)}  ${figure}: ${withInterval(ratio)}`,
  );
  return [`now / ${commit}, at most ${MOST}`, ...lines].join('\n');
}

/** Exit code of the guard: 1 when anything costs more, 2 when a result is inconclusive. */
export function exitCodeOf(response: readonly Guarded[]): number {
  const verdicts = response.map(({ verdict }) => verdict);
  if (verdicts.includes('worse')) return 1;
  return verdicts.includes('unknown') ? 2 : 0;
}
