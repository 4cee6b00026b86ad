import { randomUUID } from 'node:crypto';
import { SIGNALS, type Signal } from '../../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { EXIT_CONFIGURATION, StartError } from '../../../base/contract/start-error.ts';
import { urlProblem } from '../../../base/kit/net/addresses.ts';
import { DIRECT, proxyRouteTo, type Way } from '../../../base/kit/net/proxy-route.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { secretHolder, secretIn } from '../../../base/kit/secret-names.ts';
import { percentDecoded } from '../../../base/kit/text/percent.ts';
import { CONVENTIONS, conventionsOf } from '../conventions.ts';

export interface Target {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: 'http/protobuf' | 'http/json';
  readonly compression: 'gzip' | 'none';
  readonly timeout_seconds: number;
  /** Files in PEM: who signed the collector's certificate, and what the gateway shows of itself. */
  readonly ca_file?: string | undefined;
  readonly certificate_file?: string | undefined;
  readonly key_file?: string | undefined;
  readonly way?: Way | undefined;
}

export type ExportSettings = ReturnType<typeof exportSettings>;

export interface QueueSettings {
  readonly capacity: number;
  readonly batch_items: number;
  readonly delay_ms: number;
}

type Env = Readonly<Record<string, string | undefined>>;
type Otlp = NonNullable<GatewayConfig['telemetry']['otlp']>;

const DEFAULT_ENDPOINT = 'http://localhost:4318';
const DEFAULT_TIMEOUT_SECONDS = 10;
const DEFAULT_QUEUE_SPANS = 16_384;
/** Small batches: encoding a batch blocks the event loop. */
const DEFAULT_BATCH = 256;

/** Reads the export settings. Raises StartError with the key or variable, without secrets. */
export function exportSettings(telemetry: GatewayConfig['telemetry'], env: Env) {
  const { otlp } = telemetry;
  const { interval_seconds } = telemetry.metrics;
  const disabled = /^true$/i.test(env.OTEL_SDK_DISABLED?.trim() ?? '');
  const to = (signal: Signal) => (disabled ? undefined : destinationOf(signal, otlp, env));
  return {
    traces: to('traces'),
    metrics: to('metrics'),
    logs: to('logs'),
    /** Configured ones, without the defaults of the gateway. */
    resource: { ...resourceFrom(env), ...telemetry.resource },
    schema_url: CONVENTIONS[conventionsOf({ telemetry }, env)].schema_url,
    spans: {
      ...queueFrom(env, 'OTEL_BSP'),
      capacity: otlp?.queue_spans ?? number(env, 'OTEL_BSP_MAX_QUEUE_SIZE') ?? DEFAULT_QUEUE_SPANS,
    },
    log_records: queueFrom(env, 'OTEL_BLRP'),
    metrics_interval_ms: interval_seconds
      ? interval_seconds * 1000
      : (number(env, 'OTEL_METRIC_EXPORT_INTERVAL') ?? 60_000),
    metrics_as_deltas: /^(delta|lowmemory)$/i.test(
      text(env, 'OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE') ?? '',
    ),
    warnings: warningsOf(otlp, env, disabled),
  };
}

function queueFrom(env: Env, prefix: 'OTEL_BSP' | 'OTEL_BLRP'): QueueSettings {
  const capacity = number(env, `${prefix}_MAX_QUEUE_SIZE`) ?? 2048;
  return {
    capacity,
    batch_items: Math.min(number(env, `${prefix}_MAX_EXPORT_BATCH_SIZE`) ?? DEFAULT_BATCH, capacity),
    delay_ms: number(env, `${prefix}_SCHEDULE_DELAY`) ?? 5000,
  };
}

function destinationOf(signal: Signal, otlp: Otlp | undefined, env: Env): Target | undefined {
  const exporter = exporterOf(signal, env);
  // Logs go to standard error anyway; exporting them is opt-in.
  const by_variable = signal === 'logs' ? exporter === 'otlp' : exporter !== 'none';
  if (!(otlp?.[signal] ?? by_variable)) return undefined;
  const usual = otlp === undefined && exporter === 'otlp' ? siblingOf(DEFAULT_ENDPOINT, signal) : undefined;
  const endpoint = endpointOf(signal, otlp, env) ?? usual;
  return endpoint === undefined ? undefined : targetOf(signal, endpoint, otlp, env);
}

