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
  /** The stage or fragment name of each item of `stages`, in the pipeline's own file. */
  readonly item_marks: readonly Mark[];
  /** Where `remove` of an extension names the entries of a stage. */
  readonly removed: ReadonlyMap<string, Mark>;
}

const engine_facts: ReadonlySet<FactPath> = new Set(ENGINE_FACTS);
const initial_facts: ReadonlySet<FactPath> = new Set(INITIAL_FACTS);

const writes = ({ entry }: LinkedStage, path: FactPath): boolean => entry.definition.writes.includes(path);
/** Whether the stage runs where its guard allows it. */
export const isEnforced = ({ entry }: LinkedStage): boolean => entry.mode === 'enforce';

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
  new FactCheck(pipeline, all_stages, findings).run();
  checkClauses(pipeline, findings);
  checkRewrites(pipeline, findings);
  checkOrder(pipeline, findings);
}

function alwaysAnswers({ entry }: LinkedStage): boolean {
  return entry.definition.terminal && entry.when === undefined && entry.mode === 'enforce';
}

function checkAnswers({ stages, stages_mark, item_marks }: LinkedPipeline, findings: Findings): void {
  for (const { entry, mark } of stages) {
    if (!entry.definition.terminal || entry.fail_closed) continue;
    findings.report('C6008', mark, `${quote(entry.id)} responds, so a request cannot continue without it`, {
      help: 'remove `fail_closed: false`; to respond when it fails, add an `on_error` clause',
    });
  }
  const last = stages.findIndex(alwaysAnswers);
  if (last < 0) {
    const near = stages.findLast(({ entry }) => entry.definition.terminal);
    const mark = near === undefined ? stages_mark : near.mark.chain === undefined ? near.mark : item_marks.at(-1)!;
    findings.report('C6001', mark, 'a request may reach the end without a response', {
      expected: 'at the end, a stage without `when` that responds, such as forward or reject',
      help: near === undefined || near.mark.chain !== undefined ? undefined : helpToAnswer(near.entry),
    });
    return;
  }
  const unreachable = stages
    .slice(last + 1)
    .filter(isEnforced)
    .find(({ entry: { definition } }) => definition.terminal || definition.raises.length > 0);
  if (unreachable === undefined) return;
  const answering = stages[last]!.entry;
  findings.report('C6002', unreachable.mark, `the stage never runs: ${quote(answering.id)} above it always responds`, {
    help: helpToReach(answering),
  });
}

/** A terminal stage without an upstream most likely lacks its guard. */
function helpToReach({ id, definition }: StageEntry): string {
  if (definition.needs.includes('network')) return `move it above ${quote(id)}`;
  return `give ${quote(id)} a \`when:\`, or move it to the end`;
}

function helpToAnswer({ id, mode }: StageEntry): string {
  if (mode === 'shadow')
    return `${quote(id)} is in shadow mode and never runs: remove \`mode\`, or add a stage below it`;
  return `remove the guard of ${quote(id)}, or add a stage below it`;
}

/** Names the stage, because the guard may be a named rule elsewhere. */
const guardOf = ({ id }: StageEntry): string => `the guard of ${quote(id)}`;

/** The stage that should have written a fact. */
interface Writer {
  readonly name: string;
  readonly writes: readonly FactPath[];
  /** Where an extension removes it. */
  readonly removed?: Mark | undefined;
  /** @param them "it" or "them", for the facts */
  help(them: string, what_moves: string): string;
}

/** Data-flow analysis of facts. A missing or misplaced stage gives one finding, at its first reader. */
class FactCheck {
  private readonly pipeline: LinkedPipeline;
  private readonly all_stages: ReadonlyMap<string, StageDefinition>;
  private readonly findings: Findings;
  private readonly blamed = new Set<string>();

  constructor(pipeline: LinkedPipeline, all_stages: ReadonlyMap<string, StageDefinition>, findings: Findings) {
    this.pipeline = pipeline;
    this.all_stages = all_stages;
    this.findings = findings;
  }

  run(): void {
    const { stages, on_error, finally: last } = this.pipeline;
    stages.forEach((stage, index) => {
      // After a guarded terminal stage has run, no later stage runs: what it writes never reaches one.
      const before = stages
        .slice(0, index)
        .filter((earlier) => !earlier.entry.definition.terminal || alwaysAnswers(earlier));
      this.guard(stage, before);
      if (!isEnforced(stage)) return;
      this.reads(stage, before);
      this.rival(stage, before);
    });
    for (const stage of on_error) this.handler(stage, stages, (path) => !/^(outcome|usage)\./.test(path));
    last.forEach((stage, index) => {
      this.handler(stage, [...stages, ...last.slice(0, index)], () => true);
      if (isEnforced(stage)) this.rival(stage, [...stages, ...last.slice(0, index)]);
    });
  }

