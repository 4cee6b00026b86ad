// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of fragments look like this

import { LRUCache } from 'lru-cache';
import {
  type Document,
  isAlias,
  isCollection,
  isMap,
  isScalar,
  type ParsedNode,
  parseDocument,
  type Scalar,
  visit,
  type YAMLMap,
} from 'yaml';
import { isEnvironmentName, isSecretKey } from './diagnostics/secrets.ts';
import type { Findings } from './findings.ts';
import { type MapNode, type Mark, type Node, pointerToken, type ScalarNode } from './node.ts';
import { codePoint, controlCharacter, readText } from './read-text.ts';
import {
  ALIAS,
  lineStarts,
  positionAt,
  type Span,
  STRANGE_SPACE,
  type YamlProblem,
  yamlBreaks,
} from './yaml-errors.ts';

function createBuilder(file: string, text: string, findings: Findings) {
  const starts = lineStarts(text);
  const anchors = new Set<string>();

  function mark(start: number, end: number, pointer: string): Mark {
    const { line, column } = positionAt(starts, start);
    // Searching for the end of the line would make a long line quadratic.
    const next_line = starts[line];
    const stop = Math.max(start + 1, Math.min(end, next_line === undefined ? end : next_line - 1));
    return { file, line, column, length: stop - start, pointer };
  }

  function report(code: keyof typeof REJECTIONS, at: Mark, instead?: string): undefined {
    const [message, usual] = REJECTIONS[code];
    findings.report(code, at, message, { help: instead ?? usual });
  }

  function reportBefore(code: 'C1010' | 'C1012', sign: string, start: number, pointer: string): void {
    let at = Math.max(0, text.lastIndexOf(sign, start));
    while (text[at - 1] === sign) at -= 1;
    const word = /^\S+/.exec(text.slice(at, at + 80))?.[0] ?? sign;
    report(code, mark(at, at + word.length, pointer));
  }

  function keyText(key: ParsedNode | null, at: Mark): string | undefined {
    if (isScalar(key) && typeof key.value === 'string' && key.value !== '') {
      const is_plain = (key as Scalar).type === 'PLAIN';
      if (key.value === '<<' && is_plain) return report('C1010', at, 'write the keys out, or use a fragment');
      if (key.anchor !== undefined) return report('C1010', at);
      if (is_plain && /^[\u00a0\u2000-\u200b\u202f\u3000]/.test(key.value))
        return report('C1008', { ...at, length: 1 });
      if (key.tag === undefined) return key.value;
    }
    const line_start = starts[at.line - 1] ?? 0;
    const before = text.slice(line_start, line_start + at.column - 1);
    if (/!\s*$/.test(before)) return report('C1013', at);
    if (/\{\s*$/.test(before) && isMap(key)) return report('C1014', at, BRACES);
    return report('C1014', at, /\d,$/.test(before) ? 'write decimals with a point, such as 0.3' : undefined);
  }

  function scalar(node: Scalar.Parsed, pointer: string, owner: Mark | undefined): ScalarNode {
    const [start, end] = node.range;
    const value = node.value as ScalarNode['value'] | bigint;
    return {
      kind: 'scalar',
      value: typeof value === 'bigint' ? Number(value) : value,
      mark: start === end && owner !== undefined ? owner : mark(start, end, pointer),
      range: [start, end],
    };
  }

  function map(node: YAMLMap.Parsed, pointer: string, written: Mark | undefined): MapNode {
    const [start] = node.range;
    const entries = node.items.flatMap((pair) => {
      const range = pair.key?.range ?? [start, start + 1];
      const at = mark(range[0], range[1], pointer);
      const key = keyText(pair.key, at);
      if (key === undefined) return [];
      const child = pointer + pointerToken(key);
      const key_mark = { ...at, pointer: child };
      return [{ key, key_mark, value: build(pair.value, child, key_mark) }];
    });
    const first = entries[0]?.key_mark ?? mark(start, start + 1, pointer);
    return { kind: 'map', entries, mark: written ?? { ...first, pointer } };
  }

  /** @param key mark of the node's key; used for a node without compact text. */
  function build(node: ParsedNode | null, pointer: string, key?: Mark): Node {
    const owner = key === undefined ? undefined : { ...key, pointer };
    if (node === null) return { kind: 'scalar', value: null, mark: owner ?? mark(0, 1, pointer), range: [0, 0] };
    const [start, end] = node.range;
    if (isAlias(node)) {
      const at = mark(start, end, pointer);
      const { source } = node;
      // An anchor stands earlier in the file and was reported there.
      if (!anchors.has(source)) {
        const help =
          source === '' ? 'quote it: "*"' : `write the value out, or quote it if it is a string: "*${source}"`;
        findings.report('C1010', at, ALIAS, { help });
      }
      return { kind: 'scalar', value: null, mark: at, range: [start, end] };
    }
    if (node.anchor !== undefined) {
      anchors.add(node.anchor);
      reportBefore('C1010', '&', start, pointer);
    }
    if (node.tag !== undefined) reportBefore('C1012', '!', start, pointer);
    if (isScalar(node)) return scalar(node as Scalar.Parsed, pointer, owner);
    const written = node.flow === true ? mark(start, end, pointer) : owner;
    if (isMap(node)) return map(node as YAMLMap.Parsed, pointer, written);
    const items = node.items.map((item, index) => build(item as ParsedNode, pointer + pointerToken(index)));
    return { kind: 'list', items, mark: written ?? mark(start, start + 1, pointer) };
  }

  return { mark, build };
}

type Range = readonly [number, number, number];

const rangeOf = (node: unknown): Range | undefined => (node as { range?: Range | null } | null)?.range ?? undefined;

function spansOf(document: Document.Parsed): Span[] {
  const spans: Span[] = [];
  visit(document, (_key, node) => {
    const range = rangeOf(node);
    if (range === undefined) return;
    const quoted = isScalar(node) && (node.type === 'QUOTE_DOUBLE' || node.type === 'QUOTE_SINGLE');
    if (quoted || (isCollection(node) && node.flow === true)) spans.push({ start: range[0], end: range[1], quoted });
  });
  return spans;
}

/** The first repeated key of each mapping: further ones usually belong to the same mistake. */
function duplicateKeys(document: Document.Parsed): YamlProblem[] {
  const problems: YamlProblem[] = [];
  visit(document, {
    Map(_key, { items }) {
      const seen = new Set<unknown>();
      const repeated = items.find(({ key }) => {
        const is_known = isScalar(key) && seen.has(key.value);
        if (isScalar(key)) seen.add(key.value);
        return is_known;
      })?.key;
      const [start, end] = rangeOf(repeated) ?? [0, 0];
      if (repeated !== undefined) problems.push({ code: 'DUPLICATE_KEY', message: '', pos: [start, end] });
    },
  });
  return problems;
}

/** Hides likely secrets of invalid YAML: no later pass looks at its keys, and the line filter misses values of several lines. */
function hideLikelySecrets(document: Document.Parsed, text: string, file: string, findings: Findings): void {
  visit(document, {
    Pair(_key, { key, value }) {
      const range = rangeOf(value);
      const name = isScalar(key) ? String(key.value) : '';
      if (range === undefined || !mayHoldSecret(name)) return;
      // YAML continues the value with an indented line below; the author rarely means that.
      const [first_line = ''] = text.slice(range[0], range[1]).split('\n');
      if (isEnvironmentName(first_line.trim())) return;
      findings.hideRange(file, [range[0], range[1]]);
    },
  });
  for (const range of textsBelowSecretKeys(text)) findings.hideRange(file, range);
  for (const { 0: line, 1: key = '', 2: value = '', index } of text.matchAll(FILE_AND_VALUE)) {
    const end = index + line.length;
    if (mayHoldSecret(key)) findings.hideRange(file, [end - value.length, end]);
  }
}

/** Whether the name of a key suggests a secret, its variable or its file; the value may then be the secret itself. */
function mayHoldSecret(key: string): boolean {
  return key.endsWith('_env') || isSecretKey(key.replace(/_file$/, ''));
}

/** A key `..._file` and its value, on one line. */
const FILE_AND_VALUE = /([A-Za-z][\w-]{0,100}_file)["']?[ \t]*:[ \t]+(\S.*)/g;

/** A line that ends with a key, and at most the beginning of a block or quoted value. */
const KEY_ALONE = /([A-Za-z][\w-]*)["']?\s*:\s*(?:[!&]\S+\s+)*[^\w\s]?[^\w\s]?\d?[+-]?\s*(?:#.*)?$/;
const BEGINS_WITH_KEY = /^\s*[\w"'!-][^:]{0,100}:(?:\s|$)/;

/** The lines below secret keys that are no less indented and have no key: a damaged file may have been read differently. */
function textsBelowSecretKeys(text: string): [number, number][] {
  const ranges: [number, number][] = [];
  let offset = 0;
  let deeper_than: number | undefined;
  for (const line of text.split('\n')) {
    const indent = line.length - line.trimStart().length;
    const is_below = deeper_than === undefined || indent > deeper_than || line.trim() === '';
    if (!is_below && (indent !== deeper_than || BEGINS_WITH_KEY.test(line))) deeper_than = undefined;
    if (deeper_than !== undefined) ranges.push([offset, offset + line.length]);
    const key = KEY_ALONE.exec(line.slice(-200))?.[1] ?? '';
    if (deeper_than === undefined && mayHoldSecret(key)) deeper_than = indent;
    offset += line.length + 1;
  }
  return ranges;
}

const BRACES = 'quote a string that starts with {; in a fragment a placeholder is written ${{ name }}';

const REJECTIONS = {
  C1008: STRANGE_SPACE,
  C1010: ['configuration files cannot use anchors, aliases or merge keys', 'write the value out'],
  C1012: [
    'configuration files cannot use explicit tags',
    'remove the tag; if the value is a string, quote it, as in "5"',
  ],
  C1013: ['a key that starts with `!` must be quoted', 'YAML reads an unquoted `!` as a tag: write "!": instead'],
  C1014: ['a key must be a non-empty string', 'quote the key'],
} as const;

/** Parses a file. YAML warnings are errors, as are anchors, aliases, merge keys and tags: they hide where a value comes from. */
export function parseSource(file: string, text: string, findings: Findings): MapNode | undefined {
  const before = findings.errors();
  if (text.includes('\0')) {
    findings.report('C1016', { file }, 'this is not a text file: it contains NUL bytes', {
      expected: 'a YAML file, saved as UTF-8',
    });
    return undefined;
  }
  findings.read(file, text);
  // `uniqueKeys` of the library is quadratic: seconds for thousands of keys.
  const document = parseDocument(text, { prettyErrors: false, uniqueKeys: false, strict: true });
  const builder = createBuilder(file, text, findings);
  const control = controlCharacter(text);
  if (control !== undefined) {
    const message = `the file contains a control character, ${codePoint(text.slice(control))}`;
    const help = 'delete it';
    findings.report('C1016', builder.mark(control, control + 1, ''), message, { help });
  }
  const found = [...document.errors, ...document.warnings, ...duplicateKeys(document)];
  const problems = control === undefined ? found : [];
  const spans = problems.length === 0 ? [] : spansOf(document);
  for (const { code, start, end, message, help } of yamlBreaks(problems, spans, text)) {
    findings.report(code, builder.mark(start, end, ''), message, { help });
  }
  if (findings.errors() > before) {
    hideLikelySecrets(document, text, file, findings);
    return undefined;
  }
  if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) {
    findings.report('C1006', { file }, 'the file is empty', { expected: 'a mapping (`key: value` lines)' });
    return undefined;
  }
  const root = builder.build(document.contents, '');
  if (root.kind !== 'map') {
    const found = root.kind === 'list' ? 'a list' : 'a single value';
    findings.report('C1006', root.mark, 'the file must be a mapping at its top level', {
      found,
      expected: 'a mapping',
    });
    return undefined;
  }
  if (findings.errors() === before) return root;
  hideLikelySecrets(document, text, file, findings);
  return undefined;
}

/** Cache of parsed valid files: most are unchanged at a reload, of which parsing is more than half of the work. */
const parsed = new LRUCache<string, { readonly text: string; readonly root: MapNode }>({
  maxSize: 2_097_152,
  sizeCalculation: ({ text }) => text.length + 1,
});

/** Reads and parses a configuration file; see `parseSource`. `undefined` after reporting errors. */
export function readSource(file: string, findings: Findings): MapNode | undefined {
  const text = readText(file, findings);
  if (text === undefined) return undefined;
  const known = parsed.get(file);
  if (known?.text === text) {
    findings.read(file, text);
    return known.root;
  }
  const root = parseSource(file, text, findings);
  if (root !== undefined) parsed.set(file, { text, root });
  return root;
}
