import type { Target } from './generator.ts';
import { cpuOfAll, descendantsOf, type ProcessUsage, resetPeakOf, usageOf } from './servers/process-usage.ts';

/** A server under load, and its resource meter. */
export interface Server {
  readonly name: string;
  readonly target: Target;
  /** Whether it only shows the cost of the load itself. */
  readonly reference?: boolean;
  usage(): ProcessUsage;
  resetPeak(): void;
  /** CPU time so far of the database that it brought with it, in microseconds. */
  databaseCpu(): number;
  /** The location of that database. */
  readonly data_dir?: string;
}

/** A server in a process of its own, which is looked at from outside (Linux). */
export function serverOf(
  name: string,
  target: Target,
  pid: number,
  more: Pick<Server, 'reference' | 'data_dir'> = {},
): Server {
  return {
    name,
    target,
    ...more,
    usage: () => usageOf(pid),
    resetPeak: () => resetPeakOf(pid),
    databaseCpu: () => cpuOfAll(descendantsOf(pid)),
  };
}
