import { hash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { Log } from '../../../base/contract/services.ts';
import { isLoopbackUrl, parseListenAddress } from '../../../base/kit/net/addresses.ts';
import { explainListenError } from '../../../base/kit/net/listen-error.ts';
import { secretIn } from '../../../base/kit/secret-names.ts';
import { prometheusLabel, prometheusName } from '../catalogue/prometheus-names.ts';
import type { MeasuredMetric, MetricRegistry, Series } from '../metric-registry.ts';

const PATH = '/metrics';
/** Scrapers are few. */
const CONNECTIONS_MAX = 32;
const HEAD_BYTES = 8 * 1024;
const HEAD_MS = 5000;
/** How often it is looked for connections that send nothing. */
const CHECK_MS = 1000;
/** Longest a scraper may take to read an answer. */
const ANSWER_MS = 30_000;

const compress = promisify(gzip);

/**
 * Answers `GET /metrics` and nothing else. Rejects with Node's error (EADDRINUSE, EACCES ...).
 * Each answer ends its connection. Without a token only requests to an address of this machine are answered, so that no page
 * in a browser can read them under a name that leads here.
 */
export async function startMetricsListener(options: {
  readonly listen: string;
  /** The bearer token to ask for; asked each time, because a reload can name another. */
  readonly token: () => string | undefined;
  readonly text: () => Promise<string>;
  readonly onError: (error: unknown) => void;
}) {
  const { listen, token, text, onError } = options;
  const { host, port } = parseListenAddress(listen)!;

  async function answer(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    const refusal = refusalOf(req, token());
    if (refusal !== undefined) {
      const { status, problem, ...headers } = refusal;
      res.writeHead(status, { ...headers, 'content-type': 'text/plain; charset=utf-8' }).end(`${problem}\n`);
      return;
    }
    const whole = Buffer.from(await text());
    const zipped = /\bgzip\b/.test(req.headers['accept-encoding'] ?? '');
    const body = zipped ? await compress(whole) : whole;
    const headers = {
      'content-type': PROMETHEUS_TYPE,
      'content-length': body.length,
      'cache-control': 'no-store',
      vary: 'accept-encoding',
      ...(zipped && { 'content-encoding': 'gzip' }),
    };
    res.writeHead(200, headers).end(req.method === 'HEAD' ? undefined : body);
  }

  const server = http.createServer({
    maxHeaderSize: HEAD_BYTES,
    headersTimeout: HEAD_MS,
    requestTimeout: HEAD_MS,
    connectionsCheckingInterval: CHECK_MS,
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.setTimeout(ANSWER_MS);
  server.on('request', (req, res) => {
    res.shouldKeepAlive = false;
    req.resume();
    answer(req, res).catch((error) => {
      onError(error);
      if (!res.headersSent) res.writeHead(500, { 'content-type': 'text/plain; charset=utf-8' });
      res.end();
    });
  });
  server.listen(port, host);
  await once(server, 'listening');
  server.on('error', onError);
  const address = server.address();
  return {
    listen,
    /** The port it has, which differs from the one asked for where that is 0. */
    port: typeof address === 'object' && address !== null ? address.port : port,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

type Refusal = { readonly status: number; readonly problem: string } & Readonly<Record<string, string | number>>;

function refusalOf(req: http.IncomingMessage, token: string | undefined): Refusal | undefined {
  const { authorization = '', host = '' } = req.headers;
  if (token !== undefined && !isToken(bearerOf(authorization), token))
    return {
      status: 401,
      problem: 'Send the token that telemetry.metrics.token_env names as "Authorization: Bearer <token>".',
      'www-authenticate': 'Bearer realm="metrics"',
    };
  if (token === undefined && !isLoopbackUrl(`http://${host}`))
    return {
      status: 403,
      problem: 'Without telemetry.metrics.token_env, metrics are answered at localhost, 127.0.0.1 and [::1] only.',
    };
  const [path] = (req.url ?? '').split('?');
  if (path !== PATH) return { status: 404, problem: `Nothing is here but ${PATH}.` };
  if (req.method !== 'GET' && req.method !== 'HEAD')
    return { status: 405, problem: `${PATH} is read with GET.`, allow: 'GET, HEAD' };
  return undefined;
}

/** Nothing is the empty token: it would be that of whoever sends none. */
function isToken(sent: string, token: string): boolean {
  return token !== '' && timingSafeEqual(digest(sent), digest(token));
}

/** The token of a header (RFC 6750 section 2.1), whose scheme is written in any case. */
function bearerOf(authorization: string): string {
  return /^bearer +(.*)$/i.exec(authorization)?.[1] ?? '';
}

/** Of one length whatever is sent, for a comparison that takes the same time for all. */
function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer');
}

/** What the text below is, as Prometheus wants it said. */
export const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** After so many series requests get their turn. */
const SERIES_AT_ONCE = 200;

/** Labels of a series as text, without braces; a series keeps its labels for good. */
const LABELS = new WeakMap<Series, string>();

/**
 * Writes the metrics of a registry in Prometheus' text format, as they are now. Not with the SDK's serializer: that took ten times
 * as long, in one go.
 * @param resource attributes of everything the gateway tells; they stand in `target_info`
 */
export async function writePrometheusText(
  registry: Pick<MetricRegistry, 'measure'>,
  resource: Readonly<Record<string, string>>,
): Promise<string> {
  let text = `# HELP target_info Target metadata\n# TYPE target_info gauge\n${line('target_info', labelsOf(resource), 1)}`;
  let written = 0;
  for (const metric of registry.measure()) {
    const name = prometheusName(metric.name, metric.spec);
    text += `# HELP ${name} ${escapeLine(metric.spec.meaning)}\n# TYPE ${name} ${metric.spec.kind}\n`;
    for (const series of metric.series) {
      text +=
        metric.spec.kind === 'histogram'
          ? histogramLines(name, metric, series)
          : line(name, textOf(series), series.sum);
      if (++written % SERIES_AT_ONCE === 0) await setImmediate();
    }
  }
  return text;
}

function histogramLines(name: string, { spec }: MeasuredMetric, series: Series): string {
  const labels = textOf(series);
  const before = labels === '' ? '' : `${labels},`;
  let lines = '';
  let count = 0;
  series.buckets.forEach((values, at) => {
    count += values;
    lines += line(`${name}_bucket`, `${before}le="${spec.bounds?.[at] ?? '+Inf'}"`, count);
  });
  return lines + line(`${name}_sum`, labels, series.sum) + line(`${name}_count`, labels, series.count);
}

function line(name: string, labels: string, value: number): string {
  return labels === '' ? `${name} ${value}\n` : `${name}{${labels}} ${value}\n`;
}

function textOf(series: Series): string {
  let text = LABELS.get(series);
  if (text === undefined) {
    text = labelsOf(series.labels);
    LABELS.set(series, text);
  }
  return text;
}

function labelsOf(labels: Readonly<Record<string, string | number | boolean>>): string {
  const by_name = new Map(Object.entries(labels).map(([name, value]) => [labelName(name), value]));
  return [...by_name].map(([name, value]) => `${name}="${escapeLine(String(value)).replaceAll('"', '\\"')}"`).join(',');
}

/** An attribute of a resource may have any name; one that began with a digit would make the whole text unreadable. */
function labelName(name: string): string {
  const label = prometheusLabel(name);
  return /^\d/.test(label) ? `key_${label}` : label;
}

function escapeLine(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}

type MetricsSettings = GatewayConfig['telemetry']['metrics'];

interface Active {
  settings: MetricsSettings;
  readonly listener: Awaited<ReturnType<typeof startMetricsListener>>;
}

const KEY = 'telemetry.metrics.listen';

/** Starts to serve metrics if the configuration says where. Raises StartError when it can't listen there. */
export async function openMetricsListener(options: {
  readonly config: GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly registry: MetricRegistry;
  readonly resource: () => Readonly<Record<string, string>>;
  readonly log: Log;
}) {
  const { env, registry, resource, log } = options;
  let active: Active | undefined;
  let moving: Promise<void> = Promise.resolve();
  let is_closed = false;

  async function start(listen: string, settings: MetricsSettings): Promise<Active> {
    const started = { settings };
    // Each listener goes by its own settings, so that none is ever open with the token of another.
    const token = () => {
      const { token_env } = started.settings;
      return token_env === undefined ? undefined : (secretIn(token_env, env) ?? '');
    };
    const text = () => writePrometheusText(registry, resource());
    const onError = (err: unknown) => log.error({ err }, 'metrics could not be served');
    try {
      const listener = await startMetricsListener({ listen, token, text, onError });
      log.info({ listen, port: listener.port }, 'metrics are served at /metrics');
      return Object.assign(started, { listener });
    } catch (error) {
      throw explainListenError(error as NodeJS.ErrnoException, listen, `${KEY} in gateway.yaml`);
    }
  }

  async function move(next: MetricsSettings): Promise<void> {
    if (is_closed) return;
    const { listen } = next;
    if (active !== undefined && listen === active.listener.listen) {
      active.settings = next;
      return;
    }
    const before = active;
    active = undefined;
    await before?.listener.close();
    try {
      active = listen === undefined ? undefined : await start(listen, next);
      if (before !== undefined && listen === undefined) log.info({}, 'metrics are not served any more');
    } catch (error) {
      log.error({ err: error }, 'metrics are served as before the reload');
      active = before && (await start(before.listener.listen, before.settings).catch(notServed));
    }
  }

  function notServed(error: unknown): undefined {
    log.error({ err: error }, 'metrics are not served any more');
  }

  const { metrics } = options.config.telemetry;
  if (metrics.listen !== undefined) active = await start(metrics.listen, metrics);
  return {
    get port() {
      return active?.listener.port;
    },
    /** Goes where a new configuration says. Stays where it is, and says why, when it can't listen there. Never rejects. */
    use({ telemetry }: GatewayConfig): Promise<void> {
      moving = moving.then(() => move(telemetry.metrics));
      return moving;
    },
    async close() {
      is_closed = true;
      await moving;
      await active?.listener.close();
    },
  };
}
