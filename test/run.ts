/**
 * Runs the tests: `npm test [-- files or options of node --test]`. Starts one PostgreSQL for all of them.
 * @module
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createTemplate } from './support/database.ts';
import { everythingButPure, PURE_FOLDERS, testsBelow } from './support/lanes.ts';
import { startSuiteServer } from './support/postgres.ts';

const started = performance.now();
process.chdir(join(import.meta.dirname, '..'));
const given = process.argv.slice(2);
const has_files = given.some((argument) => !argument.startsWith('-'));

const server = await startSuiteServer();
const template = await createTemplate(server.url);
// Whatever a test that was killed leaves there, files and servers, goes with the suite's own server.
const temporary = join(server.directory, 'tmp');
mkdirSync(temporary);
// Tests wait as long as they compute, so two cores are worth three files; node would run one.
const files_at_once = Math.max(3, availableParallelism() - 1);
// Every file is a process that compiles much of the same code.
const compile_cache = join(temporary, 'compiled');
const environment = {
  ...process.env,
  APPSCLI_TEST_POSTGRES_URL: server.url,
  APPSCLI_TEST_POSTGRES_TEMPLATE: template,
  TMPDIR: temporary,
  NODE_COMPILE_CACHE: compile_cache,
};
const running = new Set<ChildProcess>();
// Ctrl-C in a terminal reaches the runners by itself, and being told twice does no harm.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    for (const runner of running) runner.kill(signal);
  });
}

/** Runs test files; the exit code. What `report: 'at the end'` prints does not mix with what others print. */
async function runTests(options: readonly string[], report: 'as it comes' | 'at the end'): Promise<number> {
  const args = ['--test', '--test-randomize', '--test-reporter=spec', '--test-timeout=120000', ...options];
  const piped = report === 'at the end';
  const runner = spawn(process.execPath, args, { stdio: piped ? 'pipe' : 'inherit', env: environment });
  running.add(runner);
  const printed: Buffer[] = [];
  for (const stream of [runner.stdout, runner.stderr]) stream?.on('data', (bytes: Buffer) => printed.push(bytes));
  const code = await new Promise<number>((resolve) => {
    runner.once('error', () => resolve(1));
    runner.once('close', (status) => resolve(status ?? 130));
  });
  running.delete(runner);
  process.stdout.write(Buffer.concat(printed));
  return code;
}

const separately = [`--test-concurrency=${files_at_once}`, ...given];
const codes = has_files
  ? [await runTests(separately, 'as it comes')]
  : await Promise.all([
      runTests([...separately, ...everythingButPure()], 'as it comes'),
      runTests(['--test-isolation=none', ...given, ...PURE_FOLDERS.map(testsBelow)], 'at the end'),
    ]);
await server.close();
console.log(`tests took ${((performance.now() - started) / 1000).toFixed(1)} s`);
process.exitCode = Math.max(...codes);
