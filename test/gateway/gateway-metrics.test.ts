/** States of services are reported when metrics are read, in words and units of the catalogue. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GatewayConfig } from '../../engine/base/contract/config.ts';
import type { UpstreamState } from '../../engine/base/contract/forwarding.ts';
import type { MetricName } from '../../engine/domain/telemetry/catalogue/metrics.ts';
import { MetricRegistry } from '../../engine/domain/telemetry/metric-registry.ts';
import { observeGateway, observeServices } from '../../engine/edge/gateway/gateway-metrics.ts';
import { until } from '../support/until.ts';

const IDLE = { ledger: { waiting: 0, lag_ms: 0, is_alive: true }, audit: { waiting: 0, lost: 0 } };
const EMPTY = { requests: 0, lag_ms: 0, records: 0, bytes: 0, max_bytes: 1000 };

/** Values by labels, as text. */
function valuesOf(registry: MetricRegistry, name: MetricName): Record<string, number> {
  const series = registry.measure().find((metric) => metric.name === name)?.series ?? [];
  return Object.fromEntries(series.map(({ labels, sum }) => [Object.values(labels).join(' '), sum]));
}

function servicesWith(states: readonly UpstreamState[], more: Partial<Parameters<typeof observeServices>[1]> = {}) {
  const registry = new MetricRegistry(0);
  observeServices(registry, { ...IDLE, spooling: { depth: EMPTY }, upstreams: { list: () => states }, ...more });
  return registry;
}

function gatewayWith(config: object, loaded: { failing_since?: number } = {}) {
  const registry = new MetricRegistry(0);
  const load = { requests: 3, connections: 7, connections_max: 100, used_bytes: 1024, used_bytes_max: 4096 };
  const reloads = () => ({
    loaded_at: 1_800_000_000_500,
    reloads: 0,
    failed_reloads: 0,
    failing_since: loaded.failing_since,
  });
  observeGateway(registry, {
    server: { load },
    reloads,
    plan: () => ({ config: { models: [], upstreams: [], ...config } as unknown as GatewayConfig, pipelines: [] }),
  });
  return registry;
}

test('each upstream has 1 at the state it is in and 0 at all others', () => {
  const registry = servicesWith([
    { upstream: 'main', state: 'closed', active: 4 },
    { upstream: 'main', upstream_model: 'a', state: 'open', until: 1 },
    { upstream: 'main', upstream_model: 'b', state: 'limited', until: 1 },
    { upstream: 'spare', state: 'drained', active: 0 },
    { upstream: 'trial', state: 'half_open', active: 1, shadow: true },
  ]);
  const states = valuesOf(registry, 'gateway.breaker.state');
  assert.equal(Object.keys(states).length, 21);
  const found = Object.keys(states).filter((key) => states[key] === 1);
  assert.deepEqual(found, ['main open enforce', 'spare drained enforce', 'trial half_open shadow']);
  assert.deepEqual(valuesOf(registry, 'gateway.upstream.models_unavailable'), { main: 2, spare: 0, trial: 0 });
  assert.deepEqual(valuesOf(registry, 'gateway.upstream.inflight'), { main: 4, spare: 0, trial: 1 });
});

test('reports waiting requests by where they wait', () => {
  const registry = servicesWith([], {
    ledger: { waiting: 2, lag_ms: 1500, is_alive: false },
    audit: { waiting: 5, lost: 6 },
    spooling: { depth: { requests: 3, lag_ms: 90_000, records: 4, bytes: 512, max_bytes: 1000 } },
  });
  assert.deepEqual(valuesOf(registry, 'gateway.database.up'), { '': 0 });
  assert.deepEqual(valuesOf(registry, 'gateway.ledger.waiting'), { memory: 2, spool: 3 });
  assert.deepEqual(valuesOf(registry, 'gateway.ledger.lag'), { memory: 1.5, spool: 90 });
  assert.deepEqual(valuesOf(registry, 'gateway.audit.waiting'), { memory: 5, spool: 4 });
  assert.deepEqual(valuesOf(registry, 'gateway.audit.lost'), { '': 6 });
  assert.deepEqual(valuesOf(registry, 'gateway.spool.size'), { '': 512 });
  assert.deepEqual(valuesOf(registry, 'gateway.spool.limit'), { '': 1000 });
});

test('reports how far a money limit can be exceeded by active limit, and nothing where unbounded', () => {
  const rules = [
    { name: 'team', scope: ['team'], window: 'month', limit_usd: 1000, mode: 'enforce' },
    { name: 'trial', scope: ['user'], window: 'day', limit_usd: 10, mode: 'shadow' },
    { name: 'pace', scope: ['user'], requests_per_minute: 10, mode: 'enforce' },
  ];
  const limits = { defaults: { user_daily_usd: 20 }, rules, overshoot_percent: 5, on_store_error: 'deny' };
  const bounded = gatewayWith({ spend_limits: { ...limits, reserve: 'typical' } });
  assert.deepEqual(valuesOf(bounded, 'gateway.overshoot.bound'), { 'defaults.user_daily_usd': 1, team: 50 });
  const strict = gatewayWith({ spend_limits: { ...limits, reserve: 'worst_case' } });
  assert.deepEqual(valuesOf(strict, 'gateway.overshoot.bound'), { 'defaults.user_daily_usd': 0, team: 0 });
  assert.deepEqual(valuesOf(gatewayWith({}), 'gateway.overshoot.bound'), {});
});

test('reports event loop delay from the second reading on', async () => {
  const registry = gatewayWith({});
  assert.deepEqual(valuesOf(registry, 'nodejs.eventloop.delay.max'), {});
  const latest = await until('the event loop is seen to be late', () => {
    // Longer than it takes between two looks.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60);
    const { '': seconds = 0 } = valuesOf(registry, 'nodejs.eventloop.delay.max');
    return seconds > 0.03 && seconds;
  });
  assert.ok(latest < process.uptime(), `${latest} s`);
  const { active = 0 } = valuesOf(registry, 'nodejs.eventloop.time');
  assert.ok(active > 0.05);
});
