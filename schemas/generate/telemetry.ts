import { ATTRIBUTES, attributeType, conventionsOf, usersOf } from '../../engine/cli/explain/explain-telemetry.ts';
import type { MetricSpec } from '../../engine/telemetry/catalogue/metric-spec.ts';
import { METRICS } from '../../engine/telemetry/catalogue/metrics.ts';
import { prometheusName } from '../../engine/telemetry/catalogue/prometheus-names.ts';
import { QUESTIONS } from '../../engine/telemetry/catalogue/questions.ts';
import { EVENTS, SPANS } from '../../engine/telemetry/catalogue/spans.ts';
import { code, codes, page, prose, table } from './markdown.ts';

/** The page about what the gateway tells by OpenTelemetry. */
export function telemetryPage(): string {
  const metrics = Object.entries<MetricSpec>(METRICS);
  return page('Telemetry', [
    'Every span, event, attribute and metric of the gateway. `appscli explain telemetry` prints the same, and `appscli explain telemetry <name>` one of them. None has the text of a prompt, an answer or a tool, a credential, or an e-mail address.',
    '## What it tells',
    'Each question is answered by the spans of a request and, for all of them together, by metrics.',
    table(
      ['Question', 'On spans', 'Events', 'Metrics'],
      Object.values(QUESTIONS).map(({ asked, attributes, events, metrics }) => [
        asked,
        codes(attributes),
        codes(events),
        codes(metrics),
      ]),
      { pad_to: 40 },
    ),
    '## Metrics',
    'Over OTLP by their own names, at `GET /metrics` by those of Prometheus; a histogram has there `_bucket`, `_sum` and `_count`. Each label has few values: there is none for users, tokens or sessions.',
    table(
      ['Metric', 'Kind', 'Unit', 'In Prometheus', 'Labels', 'Meaning'],
      metrics.map(([name, spec]) => [
        code(name),
        spec.kind,
        code(spec.unit),
        code(prometheusName(name, spec)),
        codes(spec.labels),
        `${spec.meaning}.`,
      ]),
      { pad_to: 40 },
    ),
    '## Spans',
    'Names in braces stand for the value of the attribute.',
    ...Object.entries(SPANS).flatMap(([key, { name, kind, meaning, attributes, events }]) => [
      `### ${key}`,
      `${code(name)}, kind ${kind}. ${prose(meaning)}.`,
      [
        ...(attributes.length === 0 ? [] : [`- Attributes: ${codes(attributes)}`]),
        ...(events.length === 0 ? [] : [`- Events: ${codes(events)}`]),
      ].join('\n'),
    ]),
    '## Events',
    table(
      ['Event', 'Meaning', 'Attributes'],
      Object.entries(EVENTS).map(([name, { meaning, attributes }]) => [code(name), `${meaning}.`, codes(attributes)]),
      { pad_to: 40 },
    ),
    '## Attributes',
    table(
      ['Attribute', 'Type', 'Meaning', 'Of'],
      Object.entries(ATTRIBUTES).map(([name, spec]) => [
        code(name),
        attributeType(spec),
        `${spec.meaning}${conventionsOf(spec)}.`,
        usersOf(name).join(', '),
      ]),
      { pad_to: 40 },
    ),
  ]);
}
