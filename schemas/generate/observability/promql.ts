import { type LabelsOf, METRICS, type MetricName } from '../../../engine/telemetry/catalogue/metrics.ts';
import { prometheusLabel, prometheusName } from '../../../engine/telemetry/catalogue/prometheus-names.ts';

type Label<N extends MetricName> = keyof LabelsOf<N> & string;
type Kind<N extends MetricName> = (typeof METRICS)[N]['kind'];
/** Names of metrics of a kind. */
export type NameOf<K extends Kind<MetricName>> = { [N in MetricName]: Kind<N> extends K ? N : never }[MetricName];

/** Which series of a metric: those whose labels have this value, or match. */
export type Where<N extends MetricName> = {
  readonly [L in Label<N>]?: string | RegExp | { readonly not: string | RegExp };
};

/** Labels that every series has by where it comes from, whichever way it came. */
type Origin = 'job' | 'instance';

/** Labels to keep apart when series are added up. */
export type By<N extends MetricName> = readonly (Label<N> | Origin | 'le')[];

function matcher(label: string, value: string | RegExp | { readonly not: string | RegExp }): string {
  const negated = typeof value === 'object' && 'not' in value;
  const wanted = negated ? value.not : value;
  const text = typeof wanted === 'string' ? wanted : wanted.source;
  const operator = typeof wanted === 'string' ? (negated ? '!=' : '=') : negated ? '!~' : '=~';
  return `${prometheusLabel(label)}${operator}${JSON.stringify(text)}`;
}

/** The part of a query that adds series up. */
export function grouped(operator: string, by: readonly string[], inner: string): string {
  const labels = by.map((label) => prometheusLabel(label)).join(', ');
  return by.length === 0 ? `${operator}(${inner})` : `${operator} by (${labels}) (${inner})`;
}

/**
 * Writes queries in PromQL. Metrics and labels are those of the catalogue, so a query for one that does not exist is no valid program.
 * @param scope which gateways, as matchers of labels that every series has
 * @param range of rates, such as `5m`
 */
export function createQueries(scope: string, range: string) {
  const series = <N extends MetricName>(name: N, suffix: string, where: Where<N> = {}) => {
    const matchers = Object.entries(where).map(([label, value]) => matcher(label, value as string));
    const all = [...(scope === '' ? [] : [scope]), ...matchers].join(', ');
    return `${prometheusName(name, METRICS[name])}${suffix}${all === '' ? '' : `{${all}}`}`;
  };
  return {
    /** Events per second. */
    rate<N extends NameOf<'counter'>>(name: N, by: By<N> = [], where?: Where<N>): string {
      return grouped('sum', by, `rate(${series(name, '', where)}[${range}])`);
    },
    /** Events within a time. A series that began within it counts from zero, which `increase` alone leaves out. */
    count<N extends NameOf<'counter'>>(name: N, within: string, by: By<N> = [], where?: Where<N>): string {
      const now = series(name, '', where);
      return grouped('sum', by, `(${now} unless ${now} offset ${within}) or increase(${now}[${within}])`);
    },
    /** The value below which this part of the values is. */
    quantile<N extends NameOf<'histogram'>>(part: number, name: N, by: By<N> = [], where?: Where<N>): string {
      const buckets = grouped('sum', ['le', ...by], `rate(${series(name, '_bucket', where)}[${range}])`);
      return `histogram_quantile(${part}, ${buckets})`;
    },
    /** Of all values of a histogram their sum per second, or how many there were per second. */
    histogramRate<N extends NameOf<'histogram'>>(
      what: 'sum' | 'count',
      name: N,
      by: By<N> = [],
      where?: Where<N>,
    ): string {
      return grouped('sum', by, `rate(${series(name, `_${what}`, where)}[${range}])`);
    },
    /** The values of a gauge, as they are. */
    gauge<N extends NameOf<'gauge'>>(name: N, where?: Where<N>): string {
      return series(name, '', where);
    },
  };
}

/** Writes queries; see `createQueries`. */
export type Queries = ReturnType<typeof createQueries>;

/**
 * Seconds until limits are used up if spending goes on as within a time, by service, rule and window; only those whose window does
 * not end before.
 */
export function timeToEmpty(q: Queries, within: string): string {
  const by = 'by (job, gateway_rule, gateway_budget_window)';
  const used = `max ${by} (${q.gauge('gateway.budget.used_ratio')})`;
  const seconds = `(1 - ${used}) / (max ${by} (deriv(${q.gauge('gateway.budget.used_ratio')}[${within}])) > 0)`;
  return `clamp_min(${seconds}, 0) < max ${by} (${q.gauge('gateway.budget.resets_in')})`;
}

/** Part of input tokens that was read from prompt caches. */
export function cacheHitRatio(q: Queries, within: string, by: By<'gateway.tokens'> = []): string {
  const tokens = (type: string | { readonly not: string }) =>
    q.count('gateway.tokens', within, by, { 'gateway.token.type': type });
  return `${tokens('cache_read')} / ${tokens({ not: 'output' })}`;
}

/** The value below which this part of attempts is, in whichever version of the conventions the gateway tells them. */
export function attemptQuantile(
  q: Queries,
  part: number,
  what: 'duration' | 'time_to_first_chunk',
  by: readonly 'gen_ai.request.model'[] = [],
): string {
  const now = q.quantile(part, `gen_ai.client.operation.${what}`, by);
  return `${now} or ${q.quantile(part, `gen_ai.client.inference.${what}`, by)}`;
}

/** Which part of one is the other, zero where there is none of it. Both are grouped by the same labels. */
export function partOf(whole: string, part: string): string {
  return `(${part} or 0 * ${whole}) / (${whole} > 0)`;
}
