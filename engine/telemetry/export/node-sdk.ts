import { DiagLogLevel, diag, logs, metrics, trace } from '@opentelemetry/api';
import type { Resource } from '@opentelemetry/resources';
import type { MetricReader } from '@opentelemetry/sdk-metrics';
import { NodeSDK } from '@opentelemetry/sdk-node';
import type { ReadableSpan, SpanProcessor } from '@opentelemetry/sdk-trace';
import type { Log } from '../../contract/services.ts';

/** A started SDK. */
export interface StartedSdk {
  /** Lets what it reads from go. Sends metrics a last time. */
  stop(): Promise<void>;
}

/**
 * Starts the SDK of OpenTelemetry around the gateway's own exports, so that stages of operators can tell spans and metrics through
 * `@opentelemetry/api` too. No instrumentation, no context manager, no propagator, no detector: none of them touches a request.
 */
export function startSdk(options: {
  readonly resource: Resource;
  readonly readers: readonly MetricReader[];
  /** Takes spans that others have made. */
  readonly take: (span: ReadableSpan) => void;
  readonly log: Log;
}): StartedSdk {
  const { resource, readers, take, log } = options;
  const processor: SpanProcessor = {
    onStart() {},
    onEnd: take,
    forceFlush: async () => {},
    shutdown: async () => {},
  };
  // One process has one of each.
  for (const owner of [trace, metrics, logs, diag]) owner.disable();
  const sdk = new NodeSDK({
    resource,
    autoDetectResources: false,
    instrumentations: [],
    // The SDK takes `null` for none, its types do not say so.
    contextManager: null as never,
    textMapPropagator: null,
    spanProcessors: [processor],
    metricReaders: [...readers],
    logRecordProcessors: [],
  });
  logDiagnostics(log);
  sdk.start();
  return { stop: () => sdk.shutdown() };
}

/** Most things that the SDK says which are told, each once. */
const TOLD_MAX = 50;

/** What the SDK says of itself goes to the log: its first words alone, as the rest may hold what was to be sent. */
function logDiagnostics(log: Log): void {
  const told = new Set<string>();
  const tell = (level: 'error' | 'warn') => (message: string) => {
    const reason = message.slice(0, 200);
    // A collector that is away would be told of at every interval.
    if (told.has(reason) || told.size >= TOLD_MAX) return;
    told.add(reason);
    log[level]({ reason, code: 'opentelemetry_sdk' }, 'the SDK of OpenTelemetry says that something is wrong');
  };
  const quiet = () => {};
  const logger = { error: tell('error'), warn: tell('warn'), info: quiet, debug: quiet, verbose: quiet };
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
}
