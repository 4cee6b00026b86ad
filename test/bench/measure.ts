import type { BodyName } from './bodies.ts';
import type { RequestsJob, RequestsResult, StreamsJob, StreamsResult, Target } from './load/generator.ts';
import type { Child } from './processes.ts';
import type { Server } from './servers.ts';

/** How long and how often. */
export interface Effort {
  /** At least so many rounds of a body; at most as many as fit in `body_seconds`. */
  readonly rounds: number;
  readonly body_seconds: number;
  /** Before everything, while the runtime's compiler is still at work; each body then gets a quarter of it. */
  readonly warm_up_ms: number;
  readonly single_ms: number;
  readonly parallel_ms: number;
  readonly stream_rounds: number;
  readonly stream_seconds: number;
  readonly stream_events: number;
  readonly stream_steady_ms: number;
}

/** Many short rounds rather than few long ones: noise that lasts seconds then hits a whole round alike. */
export const FULL: Effort = {
  rounds: 15,
  body_seconds: 40,
  warm_up_ms: 20_000,
  single_ms: 120,
  parallel_ms: 300,
  stream_rounds: 6,
  stream_seconds: 60,
  stream_events: 20,
  stream_steady_ms: 700,
};

export const QUICK: Effort = {
  ...FULL,
  rounds: 8,
  body_seconds: 15,
  warm_up_ms: 4000,
  stream_rounds: 2,
  stream_seconds: 10,
};

export const PARALLEL = 32;
export const STREAMS = 512;
/** The upstream itself is measured in the first rounds only: nothing is compared with it. */
const REFERENCE_ROUNDS = 3;
const STREAM_INTERVAL_MS = 100;
const WARM_UP_EVENTS = 6;
/** Lets work that follows a response (ledger, audit) finish inside the measured window. */
const SETTLE_MS = 60;

/** What a round cost: NaN where nobody can tell. */
interface Cost {
  /** Of the server's process, per request or event. */
  readonly cpu_us: number;
  /** Of the database that the server brings with it, likewise. */
  readonly database_cpu_us: number;
  readonly peak_rss_bytes: number;
  readonly failed: number;
}

/** One server's share of one round with one body. */
export interface BodyRound extends Cost {
  readonly requests: number;
  readonly per_second: number;
  readonly single: { readonly p50_ms: number; readonly p99_ms: number };
  readonly parallel: { readonly p50_ms: number; readonly p99_ms: number };
}

/** One server's share of one round of 512 streams. */
export interface StreamRound extends Cost {
  readonly ttfb_p50_ms: number;
  readonly ttfb_p99_ms: number;
  readonly events: number;
  readonly events_lost: number;
}

/** What each server did, round by round: equal places are the same round, whatever else the machine did then. */
export type Rounds<Round> = Readonly<Record<string, readonly Round[]>>;

/** Says when the rounds so far are enough. */
export type Enough<Round> = (seen: Rounds<Round>) => boolean;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Runs a load and reads what the server's process used for it. */
async function sample<Result>(server: Server, load: () => Promise<Result>) {
  await server.resetPeak();
  const database_before = server.databaseCpu();
  const before = await server.usage();
  const result = await load();
  await pause(SETTLE_MS);
  const after = await server.usage();
  return {
    result,
    cpu_us: after.cpu_us - before.cpu_us,
    database_cpu_us: server.databaseCpu() - database_before,
    peak_rss_bytes: after.peak_rss_bytes,
  };
}

/** Runs every server once per round, turning the order about, so that a noisy minute hits them alike. */
async function inRounds<Round>(
  servers: readonly Server[],
  limits: { readonly least: number; readonly seconds: number },
  enough: Enough<Round>,
  run: (server: Server) => Promise<Round>,
): Promise<Rounds<Round>> {
  const seen: Record<string, Round[]> = Object.fromEntries(servers.map(({ name }) => [name, []]));
  const deadline = performance.now() + limits.seconds * 1000;
  for (let round = 0; ; round++) {
    for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
      if (server.reference && round >= REFERENCE_ROUNDS) continue;
      seen[server.name]!.push(await run(server));
    }
    if (round + 1 >= limits.least && (enough(seen) || performance.now() > deadline)) return seen;
  }
}

