import { AsyncLocalStorage } from 'node:async_hooks';

const running = new AsyncLocalStorage<{ readonly id: string; readonly request: object | undefined }>();

/**
 * Runs code of a stage in an async context with the id of the stage, which its background work inherits.
 * @param request identity of the current request, if any.
 */
export function runAsStage<T>(id: string, task: () => T, request?: object): T {
  return running.run({ id, request }, task);
}

/** Identity of the request whose stage code is running. */
export function currentStageRequest(): object | undefined {
  return running.getStore()?.request;
}

/**
 * Id of the stage whose code is running. In a handler of `unhandledRejection` or `uncaughtException` it is the stage that created the
 * failing promise, timer or socket; `undefined` for the engine's own.
 */
export function currentStageId(): string | undefined {
  return running.getStore()?.id;
}
