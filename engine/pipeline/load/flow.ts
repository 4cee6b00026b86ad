import { basename } from 'node:path';
import { ENGINE_FACTS, type FactPath, INITIAL_FACTS } from '../../base/contract/facts.ts';
import { HEADER_FACTS } from '../../base/contract/own-facts.ts';
import type { Capability, StageDefinition } from '../../base/contract/stage.ts';
import { excludes, implies } from '../../base/rules/guards.ts';
import type { Findings } from '../../base/source/findings.ts';
import { type Mark, quote } from '../../base/source/node.ts';
import type { StageEntry } from '../../base/source/spec.ts';
import type { LinkedStage } from './link/link-stages.ts';

/** The lists of a pipeline whose entries are all resolved. */
export interface LinkedPipeline {
  readonly stages: readonly LinkedStage[];
  readonly on_error: readonly LinkedStage[];
  readonly finally: readonly LinkedStage[];
  /** The `stages` key, for findings about the list as a whole. */
  readonly stages_mark: Mark;
  /** Where `remove` of an extension names the entries of a stage. */
  readonly removed: ReadonlyMap<string, Mark>;
}

const engine_facts: ReadonlySet<FactPath> = new Set(ENGINE_FACTS);
const initial_facts: ReadonlySet<FactPath> = new Set(INITIAL_FACTS);

const writes = ({ entry }: LinkedStage, path: FactPath): boolean => entry.definition.writes.includes(path);
/** Whether the stage runs where its guard allows it. */
export const isEnforced = ({ entry }: LinkedStage): boolean => entry.mode === 'enforce';

/** Whether the stage sends requests to an upstream. */
export const isSender = (stage: LinkedStage): boolean =>
  isEnforced(stage) && stage.entry.definition.terminal && stage.entry.definition.needs.includes('network');

/** Facts that only exist once there is a response, whichever stage writes them. */
const isLate = (path: FactPath): boolean => /^(usage|upstream|outcome)\./.test(path);

/** Facts about the request, which the engine writes before the first stage. */
const isEarly = (path: FactPath): boolean =>
  (engine_facts.has(path) && !/^(outcome|error)\./.test(path)) || path.startsWith(HEADER_FACTS);

/** Checks the order of stages: every request gets a response, and no fact is read before it is written. */
export function checkFlow(
  pipeline: LinkedPipeline,
  all_stages: ReadonlyMap<string, StageDefinition>,
  findings: Findings,
): void {
  checkAnswers(pipeline, findings);
  checkFacts(pipeline, all_stages, findings);
  checkClauses(pipeline, findings);
  checkAudit(pipeline, findings);
  checkOrder(pipeline, findings);
}

function alwaysAnswers({ entry }: LinkedStage): boolean {
  return entry.definition.terminal && entry.when === undefined && entry.mode === 'enforce';
}

function checkAnswers({ stages, stages_mark }: LinkedPipeline, findings: Findings): void {
  for (const { entry, mark } of stages) {
    if (!entry.definition.terminal || entry.fail_closed) continue;
    findings.report('C6008', mark, `${quote(entry.id)} responds, so a request cannot continue without it`, {
      help: 'remove `fail_closed: false`; to respond when it fails, add an `on_error` clause',
    });
  }
  const last = stages.findIndex(alwaysAnswers);
  if (last < 0) {
    // One in a fragment cannot be changed for this pipeline alone.
    const near = stages.findLast(({ entry, mark }) => entry.definition.terminal && mark.chain === undefined);
    findings.report('C6001', near?.mark ?? stages_mark, 'a request may reach the end without a response', {
      expected: 'at the end, a stage without `when` that responds, such as forward or reject',
      help: near && helpToAnswer(near.entry),
    });
    return;
  }
  const unreachable = stages
    .slice(last + 1)
    .filter(isEnforced)
    .find(({ entry: { definition } }) => definition.terminal || definition.raises.length > 0);
  if (unreachable === undefined) return;
  const { id, definition } = stages[last]!.entry;
  const above = quote(id);
  // A terminal stage without an upstream most likely lacks its guard.
  const lacks_guard = !definition.needs.includes('network');
  findings.report('C6002', unreachable.mark, `the stage never runs: ${above} above it always responds`, {
    help: lacks_guard ? `give ${above} a \`when:\`, or move it to the end` : `move it above ${above}`,
  });
}

const helpToAnswer = ({ id, mode }: StageEntry): string =>
  mode === 'shadow'
    ? `${quote(id)} is in shadow mode and never runs: remove \`mode\`, or add a stage below it`
    : `add a stage below ${quote(id)} that always responds, or remove its \`when\``;

/** Names the stage, because the guard may be a named rule elsewhere. */
const guardOf = ({ id }: StageEntry): string => `\`when\` of ${quote(id)}`;

