import {
  context,
  diag,
  logs,
  metrics,
  type Observable,
  propagation,
  ROOT_CONTEXT,
  type SpanContext,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { startNodeSdk } from '@opentelemetry/sdk-node';
import type { Log } from '../../contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../contract/start-error.ts';
import { METRICS, type MetricName } from '../catalogue/metrics.ts';
import type { MetricRegistry } from '../metric-registry.ts';
import type { FinishedSpan } from '../spans.ts';
import { logRecordOf } from './log-record.ts';
import { logDiagnostics } from './node-sdk.ts';
import { ExportedSpan, type Scope } from './readable-span.ts';

/** The SDK as a file of OpenTelemetry's own configures it. */
export interface FileSdk {
  tellSpan(span: FinishedSpan): void;
  /** A line of the log, as JSON. */
  tellLine(line: string): void;
  /** Sends what waits. */
  stop(): Promise<void>;
}

/**
 * Starts the SDK by `OTEL_CONFIG_FILE`: its processors, samplers, readers and exporters get the gateway's spans, log lines, counters
 * and gauges. Histograms have no way into a reader that the gateway did not make. Raises StartError that names what is wrong with the file.
 */
export function startFileSdk(scope: Scope, registry: MetricRegistry, log: Log): FileSdk {
  for (const owner of [trace, metrics, logs, diag]) owner.disable();
  const sdk = startQuietly();
  // Neither touches a request: spans are made when it is over.
  context.disable();
  propagation.disable();
  logDiagnostics(log);
  const { name, version } = scope;
  const options = scope.schemaUrl === undefined ? {} : { schemaUrl: scope.schemaUrl };
  const tracer = trace.getTracerProvider().getTracer(name, version, options);
  const logger = logs.getLogger(name, version);
  observeAll(registry, scope);
  const nowhere = resourceFromAttributes({});

  return {
    tellSpan(finished) {
      const given = new ExportedSpan(finished, nowhere, scope);
      const { kind, attributes, startTime } = given;
      // A span without a parent would get a trace of its own; one that is not remote would not be asked about by samplers.
      const parent = given.parentSpanContext ?? { ...given.spanContext(), isRemote: true };
      const within = trace.setSpanContext(ROOT_CONTEXT, parent);
      const span = tracer.startSpan(finished.name, { kind, attributes, startTime }, within);
      if (!span.isRecording()) return;
      // The identifiers are known to the log, the audit records and upstreams already.
      const own: SpanContext = span.spanContext();
      own.spanId = finished.span_id;
      if (given.parentSpanContext === undefined) Object.assign(span, { parentSpanContext: undefined });
      for (const { name, attributes, time } of given.events) span.addEvent(name, attributes, time);
      if (finished.failed) span.setStatus({ code: SpanStatusCode.ERROR });
      span.end(given.endTime);
    },
    tellLine(line) {
      const { hrTime, severityNumber, severityText, body, attributes, spanContext } = logRecordOf(line, nowhere, scope);
      const known = spanContext && { ...spanContext, traceFlags: TraceFlags.SAMPLED };
      // The SDK leaves out a trace without a span.
      const alone = known?.spanId === '' ? { trace_id: known.traceId } : {};
      logger.emit({
        timestamp: hrTime,
        severityNumber: severityNumber ?? 0,
        severityText: severityText ?? '',
        body: body ?? '',
        attributes: { ...attributes, ...alone },
        context: known === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, known),
      });
    },
    stop: () => sdk.shutdown(),
  };
}

/** The SDK writes to the console what is wrong with the file, and goes on without it. */
function startQuietly(): ReturnType<typeof startNodeSdk> {
  const problems: string[] = [];
  const quiet = () => {};
  const listen = {
    error: (text: string) => problems.push(text),
    warn: quiet,
    info: quiet,
    debug: quiet,
    verbose: quiet,
  };
  diag.setLogger(listen);
  const { setLogger } = diag;
  diag.setLogger = () => true;
  let sdk: ReturnType<typeof startNodeSdk>;
  try {
    sdk = startNodeSdk();
  } finally {
    diag.setLogger = setLogger;
    diag.disable();
  }
  const problem = problems.find((text) => /^Could not/.test(text));
  if (problem === undefined) return sdk;
  throw new StartError(
    `the file that OTEL_CONFIG_FILE names cannot be used: ${problem.replace(/^.*?will not be setup: /, '')}`,
    {
      exit_code: EXIT_CONFIGURATION,
    },
  );
}

/** Lets the readers of the file ask for counters and gauges. */
function observeAll(registry: MetricRegistry, { name, version }: Scope): void {
  const meter = metrics.getMeter(name, version);
  const observables = new Map<MetricName, Observable>();
  for (const [metric, { kind, unit, meaning: description }] of Object.entries(METRICS)) {
    if (kind === 'histogram') continue;
    const make = kind === 'gauge' ? meter.createObservableGauge : meter.createObservableCounter;
    observables.set(metric as MetricName, make.call(meter, metric, { unit, description }));
  }
  meter.addBatchObservableCallback(
    (result) => {
      for (const { name, series } of registry.measure()) {
        const observable = observables.get(name);
        if (observable !== undefined) for (const { sum, labels } of series) result.observe(observable, sum, labels);
      }
    },
    [...observables.values()],
  );
}
