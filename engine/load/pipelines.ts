import { existsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { deepFreeze } from '../kit/freeze.ts';
import { PACKAGE_ROOT } from '../kit/package-root.ts';
import { createConditionChecker } from '../rules/check.ts';
import { quote } from '../source/describe.ts';
import { filesIn } from '../source/find-files.ts';
import { childOf, entriesOf, itemsOf, type MapNode, textOf } from '../source/node.ts';
import { readSource } from '../source/read-source.ts';
import { PIPELINE_SCHEMA } from '../source/schemas.ts';
import { type NamedRule, type PipelineSpec, positionOf } from '../source/spec.ts';
import { validate } from '../source/validate.ts';
import { allowWarnings } from './allow.ts';
import { expand } from './expand.ts';
import { checkFlow } from './flow.ts';
import { createFragmentLibrary } from './fragments.ts';
import { type LinkContext, type LinkedStage, linkStages } from './link/link-stages.ts';
import { lintProtocols } from './lint/lint-protocols.ts';
import { lintPipeline } from './lint/lints.ts';
import { nestOptions } from './misplaced-options.ts';
import { repeated } from './repeated.ts';
import { isName } from './stage-definition.ts';

/** Directory of the pipelines that ship with the gateway. */
export const SHIPPED_PIPELINES = join(PACKAGE_ROOT, 'pipelines');

type StageList = 'stages' | 'on_error' | 'finally';

/** What compiling pipelines needs to know. */
export interface PipelineContext extends Omit<LinkContext, 'conditions'> {
  /** Directory of the shipped pipelines and fragments. */
  readonly shipped: string;
}

interface PipelineFile {
  readonly file: string;
  readonly root: MapNode;
  readonly name: string | undefined;
}

/** The files of a directory that are read as pipelines or fragments, sorted; none when there is no such directory. */
export function pipelineFiles(directory: string): string[] {
  if (!existsSync(directory) || !statSync(directory).isDirectory()) return [];
  return filesIn(directory);
}

function readPipelines(directory: string, { findings }: PipelineContext): PipelineFile[] {
  return pipelineFiles(directory).flatMap((file) => {
    const root = readSource(file, findings);
    return root === undefined ? [] : [{ file, root, name: textOf(childOf(root, 'pipeline')) }];
  });
}

/** Compiles the shipped pipelines and the operator's, which replace shipped ones of the same name. */
export function loadPipelines(directory: string | undefined, context: PipelineContext): readonly PipelineSpec[] {
  const own = directory === undefined ? [] : readPipelines(directory, context);
  const replaced = new Set(own.map(({ name }) => name));
  const shipped = directory === context.shipped ? [] : readPipelines(context.shipped, context);
  const files = [...shipped.filter(({ name }) => !replaced.has(name)), ...own];
  reportTwins(own, context);
  reportClaims(files, context);
  return files.flatMap(({ file, root }) => compilePipeline(file, root, context) ?? []);
}

function reportTwins(files: readonly PipelineFile[], { findings }: PipelineContext): void {
  for (const [{ root, name }, first] of repeated(files, (file) => file.name)) {
    const { mark } = childOf(root, 'pipeline')!;
    findings.report('C4005', mark, `there are two pipelines named ${quote(name!)}`, {
      help: `the other is ${first.file}`,
    });
  }
}

/** Reports methods and paths that two pipelines serve, at the later of the two: the operator's, if one is shipped. */
function reportClaims(files: readonly PipelineFile[], context: PipelineContext): void {
  const claims = new Map<string, PipelineFile>();
  for (const pipeline of files) {
    // Without a name, which is reported elsewhere, it cannot replace the pipeline it was meant to.
    if (pipeline.name === undefined || !isName(pipeline.name)) continue;
    const match = childOf(pipeline.root, 'match');
    const methods = itemsOf(childOf(match, 'methods')).flatMap((method) => textOf(method) ?? []);
    for (const path of itemsOf(childOf(match, 'paths'))) {
      const taken = methods.filter((method) => {
        const other = claims.get(`${method} ${textOf(path)}`);
        return other !== undefined && other.file !== pipeline.file;
      });
      const other = claims.get(`${taken[0]} ${textOf(path)}`);
      for (const method of methods) claims.set(`${method} ${textOf(path)}`, pipeline);
      // Two pipelines of one name are one mistake, reported as such.
      if (other === undefined || other.name === pipeline.name) continue;
      const shipped = dirname(other.file) === context.shipped;
      context.findings.report(
        'C4007',
        path.mark,
        `the pipeline ${quote(other.name ?? other.file)} already serves ${taken.join(', ')} ${textOf(path) ?? ''}`,
        { help: shipped ? `to replace it, write \`pipeline: ${other.name}\`` : 'remove the path from one of the two' },
      );
    }
  }
}

/** Compiles one pipeline file; `undefined` when a part of it could not be resolved. */
export function compilePipeline(file: string, source: MapNode, given: PipelineContext): PipelineSpec | undefined {
  const { findings } = given;
  const library = createFragmentLibrary([dirname(file), given.shipped], findings);
  // Entries with `use` are gone after expansion, and what fragments bring was not there before.
  const { stages } = given.stages;
  const given_form = validate(PIPELINE_SCHEMA, nestOptions(source, stages, findings), dirname(file), findings);
  const { root: expanded, complete } = expand(given_form.node as MapNode, library, findings);
  const validated = validate(PIPELINE_SCHEMA, nestOptions(expanded, stages, findings), dirname(file), findings);
  const root = validated.node as MapNode;
  const conditions = createConditionChecker(childOf(root, 'rules'), findings);
  const context = { ...given, conditions };
  const before = findings.errors();
  const lists = {
    stages: linkStages(root, 'stages', context),
    on_error: linkStages(root, 'on_error', context),
    finally: linkStages(root, 'finally', context),
  };
  const is_valid = complete && given_form.ok && validated.ok;
  if (is_valid) conditions.reportUnused();
  reportSameIds(lists, context);
  const resolved = (['stages', 'on_error', 'finally'] as const).every(
    (list) => lists[list].length === itemsOf(childOf(root, list)).length,
  );
  if (!is_valid || !resolved) return undefined;
  // A stage in the wrong list would only be reported again, in other words.
  if (findings.errors() === before) {
    const stages_mark = entriesOf(root).find(({ key }) => key === 'stages')?.key_mark ?? root.mark;
    const item_marks = itemsOf(childOf(source, 'stages')).map(
      (item) => (childOf(item, 'stage') ?? childOf(item, 'use') ?? item).mark,
    );
    const linked = { ...lists, stages_mark, item_marks };
    checkFlow(linked, given.stages.stages, findings);
    const { match } = validated.value as RawPipeline;
    lintPipeline(linked, match, findings);
    lintProtocols(linked, match.protocol, given.config, findings);
  }
  allowWarnings(root, findings);
  const rules = conditions.named().map(({ name, logic, mark }) => ({ name, logic, position: positionOf(mark) }));
  return shapePipeline(validated.value as RawPipeline, file, lists, rules);
}

function reportSameIds(
  lists: Readonly<Record<StageList, readonly LinkedStage[]>>,
  { findings }: PipelineContext,
): void {
  // A stage in the wrong list is reported as such, and most often the right list has it, too.
  const stages = (['stages', 'on_error', 'finally'] as const).flatMap((list) =>
    lists[list].filter(({ entry }) => list === 'on_error' || entry.definition.place === list),
  );
  for (const [{ entry, mark }, first] of repeated(stages, (stage) => stage.entry.id)) {
    findings.report('C4006', mark, `there are two stages with the id ${quote(entry.id)}`, {
      help: `the first one is in line ${first.mark.line}; give this one an id: id: ${entry.id}-2`,
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
  return deepFreeze({
    name,
    version,
    summary,
    file,
    match,
    limits,
    rules,
    stages: lists.stages.map(({ entry }) => entry),
    on_error: lists.on_error.map(({ entry }) => entry),
    finally: lists.finally.map(({ entry }) => entry),
  });
}