function warningsOf(otlp: Otlp | undefined, env: Env, disabled: boolean): string[] {
  if (otlp === undefined) return disabled ? [] : SIGNALS.flatMap((signal) => unknownExporter(signal, env) ?? []);
  return disabled ? ['nothing is sent to the collector of telemetry.otlp: OTEL_SDK_DISABLED is true'] : [];
}

function unknownExporter(signal: Signal, env: Env): string | undefined {
  const name = `OTEL_${signal.toUpperCase()}_EXPORTER`;
  if (text(env, name) === undefined || exporterOf(signal, env) !== undefined) return undefined;
  const instead = signal === 'metrics' ? '; telemetry.metrics.listen in gateway.yaml serves metrics to Prometheus' : '';
  return `${name} names no supported exporter for ${signal}: expected otlp or none${instead}`;
}

function exporterOf(signal: Signal, env: Env): 'otlp' | 'none' | undefined {
  const names = text(env, `OTEL_${signal.toUpperCase()}_EXPORTER`)?.split(',') ?? [];
  return names.map((name) => name.trim()).find((name) => name === 'otlp' || name === 'none');
}

const variablesOf = (signal: Signal, setting: string) =>
  [`OTEL_EXPORTER_OTLP_${signal.toUpperCase()}_${setting}`, `OTEL_EXPORTER_OTLP_${setting}`] as const;

function endpointOf(signal: Signal, otlp: Otlp | undefined, env: Env): string | undefined {
  if (otlp !== undefined) return writtenEndpoint(signal, otlp);
  const [own, shared] = variablesOf(signal, 'ENDPOINT');
  const found = urlIn(env, own);
  if (found !== undefined) return found;
  const base = urlIn(env, shared);
  return base && siblingOf(base, signal);
}

/** URL of a signal from the configuration; a custom path gives no URL for other signals. */
function writtenEndpoint(signal: Signal, otlp: Otlp): string | undefined {
  const own = { traces: undefined, metrics: otlp.metrics_endpoint, logs: otlp.logs_endpoint }[signal];
  const url = own ?? otlp.endpoint;
  if (new URL(url).pathname === '/') return siblingOf(url, signal);
  if (own !== undefined) return own;
  const { endpoint } = otlp;
  if (signal === 'traces') return endpoint;
  const sibling = endpoint.replace(/\/v1\/traces(?=\/?(?:\?|$))/, `/v1/${signal}`);
  return sibling === endpoint ? undefined : sibling;
}

function siblingOf(base: string, signal: Signal): string {
  const url = new URL(base);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/v1/${signal}`;
  return url.href;
}

function targetOf(signal: Signal, url: string, otlp: Otlp | undefined, env: Env): Target {
  const own = (setting: string) =>
    variablesOf(signal, setting)
      .map((name) => text(env, name))
      .find((value) => value !== undefined);
  const timeout_ms = Number(own('TIMEOUT') ?? Number.NaN);
  const timeout = timeout_ms > 0 ? timeout_ms / 1000 : DEFAULT_TIMEOUT_SECONDS;
  const compression = own('COMPRESSION') === 'gzip' ? 'gzip' : 'none';
  return {
    url,
    headers: headersOf(signal, otlp, env),
    protocol: otlp?.protocol ?? protocolOf(signal, env),
    compression: otlp?.compression ?? compression,
    timeout_seconds: otlp?.timeout_seconds ?? Math.min(timeout, 60),
    ca_file: otlp?.ca_file ?? own('CERTIFICATE'),
    certificate_file: own('CLIENT_CERTIFICATE'),
    key_file: own('CLIENT_KEY'),
    ...wayOf(url, env),
  };
}

export function wayOf(url: string, env: Env): Pick<Target, 'way'> {
  try {
    const way = proxyRouteTo(new URL(url), env);
    return way === DIRECT ? {} : { way };
  } catch (error) {
    throw wrong((error as Error).message);
  }
}

function protocolOf(signal: Signal, env: Env): Target['protocol'] {
  const name = variablesOf(signal, 'PROTOCOL').find((name) => text(env, name) !== undefined);
  const protocol = name === undefined ? 'http/protobuf' : text(env, name);
  if (protocol === 'http/protobuf' || protocol === 'http/json') return protocol;
  const problem =
    protocol === 'grpc'
      ? `${name} selects OTLP over gRPC, which the gateway does not support`
      : `${name} is not a protocol of OTLP`;
  throw wrong(
    `${problem}: set it, or telemetry.otlp.protocol in gateway.yaml, to http/protobuf or http/json, and the endpoint to the collector's port for HTTP, usually 4318`,
  );
}

