import type { GatewayConfig, ModelConfig } from '../../../base/contract/config.ts';
import type { ModelCatalog } from '../../../base/contract/services.ts';
import { formatRoute, formatUpstreams, routingRules } from '../../../base/rules/config-rules.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { simplify } from '../../../base/rules/simplify.ts';
import { callerWithToken, createModelCatalog } from '../../../domain/upstreams/models.ts';
import { modelFacts } from '../../../domain/upstreams/routes.ts';
import { type Change, diffByName, isSame, lossAndGain } from './change.ts';

/** Token groups of a configuration, the implicit one included. */
export function groupsOf({ token_groups }: GatewayConfig): string[] {
  return token_groups.length === 0 ? ['all'] : token_groups.map(({ name }) => name);
}

/** The models of token groups in words, for a gateway.yaml without models. */
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

/** A route with a condition that caller and model alone do not decide. */
interface Branch {
  readonly when: unknown;
  readonly upstream: string;
}

/** The possible routes of a group's requests for a model, in order of evaluation; the last has no condition. */
function branchesOf(config: GatewayConfig, group: string, model: ModelConfig): Branch[] {
  const known = new Map<string, unknown>([
    ['principal.groups', [group]],
    ['principal.token.group', group],
    ['request.model', model.id],
    ...Object.entries(modelFacts(model)),
  ]);
  const branches: Branch[] = [];
  for (const rule of routingRules(config)) {
    const { logic, mode } = rule;
    if (mode === 'shadow') continue;
    const when = simplify(logic, known);
    if (when === false) continue;
    branches.push({ when, upstream: formatRoute(rule) });
    if (when === true) return withoutIdle(branches);
  }
  return withoutIdle([...branches, { when: true, upstream: formatUpstreams(config.routing.default_upstreams) }]);
}

/** Without branches that lead to the same upstream as the last one. */
function withoutIdle(branches: readonly Branch[]): Branch[] {
  const last = branches.at(-1)!;
  const deciding = branches.slice(0, -1);
  while (deciding.at(-1)?.upstream === last.upstream) deciding.pop();
  return [...deciding, last];
}

function formatBranches(branches: readonly Branch[]): string {
  return branches
    .map(({ when, upstream }, i) => {
      if (when !== true) return `${upstream} when ${formatCondition(when)}`;
      return i === 0 ? upstream : `otherwise ${upstream}`;
    })
    .join('; ');
}

function sharedUses(before: GatewayConfig, after: GatewayConfig) {
  const [old_catalog, new_catalog] = [createModelCatalog(before), createModelCatalog(after)];
  const old_groups = new Set(groupsOf(before));
  return groupsOf(after).flatMap((group) =>
    new_catalog.all.flatMap((new_model) => {
      const old_model = old_catalog.find(new_model.id);
      if (!old_groups.has(group) || old_model?.id !== new_model.id) return [];
      const caller = callerWithToken(group);
      const is_refused = (catalog: ModelCatalog, model: ModelConfig) => catalog.refusal(caller, model) !== undefined;
      if (is_refused(new_catalog, new_model) || is_refused(old_catalog, old_model)) return [];
      return [{ group, old_model, new_model }];
    }),
  );
}

/** Requests that go to another upstream than before, per token group and model. */
export function diffRoutes(before: GatewayConfig, after: GatewayConfig): Change[] {
  const moved = sharedUses(before, after).flatMap(({ group, old_model, new_model }) => {
    const [old_branches, new_branches] = [branchesOf(before, group, old_model), branchesOf(after, group, new_model)];
    if (isSame(old_branches, new_branches)) return [];
    return [{ group, id: new_model.id, from: formatBranches(old_branches), to: formatBranches(new_branches) }];
  });
  const moves = Map.groupBy(moved, ({ from, to }) => `${from}\n${to}`);
  return [...moves.values()].flatMap((together) => {
    const { from, to } = together[0]!;
    const by_group = Map.groupBy(together, ({ group }) => group);
    // Groups that move the same models are reported together.
    const groups_by_models = Map.groupBy(by_group.keys(), (group) =>
      by_group
        .get(group)!
        .map(({ id }) => id)
        .join(', '),
    );
    const brief = !`${from}${to}`.includes(' when ');
    return [...groups_by_models].map(([ids, groups]) => ({
      section: 'routes' as const,
      subject: `${groups.length === 1 ? 'group' : 'groups'} ${groups.join(', ')} for ${ids}`,
      change: brief ? `${from} -> ${to}` : 'goes elsewhere',
      ...(brief ? {} : { details: [`before: ${from}`, `after: ${to}`] }),
    }));
  });
}
