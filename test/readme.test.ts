/** What the README says is true: its configurations pass the check, its links lead somewhere, its scripts exist. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { load } from '../engine/load/index.ts';
import { stages } from '../stages/index.ts';

const REPOSITORY = fileURLToPath(new URL('..', import.meta.url));
const DOCUMENTS = ['README.md', 'CONTRIBUTING.md', 'examples/README.md', 'stages/README.md'];

async function blocksOf(document: string, language: string): Promise<string[]> {
  const text = await readFile(join(REPOSITORY, document), 'utf8');
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, found, block]) =>
    found === language ? [block!] : [],
  );
}

test('every gateway.yaml in the README passes the check with nothing to say but that its variables are not set', async () => {
  const configurations = (await blocksOf('README.md', 'yaml')).filter((block) => /^server:/m.test(block));
  assert.ok(configurations.length >= 2);
  const directory = await mkdtemp(join(tmpdir(), 'appscli-readme-'));
  for (const configuration of configurations) {
    const file = join(directory, 'gateway.yaml');
    await writeFile(file, configuration);
    const env = Object.fromEntries([...configuration.matchAll(/_env: (\w+)/g)].map(([, name]) => [name, 'set']));
    const { diagnostics, config } = await load(file, { stages, env, environment: 'required' });
    assert.deepEqual(diagnostics, []);
    assert.notEqual(config, undefined);
  }
  await rm(directory, { recursive: true });
});

test('every link between documents leads to something', async () => {
  for (const document of DOCUMENTS) {
    const text = await readFile(join(REPOSITORY, document), 'utf8');
    for (const [, link] of text.matchAll(/\]\((?!https?:)([^)#]+)\)/g)) {
      assert.ok(existsSync(join(REPOSITORY, dirname(document), link!)), `${document} links to ${link}`);
    }
  }
});

test('every npm script that the README names exists', async () => {
  const { scripts } = JSON.parse(await readFile(join(REPOSITORY, 'package.json'), 'utf8'));
  const commands = (await blocksOf('README.md', 'sh')).join('\n');
  const named = [...commands.matchAll(/npm (?:run )?(start|test|verify|bench|\w+(?= #))/g)].map(([, name]) => name!);
  for (const name of named.filter((name) => name !== 'install')) assert.ok(name in scripts, name);
  assert.ok(named.length >= 4);
});
