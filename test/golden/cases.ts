import assert from 'node:assert/strict';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';

/** How the input of a case begins that changes the base; all others are small configurations of their own. */
export const BASE = '=== base\n';

const DASHES = `${'-'.repeat(80)}\n`;

/** Values that stand for secrets in the inputs; none may ever appear in an expected text. */
const PLANTED = /hunter2|sk-planted|gw_planted|p4ssw0rd|wJalrXUtnFEMI/;

/** What is said about an input. */
export interface GoldenCase {
  readonly name: string;
  readonly input: string;
  readonly expected: string;
}

/** The cases of one code, or of none: inputs about which nothing is said. */
export interface GoldenFile {
  /** Below `test/golden/`. */
  readonly path: string;
  readonly code: string;
  readonly cases: readonly GoldenCase[];
}

function readGolden(path: string): GoldenFile {
  const [before, ...parts] = readFileSync(join(import.meta.dirname, path), 'utf8').split(/^#{10} /m);
  assert.equal(before, '', `${path} begins with ########## and the name of a case`);
  const cases = parts.map((part) => {
    const name = part.slice(0, part.indexOf('\n'));
    const [input = '', expected = '', more] = part.slice(name.length + 1).split(DASHES);
    assert.equal(more, undefined, `${path}, ${name}: one line of dashes`);
    return { name, input, expected };
  });
  return { path, code: basename(path, '.txt'), cases };
}

/** All golden files, by code. */
export function readGoldens(): readonly GoldenFile[] {
  return globSync('**/*.txt', { cwd: import.meta.dirname })
    .toSorted()
    .map(readGolden);
}

function write({ path, cases }: GoldenFile, said: ReadonlyMap<string, string>): void {
  const texts = cases.map(
    ({ name, input, expected }) => `########## ${name}\n${input}${DASHES}${said.get(name) ?? expected}`,
  );
  writeFileSync(join(import.meta.dirname, path), texts.join(''));
}

/** A file of an input: `=== name (how)` starts one. */
export interface Section {
  readonly name: string;
  readonly how: string;
  readonly text: string;
}

/** Splits an input into files. */
export function sectionsOf(input: string): Section[] {
  return input
    .split(/^=== /m)
    .slice(1)
    .map((part) => {
      const end = part.indexOf('\n');
      const [, name = '', how = ''] = /^(\S+)(?: \(?(.*?)\)?)?$/.exec(part.slice(0, end)) ?? [];
      return { name, how, text: part.slice(end + 1) };
    });
}

/** A text without its directory: how long the name of a temporary one is decides where the text breaks before it. */
export const withoutDirectory = (text: string, directory: string): string =>
  text.replaceAll(directory, '<dir>').replaceAll(/\n +('?)<dir>/g, ' $1<dir>');

/** A text with the changes of some hunks, which an empty line parts: `-` lines give way to the `+` lines of their hunk. */
export function changed(text: string, hunks: string, name: string): string {
  return hunks.split(/^\n/m).reduce((whole, hunk) => {
    const lines = (sign: string) => [...hunk.matchAll(new RegExp(`^[${sign}] ?(.*\n)`, 'gm'))].map(([, line]) => line);
    const [old, fresh] = [lines('-').join(''), lines('+').join('')];
    if (old === '') return whole + fresh;
    assert.equal(whole.split(old).length, 2, `${name}: the lines to replace occur exactly once in the file`);
    return whole.replace(old, () => fresh);
  }, text);
}

/** A test for each case of the golden files: `say` gives the expected text, with the code of its file and no other. */
export function describeGoldens(files: readonly GoldenFile[], say: (input: string) => Promise<string>): void {
  for (const file of files) {
    const { path, code, cases } = file;
    describe(code, () => {
      const said = new Map<string, string>();
      for (const { name, input, expected } of cases) {
        test(name, async () => {
          const actual = await say(input);
          said.set(name, actual);
          if (process.env.UPDATE_GOLDEN !== '1') assert.equal(actual, expected);
          const codes = [...actual.matchAll(/^(?:error|warning)\[(\w+)\]/gm)].map((match) => match[1]);
          assert.deepEqual(codes, code === 'none' ? [] : [code]);
          assert.doesNotMatch(actual, PLANTED);
        });
      }
      test('has names of its own for its cases, and the place of its code', () => {
        assert.equal(new Set(cases.map(({ name }) => name)).size, cases.length);
        if (code !== 'none') assert.equal(basename(dirname(path)), `${code.slice(0, 4)}x`);
      });
      if (process.env.UPDATE_GOLDEN === '1') after(() => write(file, said));
    });
  }
}
