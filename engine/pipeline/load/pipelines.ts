import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { StageDefinition } from '../../base/contract/stage.ts';
import { deepFreeze } from '../../base/kit/freeze.ts';
import { PACKAGE_ROOT } from '../../base/kit/package-root.ts';
import { type ConditionChecker, createConditionChecker } from '../../base/rules/check.ts';
import {
  childOf,
  entryOf,
  itemsOf,
  type MapNode,
  type Mark,
  type Node,
  quote,
  textOf,
} from '../../base/source/node.ts';
import { filesIn } from '../../base/source/read-text.ts';
import { PIPELINE_SCHEMA } from '../../base/source/schemas.ts';
import { readSource } from '../../base/source/source.ts';
import { type NamedRule, type PipelineSpec, positionOf } from '../../base/source/spec.ts';
import { validate } from '../../base/source/validate.ts';
import { allowWarnings } from './annotations.ts';
import {
  applyExtensions,
  checkAllPipelines,
  isExtension,
  type PipelineSource,
  STAGE_LISTS,
  type StageList,
  splitPipelines,
  withAllPipelines,
} from './compose.ts';
import { checkFlow } from './flow.ts';
import { createFragmentLibrary, expand } from './fragments.ts';
import { placeOf, repeated, reportRepeated, textsAt } from './link/link-keys.ts';
import { type LinkContext, type LinkedStage, linkStages } from './link/link-stages.ts';
import { lintCopies, lintGuards, lintPipeline, lintProtocols } from './lints.ts';
import { isName } from './stage-definition.ts';

/** Directory of the pipelines that ship with the gateway. */
export const SHIPPED_PIPELINES = join(PACKAGE_ROOT, 'pipelines');

export interface PipelineContext extends Omit<LinkContext, 'conditions'> {
  /** Directory of the shipped pipelines and fragments. */
  readonly shipped: string;
  readonly shared_conditions?: ConditionChecker | undefined;
  readonly all_pipelines?: Node | undefined;
  /** Directory of the operator's pipelines and fragments. */
  readonly own?: string | undefined;
}

/** The pipeline files in a directory, sorted; empty when it does not exist. */
export function pipelineFiles(directory: string): string[] {
  if (!existsSync(directory) || !statSync(directory).isDirectory()) return [];
  return filesIn(directory);
}

function readPipelines(directory: string | undefined, { findings }: PipelineContext) {
  const files = (directory === undefined ? [] : pipelineFiles(directory)).flatMap((file) => {
    const root = readSource(file, findings);
    return root === undefined ? [] : [{ file, root }];
  });
  const sources = files.filter(({ root }) => !isExtension(root));
  return {
    sources: sources.flatMap(({ file, root }) => splitPipelines(file, root, findings)),
    extensions: files.filter(({ root }) => isExtension(root)),
  };
}

/** The pipelines of one file. Its `extends` applies to the shipped ones. */
export function pipelinesOf(file: string, context: PipelineContext): readonly PipelineSource[] {
  const { findings } = context;
  const root = readSource(file, findings);
  if (root === undefined) return [];
  if (!isExtension(root)) return splitPipelines(file, root, findings);
  const sources = readPipelines(context.shipped, context).sources;
  return applyExtensions(sources, [{ file, root }], findings).filter((source) => source.file === file);
}

/** Compiles the shipped and the operator's pipelines. The operator's replace shipped ones of the same name. */
export function loadPipelines(directory: string | undefined, surroundings: PipelineContext): readonly PipelineSpec[] {
  const context = { ...surroundings, own: directory };
  const { findings } = context;
  const own = readPipelines(directory, context);
  const replaced = new Set(own.sources.flatMap(({ name, family }) => [name, family]));
  const shipped = directory === context.shipped ? [] : readPipelines(context.shipped, context).sources;
  const kept = shipped.filter(
    ({ name, family }) => !replaced.has(name) && (family === undefined || !replaced.has(family)),
  );
  // A replacement of one pipeline of a family stays in the family.
  const families = new Map(shipped.map(({ name, family }) => [name, family]));
  const replacing = own.sources.map((source) => ({ family: families.get(source.name), ...source }));
  const sources = applyExtensions([...kept, ...replacing], own.extensions, findings);
  reportRepeated(
    'pipelines',
    sources.flatMap(({ root }) => textsAt(root, 'pipeline')),
    findings,
  );
  reportClaims(sources, context);
  checkAllPipelines(context.all_pipelines, sources, findings);
  const compiled = sources.flatMap((source) => {
    const spec = compilePipeline(source, context);
    return spec === undefined ? [] : [{ source, spec }];
  });
  lintCopies(compiled, shipped, findings);
  lintGuards(compiled, context.shipped, findings);
  return compiled.map(({ spec }) => spec);
}