  private guard({ entry, guard_reads }: LinkedStage, before: readonly LinkedStage[]): void {
    const unknown = guard_reads.filter(({ path }) => !isEarly(path) && (isLate(path) || !before.some(written(path))));
    for (const { path, mark } of unknown) this.missing(guardOf(entry), [path], mark, isLate(path), quote(entry.id));
    for (const { path, mark } of guard_reads) {
      if (isEarly(path) || unknown.some((read) => read.path === path)) continue;
      this.maybe('the guard', path, before.filter(written(path)), entry, mark);
    }
  }

  private reads(stage: LinkedStage, before: readonly LinkedStage[]): void {
    const needed = stage.entry.definition.reads.filter((path) => !engine_facts.has(path));
    const unknown = needed.filter((path) => !before.some(written(path)));
    this.missing('the stage', unknown, stage.mark, false);
    for (const path of needed) {
      if (unknown.includes(path)) continue;
      this.maybe('the stage', path, before.filter(written(path)), stage.entry, stage.mark);
    }
  }

  /** Reports facts that nothing above writes, once for each stage that should. */
  private missing(reader: string, paths: readonly FactPath[], mark: Mark, late: boolean, what_moves = 'this'): void {
    let left = paths;
    while (left.length > 0) {
      const writer = late ? undefined : this.writerOf(left);
      const theirs = writer === undefined ? left : left.filter((path) => writer.writes.includes(path));
      left = left.filter((path) => !theirs.includes(path));
      // Report a missing writer once, not at each of its readers.
      const blame = writer?.name ?? `${mark.line}:${mark.column}`;
      if (this.blamed.has(blame)) continue;
      this.blamed.add(blame);
      if (writer === undefined) {
        const message = `${reader} reads the fact ${theirs[0]}, which is known only after the response`;
        this.findings.report('C6003', mark, message, { help: 'guards of `finally:` may read it' });
        continue;
      }
      if (writer.removed !== undefined) {
        const message = `without ${writer.name} nothing writes ${theirs.join(', ')}`;
        this.findings.report('C6003', writer.removed, message, {
          found: `${reader} in ${basename(mark.file)}:${mark.line} reads ${theirs.length === 1 ? 'it' : 'them'}`,
          help: 'keep the entry, or also remove what needs it',
        });
        continue;
      }
      const [what, them] =
        theirs.length === 1
          ? [`the fact ${theirs[0]}, which nothing above writes`, 'it']
          : [`facts that nothing above writes: ${theirs.join(', ')}`, 'them'];
      this.findings.report('C6003', mark, `${reader} reads ${what}`, { help: writer.help(them, what_moves) });
    }
  }

  /** The stage that should write these facts: one further down, else the one that writes most of them. */
  private writerOf(paths: readonly FactPath[]): Writer | undefined {
    const count = (definition: StageDefinition) => paths.filter((path) => definition.writes.includes(path)).length;
    const here = this.pipeline.stages.filter((stage) => count(stage.entry.definition) > 0);
    const stage = here.find(isEnforced) ?? here[0];
    if (stage !== undefined) {
      const id = quote(stage.entry.id);
      const help = isEnforced(stage)
        ? (them: string, what_moves: string) => `${id} writes ${them}: move ${what_moves} below ${id}`
        : (them: string) => `${id} would write ${them}, but is in shadow mode and never runs: remove \`mode\``;
      return { name: id, writes: stage.entry.definition.writes, help };
    }
    const candidates = [...this.all_stages.values()].filter((candidate) => count(candidate) > 0);
    const [best] = candidates.sort((a, b) => count(b) - count(a));
    if (best === undefined) return undefined;
    const name = quote(best.name);
    const removed = this.pipeline.removed.get(best.name);
    return { name, writes: best.writes, removed, help: (them) => `the stage ${name} writes ${them}: add it above` };
  }

