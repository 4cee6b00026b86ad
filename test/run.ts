/**
 * Runs the tests: `node test/run.ts [quick | slow | deep | measures | files] [options]`, the quick tier by default.
 *
 *   --seed N      what is left to chance; every run prints its own
 *   --beside N    beside N busy processes
 *   --date TIME   when the tests begin, on a clock of their own
 *   --name=value  any option of `node --test`
 *
 * Starts one PostgreSQL for all of them and a few processes that take the files in turn. Whatever the tests start ends with
 * this process, also when it is killed.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes, randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { parseArgs } from 'node:util';
import { openSuiteServer } from './support/database.ts';
import { makeSuiteDirectory } from './support/postgres.ts';
import { SEED_NAME } from './support/random.ts';
import { BEGINNING, clockEnvironment } from './support/suite-clock.ts';
import { type FileGroup, filesOf, isTier } from './support/tiers.ts';

const MARK = 'APPSCLI_TEST_RUN';
const SEEDS = 2 ** 31;
/** Once for each of them, in the deep tier. */
const DEEP_SEEDS = 3;

/** CPU seconds that the machine has spent, on anything. */
const cpuSeconds = () =>
  cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0) / 1000;

const [started, cpu_started] = [performance.now(), cpuSeconds()];
process.chdir(join(import.meta.dirname, '..'));
const { values: options, tokens } = parseArgs({
  options: { seed: { type: 'string' }, beside: { type: 'string' }, date: { type: 'string' } },
  allowPositionals: true,
  strict: false,
  tokens: true,
});
const named = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []));
const node_options = tokens.flatMap((token) =>
  token.kind === 'option' && !['seed', 'beside', 'date'].includes(token.name) ? [process.argv[token.index + 2]!] : [],
);
const tier = named.length === 0 ? 'quick' : named.length === 1 && isTier(named[0]!) ? named[0] : undefined;
const cores = availableParallelism();
/** A test that takes longer hangs; in the deep tier they have ten times as much to do. */
const timeout_ms = (tier === 'deep' ? 10 : 1) * 240_000;
const first_seed = Number(options.seed ?? randomInt(SEEDS));
const beside = Number(options.beside ?? 0);
const beginning = String(options.date ?? BEGINNING);

for (const name of ['seed', 'beside', 'date'] as const) if (options[name] === true) fail(`--${name} takes a value`);
if (!Number.isInteger(first_seed) || first_seed < 0 || first_seed >= SEEDS)
  fail('--seed takes a whole number below 2^31');
if (!Number.isInteger(beside) || beside < 0) fail('--beside takes a number of processes');
if (Number.isNaN(Date.parse(beginning))) fail(`--date takes a moment such as ${BEGINNING}`);

function fail(message: string): never {
  console.error(message);
  process.exit(64);
}

const directory = await makeSuiteDirectory();
const mark = randomBytes(8).toString('hex');
// In a session of its own, so that what ends this process does not end the one that cleans up.
const reaper = spawn(process.execPath, ['test/support/reaper.ts', `${MARK}=${mark}`, directory], {
  detached: true,
  stdio: ['pipe', 'pipe', 'inherit'],
});
const left_behind = text(reaper.stdout);
const running = new Set<ChildProcess>();
let interrupted: NodeJS.Signals | undefined;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    interrupted = signal;
    for (const child of running) child.kill('SIGKILL');
  });
}

// This process keeps the machine's clock; whatever it starts has that of the tests.
Object.assign(process.env, { [MARK]: mark }, clockEnvironment(beginning));
const server = await openSuiteServer(directory);
// Whatever a test that was killed leaves there, files and servers, goes with the suite's own server.
const temporary = join(directory, 'tmp');
mkdirSync(temporary, { recursive: true });
const environment = {
  ...process.env,
  ...server.environment,
  // Users see times in their own zone; tests are at home in this one.
  TZ: 'UTC',
  TMPDIR: temporary,
  NODE_COMPILE_CACHE: join(temporary, 'compiled'),
  ...(tier === 'deep' ? { APPSCLI_TEST_RUNS: '10', APPSCLI_TEST_DEEP: '1' } : {}),
};

/** What each process printed after its last file: its counts and its failures. */
const summaries: string[] = [];

/** Runs files in a process of their own until none is left; resolves with its exit code. Prints whole files at a time. */
async function runFiles(seed: number, takeFile: () => string | undefined): Promise<number> {
  const args = [
    `--test-random-seed=${seed}`,
    '--test-reporter=spec',
    `--test-timeout=${timeout_ms}`,
    ...node_options,
    'test/support/worker.ts',
  ];
  const env = { ...environment, [SEED_NAME]: String(seed) };
  const worker = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'], env });
  running.add(worker);
  let printed = '';
  /** Empty once there are none left for it. */
  let file: string | undefined;
  worker.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
    printed += chunk;
  });
  worker.on('message', () => {
    const lines = printed.lastIndexOf('\n') + 1;
    process.stdout.write(printed.slice(0, lines));
    printed = printed.slice(lines);
    file = (interrupted === undefined ? takeFile() : undefined) ?? '';
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

/** Runs the files of a group in as many processes at the same time as it says; resolves with the worst exit code. */
async function runGroup({ queues, processes }: FileGroup, seed: number): Promise<number> {
  const waiting = [...queues];
  const takeTurns = async () => {
    let worst = 0;
    while (waiting.length > 0 && interrupted === undefined) {
      const queue = waiting.shift()!;
      worst = Math.max(worst, await runFiles(seed, () => queue.shift()));
    }
    return worst;
  };
  return Math.max(...(await Promise.all(Array.from({ length: processes }, takeTurns))));
}

const busy = Array.from({ length: beside }, () =>
  spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore', env: { ...process.env, NODE_OPTIONS: '' } }),
);
const seeds = Array.from({ length: tier === 'deep' ? DEEP_SEEDS : 1 }, (_, i) => (first_seed + i) % SEEDS);
const what = `seed ${seeds.join(', ')}${busy.length > 0 ? `, beside ${busy.length} busy processes` : ''}`;
console.log(`${tier ?? 'named files'}: ${what}; the tests begin on ${new Date(beginning).toUTCString()}\n`);
let worst = 0;
for (const seed of seeds) {
  const groups = tier === undefined ? [{ queues: [named], processes: 1 }] : filesOf(tier, cores, seed);
  for (const group of groups) worst = Math.max(worst, await runGroup(group, seed));
}
for (const child of busy) child.kill('SIGKILL');

await server.close();
process.stdout.write(summaries.join(''));
const count = (name: string) =>
  summaries
    .flatMap((text) => [...text.matchAll(new RegExp(`^ℹ ${name} (\\d+)$`, 'gm'))])
    .reduce((sum, [, n]) => sum + Number(n), 0);
const failed = count('fail') + count('cancelled');
reaper.stdin.end();
const left = (await left_behind).trim();
if (left !== '' && interrupted === undefined) {
  console.log(`\n✖ tests left processes behind:\n${left}`);
  worst = Math.max(worst, 1);
}
if (interrupted !== undefined) worst = Math.max(worst, 130);
const unless = worst > 0 && failed === 0 ? ', and not everything was run: see above' : '';
console.log(`\n${count('pass')} passed, ${failed} failed${unless}`);
const seconds = ((performance.now() - started) / 1000).toFixed(1);
console.log(`tests took ${seconds} s, and the machine ${(cpuSeconds() - cpu_started).toFixed(0)} CPU seconds; ${what}`);
process.exitCode = worst;