/** Reports methods and paths that two pipelines serve, at the later one; at the operator's, if the other is shipped. */
function reportClaims(files: readonly PipelineSource[], context: PipelineContext): void {
  const claims = new Map<string, PipelineSource>();
  for (const pipeline of files) {
    // Invalid names are reported elsewhere; such a pipeline was probably meant to replace another.
    if (pipeline.name === undefined || !isName(pipeline.name)) continue;
    const match = childOf(pipeline.root, 'match');
    const methods = itemsOf(childOf(match, 'methods')).flatMap((method) => textOf(method) ?? []);
    for (const path of itemsOf(childOf(match, 'paths'))) {
      const taken = methods.filter((method) => {
        const other = claims.get(`${method} ${textOf(path)}`);
        return other !== undefined && other !== pipeline;
      });
      const other = claims.get(`${taken[0]} ${textOf(path)}`);
      for (const method of methods) claims.set(`${method} ${textOf(path)}`, pipeline);
      // Pipelines with the same name are reported as such.
      if (other === undefined || other.name === pipeline.name) continue;
      const shipped = dirname(other.file) === context.shipped;
      const served = `${taken.join(', ')} ${textOf(path) ?? ''}`;
      const message = `the pipeline ${quote(other.name ?? other.file)} already serves ${served}`;
      const help = shipped
        ? `to change that pipeline, write an extension (\`extends: ${other.name}\`); to replace it, write \`pipeline: ${other.name}\``
        : 'remove the path from one of the two';
      context.findings.report('C4007', path.mark, message, { help });
    }
  }
}

/** Compiles one pipeline; `undefined` when a part of it could not be resolved. */
export function compilePipeline(pipeline: PipelineSource, surroundings: PipelineContext): PipelineSpec | undefined {
  const { findings } = surroundings;
  const { file, root: source } = pipeline;
  const directories = [
    dirname(file),
    ...(surroundings.own === undefined ? [] : [surroundings.own]),
    surroundings.shipped,
  ];
  const library = createFragmentLibrary([...new Set(directories)], findings);
  // Validated before and after expansion: only before, there are entries with `use`; only after, stages of fragments.
  const { stages } = surroundings.stages;
  const given_form = validate(PIPELINE_SCHEMA, source, dirname(file), findings);
  const { root: own, complete } = expand(given_form.node as MapNode, library, findings);
  const edited = withAllPipelines(own, surroundings.all_pipelines, pipeline, sendsUpstream(own, stages), findings);
  const { root: expanded } = complete ? expand(edited, library, findings) : { root: edited };
  const validated = validate(PIPELINE_SCHEMA, expanded, dirname(file), findings);
  const root = validated.node as MapNode;
  const { shared_conditions: shared } = surroundings;
  const conditions = createConditionChecker(childOf(root, 'rules'), findings, shared, {
    knows_stages: surroundings.stages.complete,
  });
  const context = { ...surroundings, conditions };
  const before = findings.errors();
  const lists = {
    stages: linkStages(root, 'stages', context),
    on_error: linkStages(root, 'on_error', context),
    finally: linkStages(root, 'finally', context),
  };
  const is_valid = complete && given_form.ok && validated.ok;
  if (is_valid) conditions.reportUnused();
  reportSameIds(lists, context);
  const resolved = STAGE_LISTS.every((list) => lists[list].length === itemsOf(childOf(root, list)).length);
  if (!is_valid || !resolved) return undefined;
  // After other errors, such as a stage in the wrong list, these checks would report the same mistake again.
  if (findings.errors() === before) {
    const stages_mark = entryOf(root, 'stages')?.key_mark ?? root.mark;
    const linked = { ...lists, stages_mark, removed: pipeline.removed ?? new Map() };
    checkFlow(linked, surroundings.stages.stages, findings);
    const { match } = validated.value as RawPipeline;
    const isShared = (mark: Mark) => mark.chain !== undefined || mark.file !== file || pipeline.family !== undefined;
    lintPipeline(linked, match, isShared, surroundings.config, findings);
    lintProtocols(linked, match.protocol, surroundings.config, findings);
  }
  const extended = itemsOf(childOf(root, 'stages')).map(({ mark }) => mark.chain?.[0]?.file ?? mark.file);
  allowWarnings(root, findings, pipeline.extended ? extended : []);
  const rules = conditions.named().map(({ name, logic, mark }) => ({ name, logic, position: positionOf(mark) }));
  return shapePipeline(validated.value as RawPipeline, file, lists, rules);
}