  /** Reports a fact when every stage that writes it may have been left out where it is read. */
  private maybe(
    reader: string,
    path: FactPath,
    writers: readonly LinkedStage[],
    { id, when }: StageEntry,
    mark: Mark,
  ): void {
    if (writers.some(({ entry }) => entry.fail_closed && implies(when, entry.when))) return;
    const { entry } = writers[0]!;
    if (this.blamed.has(entry.id)) return;
    this.blamed.add(entry.id);
    const left_out = entry.fail_closed
      ? `has a guard: remove it, or put the same guard ${reader === 'the guard' ? `first: and: [<guard of ${entry.id}>, ...]` : 'here'}`
      : `is skipped when it fails: remove its \`fail_closed: false\`, or make ${quote(id)} work without the fact`;
    this.findings.report('C6004', mark, `the fact ${path} may be missing`, {
      help: `${quote(entry.id)} writes it, but ${left_out}`,
    });
  }

  private rival(stage: LinkedStage, before: readonly LinkedStage[]): void {
    const { definition, when } = stage.entry;
    const rival = before.find(
      (other) =>
        isEnforced(other) && definition.writes.some((path) => writes(other, path)) && !excludes(when, other.entry.when),
    );
    if (rival === undefined) return;
    const path = definition.writes.find((written_twice) => writes(rival, written_twice))!;
    const always = when === undefined || implies(when, rival.entry.when);
    const verb = always ? 'is' : 'may be';
    this.findings.report('C6005', stage.mark, `the fact ${path} ${verb} already written by ${quote(rival.entry.id)}`, {
      help: 'remove one of the two, or give them guards that exclude each other: X and { "!": X }',
    });
  }

  /** Clauses and `finally` stages also run after a failure: only the engine's own facts are certain to exist. */
  private handler(stage: LinkedStage, before: readonly LinkedStage[], isKnown: (path: FactPath) => boolean): void {
    for (const { path, mark } of stage.guard_reads) {
      if (isKnown(path) && (engine_facts.has(path) || isEarly(path) || before.some(written(path)))) continue;
      this.missing(guardOf(stage.entry), [path], mark, !isKnown(path), quote(stage.entry.id));
    }
    const unsure = stage.entry.definition.reads.find((path) => !engine_facts.has(path) && !initial_facts.has(path));
    if (unsure === undefined || !isEnforced(stage)) return;
    const message = `the fact ${unsure} may be missing: the request may have failed earlier`;
    this.findings.report('C6004', stage.mark, message, {
      help: `the stage ${quote(stage.entry.definition.name)} must declare it in \`readsIfSet\``,
    });
  }
}

function written(path: FactPath): (stage: LinkedStage) => boolean {
  return (stage) => isEnforced(stage) && writes(stage, path);
}

function checkClauses({ on_error }: LinkedPipeline, findings: Findings): void {
  const handled = new Set<string>();
  for (const { entry, mark } of on_error) {
    const codes = entry.errors ?? ['*'];
    if (handled.has('*') || codes.every((code) => handled.has(code))) {
      findings.report('W7014', mark, 'the clause is never reached: an earlier one handles the same errors');
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
    const other = quote(above.entry.id);
    findings.report('C6007', mark, `the stage ${quote(entry.id)} must come below ${other}: it has to finish first`, {
      help: `move it below ${other}`,
    });
  });
}

/** Whether an entry records requests, including rewrites of their bodies. */
export function isAudit({ entry }: LinkedStage): boolean {
  const { name, readsIfSet } = entry.definition;
  return name === 'audit' || readsIfSet.includes('outcome.rewrites') || readsIfSet.includes('outcome.replaced');
}

function checkRewrites(pipeline: LinkedPipeline, findings: Findings): void {
  const audits = pipeline.finally.filter(isAudit);
  if (audits.some((stage) => isEnforced(stage) && stage.entry.when === undefined)) return;
  const needs = ({ entry }: LinkedStage, what: Capability) => entry.definition.needs.includes(what);
  const enforced = pipeline.stages.filter(isEnforced);
  const stage = enforced.find((one) => needs(one, 'rewrite-body') || needs(one, 'rewrite-response'));
  if (stage === undefined) return;
  const id = quote(stage.entry.id);
  const may = `the stage ${id} may rewrite the ${needs(stage, 'rewrite-body') ? 'body' : 'response'}`;
  const [audit] = audits;
  if (audit === undefined) {
    const help = 'add to the pipeline: finally: [{ stage: audit }]';
    findings.report('C6006', stage.mark, `${may}, and no stage records that`, { help });
    return;
  }
  const reason = isEnforced(audit) ? 'has a guard' : 'is in shadow mode';
  const message = `${may}, and ${quote(audit.entry.id)} does not always record that`;
  const help = `${quote(audit.entry.id)} ${reason}: remove ${isEnforced(audit) ? 'it' : '`mode`'}`;
  findings.report('C6006', stage.mark, message, { help });
}
