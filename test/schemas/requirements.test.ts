/** The table of what is asked of the gateway tells nothing that no test shows. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, test } from 'node:test';
import { REQUIREMENTS } from '../../schemas/generate/requirements/index.ts';
import { requirementsPage } from '../../schemas/generate/requirements.ts';
import { hasTest, testNames } from '../support/test-names.ts';

const TESTS = resolve(import.meta.dirname, '..');
const all = REQUIREMENTS.flatMap(({ requirements }) => requirements);

describe('the table of requirements', () => {
  test('names tests that are there, by their whole names', () => {
    const sources = new Map<string, string>();
    const sourceOf = (file: string) => {
      if (!sources.has(file)) sources.set(file, readFileSync(join(TESTS, file), 'utf8'));
      return sources.get(file)!;
    };
    const missing = all.flatMap(({ id, shown_by }) =>
      Object.entries(shown_by).flatMap(([file, names]) =>
        names.filter((name) => !hasTest(sourceOf(file), name)).map((name) => `${id}: ${file} has no test "${name}"`),
      ),
    );
    assert.deepEqual(
      missing,
      [],
      'find the test that shows the line now, and name it in schemas/generate/requirements',
    );
  });

  test('has a test for every line that works', () => {
    const shown = all.filter(({ works }) => works === 'yes');
    assert.deepEqual(
      shown.filter(({ shown_by }) => !Object.values(shown_by).some((names) => names.length > 0)).map(({ id }) => id),
      [],
    );
    assert.ok(shown.length > 140, `${shown.length} lines work`);
  });

  test('has no line that does not work, and puts off nothing but what is known to come later', () => {
    const areas = ['telemetry', 'console', 'self-check'];
    const others = all.filter(({ works }) => works !== 'yes');
    const wrong = others.filter(({ works, area = '', reason }) => works === 'no' || !areas.includes(area) || !reason);
    assert.deepEqual(
      wrong.map(({ id }) => id),
      [],
    );
  });

  test('has every line once, and shows each on its page', () => {
    const ids = all.map(({ id }) => id);
    assert.deepEqual(
      ids.filter((id, i) => ids.indexOf(id) !== i || !/^[\w.[\]-]+$/.test(id)),
      [],
    );
    const page = requirementsPage();
    assert.deepEqual(
      ids.filter((id) => !page.includes(`| \`${id}\` `)),
      [],
    );
  });
});

describe('names of tests', () => {
  test('are found in sources as they are written, behind their groups', () => {
    const source = `describe('a', () => {
  for (const x of y) {
    test(\`it's \${x({ a: {} })} once\`, async () => {});
  }
  describe("b's", () => {
    it(
      'c\\'s',
      () => {},
    );
  });
  test('d', () => {});
});
test('e', { timeout: 1 }, () => {});
// test('not here')
`;
    assert.deepEqual(testNames(source), ["a > it's … once", "a > b's > c's", 'a > d', 'e']);
    for (const name of ["a > it's … once", "a > it's timeout once", 'e']) assert.ok(hasTest(source, name), name);
    for (const name of ["a > it's nowhere once", 'a > e', 'd', 'a > it', 'not here'])
      assert.ok(!hasTest(source, name), name);
  });
});
