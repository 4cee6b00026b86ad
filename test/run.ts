/**
 * Runs the tests: `npm test [-- files or options of node --test]`; `npm run test:slow` and `test:fast` run one lane of the
 * two. Starts one PostgreSQL for all of them, and a few processes that take the files in turn.
 * @module
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { openSuiteServer } from './support/database.ts';
import { lanes } from './support/lanes.ts';

const started = performance.now();
process.chdir(join(import.meta.dirname, '..'));
const given = process.argv.slice(2);
const options = given.filter((argument) => argument.startsWith('-'));
const named = given.filter((argument) => !argument.startsWith('-'));
const lane = named.length === 1 && (named[0] === 'slow' || named[0] === 'fast') ? named[0] : undefined;
const files = named.length > 0 && lane === undefined ? { alone: [], slow: [], fast: named } : lanes(lane);

const alone = [...files.alone];
const slow = [...files.slow];
const fast = [...files.fast];
const running = new Set<ChildProcess>();
let interrupted = false;
// Ctrl-C in a terminal reaches the processes by itself, and being told twice does no harm.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    interrupted = true;
    for (const queue of [alone, slow, fast]) queue.length = 0;
    for (const worker of running) worker.kill(signal);
  });
}

const server = await openSuiteServer();
// Whatever a test that was killed leaves there, files and servers, goes with the suite's own server.
const temporary = join(server.directory, 'tmp');
mkdirSync(temporary, { recursive: true });
const environment = {
  ...process.env,
  ...server.environment,
  // People are told times in their own zone; tests are at home in this one.
  TZ: 'UTC',
  TMPDIR: temporary,
  NODE_COMPILE_CACHE: join(temporary, 'compiled'),
};

/** What a process printed after its last file: its counts and its failures. */
const summaries: string[] = [];

/** Runs files in a process of their own until none is left; resolves with its exit code. Prints whole files at a time. */
async function runFiles(takeFile: () => string | undefined): Promise<number> {
  const args = [
    '--test-randomize',
    '--test-reporter=spec',
    '--test-timeout=240000',
    ...options,
    'test/support/worker.ts',
  ];
  const worker = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'], env: environment });
  running.add(worker);
  let printed = '';
  /** Empty once there are none left for it. */
  let file: string | undefined;
  worker.stdout!.setEncoding('utf8').on('data', (text: string) => {
    printed += text;
  });
  worker.on('message', () => {
    const lines = printed.lastIndexOf('\n') + 1;
    process.stdout.write(printed.slice(0, lines));
    printed = printed.slice(lines);
    file = takeFile() ?? '';
    worker.send(file);
  });
  // One that ended cannot be sent to; its end is what counts.
  worker.on('error', () => {});
  const [status, signal] = (await once(worker, 'close')) as [number | null, NodeJS.Signals | null];
  running.delete(worker);
  if (file !== '') {
    const ended = `its process ended (${signal ?? status}) before the file was done`;
    const idle = `a process ended (${signal ?? status}) before it took a file; write options as --name=value`;
    printed += `\n✖ ${file === undefined ? idle : `${file}: ${ended}`}\n`;
  }
  summaries.push(printed);
  return file === '' ? (status ?? 130) : Math.max(status ?? 130, 1);
}

/** The slow files, each that needs it in a process of its own, and then what is left of the others. */
async function runSlow(): Promise<number> {
  let worst = 0;
  for (let file = alone.shift(); file !== undefined; file = alone.shift()) {
    const only = [file];
    worst = Math.max(worst, await runFiles(() => only.shift()));
  }
  return slow.length + fast.length === 0 ? worst : Math.max(worst, await runFiles(() => slow.shift() ?? fast.shift()));
}

// Slow tests wait most of the time, and the others as long as they compute: two cores are worth four processes, and
// with more the slowest file takes three times as long.
const of_slow = Math.min(2, alone.length + slow.length);
const of_fast = Math.min(Math.max(2, availableParallelism() - 1), fast.length);
const codes = await Promise.all([
  ...Array.from({ length: of_slow }, runSlow),
  ...Array.from({ length: of_fast }, () => runFiles(() => fast.shift() ?? slow.shift())),
]);
await server.close();
process.stdout.write(summaries.join(''));
const count = (name: string) =>
  summaries
    .flatMap((text) => [...text.matchAll(new RegExp(`^ℹ ${name} (\\d+)$`, 'gm'))])
    .reduce((sum, [, n]) => sum + Number(n), 0);
const failed = count('fail') + count('cancelled');
const worst = Math.max(...codes, interrupted ? 130 : 0);
const unless = worst > 0 && failed === 0 ? ', and not everything was run: see above' : '';
console.log(`\n${count('pass')} passed, ${failed} failed${unless}`);
console.log(`tests took ${((performance.now() - started) / 1000).toFixed(1)} s`);
process.exitCode = worst;
