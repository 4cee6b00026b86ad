import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { StageError } from '../../../engine/contract/errors.ts';
import { decodeRequest, encodeRequest } from '../../../engine/telemetry/relay/otlp/codec.ts';
import { SIGNALS } from '../../../engine/telemetry/relay/otlp/messages.ts';
import { times } from '../../support/times.ts';

const AT = '1763877600123456789';
const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });

/** Everything that a metric can be beside what SDKs send every day. */
const RARE = {
  resourceMetrics: [
    {
      resource: { attributes: [text('service.name', 'tool')] },
      scopeMetrics: [
        {
          scope: { name: 'tool', attributes: [text('a', 'b')] },
          metrics: [
            {
              name: 'exponential',
              metadata: [text('prometheus.type', 'histogram')],
              exponentialHistogram: {
                aggregationTemporality: 'AGGREGATION_TEMPORALITY_DELTA',
                dataPoints: [
                  {
                    startTimeUnixNano: AT,
                    timeUnixNano: AT,
                    count: '7',
                    sum: 0,
                    scale: -3,
                    zeroCount: '1',
                    positive: { offset: -2, bucketCounts: ['1', '9007199254740993'] },
                    min: 0,
                    exemplars: [{ timeUnixNano: AT, asInt: '-9007199254740993', spanId: 'AAECAwQFBgc=' }],
                  },
                ],
              },
            },
            {
              name: 'summary',
              summary: { dataPoints: [{ count: '2', sum: 1.5, quantileValues: [{ quantile: 0.5, value: 2 }] }] },
            },
          ],
        },
      ],
    },
  ],
};

/** What of a message was said, in JSON. */
const said = (message: unknown) => JSON.parse(JSON.stringify(message));

describe('OTLP of clients', () => {
  test('keeps whatever a metric can be, zeros and large numbers among it', () => {
    const hex = JSON.stringify(RARE).replace('AAECAwQFBgc=', '0001020304050607');
    const read = decodeRequest('metrics', 'json', Buffer.from(hex));
    const again = decodeRequest('metrics', 'protobuf', encodeRequest('metrics', read));
    const plain = (message: unknown): unknown => {
      if (Array.isArray(message)) return message.map(plain);
      if (typeof message !== 'object' || message === null) return message;
      // Lists without elements come into being when a message is read.
      const entries = Object.entries(message).filter(([, value]) => !(Array.isArray(value) && value.length === 0));
      return Object.fromEntries(entries.map(([key, value]) => [key, plain(value)]));
    };
    assert.deepEqual(plain(said(again)), RARE);
  });

  test('is read as one request where several are after one another', () => {
    const one = encodeRequest('metrics', decodeRequest('metrics', 'json', Buffer.from(JSON.stringify(RARE))));
    const both = decodeRequest('metrics', 'protobuf', Buffer.concat([one, one]));
    assert.equal((both as { resourceMetrics?: unknown[] }).resourceMetrics?.length, 2);
  });

  test('loses what OTLP does not have', () => {
    const json = '{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"a","secret":"b"}]}],"more":{}}],"x":1}';
    const bytes = encodeRequest('traces', decodeRequest('traces', 'json', Buffer.from(json)));
    // Field 999, with text.
    const unknown = Buffer.concat([bytes, Buffer.from('ba3e0568656c6c6f', 'hex')]);
    assert.ok(!encodeRequest('traces', decodeRequest('traces', 'protobuf', unknown)).includes('hello'));
    assert.ok(!bytes.includes('secret'));
  });

  test('that is nested deeply or made of very many values is refused before it is built', () => {
    let nested = Buffer.alloc(0);
    const wrap = (tag: number, inner: Buffer) => {
      const size = inner.length;
      assert.ok(size < 16_384);
      return Buffer.concat([Buffer.from(size < 128 ? [tag, size] : [tag, (size & 127) | 128, size >> 7]), inner]);
    };
    assert.throws(() => decodeRequest('logs', 'protobuf', Buffer.alloc(1000)), /not an OTLP export request/);
    assert.throws(() => decodeRequest('logs', 'protobuf', Buffer.alloc(1_000_000, '7800', 'hex')), /more than 300000/);
    // An array in an array ...
    for (let depth = 0; depth < 200; depth++) nested = wrap(0x2a, wrap(0x0a, nested));
    const body = wrap(0x0a, wrap(0x12, wrap(0x12, wrap(0x2a, nested))));
    assert.throws(() => decodeRequest('logs', 'protobuf', body), /more than 100 levels/);
    // Packed counts of buckets.
    const counts = Buffer.alloc(4 * 1024 * 1024, 1);
    const long = (tag: number, inner: Buffer) => {
      const size = inner.length;
      const length = [size & 127, (size >> 7) & 127, (size >> 14) & 127].map((part) => part | 128);
      return Buffer.concat([Buffer.from([tag, ...length, size >> 21]), inner]);
    };
    const packed = [0x12, 0x42, 0x0a, 0x52, 0x12, 0x12, 0x0a].reduce((inner, tag) => long(tag, inner), counts);
    assert.throws(() => decodeRequest('metrics', 'protobuf', packed), /more than 300000 values/);
  });

  test('that is anything else is one error', () => {
    const anything = fc.oneof(
      fc.uint8Array({ maxLength: 200 }).map(Buffer.from),
      fc.string().map(Buffer.from),
      fc.json().map(Buffer.from),
    );
    fc.assert(
      fc.property(
        fc.constantFrom(...SIGNALS),
        fc.constantFrom('protobuf', 'json'),
        anything,
        (signal, encoding, bytes) => {
          try {
            encodeRequest(signal, decodeRequest(signal, encoding, bytes));
          } catch (error) {
            assert.ok(error instanceof StageError && error.code === 'invalid_request', String(error));
          }
        },
      ),
      { numRuns: times(300) },
    );
  });
});

test('half a character in JSON does not make text of it that no collector takes', () => {
  const body = { resourceLogs: [{ scopeLogs: [{ logRecords: [{ severityText: 'a\ud83d' }] }] }] };
  const sent = encodeRequest('logs', decodeRequest('logs', 'json', Buffer.from(JSON.stringify(body))));
  assert.ok(sent.includes('a\ufffd'), sent.toString('hex'));
});
