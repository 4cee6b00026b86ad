import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { Signal } from '../../contract/client-telemetry.ts';
import type { Clock, Log } from '../../contract/services.ts';
import { programVersion } from '../../kit/package-root.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { MetricRegistry } from '../metric-registry.ts';
import type { FinishedSpan } from '../spans.ts';
import { openCollector, type Serializer, sendOtlp } from './collector.ts';
import { createCollectorLog } from './collector-log.ts';
import { ExportQueue } from './export-queue.ts';
import type { Scope } from './readable-span.ts';
import { type ExportSettings, publicUrl, type QueueSettings, resourceAttributes, type Target } from './settings.ts';

/** A span of the gateway, or one that somebody made through `@opentelemetry/api`. */
export type ExportableSpan = FinishedSpan | { readonly made: ReadableSpan };

/** The exports of one configuration. */
export interface OpenSignals {
  readonly spans: ExportQueue<ExportableSpan> | undefined;
  /** Lines of the log, as JSON. */
  readonly logs: ExportQueue<string> | undefined;
  /** Sends what waits, for at most this long each, and breaks off the rest. */
  close(patience_ms: number): Promise<void>;
}

/** What all configurations share. */
export interface SignalContext {
  /** Takes spans that stages have made, whose tracers outlive the exports they came from. */
  readonly takeMade: (span: ReadableSpan) => void;
  readonly registry: MetricRegistry;
  readonly clock: Clock;
  readonly log: Log;
}

const NOTHING: OpenSignals = { spans: undefined, logs: undefined, async close() {} };

/** Opens whatever the settings say. Raises Error where they cannot be used. */
export async function openSignals(settings: ExportSettings, context: SignalContext): Promise<OpenSignals> {
  const { traces, metrics, logs } = settings;
  if (traces === undefined && metrics === undefined && logs === undefined) return NOTHING;
  const { registry, clock, log } = context;
  const sdk = await import('./encode.ts');
  const resource = sdk.resourceFromAttributes(resourceAttributes(settings.resource));
  const scope = scopeOf(settings);
  const eventsOf = (signal: Signal, { url }: Target) =>
    createCollectorLog({ signal, url: publicUrl(url), metrics: registry, log });
  const closing: ((patience_ms: number) => Promise<void>)[] = [];

  function open<Item, Encodable>(
    signal: 'traces' | 'logs',
    { target, queued, encodable }: { target: Target; queued: QueueSettings; encodable: (item: Item) => Encodable },
  ): ExportQueue<Item> {
    const serializer = sdk.SERIALIZERS[target.protocol][signal] as Serializer<unknown>;
    const collector = openCollector(target);
    const send = (items: readonly Item[]) => sendOtlp(collector, serializer, () => items.map(encodable));
    const queue = new ExportQueue({ ...queued, send, events: eventsOf(signal, target), clock });
    closing.push(async (patience_ms) => {
      await queue.close(patience_ms);
      collector.close();
    });
    return queue;
  }

  const spans = traces && {
    target: traces,
    queued: settings.spans,
    encodable: (span: ExportableSpan) => ('made' in span ? span.made : new sdk.ExportedSpan(span, resource, scope)),
  };
  const lines = logs && {
    target: logs,
    queued: settings.log_records,
    encodable: (line: string) => sdk.logRecordOf(line, resource, scope),
  };
  const metric_export =
    metrics &&
    sdk.openMetricExport({
      target: metrics,
      serializer: sdk.SERIALIZERS[metrics.protocol].metrics,
      registry,
      scope,
      interval_ms: settings.metrics_interval_ms,
      temporality: settings.metrics_temporality,
      events: eventsOf('metrics', metrics),
    });
  const opened = { spans: spans && open('traces', spans), logs: lines && open('logs', lines) };
  const started = sdk.startSdk({
    resource,
    readers: metric_export === undefined ? [] : [metric_export.reader],
    take: context.takeMade,
    log,
  });
  return {
    ...opened,
    async close(patience_ms) {
      metric_export?.hurry();
      await Promise.all([...closing.map((close) => close(patience_ms)), waitAtMost(patience_ms, started.stop())]);
      metric_export?.close();
    },
  };
}

function scopeOf({ schema_url }: ExportSettings): Scope {
  return {
    name: 'appscli-gateway',
    version: programVersion(),
    ...(schema_url !== undefined && { schemaUrl: schema_url }),
  };
}
