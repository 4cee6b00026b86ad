import { dirname } from 'node:path';
import type { GatewayConfig } from '../../../base/contract/config.ts';
import { ERRORS, type ErrorCode } from '../../../base/contract/errors.ts';
import type { StageDefinition } from '../../../base/contract/stage.ts';
import { deepFreeze } from '../../../base/kit/freeze.ts';
import { didYouMean, listed } from '../../../base/kit/text/suggest.ts';
import type { FactRead } from '../../../base/rules/check.ts';
import {
  childOf,
  entriesOf,
  itemsOf,
  type MapNode,
  type Mark,
  type Node,
  quote,
  textOf,
} from '../../../base/source/node.ts';
import { PIPELINE_SCHEMA } from '../../../base/source/schemas.ts';
import { type ErrorClause, positionOf, type StageEntry } from '../../../base/source/spec.ts';
import { validate } from '../../../base/source/validate.ts';
import { type AnnotationContext, checkAnnotations } from '../annotations.ts';
import type { StageSet } from '../stage-modules.ts';

export interface LinkedStage {
  readonly entry: ErrorClause;
  readonly mark: Mark;
  /** `undefined` when the guard has findings already. */
  readonly guard_mark: Mark | undefined;
  readonly guard_reads: readonly FactRead[];
  readonly error_marks: ReadonlyMap<ErrorCode, Mark>;
}

export interface LinkContext extends AnnotationContext {
  readonly stages: StageSet;
  /** Absent when gateway.yaml has errors; the `check` functions of stages are then skipped. */
  readonly config: GatewayConfig | undefined;
}

const OWN_STAGE_SECONDS = 10;

type List = 'stages' | 'on_error' | 'finally';

const NO_OPTIONS = (mark: Mark): MapNode => ({ kind: 'map', entries: [], mark });

/** Resolves the stage entries of one list of a pipeline. Reports and skips entries that cannot be resolved. */
export function linkStages(pipeline: MapNode, list: List, context: LinkContext): readonly LinkedStage[] {
  return itemsOf(childOf(pipeline, list)).flatMap((item, index) => linkStage(item, list, index, context) ?? []);
}

const { stages: stage_entries, on_error: clauses } = PIPELINE_SCHEMA.properties as {
  readonly [list: string]: { readonly items: { readonly properties: object } };
};
const OWN_KEYS = new Set([stage_entries!, clauses!].flatMap(({ items }) => Object.keys(items.properties)));

function linkStage(item: Node, list: List, index: number, context: LinkContext): LinkedStage | undefined {
  // Validation has reported unknown keys. Options beside `stage` would seem to be missing, and conditions beside an empty `when`.
  const misplaced = entriesOf(item).filter(({ key }) => !OWN_KEYS.has(key));
  const name = childOf(item, 'stage');
  const definition = name === undefined ? undefined : findStage(name, context);
  const guard = childOf(item, 'when');
  const is_beside = misplaced.length > 0 && guard?.kind === 'scalar' && guard.value === null;
  const condition = guard === undefined || is_beside ? undefined : context.conditions.check(guard);
  const errors = errorCodes(childOf(item, 'errors'), context);
  if (definition === undefined || name === undefined) return undefined;
  // Findings about the options of a misplaced stage would only distract.
  if (!checkList(definition, name, list, context)) return undefined;
  const written = childOf(item, 'options');
  if (written !== undefined && written.kind !== 'map') return undefined;
  const known = Object.keys(definition.options.properties ?? {});
  const { entries, mark } = written ?? NO_OPTIONS(name.mark);
  const all = [...entries, ...misplaced.filter(({ key }) => known.includes(key))];
  const options = linkOptions(definition, { kind: 'map', entries: all, mark }, name, context);
  if (guard !== undefined && condition === undefined) return undefined;
  const timeout_seconds = timeLimit(item, definition, context);
  const entry: StageEntry = {
    id: textOf(childOf(item, 'id')) ?? (list === 'on_error' ? `on-error-${index + 1}` : definition.name),
    definition,
    options,
    ...(condition === undefined ? {} : { when: deepFreeze(condition.logic), when_position: positionOf(guard!.mark) }),
    mode: textOf(childOf(item, 'mode')) === 'shadow' ? 'shadow' : 'enforce',
    fail_closed: scalarOf(childOf(item, 'fail_closed')) !== false,
    ...(timeout_seconds === undefined ? {} : { timeout_seconds }),
    position: positionOf(name.mark),
    ...(name.mark.chain === undefined ? {} : { chain: name.mark.chain }),
  };
  return {
    entry: errors === undefined ? entry : { ...entry, errors: [...errors.keys()] },
    mark: name.mark,
    guard_mark: condition?.linted === true ? undefined : guard?.mark,
    guard_reads: condition?.reads ?? [],
    error_marks: errors ?? new Map(),
  };
}

/** Shipped stages bound their waits themselves; operators' stages get a default timeout. */
function timeLimit(item: Node, definition: StageDefinition, { stages }: LinkContext): number | undefined {
  const written = scalarOf(childOf(item, 'timeout_seconds'));
  if (typeof written === 'number') return written;
  return definition.timeout_seconds ?? (stages.own.has(definition.name) ? OWN_STAGE_SECONDS : undefined);
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
  const help = name.startsWith('fragments/') ? `write \`use: ${name}\`` : didYouMean(name, known);
  if (!stages.complete && help === undefined) return undefined;
  findings.report('C4001', node.mark, `there is no stage ${quote(name)}`, {
    help: help ?? `stages: ${listed(known.toSorted(), 20)}`,
  });
  return undefined;
}

function errorCodes(node: Node | undefined, { findings }: LinkContext): ReadonlyMap<ErrorCode, Mark> | undefined {
  if (node?.kind !== 'list') return undefined;
  const known = Object.keys(ERRORS);
  const codes = new Map<ErrorCode, Mark>();
  for (const item of node.items) {
    const code = textOf(item);
    if (code === undefined) continue;
    if (known.includes(code)) {
      codes.set(code as ErrorCode, item.mark);
      continue;
    }
    findings.report('C4004', item.mark, `there is no error code ${quote(code)}`, {
      help: didYouMean(code, known) ?? `error codes: ${listed(known, 40)}`,
    });
  }
  return codes;
}

function checkList(definition: StageDefinition, name: Node, list: List, { findings, stages }: LinkContext): boolean {
  if (list === 'on_error' ? definition.terminal : definition.place === list) return true;
  const problem = list === 'on_error' ? 'cannot respond to an error' : `does not belong under \`${list}\``;
  const or = stages.own.has(definition.name) ? `, or write \`place: '${list}'\` in its definition` : '';
  findings.report('C4008', name.mark, `the stage ${quote(definition.name)} ${problem}`, {
    help: list === 'on_error' ? 'use the stage reject or respond' : `move it to \`${definition.place}:\`${or}`,
  });
  return false;
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
    return definition.check?.(options, config) ?? [];
  } catch (error) {
    return [`the \`check\` of the stage ${quote(definition.name)} failed: ${(error as Error).message}`];
  }
}
