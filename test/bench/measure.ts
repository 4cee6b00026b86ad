import type { BodyName } from './bodies.ts';
import type { RequestsJob, RequestsResult, StreamsJob, StreamsResult, Target } from './load/generator.ts';
import type { StreamPart } from './options.ts';
import type { Child } from './processes.ts';
import type { Server } from './servers.ts';
import { isSteady } from './statistics.ts';

/** How long and how often. */
export interface Effort {
  /** At least so many rounds of a body; at most as many as fit in `body_seconds`. */
  readonly rounds: number;
  readonly body_seconds: number;
  /** A server is loaded in slices of this length until its CPU per request stops falling, for at most so many seconds. */
  readonly warm_slice_ms: number;
  readonly warm_seconds: number;
  readonly single_ms: number;
  readonly parallel_ms: number;
  readonly streams: Readonly<Record<StreamPart, { readonly rounds: number; readonly seconds: number }>>;
}

/** Many short rounds rather than few long ones: noise that lasts seconds then hits a whole round alike. */
export const FULL: Effort = {
  rounds: 15,
  body_seconds: 40,
  warm_slice_ms: 3000,
  warm_seconds: 120,
  single_ms: 120,
  parallel_ms: 300,
  // With fewer than six there is no interval.
  streams: { streams: { rounds: 6, seconds: 60 }, 'long-streams': { rounds: 6, seconds: 0 } },
};

export const QUICK: Effort = {
  ...FULL,
  rounds: 8,
  body_seconds: 15,
  warm_slice_ms: 1500,
  warm_seconds: 20,
  streams: { streams: { rounds: 2, seconds: 10 }, 'long-streams': { rounds: 1, seconds: 0 } },
};

export const PARALLEL = 32;
/** Reports separately what a fresh server does. */
export const COLD_REQUESTS = 10_000;

/** Concurrent streams: a crowd of short ones, and an agent's long responses with each event in a packet of its own. */
export const STREAMS: Readonly<Record<StreamPart, Omit<StreamsJob, keyof Target>>> = {
  streams: { streams: 512, events: 20, interval_ms: 100, steady_ms: 700 },
  'long-streams': { streams: 100, events: 500, interval_ms: 20, steady_ms: 2000 },
};
/** While a server is warmed up streams are short. */
const WARM_EVENTS_MAX = 50;

/** The upstream itself is measured in the first rounds only: nothing is compared with it. */
const REFERENCE_ROUNDS = 3;
/** Lets work that follows a response (ledger, audit) finish inside the measured window. */
const SETTLE_MS = 60;

/** The cost of a round: NaN if unknown. */
interface Cost {
  /** Of the server's process, per request or event. */
  readonly cpu_us: number;
  /** Of the database that the server brings with it, likewise. */
  readonly database_cpu_us: number;
  readonly peak_rss_bytes: number;
  readonly failed: number;
}

/** The cost of the first requests of a server's life, over 32 connections. */
export interface ColdStart extends Cost {
  readonly p50_ms: number;
  readonly p99_ms: number;
}

/** One server's share of one round with one body. */
export interface BodyRound extends Cost {
  readonly requests: number;
  readonly per_second: number;
  readonly single: { readonly p50_ms: number; readonly p99_ms: number };
  readonly parallel: { readonly p50_ms: number; readonly p99_ms: number };
}

/** One server's share of one round of streams. */
export interface StreamRound extends Cost {
  readonly ttfb_p50_ms: number;
  readonly ttfb_p99_ms: number;
  readonly events: number;
  readonly events_lost: number;
}

/** Each server's results, round by round: equal places are the same round, whatever else the machine did then. */
export type Rounds<Round> = Readonly<Record<string, readonly Round[]>>;

/** Decides when the rounds so far are enough. */
export type Enough<Round> = (seen: Rounds<Round>) => boolean;

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The load generator, with one server's address filled in: the work of a load, and the cost of each of its units. */
function loadOn(load: Child<unknown>, server: Server) {
  const { target } = server;
  async function sample<Result>(run: () => Promise<Result>, unitsOf: (result: Result) => number) {
    await server.resetPeak();
    const database_before = server.databaseCpu();
    const before = await server.usage();
    const result = await run();
    await pause(SETTLE_MS);
    const after = await server.usage();
    const units = unitsOf(result);
    return {
      result,
      cpu_us: (after.cpu_us - before.cpu_us) / units,
      database_cpu_us: (server.databaseCpu() - database_before) / units,
      peak_rss_bytes: after.peak_rss_bytes,
    };
  }
  const requests = (job: Omit<RequestsJob, keyof Target>) =>
    load.ask<RequestsResult>('requests', { ...target, ...job });
  const streams = (job: Omit<StreamsJob, keyof Target>) => load.ask<StreamsResult>('streams', { ...target, ...job });
  return {
    requests,
    costOfRequests: (job: Omit<RequestsJob, keyof Target>) =>
      sample(
        () => requests(job),
        (done) => done.requests,
      ),
    costOfStreams: (job: Omit<StreamsJob, keyof Target>) =>
      sample(
        () => streams(job),
        (done) => done.events_expected,
      ),
  };
}

