import type { ResourceMetrics } from '@opentelemetry/sdk-metrics';
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
import { type ExportSettings, publicUrl, type QueueSettings, resourceAttributes } from './settings.ts';

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

/** Collections of metrics that wait for a collector; the next one tells all of it again, unless it tells differences. */
const COLLECTIONS: QueueSettings = { room: 4, batch_items: 1, delay_ms: 0 };

const NOTHING: OpenSignals = { spans: undefined, logs: undefined, async close() {} };

/** Opens whatever the settings say. Raises Error where they cannot be used. */
export async function openSignals(settings: ExportSettings, context: SignalContext): Promise<OpenSignals> {
  const { traces, metrics, logs } = settings;
  if (traces === undefined && metrics === undefined && logs === undefined) return NOTHING;
  const { registry, clock, log } = context;
  const sdk = await import('./encode.ts');
  const resource = sdk.resourceFromAttributes(resourceAttributes(settings.resource));
  const scope = scopeOf(settings);
  const closing: ((patience_ms: number) => Promise<void>)[] = [];

  function open<Item>(signal: Signal, queued: QueueSettings, encodable: (items: readonly Item[]) => unknown) {
    const target = settings[signal];
    if (target === undefined) return undefined;
    const serializer = sdk.SERIALIZERS[target.protocol][signal] as Serializer<unknown>;
    const collector = openCollector(target);
    const send = (items: readonly Item[]) => sendOtlp(collector, serializer, () => encodable(items));
    const events = createCollectorLog({ signal, url: publicUrl(target.url), metrics: registry, log });
    const queue = new ExportQueue({ ...queued, send, events, clock });
    closing.push(async (patience_ms) => {
      await queue.close(patience_ms);
      collector.close();
    });
    return queue;
  }

  const spans = open('traces', settings.spans, (items: readonly ExportableSpan[]) =>
    items.map((span) => ('made' in span ? span.made : new sdk.ExportedSpan(span, resource, scope))),
  );
  const lines = open('logs', settings.log_records, (items: readonly string[]) =>
    items.map((line) => sdk.logRecordOf(line, resource, scope)),
  );
  const collected = open('metrics', COLLECTIONS, ([one]: readonly ResourceMetrics[]) => one);
  const reader = collected && sdk.metricReader({ registry, scope }, settings, (metrics) => collected.push(metrics));
  const started = sdk.startSdk({
    resource,
    readers: reader === undefined ? [] : [reader],
    take: context.takeMade,
    log,
  });
  return {
    spans,
    logs: lines,
    async close(patience_ms) {
      // Metrics are collected a last time.
      await waitAtMost(patience_ms, started.stop());
      await Promise.all(closing.map((close) => close(patience_ms)));
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
