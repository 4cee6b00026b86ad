import { COLD_REQUESTS, type ColdStart, type Rounds, STREAMS, type StreamRound } from '../measure.ts';
import type { StreamPart } from '../options.ts';
import { type Estimate, median } from '../statistics.ts';
import { cpuRatio, cpuWithDatabaseRatio, type Decision, type Measured, MIB, withInterval } from './goals.ts';

/** Everything one run measured. */
export interface Results extends Measured {
  readonly when: string;
  readonly node: string;
  readonly cpus: string;
  readonly seconds: number;
  readonly quick: boolean;
  readonly cold: Readonly<Record<string, ColdStart>>;
}

/** Rows below their titles, the first column to the left. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]) =>
    row.map((cell, at) => (at === 0 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))).join('  ');
  return [line(header), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n');
}

/** A cell: empty for an unknown value, and for a database that a server does not have. */
const cell = (value: number, digits = 0) => (Number.isFinite(value) ? value.toFixed(digits) : '');
const positive = (value: number, digits = 0) => (value > 0 ? cell(value, digits) : '');

type Costs = readonly {
  readonly cpu_us: number;
  readonly database_cpu_us: number;
  readonly peak_rss_bytes: number;
}[];

/** A column: its title, and one server's rounds in it, beside those of the bare hop. */
type Column<Round> = readonly [title: string, cell: (rounds: readonly Round[], bare: readonly Round[]) => string];

const of =
  <Round>(read: (round: Round) => number, digits = 0): Column<Round>[1] =>
  (rounds) =>
    cell(median(rounds.map(read)), digits);

const total =
  <Round>(read: (round: Round) => number): Column<Round>[1] =>
  (rounds) =>
    String(rounds.reduce((sum, round) => sum + read(round), 0));

/** Nothing where no round could be used. */
const ratio = (one: Estimate): string => (one.rounds === 0 ? '' : withInterval(one));

function costColumns(unit: string, digits: number): readonly Column<Costs[number]>[] {
  return [
    [unit, of(({ cpu_us }) => cpu_us, digits)],
    ['DB us', (rounds) => positive(median(rounds.map(({ database_cpu_us }) => database_cpu_us)), digits)],
    ['ratio', (rounds, bare) => (rounds === bare ? '' : ratio(cpuRatio(rounds, bare)))],
    [
      'with DB',
      (mine, bare) =>
        mine === bare || !mine.some(({ database_cpu_us }) => database_cpu_us > 0)
          ? ''
          : ratio(cpuWithDatabaseRatio(mine, bare)),
    ],
  ];
}

const PEAK: Column<Costs[number]> = [
  'MiB',
  (rounds) => cell(Math.max(...rounds.map(({ peak_rss_bytes }) => peak_rss_bytes)) / MIB),
];

/** One table: a row for each server. Of the upstream itself only how fast it is. */
function tableOf<Round extends Costs[number]>(
  parts: readonly (readonly [name: string, rounds: Rounds<Round>])[],
  columns: readonly Column<Round>[],
): string {
  const costs = new Set(['CPU us', 'us/event', 'DB us', 'ratio', 'with DB', 'MiB']);
  const rows = parts.flatMap(([part, rounds]) =>
    Object.entries(rounds).map(([server, mine]) => [
      `${part} ${server}`.trim(),
      ...columns.map(([title, show]) => (server === 'direct' && costs.has(title) ? '' : show(mine, rounds.bare!))),
    ]),
  );
  return table(['', ...columns.map(([title]) => title)], rows);
}

/** The decisions, one line each. */
export function renderDecisions(decisions: readonly Decision[]): string {
  return decisions.map(({ goal, measured, met }) => `${met ? 'met   ' : 'MISSED'}  ${goal}: ${measured}`).join('\n');
}

/** The run as text, at most 110 columns wide. */
export function renderReport({ node, cpus, seconds, cold, bodies: by_body, streams }: Results): string {
  const parts = [`Node ${node}, ${cpus}, ${seconds.toFixed(0)} s`];
  parts.push(
    `The first ${COLD_REQUESTS} requests of 0.5 KB after the start, at 32 connections: latency in ms`,
    table(
      ['', 'CPU us', 'DB us', 'p50', 'p99', 'failed'],
      Object.entries(cold).map(([server, { cpu_us, database_cpu_us, p50_ms, p99_ms, failed }]) => [
        server,
        ...[cell(cpu_us), positive(database_cpu_us), cell(p50_ms, 1), cell(p99_ms, 1), String(failed)],
      ]),
    ),
  );
  const bodies = Object.entries(by_body);
  if (bodies.length > 0) {
    const rounds = bodies.map(([name, { bare }]) => `${bare!.length} of ${name}`).join(', ');
    parts.push(
      `Warm: CPU per request of the server's process, and of the PostgreSQL it brought with it, at 32 connections;\n` +
        `ratio = its CPU / bare; latency in ms at 1 and 32 connections; peak memory. Rounds: ${rounds}`,
      tableOf(bodies, [
        ...costColumns('CPU us', 0),
        ['req/s', of(({ per_second }) => per_second)],
        ['1: p50', of(({ single }) => single.p50_ms, 2)],
        ['1: p99', of(({ single }) => single.p99_ms, 2)],
        ['32: p50', of(({ parallel }) => parallel.p50_ms, 1)],
        ['32: p99', of(({ parallel }) => parallel.p99_ms, 1)],
        PEAK,
      ]),
    );
  }
  for (const [part, rounds] of Object.entries(streams)) parts.push(...streamsText(part as StreamPart, rounds));
  return parts.join('\n\n');
}

function streamsText(part: StreamPart, rounds: Rounds<StreamRound>): string[] {
  const { streams, events, interval_ms } = STREAMS[part];
  return [
    `${streams} streams at once of ${events} events, ${interval_ms} ms apart: CPU per event, time to first byte in ms. Rounds: ${rounds.bare!.length}`,
    tableOf(
      [['', rounds]],
      [
        ...costColumns('us/event', 1),
        ['TTFB p50', of(({ ttfb_p50_ms }) => ttfb_p50_ms, 2)],
        ['p99', of(({ ttfb_p99_ms }) => ttfb_p99_ms, 2)],
        ['events', total((round) => round.events)],
        ['lost', total((round) => round.events_lost)],
        ['failed', total((round) => round.failed)],
        PEAK,
      ],
    ),
  ];
}
