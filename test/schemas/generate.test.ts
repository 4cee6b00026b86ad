/** What is generated follows from the definitions, and nothing of them is missing. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ERRORS } from '../../engine/base/contract/errors.ts';
import { FACTS } from '../../engine/base/contract/facts.ts';
import { ATTEMPT_REASONS, DROP_REASONS } from '../../engine/base/contract/forwarding.ts';
import { OPERATORS } from '../../engine/base/rules/operators.ts';
import { DIAGNOSTICS } from '../../engine/base/source/diagnostics/codes.ts';
import { FAILOVER_TABLE } from '../../engine/domain/upstreams/failover-table.ts';
import { generateFiles, staleFiles } from '../../schemas/generate.ts';
import { stages } from '../../stages/index.ts';

const files = generateFiles();

function page(name: string): string {
  return files.get(`reference/${name}.md`)!;
}

test('schemas/generated matches the definitions; otherwise run npm run generate', () => {
  assert.deepEqual(staleFiles(files), []);
});

test('a file that is missing or should not be there is found', () => {
  const expected = new Map([...files, ['reference/more.md', '']]);
  expected.delete('reference/facts.md');
  assert.deepEqual(
    staleFiles(expected).filter((name) => !staleFiles(files).includes(name)),
    ['reference/facts.md', 'reference/more.md'],
  );
});

describe('the reference has', () => {
  const parts: readonly [what: string, page: string, names: readonly string[], shown: (name: string) => string][] = [
    ['every stage', 'stages', stages.map(({ name }) => name), (name) => `\n## ${name}\n`],
    ['every fact', 'facts', Object.keys(FACTS), (name) => `| \`${name}\` `],
    ['every operator', 'operators', Object.keys(OPERATORS), (name) => `\n## \`${name}\`\n`],
    ['every error code', 'errors', Object.keys(ERRORS), (name) => `| \`${name}\` `],
    ['every outcome of an attempt', 'failover', Object.keys(FAILOVER_TABLE), (name) => `| \`${name}\` `],
    ['every reason of an attempt', 'failover', Object.keys(ATTEMPT_REASONS), (name) => `| \`${name}\` `],
    ['every reason why an upstream is not asked', 'failover', Object.keys(DROP_REASONS), (name) => `| \`${name}\` `],
    ['every diagnostic code', 'diagnostics', Object.keys(DIAGNOSTICS), (name) => `\n### ${name}\n`],
  ];
  for (const [what, name, names, shown] of parts) {
    test(what, () =>
      assert.deepEqual(
        names.filter((item) => !page(name).includes(shown(item))),
        [],
      ),
    );
  }

  test('links that lead somewhere', () => {
    const headings = (text: string) => [...text.matchAll(/^#+ (.*)$/gm)].map(([, title]) => `#${title!.toLowerCase()}`);
    for (const [name, text] of [...files].filter(([path]) => path.endsWith('.md'))) {
      for (const [, target, heading] of text.matchAll(/\]\((?!https?:)([^)#]*)(#[^)]+)?\)/g)) {
        const other = target === '' ? text : files.get(`reference/${target}`);
        assert.ok(other !== undefined, `${name} links to ${target}`);
        if (heading !== undefined) assert.ok(headings(other).includes(heading), `${name} links to ${target}${heading}`);
      }
    }
  });

  test('no text that a browser would treat as a tag', () => {
    for (const [name, text] of [...files].filter(([path]) => path.endsWith('.md'))) {
      const plain = text
        .replaceAll(/^```.*?^```$/gms, '')
        .replaceAll(/`[^`\n]+`/g, '')
        .replaceAll(/<!--.*?-->/g, '');
      assert.doesNotMatch(plain, /<\w/, name);
    }
  });
});
