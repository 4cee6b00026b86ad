/**
 * Runs the tests: `npm test [-- files or options of node --test]`. Starts one PostgreSQL for all of them.
 * @module
 */
import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { startSuiteServer } from './support/postgres.ts';

const started = performance.now();
process.chdir(join(import.meta.dirname, '..'));
const given = process.argv.slice(2);
const files = given.some((argument) => !argument.startsWith('-')) ? [] : ['test/**/*.test.ts'];

const server = await startSuiteServer();
// Whatever a test that was killed leaves there, files and servers, goes with the suite's own server.
const temporary = join(server.directory, 'tmp');
mkdirSync(temporary);
// Tests wait more than they compute, so two cores are worth two files; node would run one.
const files_at_once = Math.max(2, availableParallelism() - 1);
// Every file is a process that compiles much of the same code.
const compile_cache = join(temporary, 'compiled');
const runner = spawn(
  process.execPath,
  [
    '--test',
    '--test-randomize',
    '--test-reporter=spec',
    '--test-timeout=120000',
    `--test-concurrency=${files_at_once}`,
    ...given,
    ...files,
  ],
  {
    stdio: 'inherit',
    env: {
      ...process.env,
      APPSCLI_TEST_POSTGRES_URL: server.url,
      TMPDIR: temporary,
      NODE_COMPILE_CACHE: compile_cache,
    },
  },
);
// Ctrl-C in a terminal reaches the runner by itself, and being told twice does no harm.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => runner.kill(signal));

const code = await new Promise<number>((resolve) => {
  runner.once('error', () => resolve(1));
  runner.once('exit', (status) => resolve(status ?? 130));
});
await server.close();
console.log(`tests took ${((performance.now() - started) / 1000).toFixed(1)} s`);
process.exitCode = code;
