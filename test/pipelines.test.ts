/** The shipped pipelines and examples: every case of their tests holds, and together they see every decision. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join, relative } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { createFindings } from '../engine/base/source/findings.ts';
import { readSource } from '../engine/base/source/source.ts';
import { type CaseResult, openSuite, type Suite } from '../engine/edge/simulate/suite/suite.ts';
import { splitPipelines } from '../engine/pipeline/load/compose.ts';
import { stages } from '../stages/index.ts';

const ROOT = join(import.meta.dirname, '..');
const EXAMPLES = readdirSync(join(ROOT, 'examples'))
  .map((name) => join('examples', name))
  .filter((directory) => existsSync(join(ROOT, directory, 'gateway.yaml')));

function explain({ problems, played }: CaseResult): string {
  const wrong = problems.map(({ position: { file, line }, pointer, expected, found }) => {
    return `${relative(ROOT, file)}:${line}: expect${pointer}: expected ${expected}, found ${found}`;
  });
  return [...wrong, ...played.flatMap(({ log }) => log.map((record) => JSON.stringify(record)))].join('\n');
}

it('has a test file for every shipped pipeline', () => {
  const findings = createFindings();
  const files = readdirSync(join(ROOT, 'pipelines'));
  const written = files.filter((name) => name.endsWith('.yaml') && !name.endsWith('.test.yaml'));
  const names = written
    .map((name) => join(ROOT, 'pipelines', name))
    .flatMap((file) => splitPipelines(file, readSource(file, findings)!, findings))
    .map(({ name }) => name);
  const found = files.filter((name) => name.endsWith('.test.yaml')).sort();
  assert.deepEqual(found, names.map((name) => `${name}.test.yaml`).sort());
});

for (const directory of ['pipelines', ...EXAMPLES]) {
  const suite: Suite = await openSuite({ paths: [join(ROOT, directory)], stages });
  after(() => suite.close());
  type SuiteCase = Suite['files'][number]['cases'][number];
  const results = new Map<SuiteCase, Promise<CaseResult>>();
  // Tests run in any order, and coverage needs all of them.
  const resultOf = (one: SuiteCase): Promise<CaseResult> => {
    const result = results.get(one) ?? one.run();
    results.set(one, result);
    return result;
  };

  describe(directory, () => {
    before(() => assert.deepEqual(suite.diagnostics, []));

    it('has tests', () => {
      assert.ok(suite.files.length > 0);
    });

    for (const { file, cases } of suite.files) {
      describe(relative(ROOT, file), () => {
        for (const one of cases) {
          it(one.name, async () => {
            const result = await resultOf(one);
            assert.equal(result.problems.length, 0, explain(result));
          });
        }
      });
    }

    it('is seen deciding every way it can', async () => {
      for (const { cases } of suite.files) for (const one of cases) await resultOf(one);
      const unseen = suite.coverage.files().flatMap(({ points }) =>
        points.flatMap(({ position, kind, name, outcomes }) => {
          const never = [...outcomes].filter(([, seen]) => !seen).map(([outcome]) => outcome);
          return never.map(
            (outcome) => `${relative(ROOT, position.file)}:${position.line}: ${kind} ${name}: ${outcome}`,
          );
        }),
      );
      assert.deepEqual(unseen, []);
    });
  });
}
