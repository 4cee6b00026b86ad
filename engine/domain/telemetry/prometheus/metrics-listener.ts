import { hash, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { isLoopbackUrl, parseListenAddress } from '../../../base/kit/net/addresses.ts';
import { explainListenError } from '../../../base/kit/net/listen-error.ts';
import { secretIn } from '../../../base/kit/secret-names.ts';
import { prometheusLabel, prometheusName } from '../catalogue/prometheus-names.ts';
import type { MeasuredMetric, MetricRegistry, Series, TelemetrySurroundings } from '../metric-registry.ts';

const PATH = '/metrics';
const CONNECTIONS_MAX = 32;
const HEAD_BYTES = 8 * 1024;
const HEAD_MS = 5000;
const CHECK_MS = 1000;
const RESPONSE_MS = 30_000;

const compress = promisify(gzip);

/**
 * Serves `GET /metrics` only, one request per connection. Without a token it serves only requests to a loopback host name, so that web
 * pages cannot read metrics by DNS rebinding. Rejects with errors of Node (EADDRINUSE, EACCES ...).
 */
export async function startMetricsListener(options: {
  readonly listen: string;
  /** The required bearer token; read each time, because a reload can change it. */
  readonly token: () => string | undefined;
  readonly text: () => Promise<string>;
  readonly onError: (error: unknown) => void;
}) {
  const { listen, token, text, onError } = options;
  const { host, port } = parseListenAddress(listen)!;

  async function respond(req: http.IncomingMessage, res: http.ServerResponse): Promise<void> {
    const rejection = rejectionOf(req, token());
    if (rejection !== undefined) {
      const { status, problem, ...headers } = rejection;
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
  server.setTimeout(RESPONSE_MS);
  server.on('request', (req, res) => {
    res.shouldKeepAlive = false;
    req.resume();
    respond(req, res).catch((error) => {
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
    port: typeof address === 'object' && address !== null ? address.port : port,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

type Rejection = { readonly status: number; readonly problem: string } & Readonly<Record<string, string | number>>;

function rejectionOf(req: http.IncomingMessage, token: string | undefined): Rejection | undefined {
  const { authorization = '', host = '' } = req.headers;
  if (token !== undefined && !hasToken(authorization, token))
    return {
      status: 401,
      problem: 'Send the token of telemetry.metrics.token_env as "Authorization: Bearer <token>".',
      'www-authenticate': 'Bearer realm="metrics"',
    };
  if (token === undefined && !isLoopbackUrl(`http://${host}`))
    return {
      status: 403,
      problem: 'Without telemetry.metrics.token_env, metrics are served at localhost, 127.0.0.1 and [::1] only.',
    };
  const [path] = (req.url ?? '').split('?');
  if (path !== PATH) return { status: 404, problem: `Only ${PATH} is served here.` };
  if (req.method !== 'GET' && req.method !== 'HEAD')
    return { status: 405, problem: `${PATH} supports only GET.`, allow: 'GET, HEAD' };
  return undefined;
}

/** Whether an Authorization header (RFC 6750 section 2.1) has the token. An empty token never matches: it would admit requests without one. */
function hasToken(authorization: string, token: string): boolean {
  const sent = /^bearer +(.*)$/i.exec(authorization)?.[1] ?? '';
  // Digests have one length, for a comparison in constant time.
  const digest = (text: string) => hash('sha256', text, 'buffer');
  return token !== '' && timingSafeEqual(digest(sent), digest(token));
}

const PROMETHEUS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Resource = Readonly<Record<string, string>>;

/** Series written before yielding to the event loop. */
const SERIES_AT_ONCE = 200;

type Labels = Readonly<Record<string, string | number | boolean>>;

/** The text of labels, without braces: those of a series never change, and most of a scrape would be spent on them. */
const LABELS = new WeakMap<Labels, string>();

/** Writes the metrics; the serializer of the SDK takes ten times as long and blocks the event loop. */
export async function writePrometheusText(registry: Pick<MetricRegistry, 'measure'>, resource: Resource) {
  let text = `# HELP target_info Target metadata\n# TYPE target_info gauge\n${line('target_info', labelsOf(resource), 1)}`;
  let written = 0;
  for (const metric of registry.measure()) {
    const name = prometheusName(metric.name, metric.spec);
    text += `# HELP ${name} ${escapeLine(metric.spec.meaning)}\n# TYPE ${name} ${metric.spec.kind}\n`;
    for (const series of metric.series) {
      text +=
        metric.spec.kind === 'histogram'
          ? histogramLines(name, metric, series)
          : line(name, labelsOf(series.labels), series.sum);
      if (++written % SERIES_AT_ONCE === 0) await setImmediate();
    }
  }
  return text;
}

function histogramLines(name: string, { spec }: MeasuredMetric, series: Series): string {
  const labels = labelsOf(series.labels);
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

function labelsOf(labels: Labels): string {
  const known = LABELS.get(labels);
  if (known !== undefined) return known;
  const by_name = new Map(Object.entries(labels).map(([name, value]) => [labelName(name), value]));
  const pairs = [...by_name].map(([name, value]) => `${name}="${escapeLine(String(value)).replaceAll('"', '\\"')}"`);
  const text = pairs.join(',');
  LABELS.set(labels, text);
  return text;
}

/** A label name. Resource attributes may have any name, but a label that begins with a digit would make the text invalid. */
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
const NOT_SERVED = 'metrics are not served any more';

/** Serves metrics if `telemetry.metrics.listen` is set. Raises StartError if it cannot listen there. */
export async function openMetricsListener(
  options: TelemetrySurroundings & { readonly config: GatewayConfig; readonly resource: () => Resource },
) {
  const { env, metrics, resource, log } = options;
  let active: Active | undefined;
  let moving: Promise<void> = Promise.resolve();
  let is_closed = false;

  async function start(settings: MetricsSettings): Promise<Active | undefined> {
    const { listen } = settings;
    if (listen === undefined) return undefined;
    const started = { settings };
    // Each listener keeps its own settings, so that it never accepts the token of another.
    const token = () => {
      const { token_env } = started.settings;
      return token_env === undefined ? undefined : (secretIn(token_env, env) ?? '');
    };
    const text = () => writePrometheusText(metrics, resource());
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
    const before = active;
    if (before?.settings.listen === next.listen) {
      if (before !== undefined) before.settings = next;
      return;
    }
    active = undefined;
    await before?.listener.close();
    try {
      active = await start(next);
      if (active === undefined) log.info({}, NOT_SERVED);
    } catch (error) {
      log.error({ err: error }, 'the metrics listener could not be moved; it stays at its old address');
      active = before && (await start(before.settings).catch((err) => void log.error({ err }, NOT_SERVED)));
    }
  }

  active = await start(options.config.telemetry.metrics);
  return {
    get port() {
      return active?.listener.port;
    },
    /** Applies a new configuration; on failure it logs the error and keeps the old address. Never rejects. */
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
