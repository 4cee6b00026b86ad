import { StartError } from '../contract/start-error.ts';
import { EXIT_USAGE } from './exit-codes.ts';

/** Raises StartError when a period is over before it begins; a day (YYYY-MM-DD) may begin at any hour of UTC. */
export function demandPeriod({
  since,
  until,
}: {
  readonly since?: Date | string | undefined;
  readonly until?: Date | string | undefined;
}): void {
  if (since === undefined || until === undefined || typeof since !== typeof until || since < until) return;
  throw new StartError('--since must be before --until, which is not included', { exit_code: EXIT_USAGE });
}
