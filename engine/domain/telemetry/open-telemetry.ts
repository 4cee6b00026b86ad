import type { GatewayConfig } from '../../base/contract/config.ts';
import type { Clock } from '../../base/contract/services.ts';
import { type ExportedLog, openExports } from './export/exports.ts';
import { resourceAttributes, resourceFrom } from './export/settings.ts';
import { MetricRegistry } from './metric-registry.ts';
import { createOperationTelemetry } from './operations.ts';
import { openMetricsListener } from './prometheus/metrics-listener.ts';
import { openRelay } from './relay.ts';
import { createRequestTelemetry } from './requests/request-telemetry.ts';

const RELAY_TIMEOUT_MS = 3000;

interface TelemetryOptions {
  readonly config: GatewayConfig;
  readonly in_force: () => GatewayConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly clock: Clock;
  readonly log: ExportedLog;
}

export type GatewayTelemetry = Awaited<ReturnType<typeof openTelemetry>>;

/** Opens telemetry. Raises StartError for an unusable address of metrics or headers of a destination. */
export async function openTelemetry(options: TelemetryOptions) {
  const { config, env, clock, log, in_force } = options;
  const metrics = new MetricRegistry(clock.now());
  const of_environment = resourceFrom(env);
  const resource = () => resourceAttributes({ ...of_environment, ...in_force().telemetry.resource });
  const relay = openRelay({ ...options, metrics });
  const exports = await openExports({
    telemetry: config.telemetry,
    env,
    registry: metrics,
    clock,
    log,
  });
  const listener = await openMetricsListener({ ...options, registry: metrics, resource }).catch(async (error) => {
    await exports.close();
    throw error;
  });
  const shared = { ...options, metrics, sink: exports.sink };
  return {
    ...createRequestTelemetry(shared),
    operation: createOperationTelemetry(shared),
    metrics,
    relay,
    use(config: GatewayConfig): void {
      relay.use(config);
      void listener.use(config);
      exports.use(config.telemetry);
    },
    async close(): Promise<void> {
      await Promise.all([relay.close(RELAY_TIMEOUT_MS), exports.close(), listener.close()]);
    },
  };
}
