import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type Column, type Columns, formatList, formatTable, tableOf } from '../../engine/edge/cli/output.ts';

const columns: Column[] = [
  { title: 'USER', kind: 'text' },
  { title: 'COST', kind: 'number' },
];
const LONG = 'someone.with.a.long.name@example.com';

test('a line that is too long stays complete for search and copy', () => {
  const lines = formatTable(columns, [[LONG, '123456.789']], 30);
  assert.deepEqual(lines, [`USER${' '.repeat(40)}COST`, `${LONG}  123456.789`]);
});

test('truncates only text that is complete elsewhere to make a line fit', () => {
  const brief: Column[] = [
    { title: 'ID', kind: 'text' },
    { title: 'RUNS', kind: 'brief' },
  ];
  const rows = [['budget', 'when it is Friday and nobody looks']];
  assert.deepEqual(formatTable(brief, rows, 20), ['ID      RUNS', 'budget  when it is …']);
  assert.deepEqual(formatTable(brief, rows, 60)[1], 'budget  when it is Friday and nobody looks');
});

test('a list is a table where it fits, else a record for each row with every value whole on a line of its own', () => {
  const rows = [
    [LONG, '1'],
    ['', '2'],
  ];
  assert.deepEqual(formatList(columns, rows, 80), formatTable(columns, rows, 80));
  assert.deepEqual(formatList(columns, rows, 30), [`USER  ${LONG}`, 'COST  1', '', 'COST  2']);
});

test('user text neither moves the cursor nor reorders or breaks the line', () => {
  const lines = formatTable(columns, [['a\x1b[2J\u202eb\tc\nd', '1']], 80);
  assert.deepEqual(lines, ['USER         COST', 'a\ufffd[2J\ufffdb c d     1']);
});

test('columns that are empty in every row are left out', () => {
  const cells: Columns<readonly [string, string]> = [
    ['USER', ([user]) => user || null],
    ['COST', ([, cost]) => cost, 'number'],
  ];
  const [kept, rows] = tableOf(cells, [['', '1']]);
  const titles = kept.map(({ title }) => title);
  assert.deepEqual(titles, ['COST']);
  assert.deepEqual(rows, [['1']]);
});

test('whatever the width, every text of a list is in it whole', () => {
  const texts = fc.string({ unit: 'grapheme-ascii', maxLength: 60 });
  const row = fc.tuple(texts, texts, fc.nat({ max: 1e6 }).map(String));
  const three: Column[] = [
    { title: 'A', kind: 'text' },
    { title: 'B', kind: 'text' },
    { title: 'N', kind: 'number' },
  ];
  fc.assert(
    fc.property(fc.array(row, { minLength: 1, maxLength: 5 }), fc.integer({ min: 10, max: 200 }), (rows, width) => {
      const lines = formatList(three, rows, width);
      for (const text of rows.flat()) assert.ok(lines.some((line) => line.includes(text.trimEnd())));
      assert.equal(formatList(three, rows, Number.POSITIVE_INFINITY).length, rows.length + 1);
    }),
  );
});
