import { AsyncLocalStorage } from 'node:async_hooks';

const running = new AsyncLocalStorage<{ readonly id: string; readonly request: object | undefined }>();

/** Runs code of a stage in an async context with its id and request, which its background work inherits. */
export function runAsStage<T>(id: string, task: () => T, request?: object): T {
  return running.run({ id, request }, task);
}

/** Identity of the request whose stage code is running. */
export function currentStageRequest(): object | undefined {
  return running.getStore()?.request;
}

/** Id of the running stage; in a handler of unhandled errors, of the stage that created the failing promise or timer. */
export function currentStageId(): string | undefined {
  return running.getStore()?.id;
}
