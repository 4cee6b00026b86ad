import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { createProject, GATEWAY, type Project } from '../load/support/project.ts';
import { createTestDatabase } from '../support/database.ts';
import { freePort } from '../support/free-port.ts';
import { answerJson, startUpstream } from '../support/model-provider/scripted-upstream.ts';
import { use } from '../support/use.ts';
import { cli } from './support.ts';

const KEY = 'sk-planted-0123456789';

let project: Project;
let env: NodeJS.ProcessEnv;

const database = use(createTestDatabase, ({ drop }) => drop());
const upstream = use(startUpstream);
before(async () => {
  upstream.script = answerJson({ object: 'list', data: [] });
  const text = GATEWAY.replace('127.0.0.1:8080', `127.0.0.1:${await freePort()}`)
    .replace('https://gateway.example.com', 'http://127.0.0.1:9')
    .replace('https://api.example.com', upstream.url);
  project = createProject({ 'gateway.yaml': `${text}database: { postgres: { url_env: DATABASE_URL } }\n` });
  env = { PATH: process.env.PATH, UPSTREAM_KEY: KEY, DATABASE_URL: database.url };
});

const doctor = (more: readonly string[] = [], input = env) =>
  cli(['doctor', '--config', project.path('gateway.yaml'), ...more], { env: input });

test('doctor --config reports on the gateway host in lines, and exits 0 where nothing fails', async () => {
  const { exit_code, stdout, stderr } = await doctor();
  assert.equal(exit_code, 0, stdout + stderr);
  assert.match(stdout, /^ok {7}listens on 127\.0\.0\.1:\d+: nothing listens there: the port is free/m);
  assert.match(stdout, /^ok {7}database: PostgreSQL \d+\.\d+, schema up to date/m);
  assert.match(stdout, /^ok {7}upstream main: responds with status 200/m);
  assert.match(stderr, /\d+ ok/);
  assert.ok(
    stdout.split('\n').every((line) => line.length <= 80 || !line.includes(' ', 20)),
    'a line is too long',
  );
  for (const secret of [KEY, new URL(database.url).password]) assert.ok(!(stdout + stderr).includes(secret));
});

test('doctor --config is JSON for programs, and exits 1 on a failure', async () => {
  upstream.script = answerJson({ error: {} }, 401);
  const { exit_code, stdout } = await doctor(['--json']);
  upstream.script = answerJson({ object: 'list', data: [] });
  assert.equal(exit_code, 1);
  const { command, checks, config } = JSON.parse(stdout);
  assert.equal(command, 'doctor');
  assert.equal(config, project.path('gateway.yaml'));
  const failed = checks.filter((check: { verdict: string }) => check.verdict === 'failed');
  const places = failed.map(({ id, where }: { id: string; where: string }) => `${id} ${where.replace(/.*\//, '')}`);
  assert.deepEqual(places, ['upstream.reach gateway.yaml:5']);
  assert.ok(!stdout.includes(KEY));
});
