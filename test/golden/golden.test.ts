import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DIAGNOSTICS } from '../../engine/base/source/diagnostics/codes.ts';
import { BASE, describeGoldens, readGoldens } from './cases.ts';
import { checkChanged } from './changed-configuration.ts';
import { loadSmall } from './small-configuration.ts';

const goldens = readGoldens();

describe('a mistake in a configuration gives its diagnostic and nothing else', () =>
  describeGoldens(goldens, (input) =>
    input.startsWith(BASE) ? checkChanged(input.slice(BASE.length)) : loadSmall(input),
  ));

test('every diagnostic code has a golden file', () => {
  const covered = new Set(goldens.map(({ code }) => code));
  const missing = Object.keys(DIAGNOSTICS).filter((code) => !covered.has(code));
  assert.deepEqual(missing, []);
});
