import { appendFileSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import { findExistingHome, openEmbeddedPostgres, readServerState } from '../../engine/base/store/embedded-postgres.ts';
import { until } from '../support/until.ts';
import { type Effort, loadForDatabase } from './measure.ts';
import type { Child } from './processes.ts';
import type { Server } from './servers.ts';
import { table } from './verdicts/report.ts';

/** The cost of one statement for a request. */
export interface StatementCost {
  /** The function or procedure that it calls, else how it begins. */
  readonly name: string;
  readonly calls: number;
  readonly cpu_us: number;
}

/** The time of one function per request, without those that it calls, waits included. */
export interface FunctionTime {
  readonly name: string;
  readonly calls: number;
  readonly own_us: number;
}

/** The database cost of a request. */
export interface DatabaseCost {
  readonly requests: number;
  /** CPU time of all its processes per request. */
  readonly cpu_us: number;
  readonly statements: readonly StatementCost[];
  /** Those in PL/pgSQL: one statement does several things. */
  readonly functions: readonly FunctionTime[];
}

const QUIET = { debug() {}, info() {}, warn() {}, error() {} };

/** Has PostgreSQL write the processor time of each statement into its log, and count the time of functions. */
const SETTINGS = 'log_statement_stats = on\nlog_error_verbosity = default\ntrack_functions = pl\n';
/** Backends report their times of functions no later than this after they fell idle. */
const REPORT_MS = 11_000;

/** The cost of each statement of the gateway for a request of 0.5 KB at 32 connections. */
export async function measureDatabase(server: Server, load: Child<unknown>, effort: Effort): Promise<DatabaseCost> {
  const data_dir = server.data_dir!;
  const { cluster, log_file } = findExistingHome(data_dir)!;
  appendFileSync(join(cluster, 'postgresql.conf'), SETTINGS);
  const state = readServerState(cluster);
  if (state.kind === 'running') process.kill(state.pid, 'SIGHUP');
  const postgres = await openEmbeddedPostgres({ data_dir, log: QUIET, supervise: false });
  const client = new pg.Client(postgres.settings());
  await client.connect();
  try {
    await until('PostgreSQL times its statements', async () => {
      const { rows } = await client.query('show log_statement_stats');
      return rows[0].log_statement_stats === 'on';
    });
    const { size } = statSync(log_file);
    const { requests, database_cpu_us } = await loadForDatabase(server, load, effort);
    const written = readFileSync(log_file).subarray(size).toString();
    await new Promise((resolve) => setTimeout(resolve, REPORT_MS));
    const { rows: functions } = await client.query<FunctionTime>(
      `select funcname as name, calls / $1::float8 as calls, self_time * 1000 / $1 as own_us
       from pg_stat_user_functions order by self_time desc`,
      [requests],
    );
    return { requests, cpu_us: database_cpu_us, statements: statementsIn(written, requests), functions };
  } finally {
    await client.end();
    await postgres.close();
  }
}

/** An entry of the log: seconds of the processor as user and as system, and the statement. */
const ENTRY =
  /(\w+) (?:MESSAGE )?STATISTICS\n.*\n\s+!\s+([\d.]+) s user, ([\d.]+) s system(?:.*\n)+?.*STATEMENT:\s+(.*)/g;

function statementsIn(log: string, requests: number): StatementCost[] {
  const entries = [...log.matchAll(ENTRY)].map(([, step, user, system, text = '']) => ({
    name: /(\w+)\s*\(/.exec(text)?.[1] ?? text.slice(0, 40),
    calls: Number(step === 'EXECUTE' || step === 'QUERY'),
    seconds: Number(user) + Number(system),
  }));
  const costs = [...Map.groupBy(entries, ({ name }) => name)].map(([name, all]) => ({
    name,
    calls: all.reduce((sum, { calls }) => sum + calls, 0) / requests,
    cpu_us: (all.reduce((sum, { seconds }) => sum + seconds, 0) * 1e6) / requests,
  }));
  return costs.toSorted((a, b) => b.cpu_us - a.cpu_us);
}

/** The purposes of statements and functions, the first that fits. */
const PARTS: readonly (readonly [part: string, names: RegExp])[] = [
  ['audit record', /^audit_|shadows/],
  ['sums', /usage/],
  ['lease', /lease|_lots/],
  ['row', /_rows|write_(?:reserved|ledger)/],
  ['settlement and reservation', /settle|counters|requests|insert_reserved/],
  ['all that waits, in one statement', /^spend|^carry|_batch/],
  ['other', /(?:)/],
];

/** The database cost, as text. */
export function renderDatabase({ requests, cpu_us, statements, functions }: DatabaseCost): string {
  const isOf = (part: string, name: string) => PARTS.find(([, names]) => names.test(name))![0] === part;
  const sum = (some: readonly StatementCost[]) => some.reduce((all, each) => all + each.cpu_us, 0);
  const rows = PARTS.flatMap(([part]) => {
    const sent = statements.filter(({ name }) => isOf(part, name));
    const ran = functions.filter(({ name }) => isOf(part, name));
    const own = ran.reduce((all, { own_us }) => all + own_us, 0);
    const timings = [
      ...sent.map(({ name, calls, cpu_us }) => ({ name, calls, cells: [cpu_us.toFixed(1), ''], us: cpu_us })),
      ...ran.map(({ name, calls, own_us }) => ({
        name: `${name}()`,
        calls,
        cells: ['', own_us.toFixed(1)],
        us: own_us,
      })),
    ].filter(({ us }) => us >= 0.1);
    if (timings.length === 0) return [];
    const lines = timings.map(({ name, calls, cells }) => [`  ${name}`, calls.toFixed(3), ...cells]);
    return [
      [part, '', sent.length === 0 ? '' : sum(sent).toFixed(1), ran.length === 0 ? '' : own.toFixed(1)],
      ...lines,
    ];
  });
  const rest = cpu_us - sum(statements);
  return [
    `PostgreSQL per request of 0.5 KB, ${requests} of them at 32 connections, in us: CPU time by statement, triggers included,`,
    'and how long functions took without those that they called, waits included',
    table(
      ['', 'calls', 'CPU', 'own time'],
      [...rows, ['commits, background', '', rest.toFixed(1), ''], ['all', '', cpu_us.toFixed(1), '']],
    ),
  ].join('\n');
}
