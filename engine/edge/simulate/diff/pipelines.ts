import { basename } from 'node:path';
import { formatCondition } from '../../../base/rules/format-condition.ts';
import type { ErrorClause, PipelineSpec, StageEntry } from '../../../base/source/spec.ts';
import { type Change, compareNames, compareValues, diffByName, isSame, relativePaths, type Usable } from './change.ts';

const LISTS = ['stages', 'on_error', 'finally'] as const;

function formatGuard(entry: StageEntry): string {
  return entry.when === undefined ? 'always' : `when ${formatCondition(entry.when)}`;
}

/** An entry with the place it is written at, which is often another file than that of its pipeline. */
function formatEntry({ id, position: { file, line } }: StageEntry): string {
  return `${id} (${basename(file)}:${line})`;
}

/** What an entry is and does, by names for people. */
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

/** What becomes of the requests to a pipeline that is gone. */
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

/** Pipelines that come, go, or treat requests differently. */
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
