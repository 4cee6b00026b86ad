import { diffAccess } from './access.ts';
import type { Change, Usable } from './change.ts';
import { diffLimits, type ReadSpending } from './limits.ts';
import { diffModels } from './models.ts';
import { diffPipelines } from './pipelines.ts';
import { diffPolicies } from './policies.ts';
import { diffPrices } from './prices.ts';
import { diffRoutes } from './routes.ts';
import { diffSettings, diffUpstreams } from './settings.ts';

/**
 * What a new configuration changes for whom, in the order people ask: models, access rules, policies, routes, limits, prices, upstreams,
 * pipelines, everything else. Nothing is told twice, and what only looks different is not told.
 */
export async function diffConfigurations(
  before: Usable,
  after: Usable,
  readSpending?: ReadSpending,
): Promise<readonly Change[]> {
  return [
    ...diffModels(before.config, after.config),
    ...diffAccess(before.config, after.config),
    ...diffPolicies(before, after),
    ...diffRoutes(before.config, after.config),
    ...(await diffLimits(before.config, after.config, readSpending)),
    ...diffPrices(before.config, after.config),
    ...diffUpstreams(before, after),
    ...diffPipelines(before, after),
    ...diffSettings(before, after),
  ];
}
