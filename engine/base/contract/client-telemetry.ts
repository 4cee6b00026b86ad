/**
 * How the Messages client is told to send its telemetry: variables in its settings, which a person's file and managed
 * settings both have. `OTEL_*` are OpenTelemetry's own names, which the clients share.
 * @module
 */

/** Signals of OpenTelemetry that coding clients send; logs are what they call events. */
export const SIGNALS = ['metrics', 'logs', 'traces'] as const;

/** A signal of OpenTelemetry. */
export type Signal = (typeof SIGNALS)[number];

/** Most bytes of one export request of a client, as it came and after decompression. */
export const EXPORT_BYTES_MAX = 4 * 1024 * 1024;

/** Begins the variables of features where no profile gives a name. */
export const NEUTRAL_FEATURE_PREFIX = 'CLIENT_CODE';

/** Variables that put texts of prompts, answers and tools into telemetry; off in every client unless they are set. */
export const CONTENT_VARIABLES = [
  'OTEL_LOG_USER_PROMPTS',
  'OTEL_LOG_ASSISTANT_RESPONSES',
  'OTEL_LOG_TOOL_DETAILS',
  'OTEL_LOG_TOOL_CONTENT',
  'OTEL_LOG_RAW_API_BODIES',
] as const;

/**
 * The variables that make the client send these signals to an address, and no texts; without a signal they switch its
 * telemetry off. A client that has signed in at a gateway sends to it without an address. But for what traces need beside
 * their exporter, every variable is always there, so that of several files the one that counts decides over all of them.
 */
export function telemetryVariables(
  signals: readonly Signal[],
  { address, feature_prefix }: { readonly address?: string; readonly feature_prefix: string },
): Record<string, string> {
  const exporters = SIGNALS.map((signal) => [exporterVariable(signal), signals.includes(signal) ? 'otlp' : 'none']);
  return {
    [`${feature_prefix}_ENABLE_TELEMETRY`]: signals.length > 0 ? '1' : '0',
    ...(signals.includes('traces') ? { [tracesVariable(feature_prefix)]: '1' } : {}),
    ...Object.fromEntries(exporters),
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    ...(address === undefined ? {} : { OTEL_EXPORTER_OTLP_ENDPOINT: address }),
    ...Object.fromEntries(CONTENT_VARIABLES.map((name) => [name, '0'])),
  };
}

/** Name of the variable without which the client makes no traces. */
export function tracesVariable(feature_prefix: string): string {
  return `${feature_prefix}_ENHANCED_TELEMETRY_BETA`;
}

/** Name of the variable that says where a signal goes. */
export function exporterVariable(signal: Signal): string {
  return `OTEL_${signal.toUpperCase()}_EXPORTER`;
}
