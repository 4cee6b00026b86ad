import { AsyncLocalStorage } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

const running = new AsyncLocalStorage<{ readonly id: string; readonly request: object | undefined }>();

/**
 * Runs code of a stage so that whatever it leaves running in the background still carries the stage's id.
 * @param request what stands for the request that it runs for, if it does.
 */
export function runAsStage<T>(id: string, task: () => T, request?: object): T {
  return running.run({ id, request }, task);
}

/** What stands for the request for which the code of a stage is running. */
export function strayRequest(): object | undefined {
  return running.getStore()?.request;
}

/**
 * The id of the stage whose code is running. In a handler of `unhandledRejection` or `uncaughtException` that is the stage
 * which left the failing promise, timer or socket behind; `undefined` when it was the engine's own.
 */
export function strayStage(): string | undefined {
  return running.getStore()?.id;
}

const ENDS = ['exit', 'abort', 'reallyExit', 'kill', 'execve'] as const;
/** What `process.kill` takes for this process, or for all that were started with it. */
const isThisProcess = (pid: unknown): boolean => Number(pid) === process.pid || Number(pid) <= 0;
let contained = false;

/** Makes `process.exit` and its like an error where a stage calls them: the process belongs to everybody's requests. */
export function containExits(): void {
  if (contained) return;
  contained = true;
  const own = process as unknown as Partial<Record<(typeof ENDS)[number], (...args: unknown[]) => unknown>>;
  for (const name of ENDS) {
    // Not every system has all of them.
    if (own[name] === undefined) continue;
    const original = own[name].bind(process);
    own[name] = (...args: unknown[]) => {
      const stage = strayStage();
      const is_own = name !== 'kill' || isThisProcess(args[0]);
      if (stage === undefined || !is_own) return original(...args);
      throw new Error(`the stage called process.${name}, and a gateway does not end for a stage; raise a StageError`);
    };
  }
  // Those who import `exit` from node:process get the same.
  syncBuiltinESMExports();
}
