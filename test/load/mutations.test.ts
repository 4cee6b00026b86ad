// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { renderDiagnostics } from '../../engine/base/source/diagnostics/render.ts';
import { loadPaths } from '../../engine/pipeline/load/paths.ts';
import { stages } from '../../stages/index.ts';
import { times } from '../support/times.ts';
import { createProject } from './support/project.ts';

const BASE = join(import.meta.dirname, '..', 'golden', 'base');
const read = (name: string) => readFileSync(join(BASE, name), 'utf8');
const SECRET = 'sk-planted-0123456789abcdef';
const FILES: Readonly<Record<string, string>> = {
  'gateway.yaml': read('gateway.yaml').replace('api_key_env: UPSTREAM_KEY', `api_key_env: ${SECRET}`),
  'pipelines/messages.yaml': read('pipelines/messages.yaml'),
  'pipelines/fragments/refuse.yaml': read('pipelines/fragments/refuse.yaml'),
  'pipelines/messages.test.yaml': read('pipelines/messages.test.yaml'),
};

const project = createProject(FILES);
after(() => project.remove());

/** Text that means something to YAML, to JSON-Logic or to a terminal. */
const NOISE = fc.constantFrom(
  ...[
    ...[...' \n\t:{}[],"\'#*!|>%@~\0\u202e\ufeff'],
    '',
    ': ',
    '- ',
    '&a ',
    '!!',
    '---\n',
    '<<: ',
    '${{ x }}',
    '\x1b[2J',
  ],
  ...['null', 'true', '010', '1e999', '.inf', '__proto__'],
);

interface Mutation {
  readonly at: number;
  readonly cut: number;
  readonly put: string;
}

const mutation: fc.Arbitrary<Mutation> = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  cut: fc.integer({ min: 0, max: 30 }),
  put: NOISE,
});

/** Cuts and inserts text anywhere but inside the secret, because half a secret cannot be recognized. */
function mutated(text: string, { at, cut, put }: Mutation): string {
  const start = Math.floor(at * text.length);
  const end = start + cut;
  const secret = text.indexOf(SECRET);
  const touches = secret >= 0 && start < secret + SECRET.length + 1 && end > secret - 1;
  return touches ? text : text.slice(0, start) + put + text.slice(end);
}

test('for any mutation of a file, the check ends, points into the file and hides secrets', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...Object.keys(FILES)),
      fc.array(mutation, { minLength: 1, maxLength: 3 }),
      async (name, mutations) => {
        const text = mutations.reduce(mutated, FILES[name]!);
        for (const [file, content] of Object.entries(FILES))
          writeFileSync(project.path(file), file === name ? text : content);
        const { diagnostics, sources } = await loadPaths([project.directory], {
          stages,
          env: {},
          environment: 'ignored',
        });
        for (const { file, line = 1, column = 1 } of diagnostics) {
          const lines = readFileSync(file, 'utf8').split('\n');
          assert.ok(line >= 1 && line <= lines.length, `line ${line} of ${lines.length}`);
          assert.ok(column >= 1 && column <= lines[line - 1]!.length + 1, `column ${column} of line ${line}`);
        }
        const shown = renderDiagnostics(diagnostics, { format: 'text', color: false, sources });
        assert.ok(!shown.includes(SECRET), shown);
        assert.ok(!shown.includes('\x1b'), shown);
      },
    ),
    { numRuns: times(12) },
  );
});
