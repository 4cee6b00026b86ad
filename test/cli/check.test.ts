import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { after, test } from 'node:test';
import { defineStage } from '../../engine/api.ts';
import { type CheckOptions, runCheck } from '../../engine/cli/check.ts';
import { stages as shipped } from '../../stages/index.ts';
import { createProject, GATEWAY, type Project, pipelineYaml } from '../load/support/project.ts';

const projects: Project[] = [];
after(() => {
  for (const project of projects) project.remove();
});

function project(files: Readonly<Record<string, string>>): Project {
  const created = createProject(files);
  projects.push(created);
  return created;
}

async function check(paths: readonly string[], options: Partial<CheckOptions> = {}) {
  const data: string[] = [];
  const words: string[] = [];
  const exit_code = await runCheck({
    paths,
    format: 'text',
    deny_warnings: false,
    stages: shipped,
    env: { UPSTREAM_KEY: 'set' },
    color: false,
    data: (text) => void data.push(text),
    words: (text) => void words.push(text),
    ...options,
  });
  return { exit_code, data: data.join(''), words: words.join('') };
}

test('a configuration without mistakes is ok, and the check says what it looked at', async () => {
  const { path } = project({ 'gateway.yaml': GATEWAY });
  const { exit_code, data, words } = await check([path('gateway.yaml')]);
  assert.deepEqual({ exit_code, data }, { exit_code: 0, data: '' });
  assert.match(
    words,
    /^ok: [1-9]\d* pipelines, 1 model, 1 upstream\nspend limits: none, so spending is not bounded\n$/,
  );
});

test('a mistake is exit code 1, findings are data and the count is words', async () => {
  const { path } = project({ 'gateway.yaml': GATEWAY.replace('listen', 'lissten') });
  const { exit_code, data, words } = await check([path('gateway.yaml')]);
  assert.equal(exit_code, 1);
  assert.match(data, /^error\[C3001\]: unknown key `lissten`\n/);
  assert.equal(words, '\n1 error; appscli explain C3001 says more\n');
});

test('a variable that is not set is a warning, and an error only when the gateway is to start', async () => {
  const { path } = project({ 'gateway.yaml': GATEWAY });
  const file = [path('gateway.yaml')];
  const warned = await check(file, { env: {} });
  assert.equal(warned.exit_code, 0);
  assert.match(warned.words, /\(1 warning\)/);
  assert.equal((await check(file, { env: {}, deny_warnings: true })).exit_code, 1);
  const required = await check(file, { env: {}, environment: 'required' });
  assert.equal(required.exit_code, 1);
  assert.match(required.data, /error\[C4011\]/);
});

test('json is one document on standard output and nothing else', async () => {
  const { path } = project({ 'gateway.yaml': GATEWAY });
  const { data, words } = await check([path('gateway.yaml')], { format: 'json' });
  assert.deepEqual(JSON.parse(data), {
    errors: 0,
    warnings: 0,
    diagnostics: [],
    spend_limits: [{ passed_by_at_most_usd: null, not_bounded: ['all spending'] }],
  });
  assert.equal(words, '');
});

test('a directory is searched for configuration; other YAML files are passed over', async () => {
  const { directory } = project({
    'gateway.yaml': `${GATEWAY}pipelines: own\n`,
    'own/mine.yaml': pipelineYaml('  - stage: list-modles'),
    'unused/other.yaml': pipelineYaml('  - stage: list-models', 'Other Name'),
    'unused/fragments/stop.yaml': 'fragment: stop\nversion: 0\nsummary: S.\nstages: [{ stage: fail }]\n',
    'compose.yaml': 'services: {}\n',
    'broken-notes.yaml': 'a: [1\n',
    'unused/tabs.yaml': 'pipeline: tabs\n\tversion: 1\n',
    'node_modules/x/gateway.yaml': 'nonsense: true\n',
  });
  const { data, exit_code } = await check([directory]);
  assert.equal(exit_code, 1);
  assert.deepEqual(
    [...data.matchAll(/^error\[(\w+)\].*\n.* ([\w./-]+):\d+:\d+$/gm)].map(([, code, file]) => [
      code,
      file?.slice(directory.length + 1),
    ]),
    [
      ['C4001', 'own/mine.yaml'],
      ['C3005', 'unused/fragments/stop.yaml'],
      ['C3006', 'unused/other.yaml'],
      ['C1008', 'unused/tabs.yaml'],
    ],
  );
});