/** Runs every server once per round, turning the order about, so that a noisy minute hits them alike. */
async function inRounds<Round>(
  servers: readonly Server[],
  limits: { readonly rounds: number; readonly seconds: number },
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
    if (round + 1 >= limits.rounds && (enough(seen) || performance.now() > deadline)) return seen;
  }
}

const measured = (servers: readonly Server[]) => servers.filter(({ reference }) => !reference);

/** The first requests after the start. Raises Error where a server returns an unexpected response. */
export async function measureCold(
  servers: readonly Server[],
  load: Child<unknown>,
): Promise<Readonly<Record<string, ColdStart>>> {
  const seen: Record<string, ColdStart> = {};
  for (const server of measured(servers)) {
    const job = { body: '0.5k', connections: PARALLEL, duration_ms: 600_000, most: COLD_REQUESTS } as const;
    const { result, ...cost } = await loadOn(load, server).costOfRequests(job);
    const { requests, failed, p50_ms, p99_ms } = result;
    if (requests === 0) {
      const { url } = server.target;
      throw new Error(`${server.name} at ${url} answered none of ${failed} requests to POST /v1/messages as it should`);
    }
    seen[server.name] = { ...cost, failed, p50_ms, p99_ms };
  }
  return seen;
}

/** Loads each server, slice by slice, until the cost of a request or event stops falling. */
async function warmUp(
  servers: readonly Server[],
  seconds: number,
  slice: (server: Server) => Promise<{ readonly cpu_us: number }>,
): Promise<void> {
  for (const server of measured(servers)) {
    const costs: number[] = [];
    const deadline = performance.now() + seconds * 1000;
    do costs.push((await slice(server)).cpu_us);
    while (!isSteady(costs) && performance.now() < deadline);
  }
}

/** Measures one body size on every server, once it is warm, until it is enough. */
export async function measureBody(
  servers: readonly Server[],
  load: Child<unknown>,
  body: BodyName,
  effort: Effort,
  enough: Enough<BodyRound>,
): Promise<Rounds<BodyRound>> {
  const warming = { body, connections: PARALLEL, duration_ms: effort.warm_slice_ms };
  await warmUp(servers, effort.warm_seconds, (server) => loadOn(load, server).costOfRequests(warming));
  const limits = { rounds: effort.rounds, seconds: effort.body_seconds };
  return inRounds<BodyRound>(servers, limits, enough, async (server) => {
    const { requests, costOfRequests } = loadOn(load, server);
    const alone = await requests({ body, connections: 1, duration_ms: effort.single_ms });
    const job = { body, connections: PARALLEL, duration_ms: effort.parallel_ms };
    const { result, ...cost } = await costOfRequests(job);
    return {
      ...cost,
      failed: alone.failed + result.failed,
      requests: alone.requests + result.requests,
      per_second: result.per_second,
      single: { p50_ms: alone.p50_ms, p99_ms: alone.p99_ms },
      parallel: { p50_ms: result.p50_ms, p99_ms: result.p99_ms },
    };
  });
}

/** Measures streams on every server, once it is warm, until it is enough. */
export async function measureStreams(
  servers: readonly Server[],
  load: Child<unknown>,
  part: StreamPart,
  effort: Effort,
  enough: Enough<StreamRound>,
): Promise<Rounds<StreamRound>> {
  const job = STREAMS[part];
  const warming = { ...job, events: Math.min(job.events, WARM_EVENTS_MAX), steady_ms: 0 };
  await warmUp(servers, effort.warm_seconds, (server) => loadOn(load, server).costOfStreams(warming));
  return inRounds<StreamRound>(servers, effort.streams[part], enough, async (server) => {
    const { result, ...cost } = await loadOn(load, server).costOfStreams(job);
    return {
      ...cost,
      failed: result.failed,
      ttfb_p50_ms: result.ttfb_p50_ms,
      ttfb_p99_ms: result.ttfb_p99_ms,
      events: result.events_expected,
      events_lost: result.events_lost,
    };
  });
}

/** Loads one server with small requests for a time. @returns how many it served, and the database cost of each */
export async function loadForDatabase(server: Server, load: Child<unknown>, effort: Effort) {
  const job = { body: '0.5k', connections: PARALLEL, duration_ms: (effort.body_seconds * 1000) / 2 } as const;
  const { result, database_cpu_us } = await loadOn(load, server).costOfRequests(job);
  return { requests: result.requests, database_cpu_us };
}
