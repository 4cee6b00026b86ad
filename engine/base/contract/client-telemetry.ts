/** Variables that configure the telemetry of the Messages client; `OTEL_*` are names of OpenTelemetry. @module */

/** OpenTelemetry signals of coding clients; the clients call logs events. */
export const SIGNALS = ['metrics', 'logs', 'traces'] as const;

/** An OpenTelemetry signal. */
export type Signal = (typeof SIGNALS)[number];

/** Maximum size of a client's export request in bytes, before and after decompression. */
export const EXPORT_BYTES_MAX = 4 * 1024 * 1024;

/** Prefix of feature variables without a profile. */
export const NEUTRAL_FEATURE_PREFIX = 'CLIENT_CODE';

/** Variables that include texts of prompts, responses and tools in telemetry; off by default in every client. */
export const CONTENT_VARIABLES = [
  'OTEL_LOG_USER_PROMPTS',
  'OTEL_LOG_ASSISTANT_RESPONSES',
  'OTEL_LOG_TOOL_DETAILS',
  'OTEL_LOG_TOOL_CONTENT',
  'OTEL_LOG_RAW_API_BODIES',
] as const;

/**
 * The variables that make a client send these signals, without texts; with no signal they turn telemetry off. All but the one
 * for traces are always set, so that the file with the highest priority decides them.
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

/** Name of the variable with the destination of a signal. */
export function exporterVariable(signal: Signal): string {
  return `OTEL_${signal.toUpperCase()}_EXPORTER`;
}
