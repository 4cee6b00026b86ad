/** What OTLP carries. */
export type Signal = 'traces' | 'metrics' | 'logs';

/** All signals. */
export const SIGNALS = ['traces', 'metrics', 'logs'] as const satisfies readonly Signal[];

/** Most bytes of one export request of a client, as it came and after decompression. */
export const EXPORT_BYTES_MAX = 4 * 1024 * 1024;

/** How messages travel over HTTP. */
export type Encoding = 'protobuf' | 'json';

/** Value of an attribute or a body; a decoded one has one member, none where it is empty. */
export interface AnyValue {
  readonly stringValue?: string | null;
  readonly boolValue?: boolean | null;
  readonly intValue?: unknown;
  readonly doubleValue?: number | null;
  readonly arrayValue?: { readonly values?: readonly AnyValue[] | null } | null;
  readonly kvlistValue?: { readonly values?: readonly KeyValue[] | null } | null;
  readonly bytesValue?: Uint8Array | null;
}

/** An attribute. */
export interface KeyValue {
  readonly key?: string | null;
  readonly value?: AnyValue | null;
}

/** Any other message: its members by their names in OTLP's JSON. Absent members are not its own. */
export type Message = Readonly<Record<string, unknown>>;

/** Names of a signal's messages, and of the members that group its items. */
export const SHAPES = {
  traces: {
    request: 'ExportSpansRequest',
    response: 'ExportSpansResponse',
    groups: 'resourceSpans',
    scopes: 'scopeSpans',
    items: 'spans',
  },
  metrics: {
    request: 'ExportMetricsRequest',
    response: 'ExportMetricsResponse',
    groups: 'resourceMetrics',
    scopes: 'scopeMetrics',
    items: 'metrics',
  },
  logs: {
    request: 'ExportLogsRequest',
    response: 'ExportLogsResponse',
    groups: 'resourceLogs',
    scopes: 'scopeLogs',
    items: 'logRecords',
  },
} as const;

/** The member that holds the points of a metric, by its kind. */
export const POINT_HOLDERS = ['gauge', 'sum', 'histogram', 'exponentialHistogram', 'summary'] as const;

/** The messages of a repeated member. */
export function listOf<T = Message>(owner: unknown, member: string): readonly T[] {
  if (typeof owner !== 'object' || owner === null || !Object.hasOwn(owner, member)) return [];
  return ((owner as Message)[member] ?? []) as readonly T[];
}
