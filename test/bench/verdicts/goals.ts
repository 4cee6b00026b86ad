import type { BodyName } from '../bodies.ts';
import type { BodyRound, Enough, Rounds, StreamRound } from '../measure.ts';
import type { StreamPart } from '../options.ts';
import { type Estimate, estimate, estimateRatio, width } from '../statistics.ts';

export const MIB = 1_048_576;

/** The goals, all against the bare hop of the same run, once both are warm. */
const GOALS: {
  readonly bodies: Partial<
    Record<BodyName, { cpu_ratio: number; with_database?: number; p50_ms?: number; p99_ms?: number }>
  >;
  readonly streams: Record<StreamPart, { cpu_ratio: number; ttfb_p50_ms: number; peak_rss_bytes: number }>;
} = {
  // CPU time per request, the same with PostgreSQL's added, and the extra time of a single request.
  bodies: {
    '0.5k': { cpu_ratio: 1.5, with_database: 2.2, p50_ms: 0.6, p99_ms: 2 },
    '100k': { cpu_ratio: 1.1, with_database: 1.5 },
    '1m': { cpu_ratio: 1.1 },
  },
  streams: {
    streams: { cpu_ratio: 1.2, ttfb_p50_ms: 1, peak_rss_bytes: 250 * MIB },
    'long-streams': { cpu_ratio: 1.05, ttfb_p50_ms: 1, peak_rss_bytes: 250 * MIB },
  },
};

/** Rounds continue until the interval of the ratio is narrower than this part of it. */
const NARROW = 0.05;

/** One goal and whether this run met it. */
export interface Decision {
  readonly goal: string;
  readonly measured: string;
  readonly met: boolean;
}

/** Everything that was measured, by body and by kind of streams. */
export interface Measured {
  readonly bodies: Partial<Record<BodyName, Rounds<BodyRound>>>;
  readonly streams: Partial<Record<StreamPart, Rounds<StreamRound>>>;
}

type Costs = readonly { readonly cpu_us: number; readonly database_cpu_us: number }[];

/** CPU time of one server over another's, round by round. */
export function cpuRatio(one: Costs, other: Costs): Estimate {
  const cpu = (costs: Costs) => costs.map(({ cpu_us }) => cpu_us);
  return estimateRatio(cpu(one), cpu(other));
}

/** The same with the databases that the servers brought with them. */
export function cpuWithDatabaseRatio(one: Costs, other: Costs): Estimate {
  const cpu = (costs: Costs) => costs.map(({ cpu_us, database_cpu_us }) => cpu_us + database_cpu_us);
  return estimateRatio(cpu(one), cpu(other));
}

/** Whether the price of governing is known well enough. */
export const ratioIsKnown: Enough<BodyRound | StreamRound> = ({ governed, bare }) =>
  width(cpuRatio(governed!, bare!)) < NARROW;

/** `2.31 ± 0.08`; a question mark where there were too few rounds to say. */
export function withInterval({ value, low, high }: Estimate): string {
  const half = (high - low) / 2;
  return `${value.toFixed(2)} ± ${Number.isFinite(half) ? half.toFixed(2) : '?'}`;
}

/** One server's extra time over another, round by round. */
function more<Round>(one: readonly Round[], other: readonly Round[], of: (round: Round) => number): Estimate {
  return estimate(one.map((round, at) => of(round) - of(other[at]!)));
}

function atMost(goal: string, found: Estimate, most: number | undefined, unit = ''): Decision[] {
  if (most === undefined) return [];
  const measured = `${withInterval(found)}${unit}`;
  return [{ goal: `${goal}, at most ${most}${unit}`, measured, met: found.value <= most }];
}

function evaluateBodies({ bodies }: Measured): Decision[] {
  return Object.entries(bodies).flatMap(([body, rounds]) => {
    const [governed, bare] = [rounds.governed!, rounds.bare!];
    const { cpu_ratio, with_database, p50_ms, p99_ms } = GOALS.bodies[body as BodyName] ?? {};
    const [middle, slow] = (['p50_ms', 'p99_ms'] as const).map((of) =>
      more(governed, bare, ({ single }) => single[of]),
    );
    return [
      ...atMost(`${body}: CPU, governed / bare`, cpuRatio(governed, bare), cpu_ratio),
      ...atMost(`${body}: CPU, (governed + PostgreSQL) / bare`, cpuWithDatabaseRatio(governed, bare), with_database),
      ...atMost(`${body}, one connection: median over bare`, middle!, p50_ms, ' ms'),
      ...atMost(`${body}, one connection: 99th percentile over bare`, slow!, p99_ms, ' ms'),
    ];
  });
}

function judgeStreams({ streams }: Measured): Decision[] {
  return Object.entries(streams).flatMap(([part, rounds]) => {
    const [governed, bare] = [rounds.governed!, rounds.bare!];
    const { cpu_ratio, ttfb_p50_ms, peak_rss_bytes } = GOALS.streams[part as StreamPart];
    const lost = governed.reduce((sum, { events_lost }) => sum + events_lost, 0);
    const peak = Math.max(...governed.map((round) => round.peak_rss_bytes));
    const added = more(governed, bare, (round) => round.ttfb_p50_ms);
    const memory = {
      goal: `${part}: memory, under ${peak_rss_bytes / MIB} MiB`,
      measured: `${(peak / MIB).toFixed(0)} MiB`,
    };
    return [
      ...atMost(`${part}: CPU, governed / bare`, cpuRatio(governed, bare), cpu_ratio),
      ...atMost(`${part}: first byte over bare, median`, added, ttfb_p50_ms, ' ms'),
      { goal: `${part}: events lost, none`, measured: String(lost), met: lost === 0 },
      { ...memory, met: peak < peak_rss_bytes },
    ];
  });
}

/** Compares a run with the goals; unmeasured ones are omitted. */
export function evaluate(measured: Measured): Decision[] {
  const failed = [...Object.values(measured.bodies), ...Object.values(measured.streams)]
    .flatMap(({ governed, bare }) => [...governed!, ...bare!])
    .reduce((sum, round) => sum + round.failed, 0);
  return [
    ...evaluateBodies(measured),
    ...judgeStreams(measured),
    { goal: 'failed requests, none', measured: String(failed), met: failed === 0 },
  ];
}
