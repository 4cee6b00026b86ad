import { dirname } from 'node:path';
import type { StageDefinition } from '../api.ts';
import type { GatewayConfig } from '../config.ts';
import { didYouMean, listed } from '../diagnostics/suggest.ts';
import { ERRORS, type ErrorCode } from '../errors.ts';
import type { FactRead } from '../rules/check.ts';
import { type AnnotationContext, checkAnnotations } from './annotations.ts';
import type { StageSet } from './custom-stages.ts';
import { quote } from './describe.ts';
import { deepFreeze } from './freeze.ts';
import { childOf, itemsOf, type MapNode, type Mark, type Node, textOf } from './node.ts';
import { type ErrorClause, placeOf, type StageEntry } from './spec.ts';
import { validate } from './validate.ts';

/** A stage entry with what the flow check needs beyond the plan. */
export interface LinkedStage {
  readonly entry: ErrorClause;
  readonly mark: Mark;
  /** Facts its guard reads. */
  readonly guard_reads: readonly FactRead[];
}

/** What linking a pipeline needs to know. */
export interface LinkContext extends AnnotationContext {
  readonly stages: StageSet;
  /** Absent when gateway.yaml has errors; stages' own checks are then left out. */
  readonly config: GatewayConfig | undefined;
}

type List = 'stages' | 'on_error' | 'finally';

const NO_OPTIONS = (mark: Mark): MapNode => ({ kind: 'map', entries: [], mark });

/** Resolves the stage entries of one list of a pipeline; entries that cannot be resolved are reported and left out. */
export function linkStages(pipeline: MapNode, list: List, context: LinkContext): readonly LinkedStage[] {
  return itemsOf(childOf(pipeline, list)).flatMap((item, index) => linkStage(item, list, index, context) ?? []);
}

function linkStage(item: Node, list: List, index: number, context: LinkContext): LinkedStage | undefined {
  const name = childOf(item, 'stage');
  const definition = name === undefined ? undefined : findStage(name, context);
  const guard = childOf(item, 'when');
  const condition = guard === undefined ? undefined : context.conditions.check(guard);
  const errors = errorCodes(childOf(item, 'errors'), context);
  if (definition === undefined || name === undefined) return undefined;
  checkPlace(definition, name, list, context);
  const written = childOf(item, 'options');
  if (written !== undefined && written.kind !== 'map') return undefined;
  const options = linkOptions(definition, written ?? NO_OPTIONS(name.mark), name, context);
  if (guard !== undefined && condition === undefined) return undefined;
  const timeout = scalarOf(childOf(item, 'timeout_seconds'));
  const entry: StageEntry = {
    id: textOf(childOf(item, 'id')) ?? (list === 'on_error' ? `on-error-${index + 1}` : definition.name),
    definition,
    options,
    ...(condition === undefined ? {} : { when: deepFreeze(condition.logic), when_place: placeOf(guard!.mark) }),
    mode: textOf(childOf(item, 'mode')) === 'shadow' ? 'shadow' : 'enforce',
    fail_closed: scalarOf(childOf(item, 'fail_closed')) !== false,
    ...(typeof timeout === 'number' ? { timeout_seconds: timeout } : {}),
    place: placeOf(name.mark),
    ...(name.mark.chain === undefined ? {} : { chain: name.mark.chain }),
  };
  return {
    entry: errors === undefined ? entry : { ...entry, errors },
    mark: name.mark,
    guard_reads: condition?.reads ?? [],
  };
}

function scalarOf(node: Node | undefined): unknown {
  return node?.kind === 'scalar' ? node.value : undefined;
}

function findStage(node: Node, { stages, findings }: LinkContext): StageDefinition | undefined {
  const name = textOf(node);
  if (name === undefined) return undefined;
  const definition = stages.stages.get(name);
  if (definition !== undefined) return definition;
  const known = [...stages.stages.keys()];
  const help = didYouMean(name, known);
  if (!stages.complete && help === undefined) return undefined;
  findings.report('C4001', node.mark, `there is no stage ${quote(name)}`, {
    help: help ?? `stages: ${listed(known.toSorted(), 20)}`,
  });
  return undefined;
}

function errorCodes(node: Node | undefined, { findings }: LinkContext): readonly ErrorCode[] | undefined {
  if (node?.kind !== 'list') return undefined;
  const known = Object.keys(ERRORS);
  return node.items.flatMap((item) => {
    const code = textOf(item);
    if (code === undefined || known.includes(code)) return (code as ErrorCode | undefined) ?? [];
    findings.report('C4003', item.mark, `there is no error code ${quote(code)}`, {
      help: didYouMean(code, known) ?? `error codes: ${listed(known, 40)}`,
    });
    return [];
  });
}

function checkPlace(definition: StageDefinition, name: Node, list: List, { findings }: LinkContext): void {
  const stage = quote(definition.name);
  if (list === 'on_error') {
    if (definition.terminal) return;
    findings.report('C4016', name.mark, `the stage ${stage} cannot answer an error`, { help: 'use the stage fail' });
  } else if (definition.place !== list) {
    findings.report('C4008', name.mark, `the stage ${stage} does not belong under \`${list}\``, {
      help: `move it to \`${definition.place}:\``,
    });
  }
}

function linkOptions(definition: StageDefinition, node: MapNode, name: Node, context: LinkContext): unknown {
  const { findings, config } = context;
  const before = findings.errors();
  const validated = validate(definition.options, node, dirname(name.mark.file), findings);
  checkAnnotations(node, validated, context);
  const options = deepFreeze(validated.value);
  if (findings.errors() > before || config === undefined) return options;
  for (const problem of ownProblems(definition, options, config)) {
    findings.report('C4002', name.mark, problem.replace(/\.$/, ''));
  }
  return options;
}

function ownProblems(definition: StageDefinition, options: unknown, config: GatewayConfig): readonly string[] {
  try {
    return definition.check?.(options as never, config) ?? [];
  } catch (error) {
    return [`the check of the stage ${quote(definition.name)} failed: ${(error as Error).message}`];
  }
}
