import type { BodyName } from './bodies.ts';
import type { RequestsJob, RequestsResult, StreamsJob, StreamsResult, Target } from './load/generator.ts';
import type { Child } from './processes.ts';
import type { ProcessUsage } from './servers/parent.ts';
import { median } from './statistics.ts';

/** What is measured: the upstream itself, the hop without governance, the gateway. */
export type Subject = 'direct' | 'bare' | 'governed';

/** A running subject. */
export interface Server {
  readonly subject: Subject;
  readonly target: Target;
  readonly child: Child<unknown>;
}

/** How long and how often. */
export interface Effort {
  readonly rounds: number;
  /** Before everything, while the runtime's compiler is still at work; each body then gets a quarter of it. */
  readonly warm_up_ms: number;
  readonly single_ms: number;
  readonly parallel_ms: number;
  readonly stream_rounds: number;
  readonly stream_events: number;
  readonly stream_steady_ms: number;
}

/** Many short rounds rather than few long ones: noise that lasts seconds then hits a whole round alike. */
export const FULL: Effort = {
  rounds: 11,
  warm_up_ms: 5000,
  single_ms: 150,
  parallel_ms: 450,
  stream_rounds: 2,
  stream_events: 30,
  stream_steady_ms: 2000,
};

export const QUICK: Effort = {
  rounds: 3,
  warm_up_ms: 1200,
  single_ms: 80,
  parallel_ms: 250,
  stream_rounds: 1,
  stream_events: 20,
  stream_steady_ms: 700,
};

export const PARALLEL = 32;
export const STREAMS = 512;
const STREAM_INTERVAL_MS = 100;
const WARM_UP_EVENTS = 6;

/** Medians over the rounds, for one subject and one body. Added latency is against `direct` in the same round. */
export interface BodyMeasurement {
  readonly cpu_us_per_request: number;
  /** The same, round by round: a round's figures of two subjects can be compared, whatever else the machine did. */
  readonly cpu_us_by_round: readonly number[];
  /** CPU time of PostgreSQL, which only the gateway uses; 0 where the system doesn't tell. */
  readonly database_cpu_us_per_request: number;
  readonly requests_per_second: number;
  readonly p50_added_ms: { readonly single: number; readonly parallel: number };
  readonly p99_added_ms: { readonly single: number; readonly parallel: number };
  readonly peak_rss_bytes: number;
  readonly requests: number;
  readonly failed: number;
}

/** Medians over the rounds, for one subject and 512 streams; lost events and failures are sums. */
export interface StreamMeasurement {
  readonly ttfb_p50_added_ms: number;
  readonly ttfb_p99_added_ms: number;
  readonly ttfb_p50_ms: number;
  readonly events: number;
  readonly events_lost: number;
  readonly failed: number;
  readonly cpu_us_per_event: number;
  readonly peak_rss_bytes: number;
}

/** A load run and what the server's process used for it. */
interface Sample<Result> {
  readonly result: Result;
  readonly cpu_us: number;
  readonly database_cpu_us: number;
  readonly peak_rss_bytes: number;
}

/** Lets work that follows a response (ledger, audit) finish inside the measured window. */
const SETTLE_MS = 60;

async function sample<Result>(server: Server, load: Child<unknown>, job: string, argument: object) {
  const databaseCpu = async () => (await server.child.ask<number | undefined>('database_cpu')) ?? 0;
  await server.child.ask('reset_peak');
  const database_before = await databaseCpu();
  const before = await server.child.ask<ProcessUsage>('usage');
  const result = await load.ask<Result>(job, { ...server.target, ...argument });
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const after = await server.child.ask<ProcessUsage>('usage');
  return {
    result,
    cpu_us: after.cpu_us - before.cpu_us,
    database_cpu_us: (await databaseCpu()) - database_before,
    peak_rss_bytes: after.peak_rss_bytes,
  } satisfies Sample<Result>;
}

interface BodyRound {
  readonly single: Sample<RequestsResult>;
  readonly parallel: Sample<RequestsResult>;
}

type Rounds<Round> = Record<Subject, Round[]>;

/** Runs every subject once per round, turning the order about, so that a noisy minute hits them alike. */
async function inRounds<Round>(
  servers: readonly Server[],
  rounds: number,
  run: (server: Server) => Promise<Round>,
): Promise<Rounds<Round>> {
  const seen: Rounds<Round> = { direct: [], bare: [], governed: [] };
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? servers : [...servers].reverse();
    for (const server of order) seen[server.subject].push(await run(server));
  }
  return seen;
}

