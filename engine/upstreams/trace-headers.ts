/** Headers of requests by which programs follow a request from one to the next. */
export interface TraceHeaders {
  /** In lower case; one that ends in `*` stands for all names that begin so. */
  readonly names: readonly string[];
  /**
   * `baggage`: they carry whatever a program puts there, such as who its user is. `trace`: they carry identifiers, and whether the
   * trace is kept.
   */
  readonly carries: 'baggage' | 'trace';
  /** Who defines them. */
  readonly source: string;
}

/** Every header that is known to be of this kind. */
export const TRACE_HEADERS: readonly TraceHeaders[] = [
  { names: ['baggage'], carries: 'baggage', source: 'W3C Baggage; Sentry' },
  { names: ['correlation-context'], carries: 'baggage', source: 'an earlier draft of it; .NET' },
  { names: ['uberctx-*', 'jaeger-baggage'], carries: 'baggage', source: 'Jaeger' },
  { names: ['ot-baggage-*'], carries: 'baggage', source: 'OpenTracing' },
  { names: ['baggage-*'], carries: 'baggage', source: 'Brave, Zipkin' },
  { names: ['sw8-correlation'], carries: 'baggage', source: 'Apache SkyWalking' },
  { names: ['x-datadog-tags'], carries: 'baggage', source: 'Datadog' },
  { names: ['traceparent', 'tracestate'], carries: 'trace', source: 'W3C Trace Context' },
  { names: ['b3', 'x-b3-*'], carries: 'trace', source: 'Zipkin' },
  { names: ['uber-trace-id', 'jaeger-debug-id'], carries: 'trace', source: 'Jaeger' },
  { names: ['ot-tracer-*', 'x-ot-span-context'], carries: 'trace', source: 'OpenTracing; LightStep' },
  { names: ['x-datadog-*'], carries: 'trace', source: 'Datadog' },
  { names: ['x-cloud-trace-context', 'grpc-trace-bin'], carries: 'trace', source: 'Google Cloud Trace; OpenCensus' },
  { names: ['x-amzn-trace-id'], carries: 'trace', source: 'AWS X-Ray' },
  { names: ['sentry-trace'], carries: 'trace', source: 'Sentry' },
  { names: ['newrelic', 'x-newrelic-*'], carries: 'trace', source: 'New Relic' },
  { names: ['elastic-apm-traceparent'], carries: 'trace', source: 'Elastic APM' },
  { names: ['sw8', 'sw8-x'], carries: 'trace', source: 'Apache SkyWalking' },
  { names: ['x-instana-*'], carries: 'trace', source: 'IBM Instana' },
  { names: ['x-dynatrace', 'x-dynatrace-*'], carries: 'trace', source: 'Dynatrace' },
  { names: ['singularityheader'], carries: 'trace', source: 'AppDynamics' },
];

const EXACT = new Map<string, TraceHeaders['carries']>();
const PREFIXES: [string, TraceHeaders['carries']][] = [];
for (const { names, carries } of TRACE_HEADERS) {
  for (const name of names) {
    if (name.endsWith('*')) PREFIXES.push([name.slice(0, -1), carries]);
    else EXACT.set(name, carries);
  }
}

/** What a header of a request carries, by its name in lower case; `undefined` for one that is not of this kind. */
export function traceHeaderOf(name: string): TraceHeaders['carries'] | undefined {
  // Many servers take an underscore for a hyphen.
  const spelt = name.replaceAll('_', '-');
  return EXACT.get(spelt) ?? PREFIXES.find(([prefix]) => spelt.startsWith(prefix))?.[1];
}
