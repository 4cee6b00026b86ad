import type { Target } from './load/generator.ts';
import type { Child } from './processes.ts';
import { cpuOfAll, descendantsOf, type ProcessUsage, resetPeakOf, usageOf } from './servers/process-usage.ts';

/** A server under load, and its resource meter. */
export interface Server {
  readonly name: string;
  readonly target: Target;
  /** Whether it only shows the cost of the load itself. */
  readonly reference?: boolean;
  usage(): Promise<ProcessUsage>;
  resetPeak(): Promise<void>;
  /** CPU time so far of the database that it brought with it, in microseconds. */
  databaseCpu(): number;
  /** The location of that database. */
  readonly data_dir?: string;
}

/** One of the bench's own processes. */
export function ownServer(name: string, target: Target, child: Child<unknown>, reference = false): Server {
  return {
    name,
    target,
    reference,
    usage: () => child.ask<ProcessUsage>('usage'),
    resetPeak: () => child.ask<void>('reset_peak'),
    databaseCpu: () => cpuOfAll(descendantsOf(child.pid)),
  };
}

/** A process that the bench doesn't talk to (Linux). */
export function otherServer(name: string, target: Target, pid: number, data_dir: string): Server {
  return {
    name,
    target,
    data_dir,
    usage: async () => usageOf(pid),
    resetPeak: async () => resetPeakOf(pid),
    databaseCpu: () => cpuOfAll(descendantsOf(pid)),
  };
}
