import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import type { Clock, Log } from '../../contract/services.ts';
import { programVersion } from '../../kit/package-root.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { MetricRegistry } from '../metric-registry.ts';
import { createCollectorLog } from './collector-log.ts';
import { openConsoleExport, openQueueExport, type QueueExport } from './queue-export.ts';
import type { Scope } from './readable-span.ts';
import { resourceAttributes } from './resource.ts';
import type { Destination, ExportSettings } from './settings.ts';
import type { ExportableSpan } from './span-serializer.ts';
import { publicUrl, type Signal } from './targets.ts';

/** The exports of one configuration. */
export interface OpenSignals {
  readonly spans: QueueExport<ExportableSpan> | undefined;
  /** Lines of the log, as JSON. */
  readonly logs: QueueExport<string> | undefined;
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
  if (settings.config_file !== undefined) return openByFile(settings, context);
  const { traces, metrics, logs } = settings;
  if (traces === undefined && metrics === undefined && logs === undefined) return NOTHING;
  const { registry, clock, log } = context;
  const sdk = await import('./encode.ts');
  const resource = sdk.resourceFromAttributes(resourceAttributes(settings.resource));
  const scope = scopeOf(settings);
  const eventsOf = (signal: Signal, destination: NonNullable<Destination>) => {
    const url = destination === 'console' ? destination : publicUrl(destination.url);
    return createCollectorLog({ signal, url, metrics: registry, log });
  };

  function openSpans(): OpenSignals['spans'] {
    if (traces === undefined) return undefined;
    const write = (span: ExportableSpan) => 'made' in span || log.info({ span }, 'span');
    const shared = { settings: settings.spans, events: eventsOf('traces', traces), clock, write };
    if (traces === 'console') return openConsoleExport<ExportableSpan>(shared);
    const serializer = sdk.spanSerializer(traces.protocol, { resource, scope });
    return openQueueExport(traces, { ...shared, encodable: (span: ExportableSpan) => span, serializer });
  }

  function openLogs(): OpenSignals['logs'] {
    if (logs === undefined || logs === 'console') return undefined;
    const shared = { settings: settings.log_records, events: eventsOf('logs', logs), clock, write() {} };
    const encodable = (line: string) => sdk.logRecordOf(line, resource, scope);
    return openQueueExport(logs, { ...shared, encodable, serializer: sdk.SERIALIZERS[logs.protocol].logs });
  }

  function openMetrics() {
    if (metrics === undefined || metrics === 'console') return undefined;
    return sdk.openMetricExport({
      target: metrics,
      serializer: sdk.SERIALIZERS[metrics.protocol].metrics,
      registry,
      scope,
      interval_ms: settings.metrics_interval_ms,
      temporality: settings.metrics_temporality,
      events: eventsOf('metrics', metrics),
    });
  }

  const [span_export, log_export, metric_export] = [openSpans(), openLogs(), openMetrics()];
  const started = sdk.startSdk({
    resource,
    readers: metric_export === undefined ? [] : [metric_export.reader],
    take: context.takeMade,
    log,
  });
  return {
    spans: span_export,
    logs: log_export,
    async close(patience_ms) {
      metric_export?.hurry();
      await Promise.all([
        span_export?.close(patience_ms),
        log_export?.close(patience_ms),
        waitAtMost(patience_ms, started.stop()),
      ]);
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

/** The file's own processors batch; this only takes the work out of the request. */
const FILE_DELAY_MS = 100;

async function openByFile(settings: ExportSettings, { registry, clock, log }: SignalContext): Promise<OpenSignals> {
  const { startFileSdk } = await import('./config-file.ts');
  const sdk = startFileSdk(scopeOf(settings), registry, log);
  const eventsOf = (signal: Signal) => createCollectorLog({ signal, url: 'OTEL_CONFIG_FILE', metrics: registry, log });
  const spans = openConsoleExport<ExportableSpan>({
    settings: { ...settings.spans, delay_ms: FILE_DELAY_MS },
    events: eventsOf('traces'),
    clock,
    write: (span) => 'made' in span || sdk.tellSpan(span),
  });
  const logs = openConsoleExport<string>({
    settings: { ...settings.log_records, delay_ms: FILE_DELAY_MS },
    events: eventsOf('logs'),
    clock,
    write: (line) => sdk.tellLine(line),
  });
  return {
    spans,
    logs,
    async close(patience_ms) {
      await Promise.all([spans.close(patience_ms), logs.close(patience_ms)]);
      await waitAtMost(patience_ms, sdk.stop());
    },
  };
}
