import type { BodyName } from './bodies.ts';
import type { BodyMeasurement, StreamMeasurement, Subject } from './measure.ts';
import { median } from './statistics.ts';

/** The goals: governed CPU per request against the bare hop's, and median time to first byte added at 512 streams. */
export const GOALS = { cpu_ratio: 1.5, ttfb_added_ms: 5, events_lost: 0 };

/** Everything one run measured. */
export interface Results {
  readonly when: string;
  readonly node: string;
  readonly cpus: string;
  readonly seconds: number;
  readonly quick: boolean;
  readonly bodies: Partial<Record<BodyName, { bytes: number } & Record<Subject, BodyMeasurement>>>;
  readonly streams?: Record<Subject, StreamMeasurement>;
}

/** One goal and whether this run met it. */
export interface Decision {
  readonly goal: string;
  readonly measured: string;
  readonly met: boolean;
}

const SUBJECTS: readonly { subject: Subject; title: string }[] = [
  { subject: 'direct', title: 'direct' },
  { subject: 'bare', title: 'bare hop' },
  { subject: 'governed', title: 'governed' },
];

const mib = (bytes: number) => `${Math.round(bytes / 1_048_576)}`;
const ms = (value: number) => value.toFixed(2);

function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [header, ...rows];
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  const line = (row: readonly string[]) =>
    row.map((cell, at) => (at < 2 ? cell.padEnd(widths[at]!) : cell.padStart(widths[at]!))).join('  ');
  return [line(header), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)].join('\n');
}

function bodyRows(results: Results): string[][] {
  return Object.entries(results.bodies).flatMap(([name, measured]) =>
    SUBJECTS.map(({ subject, title }) => {
      const one = measured[subject];
      const own = subject !== 'direct';
      return [
        subject === 'direct' ? name : '',
        title,
        own ? one.cpu_us_per_request.toFixed(0) : '',
        subject === 'governed' ? one.database_cpu_us_per_request.toFixed(0) : '',
        one.requests_per_second.toFixed(0),
        own ? ms(one.p50_added_ms.single) : '',
        own ? ms(one.p99_added_ms.single) : '',
        own ? ms(one.p50_added_ms.parallel) : '',
        own ? ms(one.p99_added_ms.parallel) : '',
        own ? mib(one.peak_rss_bytes) : '',
        subject === 'governed' ? cpuRatio(measured).toFixed(2) : '',
      ];
    }),
  );
}

function streamRows(streams: Record<Subject, StreamMeasurement>): string[][] {
  return SUBJECTS.map(({ subject, title }) => {
    const one = streams[subject];
    const own = subject !== 'direct';
    return [
      '',
      title,
      ms(one.ttfb_p50_ms),
      own ? ms(one.ttfb_p50_added_ms) : '',
      own ? ms(one.ttfb_p99_added_ms) : '',
      String(one.events),
      String(one.events_lost),
      String(one.failed),
      own ? one.cpu_us_per_event.toFixed(0) : '',
      own ? mib(one.peak_rss_bytes) : '',
    ];
  });
}

/** Median over the rounds of governed CPU time over the bare hop's. */
function cpuRatio(measured: Record<Subject, BodyMeasurement>): number {
  const { bare, governed } = measured;
  return median(governed.cpu_us_by_round.map((cpu_us, round) => cpu_us / bare.cpu_us_by_round[round]!));
}

/** Compares a run with the goals; what was not measured is left out. */
export function judge(results: Results): Decision[] {
  const decisions: Decision[] = [];
  for (const name of ['0.5k', '100k'] as const) {
    const measured = results.bodies[name];
    if (measured === undefined) continue;
    const ratio = cpuRatio(measured);
    const goal = `governed / bare CPU per request, ${name} body, at most ${GOALS.cpu_ratio}`;
    decisions.push({ goal, measured: ratio.toFixed(2), met: ratio <= GOALS.cpu_ratio });
  }
  if (results.streams !== undefined) {
    const { ttfb_p50_added_ms, events_lost } = results.streams.governed;
    decisions.push({
      goal: `512 streams, median first byte added, under ${GOALS.ttfb_added_ms} ms`,
      measured: `${ms(ttfb_p50_added_ms)} ms`,
      met: ttfb_p50_added_ms < GOALS.ttfb_added_ms,
    });
    decisions.push({ goal: '512 streams, events lost, none', measured: String(events_lost), met: events_lost === 0 });
  }
  const all = [...Object.values(results.bodies), ...(results.streams ? [results.streams] : [])];
  const failed = all.reduce((sum, measured) => sum + measured.governed.failed + measured.bare.failed, 0);
  decisions.push({ goal: 'failed requests, none', measured: String(failed), met: failed === 0 });
  return decisions;
}

/** The run as text, at most 100 columns wide. */
export function renderReport(results: Results): string {
  const parts = [`Node ${results.node}, ${results.cpus}, ${results.seconds.toFixed(0)} s`];
  if (Object.keys(results.bodies).length > 0) {
    const header = [
      'body',
      'server',
      'CPU us',
      'DB us',
      'req/s',
      '1: p50',
      '1: p99',
      '32: p50',
      '32: p99',
      'MiB',
      'ratio',
    ];
    parts.push(
      'CPU of the proxy process (and of PostgreSQL) per request and requests/s at 32 connections; added\n' +
        'latency in ms at 1 and 32 connections against direct; peak memory; ratio = governed / bare CPU',
      table(header, bodyRows(results)),
    );
  }
  if (results.streams !== undefined) {
    const header = ['', 'server', 'TTFB ms', '+p50', '+p99', 'events', 'lost', 'failed', 'us/event', 'MiB'];
    parts.push(
      '512 concurrent streams: time to first byte, and what the server added to it (ms)',
      table(header, streamRows(results.streams)),
    );
  }
  const decisions = judge(results).map(
    ({ goal, measured, met }) => `${met ? 'met   ' : 'MISSED'}  ${goal}: ${measured}`,
  );
  return [...parts, decisions.join('\n')].join('\n\n');
}
