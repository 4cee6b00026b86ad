/**
 * What one PostgreSQL carries: `node test/bench/ledger.ts [--quick] [--processes 1,2,4]`. Processes that do nothing but
 * reserve and settle share a database that syncs to disk. Prints the CPU time of a reservation with its settlement at 32
 * callers, then the highest rates at which 99 of 100 reservations take less than 5 ms.
 * @module
 */
import {
  chmodSync,
  closeSync,
  fdatasyncSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { openEmbeddedPostgres } from '../../engine/store/embedded/embedded-postgres.ts';
import { findExistingHome } from '../../engine/store/embedded/postgres-home.ts';
import { readServerState } from '../../engine/store/embedded/postgres-process.ts';
import { type Child, startChild, stopChildren } from './processes.ts';
import type { ClosedJob, LedgerResult, OpenJob, Population } from './servers/ledger-user.ts';
import { median, percentile } from './statistics.ts';

const CALLERS = 32;
const CPU_GOAL_US = 60;
const P99_GOAL_MS = 5;
/** Of the asked rate: less arrives when a process can't keep up. */
const KEPT_UP = 0.97;
const FIRST_RATE = 500;

const MANY: Population = { users: 2000, teams: 500, limits: 'defaults' };
const HOT: Population = { ...MANY, teams: 1 };
const WIDE: Population = { ...HOT, limits: 'all kinds' };
const POPULATIONS: readonly (readonly [name: string, population: Population])[] = [
  ['2000 users, 500 teams', MANY],
  ['2000 users, one team', HOT],
  ['2000 users, one team, 8 limits', WIDE],
];

const { values } = parseArgs({
  options: { quick: { type: 'boolean', default: false }, processes: { type: 'string', default: '1,2,4' } },
});
const processes = values.processes.split(',').map(Number);
const effort = values.quick
  ? { rounds: 3, round_ms: 700, step_ms: 1200 }
  : { rounds: 9, round_ms: 1500, step_ms: 4000 };

const progress = (text: string) => process.stderr.write(`${text}\n`);

const MICROSECONDS_PER_TICK = 10_000;

/** How long the disk takes to make 8 KB last, in milliseconds. */
function syncTimes(directory: string): number[] {
  const file = openSync(join(directory, 'synced'), 'w');
  const page = Buffer.alloc(8192, 1);
  const times = Array.from({ length: 300 }, (_, index) => {
    const started = performance.now();
    writeSync(file, page, 0, page.length, index * page.length);
    fdatasyncSync(file);
    return performance.now() - started;
  });
  closeSync(file);
  return times;
}

/** CPU time of a server and all the processes it ever started, in microseconds; 0 where the system doesn't tell. */
function cpuOfServer(postmaster: number): number {
  try {
    const stat = (pid: string | number) => {
      const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
        .replace(/^.*\) /, '')
        .split(' ')
        .map(Number);
      const [own, ended] = [fields[11]! + fields[12]!, fields[13]! + fields[14]!];
      return { parent: fields[1]!, ticks: own + ended };
    };
    const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== postmaster);
    const children = pids.flatMap((pid) => {
      try {
        const { parent, ticks } = stat(pid);
        return parent === postmaster ? [ticks] : [];
      } catch {
        return [];
      }
    });
    return [stat(postmaster).ticks, ...children].reduce((sum, ticks) => sum + ticks) * MICROSECONDS_PER_TICK;
  } catch {
    return 0;
  }
}

interface CpuMeasurement {
  readonly gateway_us: number;
  readonly database_us: number;
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
}

/** Medians over the rounds of some processes with 32 callers each. */
async function measureCpu(
  users: readonly Child<object>[],
  population: Population,
  postmaster: number,
): Promise<CpuMeasurement> {
  const askAll = (job: ClosedJob) => Promise.all(users.map((user) => user.ask<LedgerResult>('closed', job)));
  const job: ClosedJob = { ...population, callers: CALLERS, duration_ms: effort.round_ms };
  await askAll({ ...job, duration_ms: effort.round_ms * 2 });
  const rounds: CpuMeasurement[] = [];
  for (let round = 0; round < effort.rounds; round++) {
    const before = cpuOfServer(postmaster);
    const results = await askAll(job);
    const sum = (amount: (result: LedgerResult) => number) => results.reduce((total, each) => total + amount(each), 0);
    const requests = sum((result) => result.requests);
    const failed = sum((result) => result.failed);
    if (failed > 0) throw new Error(`${failed} of ${requests} reservations failed`);
    const latencies = results.flatMap(({ latencies_ms }) => latencies_ms);
    rounds.push({
      gateway_us: sum(({ cpu_us }) => cpu_us) / requests,
      database_us: (cpuOfServer(postmaster) - before) / requests,
      per_second: sum((result) => result.requests / result.seconds),
      p50_ms: median(latencies),
      p99_ms: percentile(latencies, 0.99),
    });
  }
  const middle = (name: keyof CpuMeasurement) => median(rounds.map((round) => round[name]));
  return {
    gateway_us: middle('gateway_us'),
    database_us: middle('database_us'),
    per_second: middle('per_second'),
    p50_ms: middle('p50_ms'),
    p99_ms: middle('p99_ms'),
  };
}

interface Step {
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
  readonly carried: boolean;
}

