import type { ResourceMetrics } from '@opentelemetry/sdk-metrics';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { Signal } from '../../../base/contract/client-telemetry.ts';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { describeProxyRoute } from '../../../base/kit/net/proxy-route.ts';
import { programVersion } from '../../../base/kit/package-root.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { TelemetrySurroundings } from '../metric-registry.ts';
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
export type ExportedLog = TelemetrySurroundings['log'];

const SECRET_HEADER = /auth|cookie|key|pass|secret|signature|token/i;

const CLOSE_TIMEOUT_MS = 3000;

/** Opens the exports of a configuration. Raises StartError for unusable settings. */
export async function openExports(options: TelemetrySurroundings & { readonly telemetry: GatewayConfig['telemetry'] }) {
  const { env, metrics, log } = options;
  let settings: ExportSettings | undefined;
  let open: OpenSignals;
  metrics.observe('gateway.telemetry.queue.length', () =>
    (['traces', 'logs'] as const).flatMap((signal) => {
      const queue = open?.[signal];
      return queue === undefined ? [] : [{ value: queue.taken, labels: { 'gateway.telemetry.signal': signal } }];
    }),
  );

  async function moveTo(next: ExportSettings): Promise<void> {
    if (JSON.stringify(next) === JSON.stringify(settings)) return;
    hideCredentials(next, log);
    const before = open;
    const takeMade = (made: ReadableSpan) => open?.traces?.push({ made });
    const opened = await openSignals(next, options, takeMade);
    settings = next;
    open = opened;
    for (const problem of next.warnings) log.warn({ code: 'telemetry_not_sent' }, problem);
    const goes = { traces: placeOf(next.traces), metrics: placeOf(next.metrics), logs: placeOf(next.logs) };
    if (Object.values(goes).some((place) => place !== undefined)) log.info(goes, 'telemetry destinations');
    else if (before !== undefined) log.info({}, 'telemetry is no longer exported');
    log.tap?.(opened?.logs && ((line) => opened.logs!.push(line)));
    // Queued items still go to the old destination.
    void before?.close(CLOSE_TIMEOUT_MS);
  }

  await moveTo(exportSettings(options.telemetry, env));
  let moving = Promise.resolve();
  return {
    sink: {
      get active() {
        return open?.traces !== undefined;
      },
      take(finished) {
        for (const span of finished) open?.traces?.push(span);
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

/** Queue of metric collections; short, because cumulative collections supersede each other. */
const COLLECTIONS: QueueSettings = { capacity: 4, batch_items: 1, delay_ms: 0 };

type OpenSignals = Awaited<ReturnType<typeof openSignals>>;

/** @returns `undefined` where nothing is exported. `takeMade` receives spans of stages, whose tracers outlive these exports. Raises StartError. */
async function openSignals(
  settings: ExportSettings,
  { metrics: registry, clock, log }: TelemetrySurroundings,
  takeMade: (span: ReadableSpan) => void,
) {
  const { traces, metrics, logs, schema_url } = settings;
  if (traces === undefined && metrics === undefined && logs === undefined) return undefined;
  const sdk = await import('./encode.ts');
  const resource = sdk.resourceFromAttributes(resourceAttributes(settings.resource));
  const scope = {
    ...{ name: 'appscli-gateway', version: programVersion() },
    ...(schema_url !== undefined && { schemaUrl: schema_url }),
  };
  function open<Item>(signal: Signal, queued: QueueSettings, encodable: (items: readonly Item[]) => unknown) {
    const target = settings[signal];
    if (target === undefined) return undefined;
    const serializer = sdk.SERIALIZERS[target.protocol][signal] as Serializer<unknown>;
    const collector = openCollector(target);
    const send = (items: readonly Item[]) => sendOtlp(collector, serializer, () => encodable(items));
    const events = createCollectorLog({ signal, url: publicUrl(target.url), metrics: registry, log });
    return new ExportQueue({ ...queued, send, events, clock, closed: () => collector.close() });
  }

  const spans = open('traces', settings.spans, (items: readonly ExportableSpan[]) =>
    items.map((span) => ('made' in span ? span.made : sdk.exportedSpan(span, resource, scope))),
  );
  const lines = open('logs', settings.log_records, (items: readonly string[]) =>
    items.map((line) => sdk.logRecordOf(line, resource, scope)),
  );
  const collected = open('metrics', COLLECTIONS, ([one]: readonly ResourceMetrics[]) => one);
  const reader = collected && sdk.metricReader({ registry, scope }, settings, (metrics) => collected.push(metrics));
  const stop = sdk.startSdk({ resource, readers: reader === undefined ? [] : [reader], take: takeMade, log });
  return {
    traces: spans,
    logs: lines,
    async close(timeout_ms: number): Promise<void> {
      await waitAtMost(timeout_ms, stop());
      await Promise.all([spans, lines, collected].map((queue) => queue?.close(timeout_ms)));
    },
  };
}
