import { AsyncLocalStorage } from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

const running = new AsyncLocalStorage<string>();

/** Runs code of a stage so that whatever it leaves running in the background still carries the stage's id. */
export function runAsStage<T>(id: string, task: () => T): T {
  return running.run(id, task);
}

/**
 * The id of the stage whose code is running. In a handler of `unhandledRejection` or `uncaughtException` that is the stage
 * which left the failing promise, timer or socket behind; `undefined` when it was the engine's own.
 */
export function strayStage(): string | undefined {
  return running.getStore();
}

const ENDS = ['exit', 'abort', 'reallyExit', 'kill'] as const;
let contained = false;

/** Makes `process.exit` and its like an error where a stage calls them: the process belongs to everybody's requests. */
export function containExits(): void {
  if (contained) return;
  contained = true;
  const own = process as unknown as Record<(typeof ENDS)[number], (...args: unknown[]) => unknown>;
  for (const name of ENDS) {
    const original = own[name].bind(process);
    own[name] = (...args: unknown[]) => {
      const stage = strayStage();
      const is_own = name !== 'kill' || args[0] === process.pid;
      if (stage === undefined || !is_own) return original(...args);
      throw new Error(`the stage called process.${name}, and a gateway does not end for a stage; raise a StageError`);
    };
  }
  // Those who import `exit` from node:process get the same.
  syncBuiltinESMExports();
}
