import type { BodyRound, Rounds, StreamRound } from '../measure.ts';
import { median } from '../statistics.ts';
import { cpuRatio, cpuWithDatabaseRatio, type Decision, type Measured, withInterval } from './goals.ts';

/** Everything one run measured. */
export interface Results extends Measured {
  readonly when: string;
  readonly node: string;
  readonly cpus: string;
  readonly seconds: number;
  readonly quick: boolean;
}

const MIB = 1_048_576;

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]) =>
    row.map((cell, at) => (at < 2 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))).join('  ');
  return [line(header), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n');
}

/** A cell: nothing for what nobody can tell. */
const cell = (value: number, digits = 0) => (Number.isFinite(value) ? value.toFixed(digits) : '');

const middle = <Round>(rounds: readonly Round[], of: (round: Round) => number) => median(rounds.map(of));

const most = (rounds: readonly { readonly peak_rss_bytes: number }[]) =>
  Math.max(...rounds.map(({ peak_rss_bytes }) => peak_rss_bytes)) / MIB;

/** The ratios to the bare hop; nothing for the bare hop itself, and for what is no proxy. */
function ratios(name: string, rounds: Rounds<BodyRound | StreamRound>): [alone: string, with_database: string] {
  const [mine, bare] = [rounds[name]!, rounds.bare!];
  const alone = name === 'bare' || name === 'direct' ? undefined : cpuRatio(mine, bare);
  if (alone === undefined || alone.rounds === 0) return ['', ''];
  const own_database = mine.some(({ database_cpu_us }) => database_cpu_us > 0);
  return [withInterval(alone), own_database ? withInterval(cpuWithDatabaseRatio(mine, bare)) : ''];
}

const BODY_HEADER = ['body', 'server', 'CPU us', 'DB us', 'ratio', 'with DB'].concat([
  'req/s',
  '1: p50',
  '1: p99',
  '32: p50',
  '32: p99',
  'MiB',
]);

function bodyRows(body: string, rounds: Rounds<BodyRound>): string[][] {
  return Object.entries(rounds).map(([name, mine], at) => {
    const proxy = name !== 'direct';
    const database = middle(mine, (round) => round.database_cpu_us);
    return [
      at === 0 ? body : '',
      name,
      proxy ? cell(middle(mine, (round) => round.cpu_us)) : '',
      database > 0 ? cell(database) : '',
      ...ratios(name, rounds),
      cell(middle(mine, (round) => round.per_second)),
      cell(
        middle(mine, ({ single }) => single.p50_ms),
        2,
      ),
      cell(
        middle(mine, ({ single }) => single.p99_ms),
        2,
      ),
      cell(
        middle(mine, ({ parallel }) => parallel.p50_ms),
        1,
      ),
      cell(
        middle(mine, ({ parallel }) => parallel.p99_ms),
        1,
      ),
      proxy ? cell(most(mine)) : '',
    ];
  });
}

const STREAM_HEADER = ['', 'server', 'us/event', 'DB us', 'ratio', 'with DB'].concat([
  'TTFB p50',
  'p99',
  'events',
  'lost',
  'failed',
  'MiB',
]);

function streamRows(rounds: Rounds<StreamRound>): string[][] {
  return Object.entries(rounds).map(([name, mine]) => {
    const proxy = name !== 'direct';
    const total = (of: (round: StreamRound) => number) => String(mine.reduce((sum, round) => sum + of(round), 0));
    const database = middle(mine, (round) => round.database_cpu_us);
    return [
      '',
      name,
      proxy
        ? cell(
            middle(mine, (round) => round.cpu_us),
            1,
          )
        : '',
      database > 0 ? cell(database, 1) : '',
      ...ratios(name, rounds),
      cell(
        middle(mine, (round) => round.ttfb_p50_ms),
        2,
      ),
      cell(
        middle(mine, (round) => round.ttfb_p99_ms),
        2,
      ),
      total((round) => round.events),
      total((round) => round.events_lost),
      total((round) => round.failed),
      proxy ? cell(most(mine)) : '',
    ];
  });
}

/** What was decided, one line each. */
export function renderDecisions(decisions: readonly Decision[]): string {
  return decisions.map(({ goal, measured, met }) => `${met ? 'met   ' : 'MISSED'}  ${goal}: ${measured}`).join('\n');
}

/** The run as text, at most 110 columns wide. */
export function renderReport(results: Results): string {
  const parts = [`Node ${results.node}, ${results.cpus}, ${results.seconds.toFixed(0)} s`];
  const bodies = Object.entries(results.bodies);
  if (bodies.length > 0) {
    const rounds = bodies.map(([name, { bare }]) => `${bare!.length} of ${name}`).join(', ');
    parts.push(
      `CPU per request of the server's process, and of the PostgreSQL it brought with it, at 32 connections;\n` +
        `ratio = its CPU / bare; latency in ms at 1 and 32 connections; peak memory. Rounds: ${rounds}`,
      table(
        BODY_HEADER,
        bodies.flatMap(([name, measured]) => bodyRows(name, measured)),
      ),
    );
  }
  if (results.streams !== undefined)
    parts.push(
      `512 streams at once: CPU per event, time to first byte in ms. Rounds: ${results.streams.bare!.length}`,
      table(STREAM_HEADER, streamRows(results.streams)),
    );
  return parts.join('\n\n');
}
