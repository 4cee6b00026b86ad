import type { Services } from '../api.ts';
import type { GatewayConfig } from '../config.ts';
import type { Loaded } from '../load/spec.ts';
import { createModelCatalog } from '../services/models.ts';
import { createSecrets } from '../services/secrets.ts';

/** Services that follow from one configuration; a reload makes them anew. */
export type PlanServices = Pick<Services, 'config' | 'models' | 'secret'>;

/** Services that stay for as long as the gateway runs, whatever its configuration. */
export type LastingServices = Omit<Services, keyof PlanServices>;

/**
 * Makes the services of a configuration without errors. Each secret it names is given to `hide` first.
 * Raises StartError for a secret that can't be sent, RangeError for a price that is not exact.
 */
export function createPlanServices(
  config: GatewayConfig,
  loaded: Pick<Loaded, 'pipelines'>,
  env: NodeJS.ProcessEnv,
  hide: (secret: string) => void,
): PlanServices {
  const secret = createSecrets({ config, pipelines: loaded.pipelines }, env, hide);
  return { config, models: createModelCatalog(config), secret };
}
