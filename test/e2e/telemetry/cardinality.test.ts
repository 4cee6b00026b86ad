/** For any number of users, tokens, sessions and made-up names, metrics have as many series as for ten. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, test } from 'node:test';
import { metricsUrl } from '../../support/telemetry/read-metrics.ts';
import { times } from '../../support/times.ts';
import { until } from '../../support/until.ts';
import { bearer, messagesBody, send } from '../support/client.ts';
import { newParent, openTelemetryScene, type TelemetryScene } from './scene.ts';

const FEW = 10;
const MANY = times(40);

let scene: TelemetryScene;
before(async () => {
  const metrics = { interval_seconds: 1, listen: '127.0.0.1:0' };
  scene = await openTelemetryScene({ telemetry: { metrics, caller: 'pseudonym', sampling: { ratio: 0 } } });
});
after(() => scene?.close());

/** A new caller with made-up values wherever a caller has a choice. */
async function useAsNewCaller(): Promise<void> {
  const id = randomUUID();
  const { gateway } = scene;
  const token = await gateway.newToken({ user: `${id}@${id}.example`, project: id, name: id });
  const headers = [
    ...['traceparent', newParent().header, 'tracestate', `v=${id}`, 'baggage', `id=${id}`],
    ...['user-agent', `${id}/${id}`, 'x-claude-code-session-id', id, 'x-forwarded-for', id],
  ];
  const ask = async (path: string, more: object, expected: number, with_token = token) => {
    const { status } = await send(gateway.url, {
      path,
      headers: bearer(with_token, headers),
      body: messagesBody(more),
    });
    assert.equal(status, expected, path);
  };
  await ask(`/v1/messages?id=${id}`, { metadata: { user_id: id } }, 200);
  await ask('/v1/messages', { model: `coder-1-${id}` }, 404);
  await ask('/v1/messages', {}, 401, `gw_${id}`);
  await ask(`/v1/${id}`, {}, 404);
  await ask(`/v1/models/${id}`, {}, 405);
}

/** Series by name and labels, as a scraper sees them after so many responses. */
async function seriesAfter(callers: number): Promise<string[]> {
  const answered = /^gateway_requests_total\{[^}]*gateway_outcome="answered"[^}]*\} (\d+)/m;
  const lines = await until('all are counted', async () => {
    const scraped = await (await fetch(metricsUrl(scene.gateway))).text();
    return Number(answered.exec(scraped)?.[1]) === callers && scraped.split('\n');
  });
  return (
    lines
      // Telemetry's own and the process's metrics have further series, which appear with time.
      .filter((line) => !/^(#|$|nodejs_|gateway_telemetry_)/.test(line))
      .map((line) => line.slice(0, line.lastIndexOf(' ')))
  );
}

test('many callers create no more series than ten, for scrapers and for the collector', async () => {
  for (let i = 0; i < FEW; i++) await useAsNewCaller();
  const few = await seriesAfter(FEW);
  assert.ok(few.length > 50, few.join('\n'));
  const upstream_seen = scene.upstream.requests.length;
  const crowd = Array.from({ length: 8 }, async (_, at) => {
    for (let i = at; i < MANY - FEW; i += 8) await useAsNewCaller();
  });
  await Promise.all(crowd);
  assert.equal(scene.upstream.requests.length - upstream_seen, MANY - FEW);
  assert.deepEqual((await seriesAfter(MANY)).toSorted(), few.toSorted());

  const total = await scene.collector.point('gateway.requests', ({ value }) => value === MANY);
  const last = scene.collector.exports.findLast(({ points }) => points.includes(total))!;
  const names = new Set(last.points.map(({ metric, labels }) => JSON.stringify([metric, labels])));
  assert.equal(names.size, last.points.length, 'no series is there twice');
  const scraped = new Set(few.map((line) => line.replace(/_(bucket|sum|count)\{/, '{').replace(/,?le="[^"]*"/, '')));
  assert.ok(names.size < scraped.size + 20, `${names.size} series at the collector, ${scraped.size} for scrapers`);
});
