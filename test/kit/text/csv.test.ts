import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { formatCsv } from '../../../engine/base/kit/text/csv.ts';

/** Reads CSV as RFC 4180 defines it. */
function parseCsv(csv: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const field = /("(?:[^"]|"")*"|[^",\r\n]*)(,|\r\n)/y;
  while (field.lastIndex < csv.length) {
    const [, cell, end] = field.exec(csv) ?? assert.fail(`no CSV at ${field.lastIndex}: ${csv}`);
    row.push(cell!.startsWith('"') ? cell!.slice(1, -1).replaceAll('""', '"') : cell!);
    if (end === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}

const cellOf = (text: string) => formatCsv(['t'], [[{ text }]]).slice('t\r\n'.length, -'\r\n'.length);

describe('CSV', () => {
  it('has a header, lines that end with CR LF, and quotes only where they are needed', () => {
    const csv = formatCsv(
      ['name', 'cost'],
      [
        [{ text: 'a, "b"' }, { number: '0.000000001' }],
        [{ text: '' }, { number: '-1' }],
        [{ text: 'two\nlines' }, { number: '2' }],
      ],
    );
    assert.equal(csv, 'name,cost\r\n"a, ""b""",0.000000001\r\n,-1\r\ntwo lines,2\r\n');
  });

  it('escapes texts that a spreadsheet would run', () => {
    assert.equal(cellOf('=1+1'), `"'=1+1"`);
    assert.equal(cellOf('=HYPERLINK("http://evil.example","x")'), `"'=HYPERLINK(""http://evil.example"",""x"")"`);
    for (const text of ['+1', '-1', '@SUM(A1)', ' =1', '\t=1', '\n=1', "'=1", '"=1', '\uff1d1', '\u00a0@x']) {
      assert.ok(cellOf(text).startsWith(`"'`), JSON.stringify(text));
    }
    for (const text of ['alice@example.com', 'coder-1', 'a=b', '2026-03-10', '(none)'])
      assert.equal(cellOf(text), text);
  });

  it('contains nothing that moves the cursor, reorders a line or begins another', () => {
    assert.equal(cellOf('a\x1b[2J\u202eb\rc'), 'a\ufffd[2J\ufffdb\ufffdc');
  });

  it('is read back unchanged but for line feeds, and no cell of it begins like a formula', () => {
    const text = fc.stringMatching(/^[ \n,"'=+\-@a-c.]{0,8}$/);
    fc.assert(
      fc.property(fc.array(fc.tuple(text, text), { minLength: 1 }), (rows) => {
        const cells = rows.map((row) => row.map((each) => ({ text: each })));
        const [titles, ...read] = parseCsv(formatCsv(['a', 'b'], cells));
        assert.deepEqual(titles, ['a', 'b']);
        assert.equal(read.length, rows.length);
        for (const [r, row] of read.entries()) {
          for (const [c, cell] of row.entries()) {
            const input = rows[r]![c]!.replaceAll('\n', ' ');
            assert.ok(cell === input || cell === `'${input}`);
            assert.doesNotMatch(cell, /^[\s]*[=+\-@]/);
          }
        }
      }),
    );
  });
});