/** The pipeline name of requests that match no pipeline: sign-ins, the admin API, unknown paths. */
const OTHER_REQUESTS = 'other-requests';

/** The `finally` stages of `all_pipelines`, for requests that match no pipeline; `undefined` without any. */
export function compileOtherRequests(surroundings: PipelineContext): PipelineSpec | undefined {
  const { findings, all_pipelines, shared_conditions: conditions } = surroundings;
  const written = childOf(all_pipelines, 'finally');
  if (written === undefined || conditions === undefined) return undefined;
  const directories = [...(surroundings.own === undefined ? [] : [surroundings.own]), surroundings.shipped];
  const { mark } = written;
  const given_root: MapNode = { kind: 'map', mark, entries: [{ key: 'finally', key_mark: mark, value: written }] };
  const { root } = expand(given_root, createFragmentLibrary(directories, findings), findings);
  const last = linkStages(root, 'finally', { ...surroundings, conditions });
  const raw = {
    pipeline: OTHER_REQUESTS,
    version: 1,
    summary: 'Requests that no pipeline serves.',
    match: { methods: [], paths: [], protocol: 'none' as const },
    limits: {},
  };
  return shapePipeline(raw, mark.file, { stages: [], on_error: [], finally: last }, []);
}

function sendsUpstream(root: MapNode, stages: ReadonlyMap<string, StageDefinition>): boolean {
  return itemsOf(childOf(root, 'stages')).some((item) => {
    const definition = stages.get(textOf(childOf(item, 'stage')) ?? '');
    return definition?.terminal === true && definition.needs.includes('network');
  });
}

function reportSameIds(
  lists: Readonly<Record<StageList, readonly LinkedStage[]>>,
  { findings, shipped }: PipelineContext,
): void {
  // A misplaced stage is reported as such, and often exists in the right list, too.
  const stages = STAGE_LISTS.flatMap((list) =>
    lists[list].filter(({ entry }) => list === 'on_error' || entry.definition.place === list),
  );
  for (const [later, first] of repeated(stages, (stage) => stage.entry.id)) {
    // Report the operator's entry, not that of the shipped pipeline.
    const is_theirs = dirname(later.mark.file) === shipped && dirname(first.mark.file) !== shipped;
    const [{ entry, mark }, other] = is_theirs ? [first, later] : [later, first];
    const remedy =
      entry.id === entry.definition.name ? `add \`id: ${entry.id}-2\` to this one` : `change its id to ${entry.id}-2`;
    findings.report('C4005', mark, `there are two stages with the id ${quote(entry.id)}`, {
      help: `the other is ${placeOf(other.mark, mark)}; ${remedy}`,
    });
  }
}

type RawPipeline = Pick<PipelineSpec, 'version' | 'summary' | 'match' | 'limits'> & { readonly pipeline: string };

function shapePipeline(
  raw: RawPipeline,
  file: string,
  lists: Readonly<Record<StageList, readonly LinkedStage[]>>,
  rules: readonly NamedRule[],
): PipelineSpec {
  const { pipeline: name, version, summary, match, limits } = raw;
  const entriesIn = (list: StageList) => lists[list].map(({ entry }) => entry);
  const entries = { stages: entriesIn('stages'), on_error: entriesIn('on_error'), finally: entriesIn('finally') };
  return deepFreeze({ name, version, summary, file, match, limits, rules, ...entries });
}