test('a pipeline can be checked by itself', async () => {
  const { path } = project({ 'mine.yaml': pipelineYaml('  - stage: report-health') });
  const { exit_code, words } = await check([path('mine.yaml')]);
  assert.equal(exit_code, 0);
  assert.equal(words, 'ok: 1 pipeline\n');
});

test('a file that was asked for and does not exist is a finding', async () => {
  const { path } = project({});
  const { exit_code, data } = await check([path('missing.yaml')]);
  assert.equal(exit_code, 1);
  assert.match(data, /error\[C1001\]/);
});

test('a configuration under any name is one when it is named as such', async () => {
  const { path } = project({ 'staging.yaml': GATEWAY.replace('listen', 'lissten') });
  const { data } = await check([], { config: path('staging.yaml') });
  assert.match(data, /^error\[C3001\]: unknown key `lissten`\n/);
});

test('a pipeline by itself is checked with the gateway.yaml above it, not with another one', async () => {
  const { path } = project({
    'a/gateway.yaml': GATEWAY.replaceAll('main', 'alpha'),
    'b/gateway.yaml': GATEWAY.replaceAll('main', 'beta'),
    'a/more/mine.yaml': pipelineYaml(
      '  - { stage: check-region, options: { upstream: alpha } }\n  - stage: report-health',
    ),
  });
  const regions = defineStage({
    name: 'check-region',
    version: 1,
    summary: 'Names an upstream.',
    options: {
      type: 'object',
      additionalProperties: false,
      properties: { upstream: { type: 'string', description: 'An upstream.', 'x-ref': 'upstream' } },
    },
    examples: [],
    create: () => ({}),
  });
  const { exit_code, data } = await check([path('b'), path('a')], { stages: [...shipped, regions] });
  assert.deepEqual({ exit_code, data }, { exit_code: 0, data: '' });
});

test('links are followed, also in circles, and one that leads nowhere is a finding', async () => {
  const { directory, path } = project({ 'real/gateway.yaml': GATEWAY, '..data/gateway.yaml': GATEWAY });
  symlinkSync(path('..data/gateway.yaml'), path('gateway.yaml'));
  symlinkSync(directory, path('real/up'));
  assert.equal((await check([directory])).exit_code, 0);
  symlinkSync(path('gone.yaml'), path('gateway.yml'));
  const { exit_code, data } = await check([directory]);
  assert.equal(exit_code, 1);
  assert.match(data, /^error\[C1001\]: the file does not exist\n {2}--> \S+gateway\.yml\n$/);
});

test('a pipe is not read, as that might never end', async () => {
  const { path } = project({});
  execFileSync('mkfifo', [path('gateway.yaml')]);
  const { data } = await check([path('gateway.yaml')]);
  assert.match(data, /error\[C1002\]: the file cannot be read: it is a pipe, a socket or a device/);
});

test('findings cannot command the terminal', async () => {
  const { path } = project({ 'gateway.yaml': `${GATEWAY}"\\e[2Jkey": 1\n` });
  const { data } = await check([path('gateway.yaml')]);
  assert.match(data, /unknown key `\uFFFD\[2Jkey`/);
  assert.ok(!data.includes('\x1b'));
});

test('with limits the check says by how much they can be passed, and what no limit bounds', async () => {
  const { path } = project({
    'gateway.yaml': `${GATEWAY}spend_limits: { defaults: { user_daily_usd: 5 }, reserve: worst_case }\n`,
  });
  const { words } = await check([path('gateway.yaml')]);
  assert.match(words, /^spend limits: passed by at most 0 USD\n {2}not bounded: .*tools/m);
});
