import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERRORS, StageError } from '../../engine/contract/errors.ts';
import { openStage } from '../../engine/simulate/stage-harness.ts';
import fail from '../../stages/fail.ts';

function raised(options: object): StageError {
  const stage = openStage(fail, { options });
  try {
    stage.hooks.request!(stage.request());
  } catch (error) {
    assert.ok(error instanceof StageError);
    return error;
  }
  throw new assert.AssertionError({ message: 'nothing was raised' });
}

describe('fail', () => {
  it("raises the named error with the operator's sentence and status", () => {
    const error = raised({ error: 'spend_limit_exceeded', message: 'Ask finance for more.', status: 402 });
    assert.equal(error.code, 'spend_limit_exceeded');
    assert.equal(error.message, 'Ask finance for more.');
    assert.equal(error.status, 402);
  });

  it('takes sentence and status from the catalogue when none are given', () => {
    const error = raised({ error: 'not_supported' });
    assert.equal(error.status, 501);
    assert.equal(error.message, `${ERRORS.not_supported.meaning}.`);
  });

  it('can raise every error of the catalogue', () => {
    for (const code of Object.keys(ERRORS)) assert.equal(raised({ error: code }).code, code);
  });
});
