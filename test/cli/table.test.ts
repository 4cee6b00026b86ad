import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Column, formatTable, withoutEmptyColumns } from '../../engine/cli/table.ts';

const columns: Column[] = [
  { title: 'USER', kind: 'text' },
  { title: 'COST', kind: 'number' },
];

test('texts stand on the left of their column and numbers on the right', () => {
  const lines = formatTable(
    columns,
    [
      ['alice@example.com', '1'],
      ['bob@example.com', '12.5'],
    ],
    80,
  );
  assert.deepEqual(lines, ['USER               COST', 'alice@example.com     1', 'bob@example.com    12.5']);
});

test('a line too long loses the ends of its longest texts, and no digit', () => {
  const lines = formatTable(columns, [['someone.with.a.long.name@example.com', '123456.789']], 30);
  assert.deepEqual(lines, ['USER                      COST', 'someone.with.a.lo…  123456.789']);
});

test('what somebody wrote neither moves the cursor nor reorders or breaks the line', () => {
  const lines = formatTable(columns, [['a\x1b[2J\u202eb\tc\nd', '1']], 80);
  assert.deepEqual(lines, ['USER         COST', 'a\ufffd[2J\ufffdb c d     1']);
});

test('columns that are empty in every row are left out', () => {
  const { columns: kept, rows } = withoutEmptyColumns(columns, [['', '1']]);
  assert.deepEqual(
    kept.map(({ title }) => title),
    ['COST'],
  );
  assert.deepEqual(rows, [['1']]);
});

test('any table fits the line while its numbers leave six characters for each text', () => {
  const texts = fc.string({ unit: 'grapheme-ascii', maxLength: 60 });
  const row = fc.tuple(texts, texts, fc.nat({ max: 1e6 }).map(String));
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 5 }), fc.integer({ min: 30, max: 120 }), (rows, width) => {
      const three: Column[] = [
        { title: 'A', kind: 'text' },
        { title: 'B', kind: 'text' },
        { title: 'N', kind: 'number' },
      ];
      const lines = formatTable(three, rows, width);
      assert.equal(lines.length, rows.length + 1);
      for (const [i, line] of lines.entries()) {
        assert.ok(line.length <= width, `${line.length} > ${width}`);
        if (i > 0) assert.ok(line.endsWith(rows[i - 1]![2]));
      }
    }),
  );
});