/** Data-flow analysis of facts. A missing or misplaced stage gives one finding, at its first reader. */
function checkFacts(
  pipeline: LinkedPipeline,
  all_stages: ReadonlyMap<string, StageDefinition>,
  findings: Findings,
): void {
  const blamed = new Set<string>();

  function checkGuard({ entry, guard_reads }: LinkedStage, before: readonly LinkedStage[]): void {
    const unknown = guard_reads.filter(({ path }) => !isEarly(path) && (isLate(path) || !before.some(written(path))));
    for (const { path, mark } of unknown) reportMissing(guardOf(entry), [path], mark, isLate(path), quote(entry.id));
    for (const { path, mark } of guard_reads) {
      if (isEarly(path) || unknown.some((read) => read.path === path)) continue;
      checkMaybe('`when`', path, before.filter(written(path)), entry, mark);
    }
  }

  function checkReads(stage: LinkedStage, before: readonly LinkedStage[]): void {
    const needed = stage.entry.definition.reads.filter((path) => !engine_facts.has(path));
    const unknown = needed.filter((path) => !before.some(written(path)));
    reportMissing('the stage', unknown, stage.mark, false);
    for (const path of needed) {
      if (unknown.includes(path)) continue;
      checkMaybe('the stage', path, before.filter(written(path)), stage.entry, stage.mark);
    }
  }

  /** Reports facts that nothing above writes, once for each stage that should. */
  function reportMissing(
    reader: string,
    paths: readonly FactPath[],
    mark: Mark,
    late: boolean,
    what_moves = 'this',
  ): void {
    for (const [writer, theirs] of Map.groupBy(paths, (path) => (late ? undefined : writerOf(path)))) {
      // Report a missing writer once, not at each of its readers.
      const blame = writer ?? `${mark.line}:${mark.column}`;
      if (blamed.has(blame)) continue;
      blamed.add(blame);
      const here = pipeline.stages.filter(({ entry }) => entry.definition.name === writer);
      const stage = here.find(isEnforced) ?? here[0];
      const removed = pipeline.removed.get(writer ?? '');
      if (writer === undefined) {
        const message = `${reader} reads the fact ${theirs[0]}, which is known only after the response`;
        findings.report('C6003', mark, message, { help: '`when` under `finally:` may read it' });
      } else if (stage === undefined && removed !== undefined) {
        findings.report('C6003', removed, `without ${quote(writer)} nothing writes ${theirs.join(', ')}`, {
          found: `needed by ${reader} in ${basename(mark.file)}:${mark.line}`,
          help: 'keep the entry, or also remove what needs it',
        });
      } else {
        const help = stage === undefined ? `add the stage ${quote(writer)} above` : howToReach(stage, what_moves);
        findings.report('C6003', mark, `${reader} reads ${theirs.join(', ')}, which nothing above writes`, { help });
      }
    }
  }

  function howToReach({ entry: { id, mode } }: LinkedStage, what_moves: string): string {
    if (mode === 'shadow') return `${quote(id)} is in shadow mode and never runs: remove \`mode\``;
    return `move ${what_moves} below ${quote(id)}`;
  }

  /** The name of the stage that should write a fact: one of the pipeline, else the first that could. */
  function writerOf(path: FactPath): string | undefined {
    const candidates = [...pipeline.stages.map(({ entry }) => entry.definition), ...all_stages.values()];
    return candidates.find((definition) => definition.writes.includes(path))?.name;
  }

  /** Reports a fact when every stage that writes it may have been left out where it is read. */
  function checkMaybe(
    reader: string,
    path: FactPath,
    writers: readonly LinkedStage[],
    { id, when }: StageEntry,
    mark: Mark,
  ): void {
    if (writers.some(({ entry }) => entry.fail_closed && implies(when, entry.when))) return;
    const { entry } = writers[0]!;
    if (blamed.has(entry.id)) return;
    blamed.add(entry.id);
    const writer = quote(entry.id);
    const same_guard =
      reader === '`when`'
        ? `begin this \`when\` with the same condition: { and: [<\`when\` of ${entry.id}>, ...] }`
        : `give ${quote(id)} the same \`when\``;
    const left_out = entry.fail_closed
      ? `runs only if its \`when\` is true: remove \`when\` of ${writer}, or ${same_guard}`
      : `is skipped when it fails: remove its \`fail_closed: false\`, or make ${quote(id)} work without the fact`;
    findings.report('C6004', mark, `the fact ${path} may be missing`, {
      help: `${writer} writes it, but ${left_out}`,
    });
  }

  function checkRival(stage: LinkedStage, before: readonly LinkedStage[]): void {
    const { definition, when } = stage.entry;
    const rival = before.find(
      (other) =>
        isEnforced(other) && definition.writes.some((path) => writes(other, path)) && !excludes(when, other.entry.when),
    );
    if (rival === undefined) return;
    const path = definition.writes.find((written_twice) => writes(rival, written_twice))!;
    const always = when === undefined || implies(when, rival.entry.when);
    const verb = always ? 'is' : 'may be';
    findings.report('C6005', stage.mark, `the fact ${path} ${verb} already written by ${quote(rival.entry.id)}`, {
      help: 'remove one of the two, or give each a `when` that excludes the other: X and { "!": X }',
    });
  }

  /** Clauses and `finally` stages also run after a failure: only the engine's own facts are certain to exist. */
  function checkHandler(
    stage: LinkedStage,
    before: readonly LinkedStage[],
    isKnown: (path: FactPath) => boolean,
  ): void {
    for (const { path, mark } of stage.guard_reads) {
      if (isKnown(path) && (engine_facts.has(path) || isEarly(path) || before.some(written(path)))) continue;
      reportMissing(guardOf(stage.entry), [path], mark, !isKnown(path), quote(stage.entry.id));
    }
    const unsure = stage.entry.definition.reads.find((path) => !engine_facts.has(path) && !initial_facts.has(path));
    if (unsure === undefined || !isEnforced(stage)) return;
    const message = `the fact ${unsure} may be missing: the request may have failed earlier`;
    findings.report('C6004', stage.mark, message, {
      help: `the stage ${quote(stage.entry.definition.name)} must declare it in \`readsIfSet\``,
    });
  }

  const { stages, on_error, finally: last } = pipeline;
  stages.forEach((stage, index) => {
    // After a guarded terminal stage has run, no later stage runs: what it writes never reaches one.
    const before = stages
      .slice(0, index)
      .filter((earlier) => !earlier.entry.definition.terminal || alwaysAnswers(earlier));
    checkGuard(stage, before);
    if (!isEnforced(stage)) return;
    checkReads(stage, before);
    checkRival(stage, before);
  });
  for (const stage of on_error) checkHandler(stage, stages, (path) => !/^(outcome|usage)\./.test(path));
  last.forEach((stage, index) => {
    checkHandler(stage, [...stages, ...last.slice(0, index)], () => true);
    if (isEnforced(stage)) checkRival(stage, [...stages, ...last.slice(0, index)]);
  });
}

