/** What the READMEs say is true: their YAML passes the check, their links lead somewhere, their commands exist. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Command } from 'commander';
import type { StageDefinition } from '../engine/api.ts';
import { createFindings } from '../engine/base/source/findings.ts';
import { PIPELINE_TEST_SCHEMA } from '../engine/base/source/schemas.ts';
import { readSource } from '../engine/base/source/source.ts';
import { validate } from '../engine/base/source/validate.ts';
import { stageSource } from '../engine/edge/cli/create-stage.ts';
import { createProgram } from '../engine/edge/cli/program.ts';
import { loadPaths } from '../engine/pipeline/load/paths.ts';
import { loadStages } from '../engine/pipeline/load/stage-modules.ts';
import { stages } from '../stages/index.ts';
import {
  type Block,
  blocksOf,
  DOCUMENTS,
  filesAround,
  kindOf,
  ownStages,
  REPOSITORY,
} from './support/readme-blocks.ts';

const yaml = DOCUMENTS.flatMap((document) => blocksOf(document, 'yaml'));
const shell = DOCUMENTS.flatMap((document) => blocksOf(document, 'sh'));

let root: string;
before(async () => {
  root = await mkdtemp(join(tmpdir(), 'appscli-readme-'));
});
after(() => rm(root, { recursive: true, force: true }));

/** Puts the stages that a document makes known into a directory: the ones beside it, or as `create stage` writes them. */
async function writeStages(document: string, directory: string): Promise<readonly StageDefinition[]> {
  const names = ownStages(document);
  await mkdir(join(directory, 'stages'));
  for (const name of names) {
    const beside = join(REPOSITORY, dirname(document), 'stages');
    if (existsSync(join(beside, `${name}.ts`))) await cp(beside, join(directory, 'stages'), { recursive: true });
    else await writeFile(join(directory, 'stages', `${name}.ts`), stageSource(name));
  }
  const files = names.map((name) => join(directory, 'stages', `${name}.ts`));
  return [...(await loadStages(stages, files, createFindings())).stages.values()];
}

async function findingsOf(block: Block): Promise<readonly string[]> {
  const directory = await mkdtemp(join(root, 'block-'));
  for (const name of ['pipelines/fragments', 'policies']) await mkdir(join(directory, name), { recursive: true });
  const files = filesAround(block, kindOf(block), await writeStages(block.document, directory));
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  const variables = Object.values(files).flatMap((text) => [...text.matchAll(/_env: (\w+)/g)]);
  const secrets = Object.values(files).flatMap((text) => [...text.matchAll(/_file: \.\/secrets\/([\w-]+)/g)]);
  await mkdir(join(directory, 'secrets'));
  for (const [, name] of secrets) await writeFile(join(directory, 'secrets', name!), 'set\n');
  const env = Object.fromEntries(variables.map(([, name]) => [name, 'set']));
  const { diagnostics } = await loadPaths([directory], { stages, env, environment: 'required' });
  const findings = createFindings();
  for (const name of Object.keys(files).filter((name) => name.endsWith('.test.yaml'))) {
    const node = readSource(join(directory, name), findings);
    if (node !== undefined) validate(PIPELINE_TEST_SCHEMA, node, directory, findings);
  }
  return [...diagnostics, ...findings.diagnostics()].map(({ code, message, help }) => `${code}: ${message} (${help})`);
}

describe('every YAML block in every README passes the check, alone or completed to a whole file', () => {
  for (const block of yaml) {
    test(`${block.document}:${block.line}`, async () => {
      assert.deepEqual(await findingsOf(block), []);
    });
  }

  test('a block with a mistake does not', async () => {
    const misspelt = {
      gateway: 'server: { listen: "127.0.0.1:0", public_url: "http://a.example" }\nupstreams: []\nmodles: []\n',
      'gateway sections': 'routing: { default_upstream: mian }\n',
      pipeline: 'pipeline: own\nversion: 1\nsummary: S.\nmatch: { methods: [GET], paths: [/a] }\nstages: []\n',
      'pipeline sections': 'rules: {}\nfinally:\n  - stage: adit\n',
      stages: '- stage: adit\n',
      fragment: 'fragment: own\nversion: 0\nsummary: S.\nstages: [{ stage: audit }]\n',
      policy: 'policy: own\nversion: 0\nsummary: S.\nsettings: {}\n',
      test: 'pipeline: messages\ncases: []\n',
    };
    for (const [kind, text] of Object.entries(misspelt)) {
      const block = { document: 'README.md', line: 1, text };
      assert.equal(kindOf(block), kind);
      assert.notDeepEqual(await findingsOf(block), [], kind);
    }
    assert.throws(() => kindOf({ document: 'README.md', line: 7, text: 'services: {}\n' }), /^Error: README\.md:7: /);
  });
});

/** The anchors of a document's headings, as GitHub makes them. */
function anchorsOf(document: string): readonly string[] {
  const text = readFileSync(join(REPOSITORY, document), 'utf8').replace(/^```.*?^```/gms, '');
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) =>
    heading!
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

test('every link between documents has a target, and every link to a section names a heading', () => {
  for (const document of DOCUMENTS) {
    const text = readFileSync(join(REPOSITORY, document), 'utf8');
    for (const [, file, anchor] of text.matchAll(/\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)/g)) {
      const target = file === '' ? document : join(dirname(document), file!);
      assert.ok(existsSync(join(REPOSITORY, target)), `${document} links to ${file}`);
      if (anchor !== undefined) assert.ok(anchorsOf(target).includes(anchor), `${document} links to ${file}#${anchor}`);
    }
  }
});

