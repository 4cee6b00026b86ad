import { StageError } from '../contract/errors.ts';

/** SQLSTATE classes of bad data: invalid value, constraint violation, too large. */
const BLAMES_DATA = /^(22|23|54)/;

/** The database did not respond within the time limit of a request: it is unavailable or busy. */
export class StoreTimeout extends StageError {
  constructor() {
    super('store_unavailable', 'The gateway cannot use its database: it did not respond in time. Try again shortly.');
  }
}

/** Whether an error means that the database is unavailable. */
export function isUnavailable(error: unknown): error is StageError {
  return error instanceof StageError && error.code === 'store_unavailable';
}

/** Whether a failed statement would fail again with the same data, as opposed to a temporary outage. */
export function isPermanent(error: unknown): boolean {
  if (error instanceof StageError) return !isUnavailable(error);
  const code = (error as { code?: unknown } | undefined)?.code;
  return typeof code !== 'string' || BLAMES_DATA.test(code);
}

/** Converts a temporary failure to store_unavailable; returns a permanent one unchanged. */
export function asStoreError(error: unknown): unknown {
  if (error instanceof StageError || isPermanent(error)) return error;
  return new StageError('store_unavailable', 'The gateway cannot use its database at the moment. Try again shortly.', {
    cause: error,
  });
}
