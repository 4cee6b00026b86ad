import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { explain } from '../../../engine/cli/explain/explain.ts';
import { ATTRIBUTES as ALL_ATTRIBUTES } from '../../../engine/cli/explain/explain-telemetry.ts';
import { LABEL_ATTRIBUTES } from '../../../engine/telemetry/catalogue/label-attributes.ts';
import { METRICS, type MetricSpec } from '../../../engine/telemetry/catalogue/metrics.ts';
import { ATTRIBUTES, EVENTS, SPANS } from '../../../engine/telemetry/catalogue/spans.ts';
import { collectingContext } from './reference-context.ts';

async function explained(words: readonly string[], more: { json?: true } = {}): Promise<string> {
  const { context, data } = collectingContext();
  assert.equal(await explain(context, { config: 'no-such.yaml', config_named: false, words, ...more }), 0);
  return data();
}

const plain = (text: string) => text.replaceAll(/\s+/g, ' ');

describe('appscli explain telemetry', () => {
  test('lists every span, event, attribute and metric with what it means', async () => {
    const text = await explained(['telemetry']);
    for (const [name, { meaning }] of [SPANS, EVENTS, ATTRIBUTES, METRICS].flatMap((known) => Object.entries(known))) {
      assert.ok(text.includes(`  ${name}`), name);
      assert.ok(plain(text).includes(meaning), meaning);
    }
    assert.ok(text.includes('gateway_requests_total'));
  });

  test('gives the same to programs, with the names in Prometheus', async () => {
    const data = JSON.parse(await explained(['telemetry'], { json: true }));
    assert.deepEqual(Object.keys(data), ['spans', 'events', 'attributes', 'metrics']);
    assert.deepEqual(Object.keys(data.metrics), Object.keys(METRICS));
    assert.equal(data.metrics['gateway.requests'].prometheus, 'gateway_requests_total');
  });

  test('explains each of them by its name, and all that a name stands for', async () => {
    for (const [kind, known] of Object.entries({
      span: SPANS,
      event: EVENTS,
      attribute: ATTRIBUTES,
      metric: METRICS,
    })) {
      for (const name of Object.keys(known)) {
        assert.match(await explained(['telemetry', name]), new RegExp(`^${kind} ${name}(?: |$)`, 'm'));
      }
    }
    const both = await explained(['telemetry', 'gateway.fallback']);
    assert.match(both, /^event gateway\.fallback$.+^attribute gateway\.fallback$/ms);
    const refusals = await explained(['telemetry', 'gateway.refusals']);
    assert.match(refusals, /^ {2}Prometheus +gateway_refusals_total$.+^ {2}gateway\.rule$/ms);
  });

  test('knows names of Prometheus, which alerts and dashboards show', async () => {
    for (const words of [['telemetry', 'gateway_requests_total'], ['gateway_requests_total']]) {
      assert.match(await explained(words), /^metric gateway\.requests$/m);
    }
    assert.match(
      await explained(['telemetry', 'http_server_request_duration_seconds_bucket']),
      /^metric http\.server/m,
    );
    assert.match(await explained(['telemetry', 'gateway_error_code']), /^attribute gateway\.error\.code$/m);
  });

  test('has no line of more than 80 columns', async () => {
    for (const line of (await explained(['telemetry'])).split('\n')) assert.ok(line.length <= 80, line);
  });

  test('knows a name with a dot without its kind, and suggests one that is close', async () => {
    assert.match(await explained(['gateway.refusals']), /^metric gateway\.refusals$/m);
    await assert.rejects(explained(['telemetry', 'gateway.refusal']), /no telemetry gateway\.refusal; did you mean/);
  });

  test('says of every label of a metric what it means', () => {
    const labels = Object.values<MetricSpec>(METRICS).flatMap((metric) => metric.labels);
    assert.deepEqual(
      [...new Set(labels)].filter((label) => ALL_ATTRIBUTES[label] === undefined),
      [],
    );
    assert.deepEqual(
      Object.keys(LABEL_ATTRIBUTES).filter((label) => !labels.includes(label)),
      [],
    );
  });

  test('takes an attribute for nothing else than its users say', async () => {
    const data = JSON.parse(await explained(['telemetry', 'gateway.rule'], { json: true }));
    assert.deepEqual(Object.keys(data), ['name', 'attribute']);
    assert.match(
      plain(await explained(['telemetry', 'gateway.rule'])),
      /event gateway\.decision, event gateway\.refused/,
    );
  });
});