/** Asks all processes together for a rate. */
async function tryRate(users: readonly Child<object>[], population: Population, per_second: number): Promise<Step> {
  const job: OpenJob = { ...population, per_second: per_second / users.length, duration_ms: effort.step_ms };
  const results = await Promise.all(users.map((user) => user.ask<LedgerResult>('open', job)));
  const latencies = results.flatMap(({ latencies_ms }) => latencies_ms);
  const failed = results.reduce((sum, result) => sum + result.failed, 0);
  const arrived = latencies.length / (effort.step_ms / 1000);
  const [p50_ms, p99_ms] = [median(latencies), percentile(latencies, 0.99)];
  const carried = failed === 0 && p99_ms < P99_GOAL_MS && arrived > per_second * KEPT_UP;
  progress(
    `  ${per_second.toFixed(0)} asked, ${arrived.toFixed(0)} came: p50 ${p50_ms.toFixed(2)} ms, p99 ${p99_ms.toFixed(2)} ms`,
  );
  return { per_second: arrived, p50_ms, p99_ms, carried };
}

/** Finds the highest rate that is carried, to about 5 per cent. A step that fails is tried once more: the machine is shared. */
async function highestRate(users: readonly Child<object>[], population: Population): Promise<Step | undefined> {
  const attempt = async (rate: number): Promise<Step> => {
    const step = await tryRate(users, population, rate);
    return step.carried ? step : tryRate(users, population, rate);
  };
  await tryRate(users, population, FIRST_RATE);
  let best: Step | undefined;
  let [low, high] = [0, Number.POSITIVE_INFINITY];
  for (let rate = FIRST_RATE; high / low > 1.06 && rate > FIRST_RATE / 16; ) {
    const step = await attempt(rate);
    if (step.carried) {
      best = step;
      low = rate;
    } else {
      high = rate;
    }
    if (high === Number.POSITIVE_INFINITY) rate = low * 2;
    else rate = low === 0 ? high / 2 : (low + high) / 2;
  }
  return best;
}

function print(header: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = header.map((cell, column) => Math.max(cell.length, ...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join('  ');
  console.log([header, ...rows].map(line).join('\n'));
}

async function measure(url: string, postmaster: number): Promise<boolean> {
  const env = { ...process.env, BENCH_DATABASE_URL: url };
  const users: Child<object>[] = [];
  const need = async (count: number) => {
    while (users.length < count) users.push(await startChild<object>('servers/ledger-user.ts', { env }));
    return users.slice(0, count);
  };

  const cpu_rows: string[][] = [];
  let met = true;
  for (const [name, population] of POPULATIONS) {
    for (const count of processes) {
      progress(`CPU: ${name}, ${count} processes`);
      const measured = await measureCpu(await need(count), population, postmaster);
      const { gateway_us, database_us, per_second, p50_ms, p99_ms } = measured;
      if (population === HOT && count === 1) met = gateway_us <= CPU_GOAL_US;
      const cpu = [gateway_us.toFixed(1), database_us.toFixed(1)];
      cpu_rows.push([name, String(count), ...cpu, per_second.toFixed(0), p50_ms.toFixed(2), p99_ms.toFixed(2)]);
    }
  }
  console.log(
    `As fast as they can, ${CALLERS} callers in each process: microseconds of CPU per reservation with its settlement\n`,
  );
  print(['', 'processes', 'process us', 'PostgreSQL us', 'per second', 'p50 ms', 'p99 ms'], cpu_rows);
  console.log(`\n${met ? 'met   ' : 'MISSED'}  at most ${CPU_GOAL_US} us in the process, one process, one team\n`);

  const rate_rows: string[][] = [];
  for (const [name, population] of POPULATIONS) {
    for (const count of processes) {
      progress(`rate: ${name}, ${count} processes`);
      const best = await highestRate(await need(count), population);
      const cells = best && [best.per_second.toFixed(0), best.p50_ms.toFixed(2), best.p99_ms.toFixed(2)];
      rate_rows.push([name, String(count), ...(cells ?? ['none', '', ''])]);
    }
  }
  console.log(`Highest rate at which the p99 of a reservation is below ${P99_GOAL_MS} ms\n`);
  print(['', 'processes', 'per second', 'p50 ms', 'p99 ms'], rate_rows);
  return met;
}

const directory = mkdtempSync(join(tmpdir(), 'appscli-bench-'));
// As root, PostgreSQL runs under another account, which has to get in.
chmodSync(directory, 0o711);
const data_dir = join(directory, 'postgres');
const silent = { debug: () => {}, info: () => {}, warn: console.error, error: console.error };
const server = await openEmbeddedPostgres({ data_dir, log: silent, supervise: false });
const clean = async () => {
  await stopChildren();
  await server.close();
  rmSync(directory, { recursive: true, force: true });
};
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => clean().then(() => process.exit(130)));
try {
  const { user, password, host, port, database } = server.settings();
  const state = readServerState(findExistingHome(data_dir)!.cluster);
  const postmaster = state.kind === 'running' ? state.pid : 0;
  const syncs = syncTimes(directory);
  console.log(`The disk syncs in ${median(syncs).toFixed(2)} ms (p99 ${percentile(syncs, 0.99).toFixed(2)} ms)\n`);
  const met = await measure(`postgres://${user}:${password}@${host}:${port}/${database}`, postmaster);
  process.exitCode = met ? 0 : 1;
} finally {
  await clean();
}
