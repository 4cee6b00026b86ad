import { hash } from 'node:crypto';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { PipelineSpec, Policy } from '../../../base/source/spec.ts';

/** The groups that a configuration reads: a session token carries only these. */
export interface DecidingGroups {
  /** Whether any group may decide: a rule or custom stage reads groups other than by name. */
  readonly any: boolean;
  readonly names: ReadonlySet<string>;
  readonly id: string;
  among(groups: readonly string[]): readonly string[];
}

/** `id` if any group may decide. */
export const ANY_GROUP = 'any';

export const EVERY_GROUP: DecidingGroups = { any: true, names: new Set(), id: ANY_GROUP, among: (groups) => groups };

/** Longest session token with groups: proxies accept 8 KB of headers, and some clients send a token twice. */
export const MOST_TOKEN_CHARS = 3072;

/** Shipped stages that pass groups to limits, models and policies, whose names are known, or only record them. */
const GO_BY_NAME: ReadonlySet<string> = new Set([
  'audit',
  'check-budget',
  'list-models',
  'managed-settings',
  'read-body',
  'report-spending',
  'resolve-route',
  'route-to',
]);
const ID_CHARS = 10;

/** The groups that a configuration reads, with its pipelines and policies. */
export function decidingGroups(
  config: GatewayConfig,
  {
    pipelines = [],
    policies = [],
  }: { readonly pipelines?: readonly PipelineSpec[]; readonly policies?: readonly Policy[] },
): DecidingGroups {
  const found = { names: new Set<string>(), any: false };
  const add = (names: readonly string[] = []) => {
    for (const name of names) found.names.add(name);
  };
  const { auth, token_groups, models, routing, access, spend_limits } = config;
  add(auth?.oidc?.allowed_groups);
  add(auth?.admin_groups);
  for (const { groups } of [...(auth?.teams ?? []), ...(auth?.projects ?? [])]) add(groups);
  for (const { members } of token_groups) add(members);
  for (const { groups } of models.flatMap(({ group_aliases }) => group_aliases)) add(groups);
  for (const { group } of routing.rules) if (group !== undefined) add([group]);
  for (const { limit_usd_by_group } of spend_limits?.rules ?? []) add(Object.keys(limit_usd_by_group ?? {}));
  for (const { match } of policies) add(match.groups);
  collect([routing, access, spend_limits], found);
  for (const { rules, stages, on_error, finally: last } of pipelines) {
    collect(
      rules.map(({ logic }) => logic),
      found,
    );
    for (const { definition, options, when } of [...stages, ...on_error, ...last]) {
      collect([options, when], found);
      const { name, reads = [], readsIfSet = [] } = definition;
      if (!GO_BY_NAME.has(name) && [...reads, ...readsIfSet].includes('principal.groups')) found.any = true;
    }
  }
  const { names, any } = found;
  const id = any ? ANY_GROUP : hash('sha256', JSON.stringify([...names].sort()), 'hex').slice(0, ID_CHARS);
  return { any, names, id, among: (groups) => (any ? groups : groups.filter((group) => names.has(group))) };
}

interface Found {
  readonly names: Set<string>;
  any: boolean;
}

/** Collects the groups that conditions read by name: `{ in: [name, { var: principal.groups }] }`. Any other read may see all. */
function collect(value: unknown, found: Found): void {
  if (typeof value !== 'object' || value === null) return;
  if (isGroups(value)) {
    found.any = true;
    return;
  }
  const [item, list] = Object.hasOwn(value, 'in') ? operandsOf((value as { in: unknown }).in) : [];
  if (typeof item === 'string' && isGroups(list)) found.names.add(item);
  else for (const part of Object.values(value)) collect(part, found);
}

function isGroups(value: unknown): boolean {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, 'var')) return false;
  return operandsOf((value as { var: unknown }).var)[0] === 'principal.groups';
}

function operandsOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [value];
}
