import type { GatewayConfig } from '../../../base/contract/config.ts';
import { callerWithToken, createModelCatalog } from '../../../domain/upstreams/models.ts';
import { type Change, diffByName, lossAndGain } from './change.ts';

/** Token groups of a configuration, the implicit one included. */
export function groupsOf({ token_groups }: GatewayConfig): string[] {
  return token_groups.length === 0 ? ['all'] : token_groups.map(({ name }) => name);
}

/** What a token group opens where gateway.yaml names no models, in words. */
function listedModels({ token_groups }: GatewayConfig): Map<string, string[]> {
  const groups = token_groups.length === 0 ? [{ name: 'all', models: ['*'] }] : token_groups;
  const wordsOf = (glob: string) => (glob === '*' ? 'what the upstreams list' : `what the upstreams list of ${glob}`);
  return new Map(groups.map(({ name, models = [] }) => [name, models.map(wordsOf)]));
}

function modelsOf(config: GatewayConfig): Map<string, string[]> {
  if (config.from_model_lists) return listedModels(config);
  const catalog = createModelCatalog(config);
  const ids = (group: string) =>
    catalog.all.filter((model) => catalog.refusal(callerWithToken(group), model) === undefined).map(({ id }) => id);
  return new Map(groupsOf(config).map((group) => [group, ids(group)]));
}

/** Models that token groups gain and lose. */
export function diffModels(before: GatewayConfig, after: GatewayConfig): Change[] {
  return diffByName(
    'models',
    [modelsOf(before), modelsOf(after)],
    {
      gone: () => 'is gone: its tokens can use no model any more',
      added: (models) => `is new, with ${models.join(', ') || 'no model'}`,
      changed: (old, now) => [lossAndGain(old, now).join('; ')].filter(Boolean),
    },
    (group) => `group ${group}`,
  );
}
