import type { BodyName } from '../bodies.ts';
import type { BodyRound, Enough, Rounds, StreamRound } from '../measure.ts';
import type { StreamPart } from '../options.ts';
import { type Estimate, estimate, estimateRatio, width } from '../statistics.ts';

export const MIB = 1_048_576;

/** The goals, all against the bare hop of the same run, once both are warm. */
export const GOALS = {
  /** CPU time per request, by body. */
  cpu_ratio: { '0.5k': 1.5, '100k': 1.1, '1m': 1.1 } as Partial<Record<BodyName, number>>,
  /** The same with PostgreSQL's added. */
  cpu_with_database_ratio: { '0.5k': 2.2, '100k': 1.5 } as Partial<Record<BodyName, number>>,
  /** The extra time of a single request of 0.5 KB. */
  single_ms: { p50: 0.6, p99: 2 },
  streams: {
    streams: { cpu_ratio: 1.2, ttfb_p50_ms: 1, peak_rss_bytes: 250 * MIB },
    'long-streams': { cpu_ratio: 1.05, ttfb_p50_ms: 1, peak_rss_bytes: 250 * MIB },
  } satisfies Record<StreamPart, object>,
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

function atMost(goal: string, found: Estimate, most: number, unit = ''): Decision {
  return {
    goal: `${goal}, at most ${most}${unit}`,
    measured: `${withInterval(found)}${unit}`,
    met: found.value <= most,
  };
}

function evaluateBodies({ bodies }: Measured): Decision[] {
  return Object.entries(bodies).flatMap(([name, rounds]) => {
    const body = name as BodyName;
    const [governed, bare] = [rounds.governed!, rounds.bare!];
    const decisions: Decision[] = [];
    const alone = GOALS.cpu_ratio[body];
    if (alone !== undefined) decisions.push(atMost(`${body}: CPU, governed / bare`, cpuRatio(governed, bare), alone));
    const together = GOALS.cpu_with_database_ratio[body];
    if (together !== undefined)
      decisions.push(
        atMost(`${body}: CPU, (governed + PostgreSQL) / bare`, cpuWithDatabaseRatio(governed, bare), together),
      );
    if (body === '0.5k') {
      const { p50, p99 } = GOALS.single_ms;
      const [middle, slow] = [
        more(governed, bare, ({ single }) => single.p50_ms),
        more(governed, bare, ({ single }) => single.p99_ms),
      ];
      decisions.push(atMost('0.5k, one connection: median over bare', middle, p50, ' ms'));
      decisions.push(atMost('0.5k, one connection: 99th percentile over bare', slow, p99, ' ms'));
    }
    return decisions;
  });
}

function judgeStreams({ streams }: Measured): Decision[] {
  return Object.entries(streams).flatMap(([part, rounds]) => {
    const [governed, bare] = [rounds.governed!, rounds.bare!];
    const { cpu_ratio, ttfb_p50_ms, peak_rss_bytes } = GOALS.streams[part as StreamPart];
    const lost = governed.reduce((sum, { events_lost }) => sum + events_lost, 0);
    const peak = Math.max(...governed.map((round) => round.peak_rss_bytes));
    const added = more(governed, bare, (round) => round.ttfb_p50_ms);
    return [
      atMost(`${part}: CPU, governed / bare`, cpuRatio(governed, bare), cpu_ratio),
      atMost(`${part}: first byte over bare, median`, added, ttfb_p50_ms, ' ms'),
      { goal: `${part}: events lost, none`, measured: String(lost), met: lost === 0 },
      {
        goal: `${part}: memory, under ${peak_rss_bytes / MIB} MiB`,
        measured: `${(peak / MIB).toFixed(0)} MiB`,
        met: peak < peak_rss_bytes,
      },
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
