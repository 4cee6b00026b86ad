import { AsyncLocalStorage } from 'node:async_hooks';

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
