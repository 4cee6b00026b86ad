import { StageError } from '../contract/errors.ts';

/** SQLSTATE classes that blame the data: bad value, broken constraint, too large. */
const BLAMES_DATA = /^(22|23|54)/;

/** The store did not answer within the time a request may wait for it: it is away, or busy with something else. */
export class StoreTimeout extends StageError {
  constructor() {
    super('store_unavailable', 'The gateway cannot use its database: it did not answer in time. Try again shortly.');
  }
}

/** Whether an error says that the store is away. */
export function isUnavailable(error: unknown): error is StageError {
  return error instanceof StageError && error.code === 'store_unavailable';
}

/** Whether a failed statement would fail again with the same data, as opposed to trouble that passes. */
export function isPermanent(error: unknown): boolean {
  if (error instanceof StageError) return !isUnavailable(error);
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code !== 'string' || BLAMES_DATA.test(code);
}

/** A passing failure as the error a request is answered with; a permanent one as it is. */
export function asStoreError(error: unknown): unknown {
  if (error instanceof StageError || isPermanent(error)) return error;
  return new StageError('store_unavailable', 'The gateway cannot use its database at the moment. Try again shortly.', {
    cause: error,
  });
}
