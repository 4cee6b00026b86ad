import type { GatewayConfig } from '../../base/contract/config.ts';
import { openExports } from './export/exports.ts';
import { resourceAttributes, resourceFrom } from './export/settings.ts';
import { MetricRegistry, type TelemetrySurroundings } from './metric-registry.ts';
import { createOperationTelemetry } from './operations.ts';
import { openMetricsListener } from './prometheus/metrics-listener.ts';
import { openRelay } from './relay.ts';
import { createRequestTelemetry } from './requests/request-telemetry.ts';

const RELAY_TIMEOUT_MS = 3000;

/** Opens telemetry. Raises StartError for an unusable address of metrics or headers of a destination. */
export async function openTelemetry(
  surroundings: Omit<TelemetrySurroundings, 'metrics'> & {
    readonly config: GatewayConfig;
    readonly in_force: () => GatewayConfig;
  },
) {
  // Nothing keeps `config`, so that a reload frees it.
  const { config, in_force, ...others } = surroundings;
  const metrics = new MetricRegistry(surroundings.clock.now());
  const options = { ...others, metrics };
  const of_environment = resourceFrom(surroundings.env);
  const resource = () => resourceAttributes({ ...of_environment, ...in_force().telemetry.resource });
  const relay = openRelay({ ...options, config });
  const exports = await openExports({ ...options, telemetry: config.telemetry });
  const listener = await openMetricsListener({ ...options, config, resource }).catch(async (error) => {
    await exports.close();
    throw error;
  });
  const shared = { ...options, in_force, sink: exports.sink };
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