function written(path: FactPath): (stage: LinkedStage) => boolean {
  return (stage) => isEnforced(stage) && writes(stage, path);
}

function checkClauses({ on_error }: LinkedPipeline, findings: Findings): void {
  const handled = new Set<string>();
  for (const { entry, mark } of on_error) {
    const codes = entry.errors ?? ['*'];
    if (handled.has('*') || codes.every((code) => handled.has(code))) {
      findings.report('W7014', mark, 'the clause is never reached: an earlier clause handles the same errors', {
        help: 'move it above the earlier clause, or remove it',
      });
    }
    if (entry.when === undefined && entry.mode === 'enforce') for (const code of codes) handled.add(code);
  }
}

function checkOrder({ stages }: LinkedPipeline, findings: Findings): void {
  const running = stages.filter(isEnforced);
  running.forEach(({ entry, mark }, index) => {
    const above = running
      .slice(index + 1)
      .find((later) => entry.definition.below.includes(later.entry.definition.name));
    if (above === undefined) return;
    const [own, other] = [quote(entry.id), quote(above.entry.id)];
    findings.report('C6007', mark, `the stage ${own} must be listed below ${other}`, {
      help: `move ${own} below ${other}: stages finish from the bottom up, and ${own} must finish first`,
    });
  });
}

/** Whether an entry records requests, including rewrites of their bodies. */
function isAudit({ entry }: LinkedStage): boolean {
  const { name, readsIfSet } = entry.definition;
  return name === 'audit' || readsIfSet.includes('outcome.rewrites') || readsIfSet.includes('outcome.replaced');
}

/** Reports requests and rewrites that no entry under `finally` always records: an error for rewrites. */
function checkAudit(pipeline: LinkedPipeline, findings: Findings): void {
  const audits = pipeline.finally.filter(isAudit);
  if (audits.some((stage) => isEnforced(stage) && stage.entry.when === undefined)) return;
  const needing = (what: Capability) =>
    pipeline.stages.find((stage) => isEnforced(stage) && stage.entry.definition.needs.includes(what));
  const rewriting = needing('rewrite-body') ?? needing('rewrite-response');
  const stage = rewriting ?? pipeline.stages.find(isSender);
  if (stage === undefined) return;
  const [audit] = audits;
  const id = quote(stage.entry.id);
  const what = rewriting === undefined ? `the requests that ${id} sends` : `what ${id} rewrites`;
  const code = rewriting === undefined ? 'W7013' : 'C6006';
  if (audit === undefined) {
    const help = 'add to the pipeline: finally: [{ stage: audit }]';
    findings.report(code, stage.mark, `no stage records ${what}`, { help });
    return;
  }
  const guards = audit.entry.when === undefined ? [] : ['`when`'];
  const modes = isEnforced(audit) ? [] : ['`mode: shadow`'];
  const record = modes.length === 0 ? 'does not always record' : 'never records';
  findings.report(code, audit.mark, `${quote(audit.entry.id)} ${record} ${what}`, {
    help: `remove ${[...guards, ...modes].join(' and ')} from ${quote(audit.entry.id)}`,
  });
}