const measured = (servers: readonly Server[]) => servers.filter(({ reference }) => !reference);

/** The load generator, with one server's address filled in. */
function loadOn(load: Child<unknown>, { target }: Server) {
  return {
    requests: (job: Omit<RequestsJob, keyof Target>) => load.ask<RequestsResult>('requests', { ...target, ...job }),
    streams: (job: Omit<StreamsJob, keyof Target>) => load.ask<StreamsResult>('streams', { ...target, ...job }),
  };
}

/** Loads the servers until they run at their usual speed. */
export async function warmUp(servers: readonly Server[], load: Child<unknown>, effort: Effort): Promise<void> {
  const job = { body: '0.5k', connections: PARALLEL, duration_ms: effort.warm_up_ms } as const;
  for (const server of measured(servers)) {
    const { requests, failed } = await loadOn(load, server).requests(job);
    if (requests > 0) continue;
    const { url } = server.target;
    throw new Error(`${server.name} at ${url} answered none of ${failed} requests to POST /v1/messages as it should`);
  }
}

/** Measures one body size on every server until it is enough. */
export async function measureBody(
  servers: readonly Server[],
  load: Child<unknown>,
  body: BodyName,
  effort: Effort,
  enough: Enough<BodyRound>,
): Promise<Rounds<BodyRound>> {
  for (const server of measured(servers))
    await loadOn(load, server).requests({ body, connections: PARALLEL, duration_ms: effort.warm_up_ms / 4 });
  const limits = { least: effort.rounds, seconds: effort.body_seconds };
  return inRounds<BodyRound>(servers, limits, enough, async (server) => {
    const { requests } = loadOn(load, server);
    const alone = await requests({ body, connections: 1, duration_ms: effort.single_ms });
    const { result, cpu_us, database_cpu_us, peak_rss_bytes } = await sample(server, () =>
      requests({ body, connections: PARALLEL, duration_ms: effort.parallel_ms }),
    );
    return {
      cpu_us: cpu_us / result.requests,
      database_cpu_us: database_cpu_us / result.requests,
      peak_rss_bytes,
      failed: alone.failed + result.failed,
      requests: alone.requests + result.requests,
      per_second: result.per_second,
      single: { p50_ms: alone.p50_ms, p99_ms: alone.p99_ms },
      parallel: { p50_ms: result.p50_ms, p99_ms: result.p99_ms },
    };
  });
}

/** Measures 512 concurrent streams on every server until it is enough. */
export async function measureStreams(
  servers: readonly Server[],
  load: Child<unknown>,
  effort: Effort,
  enough: Enough<StreamRound>,
): Promise<Rounds<StreamRound>> {
  const warm_up = { streams: STREAMS / 8, events: WARM_UP_EVENTS, interval_ms: STREAM_INTERVAL_MS, steady_ms: 0 };
  for (const server of measured(servers)) await loadOn(load, server).streams(warm_up);
  const limits = { least: effort.stream_rounds, seconds: effort.stream_seconds };
  return inRounds<StreamRound>(servers, limits, enough, async (server) => {
    const { result, cpu_us, database_cpu_us, peak_rss_bytes } = await sample(server, () =>
      loadOn(load, server).streams(streamsJob(effort)),
    );
    return {
      cpu_us: cpu_us / result.events_expected,
      database_cpu_us: database_cpu_us / result.events_expected,
      peak_rss_bytes,
      failed: result.failed,
      ttfb_p50_ms: result.ttfb_p50_ms,
      ttfb_p99_ms: result.ttfb_p99_ms,
      events: result.events_expected,
      events_lost: result.events_lost,
    };
  });
}

function streamsJob(effort: Effort): Omit<StreamsJob, keyof Target> {
  return {
    streams: STREAMS,
    events: effort.stream_events,
    interval_ms: STREAM_INTERVAL_MS,
    steady_ms: effort.stream_steady_ms,
  };
}
