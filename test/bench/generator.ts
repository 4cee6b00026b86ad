/** The measuring process: sends requests and streams to one server at a time and reports its observations. */
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'undici';
import { type BodyName, requestBody } from './bodies.ts';
import { serveParent } from './servers/parent.ts';
import { median, percentile } from './statistics.ts';

/** The server to query, and how. */
export interface Target {
  readonly url: string;
  readonly token: string;
}

/** Requests one after another on each connection, for a time. */
export interface RequestsJob extends Target {
  readonly body: BodyName;
  readonly connections: number;
  readonly duration_ms: number;
  /** Ends it before its time. */
  readonly most?: number;
}

export interface RequestsResult {
  readonly requests: number;
  readonly failed: number;
  readonly per_second: number;
  readonly p50_ms: number;
  readonly p99_ms: number;
}

/** So many streams at once: opened evenly over one stream's duration, replaced as they end for `steady_ms`. */
export interface StreamsJob extends Target {
  readonly streams: number;
  readonly events: number;
  readonly interval_ms: number;
  readonly steady_ms: number;
}

export interface StreamsResult {
  readonly streams: number;
  readonly failed: number;
  readonly events_expected: number;
  readonly events_lost: number;
  /** Time to the first body byte of the streams that began while all the others were open. */
  readonly ttfb_p50_ms: number;
  readonly ttfb_p99_ms: number;
}

/** One request and its response. Times are monotonic milliseconds. */
interface Exchange {
  readonly sent_at: number;
  first_byte_at: number;
  ended_at: number;
  status: number;
  /** Blank lines that end a server-sent event. */
  events: number;
  failed: boolean;
}

const NEWLINE = 10;
const MESSAGES = { path: '/v1/messages?beta=true', method: 'POST' } as const;

function headersFor({ token }: Target, extra: Record<string, string> = {}): Record<string, string> {
  return {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json',
    'user-agent': 'bench/1.0',
    'vendor-version': '2023-06-01',
    'vendor-beta': 'context-1m-2025-08-07,extended-cache-ttl-2025-04-11',
    'x-stainless-lang': 'js',
    'x-stainless-runtime': 'node',
    ...extra,
  };
}

/** One connection, which is kept as long as its server keeps it. */
const connect = (url: string) => new Client(url, { pipelining: 1, keepAliveTimeout: 600_000 });

/** Connections for the next round, by server: opening them would be a tenth of a short round's work. */
const kept = new Map<string, Client[]>();

function connections(url: string, count: number): Client[] {
  const clients = kept.get(url) ?? [];
  kept.set(url, clients);
  while (clients.length < count) clients.push(connect(url));
  return clients.slice(0, count);
}

/** Sends requests one after another while they succeed and `next` wants one more after those so far. */
function repeat(
  client: Client,
  headers: Record<string, string>,
  body: Buffer,
  next: (last?: Exchange) => boolean,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const send = (last?: Exchange) => {
    if (!next(last) || last?.failed) {
      resolve();
      return;
    }
    const now = performance.now();
    const exchange: Exchange = { sent_at: now, first_byte_at: 0, ended_at: 0, status: 0, events: 0, failed: false };
    let last_byte = 0;
    const end = (failed: boolean) => {
      exchange.ended_at = performance.now();
      exchange.failed = failed || exchange.status !== 200;
      send(exchange);
    };
    client.dispatch(
      { ...MESSAGES, headers, body },
      {
        onRequestStart() {},
        onResponseStart(_, status) {
          exchange.status = status;
        },
        onResponseData(_, bytes) {
          exchange.first_byte_at ||= performance.now();
          for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, at + 1)) {
            if ((at === 0 ? last_byte : bytes[at - 1]) === NEWLINE) exchange.events++;
          }
          last_byte = bytes.at(-1)!;
        },
        onResponseEnd: () => end(false),
        onResponseError: () => end(true),
      },
    );
  };
  send();
  return promise;
}

async function requests(job: RequestsJob): Promise<RequestsResult> {
  const body = requestBody(job.body);
  const headers = headersFor(job);
  const latencies: number[] = [];
  let failed = 0;
  let left = job.most ?? Number.POSITIVE_INFINITY;
  const started = performance.now();
  const deadline = started + job.duration_ms;
  const next = (last?: Exchange) => {
    if (last?.failed) failed++;
    else if (last) latencies.push(last.ended_at - last.sent_at);
    return left-- > 0 && performance.now() < deadline;
  };
  await Promise.all(connections(job.url, job.connections).map((client) => repeat(client, headers, body, next)));
  const seconds = (performance.now() - started) / 1000;
  return {
    requests: latencies.length,
    failed,
    per_second: latencies.length / seconds,
    p50_ms: median(latencies),
    p99_ms: percentile(latencies, 0.99),
  };
}

async function streams(job: StreamsJob): Promise<StreamsResult> {
  const headers = headersFor(job, {
    accept: 'text/event-stream',
    'x-bench-events': String(job.events),
    'x-bench-interval': String(job.interval_ms),
  });
  const body = requestBody('stream');
  const stream_ms = job.events * job.interval_ms;
  const started = performance.now();
  const full_at = started + stream_ms;
  const deadline = full_at + job.steady_ms;
  const seen: Exchange[] = [];
  const next = (last?: Exchange) => {
    if (last) seen.push(last);
    return performance.now() < deadline;
  };
  const slot = async (index: number) => {
    await delay((index / job.streams) * stream_ms);
    const client = connect(job.url);
    await repeat(client, headers, body, next);
    await client.destroy();
  };
  await Promise.all(Array.from({ length: job.streams }, (_, index) => slot(index)));
  const whole = seen.filter((exchange) => exchange.status === 200);
  const ttfb = whole.filter((exchange) => exchange.sent_at >= full_at).map((e) => e.first_byte_at - e.sent_at);
  const received = whole.reduce((sum, exchange) => sum + exchange.events, 0);
  return {
    streams: seen.length,
    failed: seen.filter((exchange) => exchange.failed).length,
    events_expected: seen.length * job.events,
    events_lost: seen.length * job.events - received,
    ttfb_p50_ms: median(ttfb),
    ttfb_p99_ms: percentile(ttfb, 0.99),
  };
}

serveParent(
  {},
  { requests: (job) => requests(job as RequestsJob), streams: (job) => streams(job as StreamsJob) },
  async () => {},
);
