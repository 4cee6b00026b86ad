import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative, resolve } from 'node:path';
import { describe, test } from 'node:test';

const ROOT = resolve(import.meta.dirname, '..');
const LINES_MAX = 350;
/** The public surface stays in one file, which is mostly types. */
const SURFACE_LINES_MAX = 400;

interface SourceFile {
  readonly path: string;
  readonly text: string;
  /** What it imports, types included: packages by name, files by path from the root. */
  readonly imports: readonly string[];
}

const IMPORT =
  /^\s*(?:import|export)\b[^'"`;]*?\bfrom\s*['"]([^'"]+)['"]|^\s*import\s*['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]/gm;

function packageName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');
}

function readSource(path: string): SourceFile {
  const text = readFileSync(join(ROOT, path), 'utf8');
  const imports = [...text.matchAll(IMPORT)].map((match) => {
    const specifier = match[1] ?? match[2] ?? match[3] ?? '';
    if (specifier.startsWith('node:')) return specifier;
    return specifier.startsWith('.') ? relative(ROOT, resolve(ROOT, path, '..', specifier)) : packageName(specifier);
  });
  return { path, text, imports };
}

function filesUnder(directory: string): SourceFile[] {
  return readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readSource(join(directory, name)));
}

const engine = filesUnder('engine');
const stages = filesUnder('stages');

/** What is written to a terminal, from the call on: far enough to see how it was put together. */
const WRITTEN = /terminal\.(?:data|words)\([^;]*/g;

describe('what is printed', () => {
  test('is put into lines and JSON by the functions that leave nothing in it for a terminal to act upon', () => {
    for (const { path, text } of engine.filter((file) => file.path.startsWith('engine/cli/'))) {
      const found = [...text.matchAll(WRITTEN)].filter(([call]) => /JSON\.stringify|\.join\('\\n'\)/.test(call));
      assert.deepEqual(
        found.map(([call]) => call),
        [],
        `${path}: printableLines and jsonText are for that`,
      );
    }
  });

  test('goes to the streams of the process in few places', () => {
    const allowed = [
      'engine/cli/terminal.ts', // the one place
      'engine/cli/client-input.ts', // questions of our own
      'engine/cli/main.ts', // nothing, to wait until all is written
    ];
    const writes = (text: string) => /process\.(?:stdout|stderr)\.write|console\.\w+\(/.test(text);
    const found = engine.filter(({ path, text }) => writes(text) && !allowed.includes(path)).map(({ path }) => path);
    assert.deepEqual(found, []);
  });
});

describe('dependencies point one way', () => {
  test('a stage imports the public surface of the engine and nothing else of ours', () => {
    for (const { path, imports } of stages.filter((file) => file.path !== 'stages/index.ts')) {
      const ours = imports.filter((name) => name.endsWith('.ts') && name !== 'engine/api.ts');
      assert.deepEqual(ours, [], path);
    }
  });

  test('the list of stages imports stages and the public surface only', () => {
    const index = stages.find((file) => file.path === 'stages/index.ts');
    const others = index?.imports.filter((name) => name !== 'engine/api.ts' && !name.startsWith('stages/'));
    assert.deepEqual(others, []);
  });

  test('the engine never imports a stage, except where everything is put together', () => {
    for (const { path, imports } of engine.filter((file) => file.path !== 'engine/bin/appscli.ts')) {
      const found = imports.filter((name) => name.startsWith('stages/'));
      assert.deepEqual(found, [], path);
    }
  });

  test('the gateway imports nothing of its command line', () => {
    for (const { path, imports } of engine.filter((file) => !/^engine\/(?:bin|cli|client)\//.test(file.path))) {
      const found = imports.filter((name) => /^engine\/(?:cli|client)\//.test(name));
      assert.deepEqual(found, [], path);
    }
  });

  test('nothing that ships imports tests or examples', () => {
    for (const { path, imports } of [...engine, ...stages]) {
      const found = imports.filter((name) => /^(?:test|examples)\//.test(name));
      assert.deepEqual(found, [], path);
    }
  });
});

describe('each of these packages is imported in one place', () => {
  const sites = {
    'json-logic-js': 'engine/rules/compile.ts',
    ajv: 'engine/load/validate.ts',
    yaml: 'engine/load/source.ts',
    knex: 'engine/services/knex.ts',
    'openid-client': 'engine/services/identity/provider-client.ts',
    undici: 'engine/services/identity/provider-fetch.ts',
    'csv-parse': 'engine/cli/bill-file.ts',
  };
  for (const [name, site] of Object.entries(sites)) {
    test(name, () => {
      const found = [...engine, ...stages].filter(({ imports }) => imports.includes(name));
      assert.deepEqual(
        found.map(({ path }) => path),
        [site],
      );
    });
  }
});

test('no file is too long to be read in one go', () => {
  for (const { path, text } of [...engine, ...stages]) {
    const lines = text.split('\n').length;
    const max = path === 'engine/api.ts' ? SURFACE_LINES_MAX : LINES_MAX;
    assert.ok(lines <= max, `${path} has ${lines} lines`);
  }
});

test('no default exports but stages and migrations', () => {
  // The template's export is text, of the stage it makes.
  const allowed = (path: string) =>
    /^(stages|engine\/services\/migrations)\/|^engine\/cli\/stage-template\.ts$/.test(path);
  const found = [...engine, ...stages].filter(({ path, text }) => /^export default\b/m.test(text) && !allowed(path));
  assert.deepEqual(
    found.map(({ path }) => path),
    [],
  );
});

test('what test files share has no hooks of its own, for they would belong to the first file of a process', () => {
  for (const { path, text } of filesUnder('test')) {
    if (path.endsWith('.test.ts') || path === 'test/support/file-end.ts') continue;
    assert.doesNotMatch(text, /^(?:before|after)(?:Each)?\(/m, `${path}: put it into a function, or use atFileEnd`);
  }
});
