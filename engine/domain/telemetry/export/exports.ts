import type { ResourceMetrics } from '@opentelemetry/sdk-metrics';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { Signal } from '../../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import type { RedactingLog } from '../../../base/kit/log.ts';
import { describeProxyRoute } from '../../../base/kit/net/proxy-route.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { MetricRegistry } from '../metric-registry.ts';
import type { FinishedSpan, SpanSink } from '../spans.ts';
import { createCollectorLog, openCollector, type Serializer, sendOtlp } from './collector.ts';
import { ExportQueue } from './export-queue.ts';
import {
  type ExportSettings,
  exportSettings,
  publicUrl,
  type QueueSettings,
  resourceAttributes,
  type Target,
} from './settings.ts';

export type Exports = Awaited<ReturnType<typeof openExports>>;

/** A log whose lines are exported, if it supports that, with secrets redacted. */
export type ExportedLog = Log & Partial<Pick<RedactingLog, 'hide' | 'tap'>>;

const SECRET_HEADER = /auth|cookie|key|pass|secret|signature|token/i;

const CLOSE_TIMEOUT_MS = 3000;

/** Opens the exports of a configuration. Raises StartError for unusable settings. */
export async function openExports(options: {
  readonly telemetry: GatewayConfig['telemetry'];
  readonly env: NodeJS.ProcessEnv;
  readonly registry: MetricRegistry;
  readonly clock: Clock;
  readonly log: ExportedLog;
}) {
  const { env, registry, log } = options;
  let settings: ExportSettings | undefined;
  let open: OpenSignals | undefined;
  registry.observe('gateway.telemetry.queue.length', () =>
    (['traces', 'logs'] as const).flatMap((signal) => {
      const queue = signal === 'traces' ? open?.spans : open?.logs;
      return queue === undefined ? [] : [{ value: queue.taken, labels: { 'gateway.telemetry.signal': signal } }];
    }),
  );

  async function moveTo(next: ExportSettings): Promise<void> {
    if (JSON.stringify(next) === JSON.stringify(settings)) return;
    hideCredentials(next, log);
    const before = open;
    const takeMade = (made: ReadableSpan) => open?.spans?.push({ made });
    const opened = await openSignals(next, options, takeMade);
    settings = next;
    open = opened;
    for (const problem of next.warnings) log.warn({ code: 'telemetry_not_sent' }, problem);
    const goes = { traces: placeOf(next.traces), metrics: placeOf(next.metrics), logs: placeOf(next.logs) };
    if (Object.values(goes).some((place) => place !== undefined)) log.info(goes, 'telemetry destinations');
    else if (before !== undefined) log.info({}, 'telemetry is no longer exported');
    log.tap?.(opened.logs === undefined ? undefined : (line) => opened.logs!.push(line));
    // Queued items still go to the old destination.
    void before?.close(CLOSE_TIMEOUT_MS);
  }

  await moveTo(exportSettings(options.telemetry, env));
  let moving = Promise.resolve();
  return {
    sink: {
      get active() {
        return open?.spans !== undefined;
      },
      take(finished) {
        for (const span of finished) open?.spans?.push(span);
      },
    } as SpanSink,
    /** Applies new settings. Logs unusable settings and keeps the old ones. */
    use(telemetry: GatewayConfig['telemetry']): void {
      moving = moving
        .then(() => moveTo(exportSettings(telemetry, env)))
        .catch((err) => {
          const code = 'telemetry_not_changed';
          log.error(
            { err, code },
            'the new configuration of telemetry cannot be used; telemetry keeps its destinations',
          );
        });
    },
    async close(): Promise<void> {
      await moving;
      log.tap?.(undefined);
      await open?.close(CLOSE_TIMEOUT_MS);
    },
  };
}

/** Redacts the values of credential headers; they differ from the text of the variable, which is redacted already. */
function hideCredentials({ traces, metrics, logs }: ExportSettings, log: ExportedLog): void {
  for (const target of [traces, metrics, logs]) {
    for (const [name, value] of Object.entries(target?.headers ?? {})) {
      if (!SECRET_HEADER.test(name)) continue;
      for (const part of [value, value.slice(value.indexOf(' ') + 1)]) log.hide?.(part);
    }
  }
}

function placeOf(target: Target | undefined): string | undefined {
  if (target === undefined) return undefined;
  const { url, way } = target;
  return way?.proxy === undefined ? publicUrl(url) : `${publicUrl(url)} ${describeProxyRoute(way)}`;
}

/** A span of the gateway, or one of a stage made through `@opentelemetry/api`. */
type ExportableSpan = FinishedSpan | { readonly made: ReadableSpan };

interface OpenSignals {
  readonly spans: ExportQueue<ExportableSpan> | undefined;
  readonly logs: ExportQueue<string> | undefined;
  close(timeout_ms: number): Promise<void>;
}

/** Queue of metric collections; short, because cumulative collections supersede each other. */
const COLLECTIONS: QueueSettings = { capacity: 4, batch_items: 1, delay_ms: 0 };

const NOTHING: OpenSignals = { spans: undefined, logs: undefined, async close() {} };

/** `takeMade` receives spans of stages, whose tracers outlive these exports. Raises StartError. */
async function openSignals(
  settings: ExportSettings,
  { registry, clock, log }: { readonly registry: MetricRegistry; readonly clock: Clock; readonly log: Log },
  takeMade: (span: ReadableSpan) => void,
): Promise<OpenSignals> {
  const { traces, metrics, logs, schema_url } = settings;
  if (traces === undefined && metrics === undefined && logs === undefined) return NOTHING;
  const sdk = await import('./encode.ts');
  const resource = sdk.resourceFromAttributes(resourceAttributes(settings.resource));
  const scope = {
    ...{ name: 'appscli-gateway', version: programVersion() },
    ...(schema_url !== undefined && { schemaUrl: schema_url }),
  };
  const closing: ((timeout_ms: number) => Promise<void>)[] = [];

  function open<Item>(signal: Signal, queued: QueueSettings, encodable: (items: readonly Item[]) => unknown) {
    const target = settings[signal];
    if (target === undefined) return undefined;
    const serializer = sdk.SERIALIZERS[target.protocol][signal] as Serializer<unknown>;
    const collector = openCollector(target);
    const send = (items: readonly Item[]) => sendOtlp(collector, serializer, () => encodable(items));
    const events = createCollectorLog({ signal, url: publicUrl(target.url), metrics: registry, log });
    const queue = new ExportQueue({ ...queued, send, events, clock, closed: () => collector.close() });
    closing.push((timeout_ms) => queue.close(timeout_ms));
    return queue;
  }

  const spans = open('traces', settings.spans, (items: readonly ExportableSpan[]) =>
    items.map((span) => ('made' in span ? span.made : sdk.exportedSpan(span, resource, scope))),
  );
  const lines = open('logs', settings.log_records, (items: readonly string[]) =>
    items.map((line) => sdk.logRecordOf(line, resource, scope)),
  );
  const collected = open('metrics', COLLECTIONS, ([one]: readonly ResourceMetrics[]) => one);
  const reader = collected && sdk.metricReader({ registry, scope }, settings, (metrics) => collected.push(metrics));
  const stop = sdk.startSdk({
    resource,
    readers: reader === undefined ? [] : [reader],
    take: takeMade,
    log,
  });
  return {
    spans,
    logs: lines,
    async close(timeout_ms) {
      await waitAtMost(timeout_ms, stop());
      await Promise.all(closing.map((close) => close(timeout_ms)));
    },
  };
}
