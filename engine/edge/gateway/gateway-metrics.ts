import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { getHeapSpaceStatistics, getHeapStatistics } from 'node:v8';
import type { GatewayConfig } from '../../base/contract/config.ts';
import { UPSTREAM_STATES, type UpstreamState } from '../../base/contract/forwarding.ts';
import type { UpstreamStates } from '../../base/contract/services.ts';
import { programVersion } from '../../base/kit/package-root.ts';
import type { PipelineSpec } from '../../base/source/spec.ts';
import type { ReloadState } from '../../base/store/health.ts';
import type { OpenAuditLog } from '../../domain/audit/audit-log.ts';
import type { LeaseCounts } from '../../domain/budget/leases/leases.ts';
import type { DatabaseLedger } from '../../domain/budget/ledger/ledger.ts';
import { overshootBound } from '../../domain/budget/limits/overshoot.ts';
import { spendLimits } from '../../domain/budget/limits/spend-limits.ts';
import type { SpoolingLedger } from '../../domain/budget/spool/spooling-ledger.ts';
import { configHash } from '../../domain/telemetry/config-hash.ts';
import type { Metrics, Reading } from '../../domain/telemetry/metric-registry.ts';
import { summarizeUpstreams } from '../../domain/upstreams/states/upstream-states.ts';
import type { GatewayServer } from '../http/server.ts';

/** Sampling interval of the event loop delay, in milliseconds. */
const RESOLUTION_MS = 20;
const WINDOW_MS = 60_000;

type DelayHistogram = ReturnType<typeof monitorEventLoopDelay>;

/** Event loop delay: the whole time between two samples, in nanoseconds. */
const DELAYS = {
  'nodejs.eventloop.delay.p50': (histogram: DelayHistogram) => histogram.percentile(50),
  'nodejs.eventloop.delay.p99': (histogram: DelayHistogram) => histogram.percentile(99),
  'nodejs.eventloop.delay.max': (histogram: DelayHistogram) => histogram.max,
} as const;
type DelayMetric = keyof typeof DELAYS;

/** Registers process metrics. Measurement begins with the first read. */
function observeProcess(metrics: Metrics): void {
  metrics.observe('process.uptime', () => [{ value: process.uptime() }]);
  metrics.observe('process.memory.usage', () => [{ value: process.memoryUsage.rss() }]);
  metrics.observe('process.cpu.time', () => {
    const { user, system } = process.cpuUsage();
    return [
      { value: user / 1e6, labels: { 'cpu.mode': 'user' } },
      { value: system / 1e6, labels: { 'cpu.mode': 'system' } },
    ];
  });
  metrics.observe('v8js.memory.heap.used', () =>
    getHeapSpaceStatistics().map(({ space_name, space_used_size }) => ({
      value: space_used_size,
      labels: { 'v8js.heap.space.name': space_name },
    })),
  );
  metrics.observe('gateway.heap.limit', () => [{ value: getHeapStatistics().heap_size_limit }]);
  metrics.observe('nodejs.eventloop.time', () => {
    const { active, idle } = performance.eventLoopUtilization();
    return [
      { value: active / 1000, labels: { 'nodejs.eventloop.state': 'active' } },
      { value: idle / 1000, labels: { 'nodejs.eventloop.state': 'idle' } },
    ];
  });
  const delays = watchDelays();
  for (const name of Object.keys(DELAYS) as DelayMetric[]) metrics.observe(name, () => delays(name));
}

/** Event loop delay: the higher value of the current and the last minute, so that no reader misses a peak. */
function watchDelays(): (name: DelayMetric) => Reading<DelayMetric>[] {
  let histogram: DelayHistogram | undefined;
  let last: ReadonlyMap<DelayMetric, number> | undefined;
  let began_at = 0;
  return (name) => {
    const now = performance.now();
    if (histogram === undefined) {
      histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
      histogram.enable();
      began_at = now;
    }
    if (histogram.count === 0 && last === undefined) return [];
    const value = Math.max(delayOf(histogram, name), last?.get(name) ?? 0);
    if (histogram.count > 0 && now - began_at >= WINDOW_MS) {
      const measured = histogram;
      last = new Map((Object.keys(DELAYS) as DelayMetric[]).map((each) => [each, delayOf(measured, each)]));
      histogram.reset();
      began_at = now;
    }
    return [{ value }];
  };
}

function delayOf(histogram: DelayHistogram, name: DelayMetric): number {
  return Math.max(0, DELAYS[name](histogram) / 1e9 - RESOLUTION_MS / 1000);
}

const NANO = 1e9;