test('there is one recipe for nginx, which the other guides link to', () => {
  const recipes = DOCUMENTS.filter((document) =>
    /^ *(?:proxy_pass|location) /m.test(readFileSync(join(REPOSITORY, document), 'utf8')),
  );
  assert.deepEqual(recipes, ['examples/proxies/README.md']);
  assert.equal(blocksOf('examples/proxies/README.md', 'nginx').length, 1);
});

test('every npm script and every file that a README refers to exists', async () => {
  const { scripts } = JSON.parse(await readFile(join(REPOSITORY, 'package.json'), 'utf8'));
  const text = shell.map((block) => block.text).join('\n');
  const named = [...text.matchAll(/^\s*npm (?:run )?(start|test|(?<=run )\w+)/gm)].map(([, name]) => name!);
  for (const name of named) assert.ok(name in scripts, name);
  assert.ok(named.length >= 4);
  for (const [file] of text.matchAll(/\b(?:examples|engine|test|schemas)\/[\w./-]+\w/g)) {
    assert.ok(existsSync(join(REPOSITORY, file)), file);
  }
});

/** The command a line of a shell runs, and its options. */
function findCommand(program: Command, words: readonly string[]): Command | undefined {
  let command: Command | undefined = program;
  for (const word of words) {
    const next: Command | undefined = command.commands.find((candidate) => candidate.name() === word);
    if (next === undefined) return command === program || command.commands.length > 0 ? undefined : command;
    command = next;
  }
  return command;
}

test("CI runs the tests with the commands of the README, which install the lock file's versions", async () => {
  const script = await readFile(join(REPOSITORY, '.ci/run'), 'utf8');
  const commands = script.split('\n').filter((line) => line.startsWith('npm '));
  assert.deepEqual(commands, ['npm ci', 'npm test', 'npm run test:slow']);
  const section = /^## Tests\n\n```sh\n([^`]+)```/m.exec(await readFile(join(REPOSITORY, 'README.md'), 'utf8'));
  const listed = section![1]!.split('\n').map((line) => line.replace(/ *#.*/, ''));
  assert.deepEqual(listed.slice(0, commands.length), commands);
});

/** A command that has npx, or one like it, look for a name: at the beginning of a line, of a comment, in quotes, behind variables. */
const LOOKS_FOR_A_NAME =
  /(?:^[ \t]*(?:#[ \t]*)?(?:\w+=\S*[ \t]+)*|[`("'])(?:npx|npm exec|pnpm dlx|yarn dlx|bunx)[ \t]+(?:-\S+[ \t]+)*([a-z][\w.-]*)(?![\w.-]*[/:])/gm;

/** What a document has to paste; its sentences may begin with a word such as npx. */
function pasted(path: string, text: string): string {
  if (!path.endsWith('.md')) return text;
  return [...text.matchAll(/^ *```[\s\S]*?```|`[^`\n]+`/gm)].map(([code]) => code).join('\n');
}

test('nothing here runs a free name from a registry, which an attacker could register', async () => {
  const folders = ['engine', 'stages', 'pipelines', 'schemas', 'examples', 'test'];
  const below = folders.flatMap((folder) =>
    globSync(`${folder}/**/*.{md,yaml,yml,ts,tsx,js,mjs,json}`, { cwd: REPOSITORY }),
  );
  const own = join('test', 'readme.test.ts');
  const found: string[] = [];
  for (const path of ['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md', ...below.filter((name) => name !== own)]) {
    const text = await readFile(join(REPOSITORY, path), 'utf8');
    for (const [line] of pasted(path, text).matchAll(LOOKS_FOR_A_NAME)) found.push(`${path}: ${line.trim()}`);
  }
  assert.deepEqual(found, []);
  for (const bad of [
    'npx appscli login',
    '# 1.\n#   npx appscli test',
    '`npx tsc`',
    'x="$(npx -y appscli token)"',
    'A=b npx appscli',
  ]) {
    assert.match(bad, new RegExp(LOOKS_FOR_A_NAME.source, 'm'));
  }
});

test('every appscli command in a README exists, with its options', async () => {
  const terminal = { data() {}, info() {} } as never;
  const program = await createProgram({ terminal, env: {}, stages: async () => stages, finish() {} });
  const texts = await Promise.all(DOCUMENTS.map((document) => readFile(join(REPOSITORY, document), 'utf8')));
  const lines = texts.join('\n').replaceAll('\\\n', ' ');
  const shown = [...lines.matchAll(/(?:(?:`|^ *|\.bin\/|\$\()appscli|client\.tgz) ([a-z][^`\n)#]*)/gm)];
  assert.ok(shown.length >= 10);
  for (const [, text] of shown) {
    const words = text!.split(/\\?\||\s+/).filter(Boolean);
    const options = words.filter((word) => word.startsWith('--'));
    const plain = words.slice(0, words.findIndex((word) => !/^[a-z]+(?:-[a-z]+)*$/.test(word)) >>> 0);
    const command = findCommand(program, plain);
    assert.ok(command, `appscli ${text}`);
    const known = command.options.map(({ long }) => long);
    for (const option of options)
      assert.ok(option === '--help' || known.includes(option), `appscli ${text}: ${option}`);
  }
});
