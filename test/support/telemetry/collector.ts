/** A collector of OTLP: it decodes what it gets, keeps every byte of it, and fails on request. @module */
import { gunzipSync } from 'node:zlib';
import { diag, logs, metrics, trace } from '@opentelemetry/api';
import { atFileEnd } from '../file-end.ts';
import {
  answerBytes,
  type Exchange,
  type Received,
  type Script,
  startUpstream,
} from '../model-provider/scripted-upstream.ts';
import { until } from '../until.ts';
import { type Export, type ReceivedPoint, type ReceivedSpan, readExport } from './otlp.ts';
import type { Signal } from './protobuf.ts';

export type { ReceivedLog, ReceivedPoint, ReceivedSpan } from './otlp.ts';

// The SDK of a gateway that sends to a collector is the whole process's.
atFileEnd(() => {
  for (const owner of [trace, metrics, logs, diag]) owner.disable();
});

export interface ReceivedExport extends Export {
  readonly signal: Signal;
  readonly received: Received;
  readonly body: Buffer;
}

export type TestCollector = Awaited<ReturnType<typeof startCollector>>;

const SIGNALS: Readonly<Record<string, Signal>> = {
  '/v1/traces': 'traces',
  '/v1/metrics': 'metrics',
  '/v1/logs': 'logs',
};

const isJson = ({ headers }: Received) => headers['content-type']?.startsWith('application/json') ?? false;

function decode(received: Received): ReceivedExport {
  const { headers, url, body } = received;
  const signal = SIGNALS[url];
  if (signal === undefined) throw new Error(`exported to ${url}`);
  const type = headers['content-type'];
  if (!isJson(received) && type !== 'application/x-protobuf') throw new Error(`exported as ${type}`);
  const whole = headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
  return { signal, received, body: whole, ...readExport(signal, whole, isJson(received)) };
}

/** Responds to an export as a collector with partial success: this many items were rejected, for this reason. */
export function takePartly(signal: Signal, rejected: number, reason: string): Script {
  const count = { traces: 'rejectedSpans', metrics: 'rejectedDataPoints', logs: 'rejectedLogRecords' }[signal];
  return (exchange: Exchange) => {
    if (isJson(exchange.received)) {
      const partial = { partialSuccess: { [count]: String(rejected), errorMessage: reason } };
      return answerBytes(200, { 'content-type': 'application/json' }, JSON.stringify(partial))(exchange);
    }
    const text = Buffer.from(reason);
    const inner = Buffer.concat([Buffer.from([0x08, rejected, 0x12, text.length]), text]);
    const bytes = Buffer.concat([Buffer.from([0x0a, inner.length]), inner]);
    return answerBytes(200, { 'content-type': 'application/x-protobuf' }, bytes)(exchange);
  };
}

const accept: Script = (exchange) => {
  const json = isJson(exchange.received);
  const type = json ? 'application/json' : 'application/x-protobuf';
  return answerBytes(200, { 'content-type': type }, json ? '{}' : '')(exchange);
};

export async function startCollector() {
  const exports: ReceivedExport[] = [];
  const broken: string[] = [];
  let failWith: Script | undefined;
  const server = await startUpstream((exchange) => {
    if (failWith !== undefined) return failWith(exchange);
    // A client that only checks for a listener exports nothing.
    if (exchange.received.method !== 'POST') return answerBytes(405, { allow: 'POST' }, '')(exchange);
    try {
      exports.push(decode(exchange.received));
    } catch (error) {
      broken.push(`${error} in ${exchange.received.body.toString('hex').slice(0, 400)}`);
      return answerBytes(400, { 'content-type': 'text/plain' }, String(error))(exchange);
    }
    return accept(exchange);
  });
  const all = <T>(of: (one: ReceivedExport) => readonly T[]): readonly T[] => {
    if (broken.length > 0) throw new Error(`the collector got what is no OTLP: ${broken[0]}`);
    return exports.flatMap(of);
  };
  const span = (what: string, is_it: (span: ReceivedSpan) => boolean) =>
    until(`the collector has ${what}`, () => all(({ spans }) => spans).find(is_it));
  return {
    /** Without a path. */
    url: server.url,
    /** The value of `telemetry.otlp.endpoint`. */
    endpoint: `${server.url}/v1/traces`,
    server,
    exports: exports as readonly ReceivedExport[],
    get spans() {
      return all(({ spans }) => spans);
    },
    get points() {
      return all(({ points }) => points);
    },
    get logs() {
      return all(({ logs }) => logs);
    },
    span,
    /** The SERVER span that is like this, with the spans of its attempts, once so many of them are there. */
    async request(what: string, is_it: (span: ReceivedSpan) => boolean, count = 1) {
      const server = await span(what, (one) => one.kind === 'server' && is_it(one));
      const attempts = await until(`the collector has ${count} attempts of ${what}`, () => {
        const found = all(({ spans }) => spans).filter(({ parent_span_id }) => parent_span_id === server.span_id);
        return found.length >= count && found.toSorted((a, b) => a.began_at - b.began_at);
      });
      return { server, attempts };
    },
    /** The latest point of a series, once there is one that is like this. */
    point: (metric: string, is_it: (point: ReceivedPoint) => boolean = () => true) =>
      until(`the collector has a point of ${metric}`, () =>
        all(({ points }) => points).findLast((point) => point.metric === metric && is_it(point)),
      ),
    /** Everything that arrived as text: request lines, headers, bodies decompressed. */
    wire: () =>
      server.requests
        .map((received) => {
          const { method, url, raw_headers, body } = received;
          const text = received.headers['content-encoding'] === 'gzip' ? gunzipSync(body) : body;
          return `${method} ${url}\n${raw_headers.join('\n')}\n${text.toString('latin1')}\n${text.toString('utf8')}`;
        })
        .join('\n'),
    clear() {
      exports.length = 0;
      server.requests.length = 0;
    },
    /** Responds with this instead of accepting; `undefined` to accept again. Later exports are kept only if accepted. */
    failWith(script: Script | undefined) {
      failWith = script;
    },
    close: () => server.close(),
  };
}
