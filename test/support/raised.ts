import assert from 'node:assert/strict';
import { StageError } from '../../engine/base/contract/errors.ts';

/** The error that a step raises, which must be one of ours. */
export function raisedBy(step: () => unknown): StageError {
  try {
    step();
  } catch (error) {
    assert.ok(error instanceof StageError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: 'nothing was raised' });
}
