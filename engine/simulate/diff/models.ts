import type { GatewayConfig } from '../../contract/config.ts';
import { callerWithToken, createModelCatalog } from '../../upstreams/models.ts';
import { type Change, compareNames } from './change.ts';

/** Token groups of a configuration, the implicit one included. */
export function groupsOf({ token_groups }: GatewayConfig): string[] {
  return token_groups.length === 0 ? ['all'] : token_groups.map(({ name }) => name);
}

function modelsOf(config: GatewayConfig): Map<string, string[]> {
  const catalog = createModelCatalog(config);
  const ids = (group: string) =>
    catalog.all.filter((model) => catalog.refusal(callerWithToken(group), model) === undefined).map(({ id }) => id);
  return new Map(groupsOf(config).map((group) => [group, ids(group)]));
}

/** Models that token groups gain and lose. */
export function diffModels(before: GatewayConfig, after: GatewayConfig): Change[] {
  const [old_models, new_models] = [modelsOf(before), modelsOf(after)];
  const { kept, lost, gained } = compareNames(old_models.keys(), new_models.keys());
  const changes: Change[] = [
    ...lost.map((group) => ({
      section: 'models' as const,
      subject: `group ${group}`,
      change: 'is gone: its tokens can use no model any more',
    })),
    ...gained.map((group) => ({
      section: 'models' as const,
      subject: `group ${group}`,
      change: `is new, with ${new_models.get(group)!.join(', ') || 'no model'}`,
    })),
  ];
  for (const group of kept) {
    const models = compareNames(old_models.get(group)!, new_models.get(group)!);
    const parts = [
      ...(models.lost.length > 0 ? [`loses ${models.lost.join(', ')}`] : []),
      ...(models.gained.length > 0 ? [`gains ${models.gained.join(', ')}`] : []),
    ];
    if (parts.length > 0) changes.push({ section: 'models', subject: `group ${group}`, change: parts.join('; ') });
  }
  return changes;
}
