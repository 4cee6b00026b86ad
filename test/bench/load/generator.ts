/** The measuring process: sends requests and streams to one server at a time and reports its observations. */
import { type BodyName, requestBody } from '../bodies.ts';
import { serveParent } from '../servers/parent.ts';
import { median, percentile } from '../statistics.ts';
import { Connection, type Exchange } from './connection.ts';

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

function prepare(target: Target, body: Buffer, extra: Record<string, string> = {}): Buffer[] {
  const headers = {
    host: new URL(target.url).host,
    authorization: `Bearer ${target.token}`,
    'content-type': 'application/json',
    accept: 'application/json',
    'user-agent': 'bench/1.0',
    'vendor-version': '2023-06-01',
    'vendor-beta': 'context-1m-2025-08-07,extended-cache-ttl-2025-04-11',
    'x-stainless-lang': 'js',
    'x-stainless-runtime': 'node',
    'content-length': String(body.length),
    ...extra,
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`POST /v1/messages?beta=true HTTP/1.1\r\n${lines.join('')}\r\n`);
  return body.length < 16_384 ? [Buffer.concat([head, body])] : [head, body];
}

/** Connections that are kept for the next round, by server: opening them would be a tenth of a short round's work. */
const kept = new Map<string, Connection[]>();

function connect(url: string): Connection {
  for (let found = kept.get(url)?.pop(); found !== undefined; found = kept.get(url)?.pop())
    if (found.open) return found;
  return new Connection(url);
}

function keep(url: string, connection: Connection): void {
  const others = kept.get(url) ?? [];
  kept.set(url, others);
  others.push(connection);
}

async function requests(job: RequestsJob): Promise<RequestsResult> {
  const body = requestBody(job.body);
  const latencies: number[] = [];
  let failed = 0;
  let left = job.most ?? Number.POSITIVE_INFINITY;
  const started = performance.now();
  const deadline = started + job.duration_ms;
  const parts = prepare(job, body);
  const run = () =>
    new Promise<void>((resolve) => {
      const connection = connect(job.url);
      const next = (exchange?: Exchange) => {
        if (exchange?.failed) failed++;
        else if (exchange) latencies.push(exchange.ended_at - exchange.sent_at);
        if (!exchange?.failed && left-- > 0 && performance.now() < deadline) return connection.send(parts, next);
        if (!exchange?.failed) keep(job.url, connection);
        else connection.close();
        resolve();
      };
      next();
    });
  await Promise.all(Array.from({ length: job.connections }, run));
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
  const parts = prepare(job, requestBody('stream'), {
    accept: 'text/event-stream',
    'x-bench-events': String(job.events),
    'x-bench-interval': String(job.interval_ms),
  });
  const stream_ms = job.events * job.interval_ms;
  const started = performance.now();
  const full_at = started + stream_ms;
  const deadline = full_at + job.steady_ms;
  const seen: Exchange[] = [];
  const slot = (index: number) =>
    new Promise<void>((resolve) => {
      const connection = new Connection(job.url);
      const next = (exchange?: Exchange) => {
        if (exchange) seen.push(exchange);
        if (!exchange?.failed && performance.now() < deadline) return connection.send(parts, next);
        connection.close();
        resolve();
      };
      setTimeout(next, (index / job.streams) * stream_ms);
    });
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
