// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createFindings } from '../../engine/base/source/findings.ts';
import { type Mark, type Node, nodeAt, toValue } from '../../engine/base/source/node.ts';
import { parseSource } from '../../engine/base/source/source.ts';
import { yamlBreaks } from '../../engine/base/source/yaml-errors.ts';
import { times } from '../support/times.ts';

const TEXT = `server:
  listen: 127.0.0.1:8080
  limits: { body_bytes: 1, "a/b~c": 2 }
upstreams:
  - name: "main"
    notes: |
      several
      lines
  - [one,
     two]
empty:
`;

function parse(text: string) {
  const findings = createFindings();
  return { root: parseSource('file.yaml', text, findings), findings };
}

function marked(text: string, { line, column, length }: Mark): string {
  return (text.split('\n')[line - 1] ?? '').slice(column - 1, column - 1 + length);
}

describe('every node has its place', () => {
  const root = parse(TEXT).root!;
  const cases: readonly [pointer: string, expected: string][] = [
    ['/server/listen', '127.0.0.1:8080'],
    ['/server/limits/body_bytes', '1'],
    ['/server/limits/a~1b~0c', '2'],
    ['/upstreams/0/notes', '|'],
    ['/upstreams/1', '[one,'],
    ['/upstreams/1/1', 'two'],
  ];
  for (const [pointer, expected] of cases) {
    test(pointer, () => {
      const { mark } = nodeAt(root, pointer);
      assert.equal(marked(TEXT, mark), expected);
      assert.equal(mark.pointer, pointer);
    });
  }

  test('a collection in block style is marked at its key, an entry of a list at its first key', () => {
    assert.equal(marked(TEXT, nodeAt(root, '/server').mark), 'server');
    assert.equal(marked(TEXT, nodeAt(root, '/upstreams/0').mark), 'name');
    assert.equal(marked(TEXT, nodeAt(root, '/empty').mark), 'empty');
  });

  test('a pointer to a missing node leads to its nearest owner', () => {
    assert.equal(nodeAt(root, '/server/limits/header_bytes').mark.pointer, '/server/limits');
  });
});

test('line breaks of Windows and a byte order mark change neither values nor places', () => {
  const { root } = parse(TEXT.replaceAll('\n', '\r\n'));
  assert.deepEqual(toValue(root as Node), toValue(parse(TEXT).root as Node));
  assert.equal(nodeAt(root!, '/upstreams/1/1').mark.column, 6);
});

test('a key named __proto__ stays a key', () => {
  const { root } = parse('__proto__: { polluted: true }\n');
  const value = toValue(root!) as Record<string, unknown>;
  assert.deepEqual(Object.keys(value), ['__proto__']);
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
});

test('a mistake below an empty first line is found', () => {
  for (const text of ['\n  a: 1\n b: 2\n', '\n\n a: 1\n- b\n', '\n- b: 2\n a']) {
    assert.ok(parse(text).findings.errors() > 0, JSON.stringify(text));
  }
});

test('no text makes the parser throw, and a text is either parsed or rejected', () => {
  const words = ['b: ', '- ', '  ', '!!', '&x ', '*x', '? ', ': ', '<<: ', '---\n', '${{ x }}', '\r\n'];
  const piece = fc.constantFrom(...'a\n\t{}[]"\'!|#%,1', ...words);
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const { root, findings } = parse(pieces.join(''));
      assert.equal(root === undefined, findings.errors() > 0);
      for (const { line, column, length } of findings.diagnostics()) {
        assert.ok(line === undefined || (line >= 1 && column! >= 1 && length! >= 1));
      }
    }),
    { numRuns: times(200) },
  );
});

test('a large file reports a duplicate key', () => {
  const keys = Array.from({ length: 5000 }, (_, index) => `key_${index}: ${index}\n`).join('');
  const { findings } = parse(`${keys}key_17: again\nkey_17: and again\n`);
  const places = findings.diagnostics().map(({ code, line }) => [code, line]);
  assert.deepEqual(places, [['C1009', 5001]]);
});

test('reports a parser stack overflow, with any other findings', () => {
  const exhausted = { code: 'RESOURCE_EXHAUSTION', message: '', pos: [9, 10] } as const;
  const others = [
    { code: 'TAG_RESOLVE_FAILED', message: '', pos: [2, 3] },
    { code: 'MISSING_CHAR', message: '', pos: [4, 5] },
  ] as const;
  const found = yamlBreaks([...others, exhausted, { ...exhausted, pos: [11, 12] }], [], 'when: {"!": {"!": 1}}');
  const reported = found.map(({ code, message }) => `${code} ${message}`);
  assert.deepEqual(reported, ['C1007 the values are nested too deeply']);
});
