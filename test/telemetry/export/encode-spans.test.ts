import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { resourceFromAttributes, SERIALIZERS, spanSerializer } from '../../../engine/telemetry/export/encode.ts';
import { encodeSpans } from '../../../engine/telemetry/export/encode-spans.ts';
import { ExportedSpan } from '../../../engine/telemetry/export/readable-span.ts';
import type { FinishedSpan } from '../../../engine/telemetry/spans.ts';
import { readExport } from '../../support/telemetry/otlp.ts';
import { times } from '../../support/times.ts';

const SOURCE = {
  resource: { 'service.name': 'appscli-gateway', 'deployment.environment.name': 'größer' },
  scope: { name: 'appscli-gateway', version: '1.2.3' },
  schema_url: 'https://opentelemetry.io/schemas/1.41.0',
};

const hex = (digits: number) =>
  fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: digits, maxLength: digits });
const text = fc.oneof(
  fc.string({ maxLength: 20 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.constantFrom(0, 90, 100, 110, 124, 127, 128, 300, 20_000).map((length) => 'x'.repeat(length)),
);
const value = fc.oneof(
  text,
  fc.boolean(),
  fc.integer(),
  fc.maxSafeInteger(),
  fc.double({ noNaN: true }),
  fc.array(text, { maxLength: 5 }),
);
const name = fc.oneof(
  fc.constantFrom('gateway.rule', 'n'.repeat(100), 'n'.repeat(150)),
  // The SDK's reading of a link to a prototype is its own.
  fc.string({ minLength: 1, maxLength: 30 }).filter((text) => text !== '__proto__'),
);
const attributes = fc.dictionary(name, fc.option(value, { nil: undefined }), { maxKeys: 12 });
/** Within some 50 years, at whole microseconds: what a double can tell. */
const time = fc.integer({ min: 0, max: 1_800_000_000_000_000 }).map((microseconds) => microseconds / 1000);
const span: fc.Arbitrary<FinishedSpan> = fc.record({
  name: text,
  kind: fc.constantFrom('server', 'client', 'internal'),
  trace_id: hex(32),
  span_id: hex(16),
  parent_span_id: fc.option(hex(16), { nil: undefined }),
  parent_is_remote: fc.boolean(),
  trace_state: fc.option(fc.constantFrom('vendor=1,other=2'), { nil: undefined }),
  began_at: time,
  ended_at: time,
  attributes,
  events: fc.array(fc.record({ name: text, at: time, attributes }), { maxLength: 3 }),
  failed: fc.boolean(),
});

describe('spans that are encoded by code of our own', () => {
  it('say what they say when the SDK encodes them', () => {
    const resource = resourceFromAttributes(SOURCE.resource);
    const scope = { ...SOURCE.scope, schemaUrl: SOURCE.schema_url };
    fc.assert(
      fc.property(fc.array(span, { minLength: 1, maxLength: 4 }), (spans) => {
        // Without a parent nobody asks whether it is remote.
        const given = spans.map((one) => ({
          ...one,
          parent_is_remote: one.parent_is_remote && one.parent_span_id !== undefined,
        }));
        const readable = given.map((one) => new ExportedSpan(one, resource, scope));
        const sdk = SERIALIZERS['http/protobuf'].traces.serializeRequest(readable)!;
        const read = (bytes: Uint8Array) => readExport('traces', Buffer.from(bytes), false);
        assert.deepEqual(read(encodeSpans(given, SOURCE)), read(sdk));
      }),
      { numRuns: times(40) },
    );
  });

  it('have numbers with fractions as doubles also where they are whole, so that a backend does not take dollars for integers', () => {
    const [one] = fc.sample(span, { numRuns: 1 });
    const events = [{ name: 'gateway.refused', at: 0, attributes: { 'gateway.limit.spent': 3 } }];
    const text = '{"key":"gateway.cost_usd","value":{"intValue":1}}';
    const attributes = { 'gateway.cost_usd': 0, 'gateway.attempt': 1, 'gateway.rule': text };
    const spans = [{ ...one!, attributes, events }];
    const scope = { ...SOURCE.scope, schemaUrl: SOURCE.schema_url };
    const sent = (protocol: 'http/json' | 'http/protobuf') =>
      Buffer.from(
        spanSerializer(protocol, { resource: resourceFromAttributes({}), scope }).serializeRequest(
          spans as FinishedSpan[],
        )!,
      );
    const [told] = JSON.parse(sent('http/json').toString()).resourceSpans[0].scopeSpans[0].spans;
    assert.deepEqual(told.attributes, [
      { key: 'gateway.cost_usd', value: { doubleValue: 0 } },
      { key: 'gateway.attempt', value: { intValue: 1 } },
      { key: 'gateway.rule', value: { stringValue: text } },
    ]);
    assert.deepEqual(told.events[0].attributes, [{ key: 'gateway.limit.spent', value: { doubleValue: 3 } }]);
    // AnyValue.double_value is field 4, in eight bytes.
    const value = Buffer.alloc(8);
    value.writeDoubleLE(3);
    const field = Buffer.concat([Buffer.from('gateway.limit.spent'), Buffer.from([0x12, 9, 0x21]), value]);
    assert.ok(sent('http/protobuf').includes(field));
  });

  it('are those of the gateway in protobuf; spans of others and JSON are left to the SDK', () => {
    const scope = { ...SOURCE.scope, schemaUrl: SOURCE.schema_url };
    const resource = resourceFromAttributes(SOURCE.resource);
    const [one] = fc.sample(span, { numRuns: 1 });
    const made = { made: new ExportedSpan({ ...one!, name: 'of a stage' }, resource, scope) };
    for (const protocol of ['http/protobuf', 'http/json'] as const) {
      const serializer = spanSerializer(protocol, { resource, scope });
      for (const [spans, names] of [
        [[one!], [one!.name]],
        [
          [one!, made],
          [one!.name, 'of a stage'],
        ],
      ] as const) {
        const bytes = Buffer.from(serializer.serializeRequest([...spans])!);
        const read = readExport('traces', bytes, protocol === 'http/json').spans;
        assert.deepEqual(
          read.map((span) => span.name),
          names,
        );
        assert.ok(read.every(({ scope }) => scope.schema_url === SOURCE.schema_url));
      }
    }
  });
});
