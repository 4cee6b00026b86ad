/** What is exported, of gateway.yaml and the standard variables. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { StartError } from '../../../engine/base/contract/start-error.ts';
import { exportSettings, parseHeaderList, type Target } from '../../../engine/domain/telemetry/export/settings.ts';

type Env = Readonly<Record<string, string>>;

function settings(otlp: object | undefined, env: Env = {}, more: object = {}) {
  return exportSettings({ sampling: {}, metrics: {}, forward_to: [], ...(otlp && { otlp }), ...more } as never, env);
}

function urls(otlp: object | undefined, env: Env = {}) {
  const { traces, metrics, logs } = settings(otlp, env);
  return [traces, metrics, logs].map((to) => to?.url);
}

const traces = (otlp: object | undefined, env: Env = {}) => settings(otlp, env).traces as Target;
const HERE = 'http://localhost:4318';
const [TRACES, METRICS, LOGS] = ['traces', 'metrics', 'logs'].map((signal) => `${HERE}/v1/${signal}`);
const NOWHERE = [undefined, undefined, undefined];

describe('the endpoint of gateway.yaml', () => {
  for (const [endpoint, base, query] of [
    ['https://o.example.com', 'https://o.example.com', ''],
    ['https://o.example.com/', 'https://o.example.com', ''],
    ['https://o.example.com/a/v1/traces?k=1', 'https://o.example.com/a', '?k=1'],
  ] as const) {
    test(`${endpoint} has siblings for metrics and logs`, () => {
      const expected = ['traces', 'metrics', 'logs'].map((signal) => `${base}/v1/${signal}${query}`);
      assert.deepEqual(urls({ endpoint, logs: true }), expected);
    });
  }

  test('of another path has no siblings: metrics and logs go to their own keys, else nowhere', () => {
    const endpoint = 'https://o.example.com/otlp/spans';
    assert.deepEqual(urls({ endpoint, logs: true }), [endpoint, undefined, undefined]);
    const metrics_endpoint = 'https://m.example.com/x';
    assert.deepEqual(urls({ endpoint, metrics_endpoint }), [endpoint, metrics_endpoint, undefined]);
  });

  test('has precedence over variables, as every written key does', () => {
    const env = {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://other.example.com',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
      OTEL_EXPORTER_OTLP_HEADERS: 'a=1',
      OTEL_EXPORTER_OTLP_TIMEOUT: '3000',
      OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
      MINE: 'b=2',
    };
    const target = traces(
      { endpoint: HERE, protocol: 'http/json', headers_env: 'MINE', timeout_seconds: 7, compression: 'none' },
      env,
    );
    assert.deepEqual(target, {
      url: TRACES,
      headers: { b: '2' },
      protocol: 'http/json',
      compression: 'none',
      timeout_seconds: 7,
      ca_file: undefined,
      certificate_file: undefined,
      key_file: undefined,
    });
  });
});

describe('the standard variables', () => {
  test("apply where gateway.yaml has no value, a signal's before general ones", () => {
    const target = traces(undefined, {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'https://o.example.com/base/',
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://t.example.com',
      OTEL_EXPORTER_OTLP_HEADERS: 'a=1,b=2',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'b=x%2Cy',
      OTEL_EXPORTER_OTLP_TIMEOUT: '3000',
      OTEL_EXPORTER_OTLP_TRACES_COMPRESSION: 'gzip',
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_EXPORTER_OTLP_CERTIFICATE: '/ca.pem',
      OTEL_EXPORTER_OTLP_CLIENT_KEY: '/key.pem',
      OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: '/cert.pem',
    });
    assert.deepEqual(target, {
      url: 'https://t.example.com',
      headers: { a: '1', b: 'x,y' },
      protocol: 'http/json',
      compression: 'gzip',
      timeout_seconds: 3,
      ca_file: '/ca.pem',
      certificate_file: '/cert.pem',
      key_file: '/key.pem',
    });
    const base = { OTEL_EXPORTER_OTLP_ENDPOINT: 'https://o.example.com/base/' };
    const [, metrics, logs] = urls(undefined, base);
    assert.deepEqual([metrics, logs], ['https://o.example.com/base/v1/metrics', undefined]);
  });

  test('send nothing where none of them names a collector or an exporter', () => {
    assert.deepEqual(urls(undefined, { OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_HEADERS: 'a=1' }), NOWHERE);
    assert.deepEqual(urls(undefined, { OTEL_TRACES_EXPORTER: 'otlp' }), [TRACES, undefined, undefined]);
    assert.deepEqual(urls(undefined, { OTEL_TRACES_EXPORTER: 'console' }), NOWHERE);
    const { warnings } = settings(undefined, { OTEL_METRICS_EXPORTER: 'console' });
    assert.match(warnings.join(), /OTEL_METRICS_EXPORTER.*metrics\.listen/);
  });

  test('of exporters switch signals off and logs on, also beside an endpoint of gateway.yaml', () => {
    const env = { OTEL_TRACES_EXPORTER: 'none', OTEL_LOGS_EXPORTER: 'otlp' };
    assert.deepEqual(urls({ endpoint: HERE }, env), [undefined, METRICS, LOGS]);
    assert.deepEqual(urls({ endpoint: HERE, traces: true, logs: false }, env), [TRACES, METRICS, undefined]);
  });

  test('OTEL_SDK_DISABLED disables everything, despite gateway.yaml, and is reported there', () => {
    assert.deepEqual(urls({ endpoint: HERE }, { OTEL_SDK_DISABLED: 'true' }), NOWHERE);
    assert.deepEqual(urls({ endpoint: HERE }, { OTEL_SDK_DISABLED: 'no' })[0], TRACES);
    const { warnings } = settings({ endpoint: HERE }, { OTEL_SDK_DISABLED: 'true' });
    assert.match(warnings.join(), /nothing is sent.*OTEL_SDK_DISABLED/);
  });

  test('give the resource its attributes, below those of gateway.yaml', () => {
    const env = { OTEL_RESOURCE_ATTRIBUTES: 'service.name=a,k=x%20y, e=1', OTEL_SERVICE_NAME: 'b' };
    assert.deepEqual(settings(undefined, env, { resource: { e: '2' } }).resource, {
      'service.name': 'b',
      k: 'x y',
      e: '2',
    });
  });

  test('size the queues, unless gateway.yaml does', () => {
    const env = {
      OTEL_BSP_MAX_QUEUE_SIZE: '100',
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '500',
      OTEL_BSP_SCHEDULE_DELAY: '20',
    };
    assert.deepEqual(settings(undefined, env).spans, { capacity: 100, batch_items: 100, delay_ms: 20 });
    assert.equal(settings({ endpoint: HERE, queue_spans: 700 }, env).spans.capacity, 700);
  });

  for (const [name, value, said] of [
    [
      'OTEL_EXPORTER_OTLP_TRACES_PROTOCOL',
      'grpc',
      /OTEL_EXPORTER_OTLP_TRACES_PROTOCOL selects.*gRPC.*http\/protobuf.*4318/,
    ],
    ['OTEL_EXPORTER_OTLP_PROTOCOL', 'thrift', /OTEL_EXPORTER_OTLP_PROTOCOL is not a protocol of OTLP.*http\/json/],
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'collector:4318', /OTEL_EXPORTER_OTLP_ENDPOINT cannot be used/],
    ['OTEL_EXPORTER_OTLP_HEADERS', 'planted secret', /OTEL_EXPORTER_OTLP_HEADERS cannot be read/],
    ['OTEL_BSP_MAX_QUEUE_SIZE', 'many', /OTEL_BSP_MAX_QUEUE_SIZE is not a whole number/],
    ['OTEL_RESOURCE_ATTRIBUTES', 'planted', /entry 1 of OTEL_RESOURCE_ATTRIBUTES/],
  ] as const) {
    test(`${name} with a value that cannot be used stops the start, and is not repeated`, () => {
      const env = { OTEL_EXPORTER_OTLP_ENDPOINT: HERE, [name]: value };
      assert.throws(
        () => settings(undefined, env),
        (error) => error instanceof StartError && said.test(error.message) && !error.message.includes('planted'),
      );
    });
  }
});

describe('headers of telemetry', () => {
  test('are read as OpenTelemetry has them', () => {
    assert.deepEqual(parseHeaderList('Authorization=Basic%20YTpi==, x-tenant = a ,'), {
      authorization: 'Basic YTpi==',
      'x-tenant': 'a',
    });
    assert.deepEqual(parseHeaderList('link=http://a:1/'), { link: 'http://a:1/' });
    assert.deepEqual(parseHeaderList('rate=100%'), { rate: '100%' });
    assert.deepEqual(parseHeaderList(''), {});
  });

  test('that cannot be sent are rejected without their values', () => {
    for (const [list, why] of [
      ['hunter2', /entry 1 is not a header/],
      ['a=1,=hunter2', /entry 2 is not a header/],
      ['a b=hunter2', /entry 1 is not a header/],
      ['key=hunter2%0d%0ax: y', /the value of the header key/],
      ['key=', /the value of the header key/],
    ] as const) {
      assert.throws(
        () => parseHeaderList(list),
        (error: Error) => why.test(error.message) && !error.message.includes('hunter2'),
      );
    }
  });
});