const proxies = (servers: readonly Server[]) => servers.filter(({ subject }) => subject !== 'direct');

/** Loads the proxies until they run at their usual speed. */
export async function warmUp(servers: readonly Server[], load: Child<unknown>, effort: Effort): Promise<void> {
  const job = { body: '0.5k', connections: PARALLEL, duration_ms: effort.warm_up_ms } as const;
  for (const { target } of proxies(servers)) await load.ask('requests', { ...target, ...job } satisfies RequestsJob);
}

/** Measures one body size on every subject. */
export async function measureBody(
  servers: readonly Server[],
  load: Child<unknown>,
  body: BodyName,
  effort: Effort,
): Promise<Record<Subject, BodyMeasurement>> {
  const run = (server: Server, connections: number, duration_ms: number) =>
    sample<RequestsResult>(server, load, 'requests', { body, connections, duration_ms } satisfies Omit<
      RequestsJob,
      keyof Target
    >);
  for (const server of proxies(servers)) await run(server, PARALLEL, effort.warm_up_ms / 4);
  const rounds = await inRounds<BodyRound>(servers, effort.rounds, async (server) => ({
    single: await run(server, 1, effort.single_ms),
    parallel: await run(server, PARALLEL, effort.parallel_ms),
  }));
  const summarise = (subject: Subject): BodyMeasurement => {
    const mine = rounds[subject];
    const added = (load_name: keyof BodyRound, value: 'p50_ms' | 'p99_ms') =>
      median(mine.map((round, at) => round[load_name].result[value] - rounds.direct[at]![load_name].result[value]));
    const cpu_us_by_round = mine.map(({ parallel }) => parallel.cpu_us / parallel.result.requests);
    const all = mine.flatMap((round) => [round.single.result, round.parallel.result]);
    return {
      cpu_us_per_request: median(cpu_us_by_round),
      cpu_us_by_round,
      database_cpu_us_per_request: median(
        mine.map(({ parallel }) => parallel.database_cpu_us / parallel.result.requests),
      ),
      requests_per_second: median(mine.map(({ parallel }) => parallel.result.per_second)),
      p50_added_ms: { single: added('single', 'p50_ms'), parallel: added('parallel', 'p50_ms') },
      p99_added_ms: { single: added('single', 'p99_ms'), parallel: added('parallel', 'p99_ms') },
      peak_rss_bytes: Math.max(...mine.map(({ parallel }) => parallel.peak_rss_bytes)),
      requests: all.reduce((sum, result) => sum + result.requests, 0),
      failed: all.reduce((sum, result) => sum + result.failed, 0),
    };
  };
  return { direct: summarise('direct'), bare: summarise('bare'), governed: summarise('governed') };
}

/** Measures 512 concurrent streams on every subject. */
export async function measureStreams(
  servers: readonly Server[],
  load: Child<unknown>,
  effort: Effort,
): Promise<Record<Subject, StreamMeasurement>> {
  const run = (server: Server, streams: number, events: number, steady_ms: number) =>
    sample<StreamsResult>(server, load, 'streams', {
      streams,
      events,
      interval_ms: STREAM_INTERVAL_MS,
      steady_ms,
    } satisfies Omit<StreamsJob, keyof Target>);
  for (const server of proxies(servers)) await run(server, STREAMS / 8, WARM_UP_EVENTS, 0);
  const rounds = await inRounds(servers, effort.stream_rounds, (server) =>
    run(server, STREAMS, effort.stream_events, effort.stream_steady_ms),
  );
  const summarise = (subject: Subject): StreamMeasurement => {
    const mine = rounds[subject];
    const added = (value: 'ttfb_p50_ms' | 'ttfb_p99_ms') =>
      median(mine.map(({ result }, at) => result[value] - rounds.direct[at]!.result[value]));
    const total = (value: 'events_expected' | 'events_lost' | 'failed') =>
      mine.reduce((sum, { result }) => sum + result[value], 0);
    return {
      ttfb_p50_added_ms: added('ttfb_p50_ms'),
      ttfb_p99_added_ms: added('ttfb_p99_ms'),
      ttfb_p50_ms: median(mine.map(({ result }) => result.ttfb_p50_ms)),
      events: total('events_expected'),
      events_lost: total('events_lost'),
      failed: total('failed'),
      cpu_us_per_event: median(mine.map(({ cpu_us, result }) => cpu_us / result.events_expected)),
      peak_rss_bytes: Math.max(...mine.map(({ peak_rss_bytes }) => peak_rss_bytes)),
    };
  };
  return { direct: summarise('direct'), bare: summarise('bare'), governed: summarise('governed') };
}
