import type { OpenAuditLog } from '../audit/audit-log.ts';
import type { GatewayConfig } from '../contract/config.ts';
import { UPSTREAM_STATES, type UpstreamState } from '../contract/forwarding.ts';
import type { UpstreamStates } from '../contract/services.ts';
import type { GatewayServer } from '../http/server.ts';
import { programVersion } from '../kit/package-root.ts';
import type { DatabaseLedger } from '../money/ledger/ledger.ts';
import { overshootBound } from '../money/limits/overshoot.ts';
import { spendLimits } from '../money/limits/spend-limits.ts';
import type { SpoolingLedger } from '../money/spool/spooling-ledger.ts';
import type { PipelineSpec } from '../source/spec.ts';
import type { ReloadState } from '../store/health.ts';
import { configHash } from '../telemetry/config-hash.ts';
import type { Metrics, Reading } from '../telemetry/metrics.ts';
import { observeProcess } from '../telemetry/process-readings.ts';
import { tellUpstreams } from '../upstreams/states/told-states.ts';

const NANO = 1e9;
const MEMORY = { 'gateway.waiting.place': 'memory' } as const;
const SPOOL = { 'gateway.waiting.place': 'spool' } as const;

/** Tells of what waits to be written, and of upstreams, whenever somebody reads the metrics. */
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
  metrics.observe('gateway.database.up', () => [{ value: ledger.is_alive ? 1 : 0 }]);
  metrics.observe('gateway.ledger.waiting', () => [
    { value: ledger.waiting, labels: MEMORY },
    { value: spooling.depth.requests, labels: SPOOL },
  ]);
  metrics.observe('gateway.ledger.lag', () => [
    { value: ledger.lag_ms / 1000, labels: MEMORY },
    { value: spooling.depth.lag_ms / 1000, labels: SPOOL },
  ]);
  metrics.observe('gateway.reservations', () => {
    const counts = ledger.lease_counts;
    if (counts === undefined) return [];
    return (['leased', 'waited'] as const).map((path) => {
      return { value: counts[path], labels: { 'gateway.reservation.path': path } };
    });
  });
  metrics.observe('gateway.leases', () => {
    const counts = ledger.lease_counts;
    if (counts === undefined) return [];
    return (['taken', 'refused', 'recalled'] as const).map((event) => {
      return { value: counts[event], labels: { 'gateway.lease.event': event } };
    });
  });
  metrics.observe('gateway.audit.waiting', () => [
    { value: audit.waiting, labels: MEMORY },
    { value: spooling.depth.records, labels: SPOOL },
  ]);
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

/** Tells what this process is and how it does, whenever somebody reads the metrics. */
export function observeGateway(
  metrics: Metrics,
  gateway: {
    readonly server: Pick<GatewayServer, 'load'>;
    reloads(): ReloadState;
    /** The configuration in force, and its pipelines. */
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
  metrics.observe('gateway.bodies.held', () => [{ value: server.load.held_bytes }]);
  metrics.observe('gateway.bodies.limit', () => [{ value: server.load.held_bytes_max }]);
  const bounds = new WeakMap<GatewayConfig, Reading<'gateway.overshoot.bound'>[]>();
  metrics.observe('gateway.overshoot.bound', () => {
    const { config, pipelines } = plan();
    const known = bounds.get(config) ?? overshootBounds(config, pipelines);
    bounds.set(config, known);
    return known;
  });
}

/** By limit in money; nothing where none is bounded. */
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
  return Object.entries(tellUpstreams(states)).flatMap(([upstream, told]) => {
    const { state: now, mode = 'enforce' } = told as { readonly state: string; readonly mode?: string };
    return UPSTREAM_STATES.map((state) => ({
      value: state === now ? 1 : 0,
      labels: { 'gateway.upstream': upstream, 'gateway.breaker.state': state, 'gateway.breaker.mode': mode },
    }));
  });
}

function unavailableModels(states: readonly UpstreamState[]): Reading<'gateway.upstream.models_unavailable'>[] {
  const by_name = Map.groupBy(states, ({ upstream }) => upstream);
  return [...by_name].map(([upstream, all]) => {
    const models = all.filter(({ upstream_model, shadow }) => upstream_model !== undefined && !shadow);
    return { value: models.length, labels: { 'gateway.upstream': upstream } };
  });
}