function headersOf(signal: Signal, otlp: Otlp | undefined, env: Env): Target['headers'] {
  if (otlp?.headers_env !== undefined) return headersIn(env, otlp.headers_env);
  const [own, shared] = variablesOf(signal, 'HEADERS');
  return { ...headersIn(env, shared), ...headersIn(env, own) };
}

/** The headers in a variable or secret file. Raises StartError that names it, without its value. */
export function headersIn(env: Env, name: string): Target['headers'] {
  try {
    return parseHeaderList(secretIn(name, env) ?? '');
  } catch (error) {
    throw wrong(`${secretHolder(name)} cannot be read: ${(error as Error).message}`);
  }
}

/** Resource attributes from the standard variables. Raises StartError if they are invalid. */
export function resourceFrom(env: Env): Record<string, string> {
  const attributes: Record<string, string> = {};
  for (const { entry, name, value } of pairsIn(text(env, 'OTEL_RESOURCE_ATTRIBUTES') ?? '')) {
    if (name === '') throw wrong(`entry ${entry} of OTEL_RESOURCE_ATTRIBUTES is not name=value`);
    attributes[name] = value;
  }
  const service = text(env, 'OTEL_SERVICE_NAME');
  return service === undefined ? attributes : { ...attributes, 'service.name': service };
}

/** Entries `name=value` with percent-encoded values, separated by commas; the name is empty without a `=`. */
function pairsIn(list: string): { readonly entry: number; readonly name: string; readonly value: string }[] {
  return list.split(',').flatMap((part, index) => {
    const at = part.indexOf('=');
    const [name, value] = [part.slice(0, Math.max(at, 0)).trim(), percentDecoded(part.slice(at + 1).trim())];
    return part.trim() === '' ? [] : [{ entry: index + 1, name, value }];
  });
}

/** An environment variable; an empty one counts as unset, as in OpenTelemetry. */
function text(env: Env, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === '' ? undefined : value;
}

function urlIn(env: Env, name: string): string | undefined {
  const value = text(env, name);
  const problem = value && urlProblem(value, 'endpoint');
  if (problem !== undefined) throw wrong(`the URL in the environment variable ${name} cannot be used: ${problem}`);
  return value;
}

function number(env: Env, name: string): number | undefined {
  const value = text(env, name);
  if (value === undefined) return undefined;
  const found = Number(value);
  if (!Number.isSafeInteger(found) || found < 1) {
    throw wrong(`the environment variable ${name} is not a whole number above 0`);
  }
  return found;
}

function wrong(message: string): StartError {
  return new StartError(message, { exit_code: EXIT_CONFIGURATION });
}

const INSTANCE = randomUUID();

/** Resource attributes of all exports; configured ones override the defaults. */
export function resourceAttributes(configured: Readonly<Record<string, string>>): Record<string, string> {
  return {
    'service.name': 'appscli-gateway',
    'service.version': programVersion(),
    'service.instance.id': INSTANCE,
    'telemetry.sdk.language': 'nodejs',
    'telemetry.sdk.name': 'opentelemetry',
    ...configured,
  };
}

/** A URL for logs and metrics, without its query, which may contain a key. */
export function publicUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

/** A field name (RFC 9110 section 5.1). */
const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Visible ASCII characters with inner spaces. */
const VALUE = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

/** Parses headers as in OpenTelemetry's variables: `name=value`, with commas. Raises Error without values. */
export function parseHeaderList(text: string): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (const { entry, name, value } of pairsIn(text)) {
    const header = name.toLowerCase();
    if (!NAME.test(header)) throw new Error(`entry ${entry} is not a header: expected name=value, separated by commas`);
    if (!VALUE.test(value)) {
      throw new Error(`the value of the header ${header} contains characters that are invalid in headers`);
    }
    headers[header] = value;
  }
  return headers;
}
