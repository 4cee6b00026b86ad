import assert from 'node:assert/strict';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { describe, test } from 'node:test';

const ROOT = resolve(import.meta.dirname, '..');

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
  return { path, text, imports: importsOf(path, text) };
}

function importsOf(path: string, text: string): string[] {
  return [...text.matchAll(IMPORT)].map((match) => {
    const specifier = match[1] ?? match[2] ?? match[3] ?? '';
    if (specifier.startsWith('node:')) return specifier;
    return specifier.startsWith('.') ? relative(ROOT, resolve(ROOT, path, '..', specifier)) : packageName(specifier);
  });
}

function filesUnder(directory: string): SourceFile[] {
  return readdirSync(join(ROOT, directory), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => readSource(join(directory, name)));
}

const engine = filesUnder('engine');
const stages = filesUnder('stages');

/** What is written to a terminal, from the call on: far enough to see how it was put together. */
const WRITTEN = /terminal\.(?:data|words)\([^;]*/g;

describe('the output', () => {
  test('is put into lines and JSON by the functions that leave nothing in it for a terminal to act upon', () => {
    for (const { path, text } of engine.filter((file) => file.path.startsWith('engine/edge/cli/'))) {
      const found = [...text.matchAll(WRITTEN)].filter(([call]) => /JSON\.stringify|\.join\('\\n'\)/.test(call));
      assert.deepEqual(
        found.map(([call]) => call),
        [],
        `${path}: printableLines and jsonText are for that`,
      );
    }
  });

  test('reaches the streams of the process in few places', () => {
    const allowed = [
      'engine/edge/cli/terminal.ts', // the one place
      'engine/edge/cli/main.ts', // nothing, to wait until all is written
    ];
    const writes = (text: string) => /process\.(?:stdout|stderr)\.write|console\.\w+\(/.test(text);
    const found = engine.filter(({ path, text }) => writes(text) && !allowed.includes(path)).map(({ path }) => path);
    assert.deepEqual(found, []);
  });
});

/**
 * The packages of `engine/` by layer, top first. An import goes to a lower layer or down the list of its own layer; packages of the
 * domain import each other by their `index.ts` only.
 */
const LAYERS = {
  edge: ['cli', 'console', 'doctor', 'selfcheck', 'gateway', 'simulate', 'client', 'client-files', 'http', 'admin'],
  pipeline: ['run', 'load', 'explain'],
  domain: ['telemetry', 'upstreams', 'budget', 'policies', 'identity', 'audit', 'protocols'],
  base: ['rules', 'store', 'source', 'kit', 'contract'],
};

/** All of them, and above them what composes them. */
const PACKAGES = [
  'bin',
  ...Object.entries(LAYERS).flatMap(([layer, names]) => names.map((name) => `${layer}/${name}`)),
];

const FACE = 'engine/api.ts';

function packageOf(path: string): string {
  const [, layer, name] = path.split('/');
  return layer === 'bin' ? layer : `${layer}/${name}`;
}

/** Files that import each other, directly or by way of others; types included. */
function circles(files: readonly SourceFile[]): string[][] {
  const imports = new Map(files.map((file) => [file.path, file.imports]));
  const reachable = new Map(files.map(({ path }) => [path, reachableFrom(path, imports)]));
  const circle = (path: string) => [...reachable.get(path)!].filter((other) => reachable.get(other)!.has(path)).sort();
  const all = files.filter(({ path }) => reachable.get(path)!.has(path)).map(({ path }) => circle(path));
  return [...new Map(all.map((paths) => [paths.join(), paths])).values()];
}

function reachableFrom(start: string, imports: ReadonlyMap<string, readonly string[]>): Set<string> {
  const seen = new Set<string>();
  const open = [start];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    for (const next of imports.get(path) ?? []) {
      if (seen.has(next) || !imports.has(next)) continue;
      seen.add(next);
      open.push(next);
    }
  }
  return seen;
}

describe('layers', () => {
  test('every file of the engine is in a package that has a layer', () => {
    const packages = new Set(engine.filter(({ path }) => path !== FACE).map(({ path }) => packageOf(path)));
    assert.deepEqual([...packages].sort(), PACKAGES.toSorted());
  });

  test('no circle of files crosses a package or has more than three files', () => {
    const found = circles(engine).filter((paths) => paths.length > 3 || new Set(paths.map(packageOf)).size > 1);
    assert.deepEqual(found, []);
  });

  const isOf = (package_name: string, path: string) => path.startsWith('engine/') && packageOf(path) === package_name;
  const height = (path: string) => PACKAGES.indexOf(packageOf(path));
  const domain = (path: string) => path.startsWith('engine/domain/');
  const isFace = (name: string) => name === FACE || /^engine\/[a-z]+\/[a-z-]+\/index\.ts$/.test(name);
  const inside = engine.filter(({ path }) => path !== FACE);
  const own_stages = stages.filter(({ path }) => path !== 'stages/index.ts');

  /** By name: files, and what none of them may import. */
  const RULES: Readonly<
    Record<string, readonly [files: readonly SourceFile[], isForbidden: (name: string, path: string) => boolean]>
  > = {
    'imports only lower layers': [
      inside,
      (name, path) => name.startsWith('engine/') && name !== FACE && height(name) < height(path),
    ],
    'packages of the domain import each other by their index.ts': [
      engine.filter(({ path }) => domain(path)),
      (name, path) =>
        domain(name) && packageOf(name) !== packageOf(path) && name !== `engine/${packageOf(name)}/index.ts`,
    ],
    'the console, which runs in browsers, imports nothing of other packages but the windows, and they nothing of it': [
      engine,
      (name, path) =>
        name.startsWith('engine/') &&
        name !== 'engine/base/contract/windows.ts' &&
        isOf('edge/console', name) !== isOf('edge/console', path),
    ],
    'nothing inside the engine imports the face for stages of operators': [engine, (name) => name === FACE],
    'a stage imports engine/api.ts or the index.ts of a package, and nothing else of ours': [
      own_stages,
      (name) => name.endsWith('.ts') && !isFace(name),
    ],
    'the request runner calls hooks and knows nothing of stage containment': [
      engine.filter(({ path }) => path === 'engine/pipeline/run/run.ts'),
      (name) => /\/(?:contain|lease|compile-stage)\.ts$/.test(name),
    ],
    'the list of stages imports stages and the face of the engine only': [
      stages.filter(({ path }) => path === 'stages/index.ts'),
      (name) => name !== FACE && !name.startsWith('stages/'),
    ],
    'the engine never imports a stage, except where everything is put together': [
      engine.filter(({ path }) => path !== 'engine/bin/appscli.ts'),
      (name) => name.startsWith('stages/'),
    ],
    'nothing that ships imports tests or examples': [
      [...engine, ...stages],
      (name) => /^(?:test|examples)\//.test(name),
    ],
  };
  for (const [rule, [files, isForbidden]] of Object.entries(RULES)) {
    test(rule, () => {
      assert.ok(files.length > 0);
      const found = files.flatMap(({ path, imports }) =>
        imports.filter((name) => isForbidden(name, path)).map((name) => `${path} imports ${name}`),
      );
      assert.deepEqual(found, []);
    });
  }
});

test('a key helper starts fast: it loads nothing of the admin API', () => {
  const lazy = /^(?:import|export) type [^;]*;|\bimport\(/gm;
  const loads = new Map(engine.map(({ path, text }) => [path, importsOf(path, text.replaceAll(lazy, ''))]));
  const found = ['engine/bin/client.ts', 'engine/edge/cli/sign-in.ts'].flatMap((path) => [
    ...reachableFrom(path, loads),
  ]);
  assert.ok(found.includes('engine/edge/client/credentials.ts'));
  assert.deepEqual(
    found.filter((path) => /^engine\/edge\/(?:admin|http)\/|-admin\.ts$/.test(path)),
    [],
  );
});

describe('each of these packages is imported in few places', () => {
  const sites = {
    'json-logic-js': 'engine/base/rules/compile.ts',
    ajv: 'engine/base/source/validate.ts',
    yaml: 'engine/base/source/source.ts',
    knex: 'engine/base/store/database.ts',
    'openid-client': 'engine/domain/identity/provider/provider-client.ts',
    undici: 'engine/domain/upstreams/transports/direct-transport.ts',
    'csv-parse': 'engine/edge/cli/bill-file.ts',
  };
  for (const [name, site] of Object.entries(sites)) {
    test(name, () => {
      const found = [...engine, ...stages].filter(({ imports }) => imports.includes(name));
      const paths = found.map(({ path }) => path);
      assert.deepEqual(paths, [site].flat());
    });
  }
});

test('no default exports but stages', () => {
  // The template's export is text, of the stage it makes.
  const allowed = (path: string) => /^stages\/|^engine\/edge\/cli\/create-stage\.ts$/.test(path);
  const found = [...engine, ...stages].filter(({ path, text }) => /^export default\b/m.test(text) && !allowed(path));
  const seen = found.map(({ path }) => path);
  assert.deepEqual(seen, []);
});

test('shared test files have no hooks of their own, which would belong to the first file of a process', () => {
  for (const { path, text } of filesUnder('test')) {
    if (path.endsWith('.test.ts') || path === 'test/support/file-end.ts') continue;
    assert.doesNotMatch(text, /^(?:before|after)(?:Each)?\(/m, `${path}: put it into a function, or use atFileEnd`);
  }
});

describe('the READMEs of engine and tests', () => {
  const READMES = globSync('{engine,test}/**/README.md', { cwd: ROOT }).filter((name) => !name.includes('/golden/'));
  const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

  test('the one of the decisions lists every record once, and no number is used twice', () => {
    const directory = join(ROOT, 'engine/decisions');
    const records = globSync('0*.md', { cwd: directory }).toSorted();
    const index = read('engine/decisions/README.md');
    const listed = [...index.matchAll(/^- \[(\d{4})\]\(([^)]+)\)/gm)].map(([, number, file]) => ({ number, file }));
    assert.deepEqual(listed.map(({ file }) => file).toSorted(), records);
    for (const { number, file } of listed) assert.equal(file!.slice(0, 4), number);
    assert.equal(new Set(listed.map(({ number }) => number)).size, listed.length);
  });

  /** What such a README names in backticks: files and, with a slash at the end, folders. */
  const NAMED = /`((?:[\w.-]+\/)*(?:[\w-]+\.(?:ts|sql|json)|[\w-]+\/))`/g;

  test('each names only files and folders that are there: beside it, in a folder beside it, or from the root', () => {
    const missing: string[] = [];
    for (const document of READMES.filter((name) => !name.startsWith('engine/decisions/'))) {
      const text = read(document);
      const beside = join(ROOT, dirname(document));
      const places = [beside, ROOT, ...globSync('*/', { cwd: beside }).map((folder) => join(beside, folder))];
      for (const [, name] of text.matchAll(NAMED)) {
        if (!places.some((place) => existsSync(join(place, name!)))) missing.push(`${document}: ${name}`);
      }
    }
    assert.deepEqual(missing, [], 'name the file that is there now, or leave it out');
  });

  test('the one of the engine leads one request through at most 40 functions, each of which is in its file', () => {
    const stops = [...read('engine/README.md').matchAll(/^\d+\. `([\w/-]+\.ts)` `(#?\w+)`: .*$/gm)];
    assert.ok(stops.length > 20 && stops.length <= 40, `${stops.length} stops`);
    const missing = stops.filter(([, file, name]) => {
      const path = file!.startsWith('stages/') ? file! : `engine/${file}`;
      return !new RegExp(`(?<!\\w)${name}\\b`).test(existsSync(join(ROOT, path)) ? read(path) : '');
    });
    const found = missing.map(([, ...stop]) => stop.join(' '));
    assert.deepEqual(found, []);
  });

  test('the one of the engine lists the packages in the order of their layers', () => {
    const listed = [...read('engine/README.md').matchAll(/^\| \[`([\w/-]+)\/`\]/gm)].map(([, name]) => name);
    assert.deepEqual(listed, PACKAGES);
  });

  test('every package has one, and together with those of its folders it names every folder', () => {
    const folders = globSync('engine/**/*.{ts,tsx}', { cwd: ROOT }).map((file) => dirname(file));
    for (const folder of new Set(folders)) {
      const own = `engine/${packageOf(`${folder}/`)}`;
      const readmes = READMES.filter((name) => dirname(name) === folder || folder.startsWith(`${dirname(name)}/`));
      assert.ok(folder === 'engine' || readmes.some((name) => name.startsWith(`${own}/`)), `${own}/README.md`);
      const texts = readmes.map(read);
      const last = `${folder.split('/').at(-1)}/`;
      const has_own = readmes.includes(`${folder}/README.md`);
      assert.ok(has_own || texts.some((text) => text.includes(last)), `no README says what ${folder} is`);
    }
  });
});
