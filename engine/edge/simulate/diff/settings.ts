import { basename } from 'node:path';
import type { GatewayConfig, UpstreamConfig } from '../../../base/contract/config.ts';
import { formatUpstreams } from '../../../base/rules/config-rules.ts';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import type { ErrorClause, PipelineSpec, StageEntry } from '../../../base/source/spec.ts';
import { ownBoundary, ownPool } from '../../../pipeline/load/config-shape.ts';
import { type Change, compareNames, compareValues, diffByName, isSame, relativePaths, type Usable } from './change.ts';

/** An upstream without the defaults that follow from its other keys. */
function asWritten({ cache_pool, state_boundary, ...upstream }: UpstreamConfig, directory: string) {
  return {
    ...(relativePaths(upstream, directory) as typeof upstream),
    ...(cache_pool !== ownPool(upstream) && { cache_pool }),
    ...(state_boundary !== ownBoundary(upstream, directory) && { state_boundary }),
  };
}

/** Added, removed and changed upstreams. */
export function diffUpstreams(before: Usable, after: Usable): Change[] {
  const byName = ({ config, directory }: Usable) =>
    new Map(config.upstreams.map((each) => [each.name, asWritten(each, directory)]));
  return diffByName('upstreams', [byName(before), byName(after)], {
    gone: () => 'is gone',
    added: ({ base_url }) => `is new, at ${base_url}`,
    changed: (old, now) => compareValues(old, now).map(({ path, change }) => `${path} ${change}`),
  });
}

const IN_OTHER_SECTIONS = new Set([
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
const LIMITS_IN_OTHER_SECTIONS = new Set(['defaults', 'rules']);

function withoutKeys(value: object, keys: ReadonlySet<string>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([key]) => !keys.has(key)));
}

/** Names and capabilities of the models in both configurations. */
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
  } = withoutKeys(config, IN_OTHER_SECTIONS) as unknown as GatewayConfig;
  const settings = {
    ...rest,
    // The default time zone is UTC.
    spend_limits: withoutKeys(spend_limits ?? { time_zone: 'UTC' }, LIMITS_IN_OTHER_SECTIONS),
    routing: {
      default_upstreams: formatUpstreams(config.routing.default_upstreams),
      attempts: config.routing.attempts,
    },
    models: modelTraits(config, other.config),
  };
  return relativePaths(settings, directory) as Record<string, unknown>;
}

/** Unexpected consequences of a change. */
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

const LISTS = ['stages', 'on_error', 'finally'] as const;

function formatGuard(entry: StageEntry): string {
  return entry.when === undefined ? 'always' : `when ${formatCondition(entry.when)}`;
}

/** An entry with its position, often in another file than its pipeline. */
function formatEntry({ id, position: { file, line } }: StageEntry): string {
  return `${id} (${basename(file)}:${line})`;
}

function traitsOf(entry: StageEntry | ErrorClause): object {
  const { definition, options, mode, fail_closed, timeout_seconds } = entry;
  return {
    stage: `${definition.name}@${definition.version}`,
    runs: formatGuard(entry),
    answers: 'errors' in entry ? (entry.errors?.join(', ') ?? 'every error') : undefined,
    ...{ options, mode, fail_closed, timeout_seconds },
  };
}

function listChanges(list: (typeof LISTS)[number], before: PipelineSpec, after: PipelineSpec): string[] {
  const old_entries = new Map(before[list].map((entry) => [entry.id, entry]));
  const new_entries = new Map(after[list].map((entry) => [entry.id, entry]));
  const { kept, lost, gained } = compareNames(old_entries.keys(), new_entries.keys());
  const where = list === 'stages' ? '' : ` (${list})`;
  const place = (id: string) => {
    const index = after[list].findIndex((entry) => entry.id === id);
    const next = after[list][index + 1];
    return next === undefined ? 'at the end' : `before ${next.id}`;
  };
  const order = [...new_entries.keys()].filter((id) => old_entries.has(id));
  return [
    ...lost.map((id) => `${id} is gone${where}`),
    ...gained.map((id) => {
      const entry = new_entries.get(id)!;
      return `${formatEntry(entry)} is new, ${place(id)}, runs ${formatGuard(entry)}${where}`;
    }),
    ...(isSame(kept, order) ? [] : [`the order is now ${order.join(', ')}${where}`]),
    ...kept.flatMap((id) => {
      const [old_entry, entry] = [old_entries.get(id)!, new_entries.get(id)!];
      const changes = compareValues(traitsOf(old_entry), traitsOf(entry));
      return changes.map(({ path, change }) => `${formatEntry(entry)} ${path}: ${change}`);
    }),
  ];
}

function pipelinesOf({ pipelines, directory }: Usable): PipelineSpec[] {
  const copy = <Entry extends StageEntry>(entry: Entry): Entry => ({
    ...entry,
    options: relativePaths(entry.options, directory),
  });
  return pipelines.map((spec) => ({
    ...spec,
    stages: spec.stages.map(copy),
    on_error: spec.on_error.map(copy),
    finally: spec.finally.map(copy),
  }));
}

function servedBy({ match }: PipelineSpec): string {
  return `${match.methods.join(', ')} ${match.paths.join(', ')}`;
}

function fateOfRequests({ match }: PipelineSpec, after: readonly PipelineSpec[]): string {
  const requests = match.methods.flatMap((method) => match.paths.map((path) => ({ method, path })));
  const by_heir = Map.groupBy(
    requests,
    ({ method, path }) =>
      after.find((spec) => spec.match.methods.includes(method) && spec.match.paths.includes(path))?.name,
  );
  return [...by_heir]
    .map(([heir, own]) => {
      const which = own.map(({ method, path }) => `${method} ${path}`).join(', ');
      const verb = own.length === 1 ? 'is' : 'are';
      return `${which} ${verb} ${heir === undefined ? 'no longer served' : `served by ${heir}`}`;
    })
    .join('; ');
}

/** Added, removed and changed pipelines. */
export function diffPipelines(before: Usable, after: Usable): Change[] {
  const byName = (side: Usable) => new Map(pipelinesOf(side).map((spec) => [spec.name, spec]));
  return diffByName('pipelines', [byName(before), byName(after)], {
    gone: (spec) => `is gone: ${fateOfRequests(spec, after.pipelines)}`,
    added: (spec) => `is new: serves ${servedBy(spec)}`,
    changed: (old, now) => [
      ...(isSame(old.match, now.match) ? [] : [`serves ${servedBy(now)}; before: ${servedBy(old)}`]),
      ...compareValues(old.limits, now.limits).map(({ path, change }) => `limits.${path} ${change}`),
      ...LISTS.flatMap((list) => listChanges(list, old, now)),
    ],
  });
}
