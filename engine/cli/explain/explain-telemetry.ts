import { wrapText } from '../../kit/text/wrap-text.ts';
import { LABEL_ATTRIBUTES } from '../../telemetry/catalogue/label-attributes.ts';
import type { MetricSpec } from '../../telemetry/catalogue/metric-spec.ts';
import { METRICS } from '../../telemetry/catalogue/metrics.ts';
import { prometheusLabel, prometheusName } from '../../telemetry/catalogue/prometheus-names.ts';
import { type AttributeSpec, EVENTS, ATTRIBUTES as SPAN_ATTRIBUTES, SPANS } from '../../telemetry/catalogue/spans.ts';
import { labelled } from './explain-stage.ts';

const METRIC_SPECS: Readonly<Record<string, MetricSpec>> = METRICS;

/** Every attribute of spans, events and metrics. */
export const ATTRIBUTES: Readonly<Record<string, AttributeSpec>> = { ...SPAN_ATTRIBUTES, ...LABEL_ATTRIBUTES };

/** What there is of each kind: spans by what they are about, and everything else by name. */
const KINDS = { span: SPANS, event: EVENTS, attribute: ATTRIBUTES, metric: METRIC_SPECS } as const;

/** The names of everything the gateway tells by telemetry; some stand for two things. */
export const TELEMETRY_NAMES: readonly string[] = [
  ...new Set(Object.values(KINDS).flatMap((known) => Object.keys(known))),
];

/** What metrics and their labels are called in Prometheus, where that is another name. */
const BY_PROMETHEUS_NAME: ReadonlyMap<string, string> = new Map([
  ...Object.values(METRIC_SPECS).flatMap(({ labels }) => labels.map((name) => [prometheusLabel(name), name] as const)),
  ...Object.entries(METRIC_SPECS).map(([name, spec]) => [prometheusName(name, spec), name] as const),
]);

/** Names of metrics as alerts and dashboards have them. */
export const PROMETHEUS_NAMES: readonly string[] = Object.entries(METRIC_SPECS).map(([name, spec]) =>
  prometheusName(name, spec),
);

/** The name in the catalogue of what is called so there or in Prometheus; `undefined` for nothing. */
export function telemetryName(name: string): string | undefined {
  if (TELEMETRY_NAMES.includes(name)) return name;
  return BY_PROMETHEUS_NAME.get(name) ?? BY_PROMETHEUS_NAME.get(name.replace(/_(?:bucket|sum|count)$/, ''));
}

const withPrometheus = (name: string, spec: MetricSpec) => ({ ...spec, prometheus: prometheusName(name, spec) });

/** Everything the gateway tells, for programs. */
export function telemetryData(): object {
  const metrics = Object.entries(METRIC_SPECS).map(([name, spec]) => [name, withPrometheus(name, spec)]);
  return { spans: SPANS, events: EVENTS, attributes: ATTRIBUTES, metrics: Object.fromEntries(metrics) };
}

/** What one name stands for, for programs. */
export function telemetryWordData(name: string): object {
  const found = Object.entries(KINDS).flatMap(([kind, known]) => {
    const spec = Object.hasOwn(known, name) ? known[name] : undefined;
    if (spec === undefined) return [];
    return [[kind, kind === 'metric' ? withPrometheus(name, spec as MetricSpec) : spec]];
  });
  return { name, ...Object.fromEntries(found) };
}

/** Type of an attribute for a person, with its values where they are a closed set. */
export function attributeType({ kind, values }: AttributeSpec): string {
  const type = {
    string: 'text',
    number: 'number',
    double: 'number with fractions',
    boolean: 'true or false',
    strings: 'list of texts',
  }[kind];
  return values === undefined ? type : values.join(', ');
}

/** The version of the conventions that an attribute belongs to, in words; empty for any. */
export function conventionsOf({ conventions }: AttributeSpec): string {
  return conventions === undefined ? '' : ` (conventions ${conventions})`;
}

/** Everything the gateway tells, for a person. */
export function describeTelemetry(line_width: number): string[] {
  const entry = (head: string, ...texts: readonly string[]) => [
    `  ${head}`,
    ...texts.flatMap((text) => wrapText(text, line_width, '      ', '      ')),
  ];
  return [
    ...wrapText('What the gateway tells by OpenTelemetry. appscli explain telemetry <name> says more.', line_width),
    '',
    'Spans',
    ...Object.entries(SPANS).flatMap(([key, { name, kind, meaning }]) =>
      entry(key === name ? `${key}, ${kind}` : `${key}: ${name}, ${kind}`, `${meaning}.`),
    ),
    '',
    'Events within them',
    ...Object.entries(EVENTS).flatMap(([name, { meaning }]) => entry(name, `${meaning}.`)),
    '',
    'Attributes of spans, events and metrics',
    ...Object.entries(ATTRIBUTES).flatMap(([name, spec]) => entry(name, `${spec.meaning}${conventionsOf(spec)}.`)),
    '',
    'Metrics, with their names in Prometheus',
    ...Object.entries(METRIC_SPECS).flatMap(([name, spec]) => {
      const { kind, unit, meaning, labels } = spec;
      const by = labels.length === 0 ? [] : [`By ${labels.join(', ')}.`];
      return entry(`${name}, ${kind}, ${unit}`, prometheusName(name, spec), `${meaning}.`, ...by);
    }),
  ];
}

