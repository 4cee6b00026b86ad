import { AsyncLocalStorage } from 'node:async_hooks';

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
