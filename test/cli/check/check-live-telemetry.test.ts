import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { renderLive } from '../../../engine/edge/cli/check.ts';
import { checkLive } from '../../../engine/edge/doctor/host/live/check-live.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { answerBytes, hang } from '../../support/model-provider/scripted-upstream.ts';
import { startCollector, takePartly } from '../../support/telemetry/collector.ts';
import { use } from '../../support/use.ts';

const collector = use(startCollector);
beforeEach(() => {
  collector.clear();
  collector.failWith(undefined);
});

const SECRET = 'planted-0123456789';
const ENV = { OTEL_HEADERS: `authorization=Basic%20${SECRET}` };

async function live(
  otlp: object,
  more: { env?: NodeJS.ProcessEnv; forward_to?: readonly object[]; seconds?: number } = {},
) {
  const { env = ENV, forward_to = [], seconds = 5 } = more;
  const written = { endpoint: collector.url, headers_env: 'OTEL_HEADERS', metrics: false, ...otlp };
  const config = stageConfig({
    database: { embedded: { data_dir: 'nowhere' } },
    upstreams: [],
    telemetry: {
      sampling: {},
      metrics: { team: false },
      caller: 'none',
      propagate: 'verbatim',
      otlp: written,
      forward_to,
    },
  } as never);
  const checks = (await checkLive(config, env, seconds)).filter(({ name }) => name !== 'database');
  const text = renderLive(checks, { format: 'text', color: false });
  assert.doesNotMatch(text, new RegExp(SECRET));
  return { checks, text, results: checks.map(({ name, ok }) => [name, ok]) };
}

test('each signal that is sent is tried as it would be sent, with its headers', async () => {
  const { results, text } = await live({ metrics: true, logs: true, compression: 'gzip' });
  assert.deepEqual(results, [
    ['telemetry metrics', true],
    ['telemetry logs', true],
    ['telemetry traces', true],
  ]);
  assert.match(text, /accepts one span \(status 200\)/);
  assert.equal(collector.spans[0]!.name, 'appscli check --live');
  assert.equal(collector.spans[0]!.resource['service.name'], 'appscli-gateway');
  assert.deepEqual([collector.logs.length, collector.points], [1, []]);
  for (const { received } of collector.exports) assert.equal(received.headers.authorization, `Basic ${SECRET}`);
});

for (const [what, script, printed] of [
  [
    'refuses the credential',
    answerBytes(401, {}, ''),
    /credential rejected \(status 401\)[\s\S]*headers in OTEL_HEADERS/,
  ],
  [
    'has another path',
    answerBytes(404, {}, ''),
    /no traces there \(status 404\)[\s\S]*check the address\s+http:\/\/127\.0\.0\.1:\d+\/v1\/traces/,
  ],
  ['is a web site', answerBytes(200, { 'content-type': 'text/html; charset=utf-8' }, '<p>'), /returns a web page/],
  ['redirects', answerBytes(302, { location: 'http://127.0.0.1:1/' }, ''), /redirects \(status 302\)/],
  ['is busy', answerBytes(429, { 'retry-after': '60' }, ''), /status 429[\s\S]*it is unavailable/],
  ['cannot read OTLP', answerBytes(415, {}, ''), /rejects one span \(status 415\)/],
  ['keeps nothing', takePartly('traces', 1, 'no room for it'), /discards it \(status 200\): no room for it/],
  ['warns', takePartly('traces', 0, 'old protocol'), /it says: old protocol/],
] as const) {
  test(`reports a collector that ${what}`, async () => {
    collector.failWith(script);
    const { checks, text } = await live({});
    assert.equal(checks[0]!.ok, what === 'warns');
    assert.match(text, printed);
  });
}

test('reports a silent collector, an unreachable one, and invalid headers without a secret', async () => {
  collector.failWith(hang);
  const silent = await live({}, { seconds: 0.1 });
  assert.match(silent.text, /failed +telemetry traces: no response within 0.1 seconds/);
  assert.match(
    (await live({ endpoint: 'http://127.0.0.1:1' })).text,
    /connection refused[\s\S]*check the address\s+http:\/\/127\.0\.0\.1:1\/v1\/traces/,
  );
  const { text } = await live({}, { env: { OTEL_HEADERS: `x=${SECRET}\u0001x` } });
  assert.match(text.replace(/\s+/g, ' '), /OTEL_HEADERS cannot be read: .*header x/);
});

test('probes destinations of client telemetry with matching data', async () => {
  const { host } = new URL(collector.url);
  const entry = { url: collector.url, headers_env: 'OTEL_HEADERS', traces: false, metrics: true, logs: true };
  const forward_to = [{ ...entry, timeout_seconds: 10, compression: 'none' }];
  const { results } = await live({ traces: false }, { forward_to });
  assert.deepEqual(results, [
    [`clients' metrics to ${host}`, true],
    [`clients' logs to ${host}`, true],
  ]);
});

test('reports a collector that requires a credential when none is configured', async () => {
  collector.failWith(answerBytes(401, {}, ''));
  const { text } = await live({ headers_env: undefined }, { env: {} });
  assert.match(text, /requires a credential \(status 401\)[\s\S]*headers_env/);
});