/** What one name stands for, for a person. */
export function describeTelemetryWord(name: string, line_width: number): string[] {
  const parts = [
    ...describeSpan(name, line_width),
    ...describeEvent(name, line_width),
    ...describeAttribute(name, line_width),
    ...describeMetric(name, line_width),
  ];
  return parts.flatMap((part, index) => (index === 0 ? part : ['', ...part]));
}

const sentence = (text: string, line_width: number) => ['', ...wrapText(`${text}.`, line_width)];

/** A list of attributes with what each says. */
function attributesPart(names: readonly string[], line_width: number): string[] {
  if (names.length === 0) return [];
  const lines = names.flatMap((name) => {
    const spec = ATTRIBUTES[name];
    const values = spec?.values === undefined ? '' : ` (${spec.values.join(', ')})`;
    const text = spec === undefined ? [] : wrapText(`${spec.meaning}${values}.`, line_width, '      ', '      ');
    return [`  ${name}`, ...text];
  });
  return ['', 'Attributes', ...lines];
}

function describeSpan(key: string, line_width: number): string[][] {
  const spec = Object.hasOwn(SPANS, key) ? SPANS[key] : undefined;
  if (spec === undefined) return [];
  const { name, kind, meaning, attributes, events } = spec;
  return [
    [
      `span ${key}`,
      ...sentence(meaning, line_width),
      '',
      ...labelled('called', name, line_width),
      ...labelled('kind', kind, line_width),
      ...(events.length === 0 ? [] : labelled('events', events.join(', '), line_width)),
      ...attributesPart(attributes, line_width),
    ],
  ];
}

function describeEvent(name: string, line_width: number): string[][] {
  const spec = Object.hasOwn(EVENTS, name) ? EVENTS[name] : undefined;
  if (spec === undefined) return [];
  const spans = Object.entries(SPANS).flatMap(([key, { events }]) => (events.includes(name) ? [key] : []));
  return [
    [
      `event ${name}`,
      ...sentence(spec.meaning, line_width),
      '',
      ...labelled('within', spans.join(', '), line_width),
      ...attributesPart(spec.attributes, line_width),
    ],
  ];
}

/** What has an attribute: spans, events and metrics. */
export function usersOf(name: string): readonly string[] {
  const uses = (known: Readonly<Record<string, { readonly attributes: readonly string[] }>>, kind: string) =>
    Object.entries(known).flatMap(([key, { attributes }]) => (attributes.includes(name) ? [`${kind} ${key}`] : []));
  const metrics = Object.entries(METRIC_SPECS).flatMap(([key, { labels }]) =>
    labels.includes(name) ? [`metric ${key}`] : [],
  );
  return [...uses(SPANS, 'span'), ...uses(EVENTS, 'event'), ...metrics];
}

function describeAttribute(name: string, line_width: number): string[][] {
  const spec = Object.hasOwn(ATTRIBUTES, name) ? ATTRIBUTES[name] : undefined;
  if (spec === undefined) return [];
  return [
    [
      `attribute ${name}${conventionsOf(spec)}`,
      ...sentence(spec.meaning, line_width),
      '',
      ...labelled('is', attributeType(spec), line_width),
      ...labelled('of', usersOf(name).join(', '), line_width),
    ],
  ];
}

function describeMetric(name: string, line_width: number): string[][] {
  const spec = Object.hasOwn(METRIC_SPECS, name) ? METRIC_SPECS[name] : undefined;
  if (spec === undefined) return [];
  const { kind, unit, meaning, labels, bounds } = spec;
  return [
    [
      `metric ${name}`,
      ...sentence(meaning, line_width),
      '',
      ...labelled('kind', kind, line_width),
      ...labelled('unit', unit, line_width),
      ...labelled('Prometheus', prometheusName(name, spec), line_width),
      ...(bounds === undefined ? [] : labelled('buckets', bounds.join(', '), line_width)),
      ...attributesPart(labels, line_width),
    ],
  ];
}