export function observeServices(
  metrics: Metrics,
  services: {
    readonly ledger: Pick<DatabaseLedger, 'waiting' | 'lag_ms' | 'is_alive'> &
      Partial<Pick<DatabaseLedger, 'lease_counts'>>;
    readonly spooling: Pick<SpoolingLedger, 'depth'>;
    readonly audit: Pick<OpenAuditLog, 'waiting' | 'lost'>;
    readonly upstreams: Pick<UpstreamStates, 'list'>;
  },
): void {
  const { ledger, spooling, audit, upstreams } = services;
  const waiting = (memory: number, spool: number) => [
    { value: memory, labels: { 'gateway.waiting.place': 'memory' } as const },
    { value: spool, labels: { 'gateway.waiting.place': 'spool' } as const },
  ];
  metrics.observe('gateway.database.up', () => [{ value: ledger.is_alive ? 1 : 0 }]);
  metrics.observe('gateway.ledger.waiting', () => waiting(ledger.waiting, spooling.depth.requests));
  metrics.observe('gateway.ledger.lag', () => waiting(ledger.lag_ms / 1000, spooling.depth.lag_ms / 1000));
  const leases = <const Key extends keyof LeaseCounts>(...keys: Key[]) =>
    ledger.lease_counts === undefined ? [] : keys.map((key) => ({ key, value: ledger.lease_counts![key] }));
  metrics.observe('gateway.reservations', () =>
    leases('leased', 'waited').map(({ key, value }) => ({ value, labels: { 'gateway.reservation.path': key } })),
  );
  metrics.observe('gateway.leases', () =>
    leases('taken', 'refused', 'recalled').map(({ key, value }) => ({ value, labels: { 'gateway.lease.event': key } })),
  );
  metrics.observe('gateway.audit.waiting', () => waiting(audit.waiting, spooling.depth.records));
  metrics.observe('gateway.audit.lost', () => [{ value: audit.lost }]);
  metrics.observe('gateway.spool.size', () => [{ value: spooling.depth.bytes }]);
  metrics.observe('gateway.spool.limit', () => [{ value: spooling.depth.max_bytes }]);
  metrics.observe('gateway.breaker.state', () => breakerStates(upstreams.list()));
  metrics.observe('gateway.upstream.models_unavailable', () => unavailableModels(upstreams.list()));
  metrics.observe('gateway.upstream.inflight', () =>
    upstreams.list().flatMap(({ upstream, active }) => {
      return active === undefined ? [] : [{ value: active, labels: { 'gateway.upstream': upstream } }];
    }),
  );
}

export function observeGateway(
  metrics: Metrics,
  gateway: {
    readonly server: Pick<GatewayServer, 'load'>;
    reloads(): ReloadState;
    plan(): { readonly config: GatewayConfig; readonly pipelines: readonly PipelineSpec[] };
  },
): void {
  const { server, reloads, plan } = gateway;
  const build = { 'service.version': programVersion(), 'process.runtime.version': process.versions.node };
  observeProcess(metrics);
  metrics.observe('gateway.build.info', () => [
    { value: 1, labels: { ...build, 'gateway.config.hash': configHash(plan().config) } },
  ]);
  metrics.observe('gateway.config.loaded_at', () => [{ value: reloads().loaded_at / 1000 }]);
  metrics.observe('gateway.config.reload_ok', () => [{ value: reloads().failing_since === undefined ? 1 : 0 }]);
  metrics.observe('gateway.inflight', () => [{ value: server.load.requests }]);
  metrics.observe('gateway.connections', () => [{ value: server.load.connections }]);
  metrics.observe('gateway.connections.limit', () => [{ value: server.load.connections_max }]);
  metrics.observe('gateway.bodies.held', () => [{ value: server.load.used_bytes }]);
  metrics.observe('gateway.bodies.limit', () => [{ value: server.load.used_bytes_max }]);
  const bounds = new WeakMap<GatewayConfig, Reading<'gateway.overshoot.bound'>[]>();
  metrics.observe('gateway.overshoot.bound', () => {
    const { config, pipelines } = plan();
    const known = bounds.get(config) ?? overshootBounds(config, pipelines);
    bounds.set(config, known);
    return known;
  });
}

function overshootBounds(
  config: GatewayConfig,
  pipelines: readonly PipelineSpec[],
): Reading<'gateway.overshoot.bound'>[] {
  const { bound_nano_usd, limits } = overshootBound(config, pipelines);
  if (bound_nano_usd === undefined) return [];
  const of_limits = new Map(limits.map((limit) => [limit.name, limit.bound_nano_usd]));
  return spendLimits(config)
    .filter(({ mode, unit }) => mode === 'enforce' && unit === 'nano_usd')
    .map(({ name }) => ({ value: (of_limits.get(name) ?? 0) / NANO, labels: { 'gateway.rule': name } }));
}

function breakerStates(states: readonly UpstreamState[]): Reading<'gateway.breaker.state'>[] {
  return Object.entries(summarizeUpstreams(states)).flatMap(([upstream, summary]) => {
    const { state: now, mode = 'enforce' } = summary as { readonly state: string; readonly mode?: string };
    return UPSTREAM_STATES.map((state) => ({
      value: state === now ? 1 : 0,
      labels: { 'gateway.upstream': upstream, 'gateway.breaker.state': state, 'gateway.breaker.mode': mode },
    }));
  });
}

function unavailableModels(states: readonly UpstreamState[]): Reading<'gateway.upstream.models_unavailable'>[] {
  const isModel = ({ upstream_model, shadow }: UpstreamState) => upstream_model !== undefined && !shadow;
  return [...Map.groupBy(states, ({ upstream }) => upstream)].map(([upstream, all]) => {
    return { value: all.filter(isModel).length, labels: { 'gateway.upstream': upstream } };
  });
}
