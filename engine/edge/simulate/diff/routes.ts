import type { GatewayConfig, ModelConfig } from '../../../base/contract/config.ts';
import type { ModelCatalog } from '../../../base/contract/services.ts';
import { formatRoute, formatUpstreams, routingRules } from '../../../base/rules/config-rules.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import { simplify } from '../../../base/rules/simplify.ts';
import { callerWithToken, createModelCatalog } from '../../../domain/upstreams/models.ts';
import { modelFacts } from '../../../domain/upstreams/routes.ts';
import { type Change, isSame } from './change.ts';
import { groupsOf } from './models.ts';

/** Where a request goes under a condition that is not decided by caller and model alone. */
interface Branch {
  readonly when: unknown;
  readonly upstream: string;
}

/** The upstreams a group's requests for a model can go to, in order of decision; the last has no condition. */
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

/** Branches that lead where everything else goes decide nothing. */
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

interface Move {
  readonly models: Map<string, string[]>;
  readonly from: string;
  readonly to: string;
}

interface Use {
  readonly group: string;
  readonly old_model: ModelConfig;
  readonly new_model: ModelConfig;
}

/** Who uses which models that both configurations allow. */
function sharedUses(before: GatewayConfig, after: GatewayConfig): Use[] {
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
  const moves = new Map<string, Move>();
  for (const { group, old_model, new_model } of sharedUses(before, after)) {
    const [old_branches, new_branches] = [branchesOf(before, group, old_model), branchesOf(after, group, new_model)];
    if (isSame(old_branches, new_branches)) continue;
    const [from, to] = [formatBranches(old_branches), formatBranches(new_branches)];
    const move = moves.get(`${from}\n${to}`) ?? { models: new Map<string, string[]>(), from, to };
    move.models.set(group, [...(move.models.get(group) ?? []), new_model.id]);
    moves.set(`${from}\n${to}`, move);
  }
  return [...moves.values()].flatMap(({ models, from, to }) => {
    // Groups that move the same models are told together.
    const groups_by_models = Map.groupBy(models.keys(), (group) => models.get(group)!.join(', '));
    const brief = !`${from}${to}`.includes(' when ');
    return [...groups_by_models].map(([ids, groups]) => ({
      section: 'routes' as const,
      subject: `${groups.length === 1 ? 'group' : 'groups'} ${groups.join(', ')} for ${ids}`,
      change: brief ? `${from} -> ${to}` : 'goes elsewhere',
      ...(brief ? {} : { details: [`before: ${from}`, `after: ${to}`] }),
    }));
  });
}
