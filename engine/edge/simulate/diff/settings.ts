import type { GatewayConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import { formatUpstreams } from '../../../base/rules/config-rules.ts';
import { ownBoundary, ownPool } from '../../../pipeline/load/config-shape.ts';
import { type Change, compareValues, diffByName, relativePaths, type Usable } from './change.ts';

/** What is written of an upstream: what it has for want of a name follows from the rest. */
function asWritten(
  { cache_pool, state_boundary, ...upstream }: UpstreamConfig,
  directory: string,
): object & { readonly base_url: string } {
  return {
    ...(relativePaths(upstream, directory) as typeof upstream),
    ...(cache_pool !== ownPool(upstream) && { cache_pool }),
    ...(state_boundary !== ownBoundary(upstream, directory) && { state_boundary }),
  };
}

/** Upstreams that come, go or change. */
export function diffUpstreams(before: Usable, after: Usable): Change[] {
  const byName = ({ config, directory }: Usable) =>
    new Map(config.upstreams.map((each) => [each.name, asWritten(each, directory)]));
  return diffByName('upstreams', [byName(before), byName(after)], {
    gone: () => 'is gone',
    added: ({ base_url }) => `is new, at ${base_url}`,
    changed: (old, now) => compareValues(old, now).map(({ path, change }) => `${path} ${change}`),
  });
}

/** Sections told in their own words elsewhere. */
const TOLD_ELSEWHERE = new Set([
  'upstreams',
  'models',
  'from_model_lists',
  'prices',
  'token_groups',
  'access',
  'routing',
  'rules',
  'allow',
  'policies',
  'all_pipelines',
]);
const LIMITS_TOLD_ELSEWHERE = new Set(['defaults', 'rules']);

function withoutKeys(value: object, keys: ReadonlySet<string>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([key]) => !keys.has(key)));
}

/** What models are called, by people, clients and upstreams, and what they can do, for those in both configurations. */
function modelTraits({ models }: GatewayConfig, other: GatewayConfig): Record<string, object> {
  const ids = new Set(other.models.map(({ id }) => id));
  const shared = models.filter(({ id }) => ids.has(id));
  return Object.fromEntries(
    shared.map(({ id, display_name, aliases, group_aliases, supports, upstream_ids, context_windows }) => {
      const by_name = Map.groupBy(group_aliases, ({ name }) => name);
      const of_groups = [...by_name].map(([name, several]) => [
        name,
        { groups: several.flatMap((each) => each.groups) },
      ]);
      const alias = Object.fromEntries(of_groups);
      return [id, { display_name, aliases, alias, supports, upstream_ids, context_windows }];
    }),
  );
}

function otherSettings({ config, directory }: Usable, other: Usable): Record<string, unknown> {
  const {
    spend_limits,
    pipelines: _pipelines,
    stages: _stages,
    ...rest
  } = withoutKeys(config, TOLD_ELSEWHERE) as unknown as GatewayConfig;
  const settings = {
    ...rest,
    // Without the section windows are those of UTC.
    spend_limits: withoutKeys(spend_limits ?? { time_zone: 'UTC' }, LIMITS_TOLD_ELSEWHERE),
    routing: {
      default_upstreams: formatUpstreams(config.routing.default_upstreams),
      attempts: config.routing.attempts,
    },
    models: modelTraits(config, other.config),
  };
  return relativePaths(settings, directory) as Record<string, unknown>;
}

/** What follows from another value, where nobody would guess it. */
const FURTHER: Readonly<Record<string, readonly string[]>> = {
  'spend_limits.time_zone': ['days, weeks and months are counted anew: what was spent is forgotten'],
};

/** Every other key of gateway.yaml with another value. */
export function diffSettings(before: Usable, after: Usable): Change[] {
  return compareValues(otherSettings(before, after), otherSettings(after, before)).map(({ path, change }) => ({
    section: 'settings',
    subject: path,
    change,
    ...(path in FURTHER && { details: FURTHER[path]! }),
  }));
}
