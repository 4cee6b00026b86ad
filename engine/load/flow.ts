import type { StageDefinition } from '../api.ts';
import { ENGINE_FACTS, type FactPath, INITIAL_FACTS } from '../facts.ts';
import { quote } from './describe.ts';
import type { Findings } from './findings.ts';
import type { LinkedStage } from './link-stages.ts';
import type { Mark } from './node.ts';

/** The lists of a pipeline whose every entry was resolved. */
export interface LinkedPipeline {
  readonly stages: readonly LinkedStage[];
  readonly on_error: readonly LinkedStage[];
  readonly finally: readonly LinkedStage[];
  /** The `stages` key, for findings about the list as a whole. */
  readonly stages_mark: Mark;
}

const engine_facts: ReadonlySet<FactPath> = new Set(ENGINE_FACTS);
const initial_facts: ReadonlySet<FactPath> = new Set(INITIAL_FACTS);

/** Facts about the request alone, which the engine writes before the first stage, where it can. */
const isEarly = (path: FactPath): boolean => engine_facts.has(path) && !/^(outcome|error)\./.test(path);

const guardOf = ({ entry }: LinkedStage): string => (entry.when === undefined ? '' : JSON.stringify(entry.when));

/** Checks the order of stages: somebody always answers, and no fact is read before it is written. */
export function checkFlow(
  pipeline: LinkedPipeline,
  all_stages: ReadonlyMap<string, StageDefinition>,
  findings: Findings,
): void {
  const check = new FlowCheck(pipeline, all_stages, findings);
  check.answers();
  check.facts();
  check.handlers();
  check.rewrites();
  check.order();
}

class FlowCheck {
  private readonly pipeline: LinkedPipeline;
  private readonly all_stages: ReadonlyMap<string, StageDefinition>;
  private readonly findings: Findings;

  constructor(pipeline: LinkedPipeline, all_stages: ReadonlyMap<string, StageDefinition>, findings: Findings) {
    this.pipeline = pipeline;
    this.all_stages = all_stages;
    this.findings = findings;
  }

  answers(): void {
    const { stages, stages_mark } = this.pipeline;
    const last = stages.findIndex((stage) => stage.entry.definition.terminal && guardOf(stage) === '');
    if (last < 0) {
      const guarded = stages.findLast((stage) => stage.entry.definition.terminal);
      this.findings.report('C6001', guarded?.mark ?? stages_mark, 'a request may reach the end without an answer', {
        expected: 'a stage without `when` that answers, such as forward or fail, at the end',
        ...(guarded === undefined
          ? {}
          : { help: `remove the guard of ${quote(guarded.entry.id)}, or add a stage below it` }),
      });
      return;
    }
    for (const stage of stages.slice(last + 1)) {
      const { definition } = stage.entry;
      if (!definition.terminal && definition.raises.length === 0) continue;
      const answering = quote(stages[last]!.entry.id);
      this.findings.report('C6002', stage.mark, `the stage can never run: ${answering} above it always answers`, {
        help: `move it above ${answering}`,
      });
    }
  }

  facts(): void {
    const { stages } = this.pipeline;
    stages.forEach((stage, index) => {
      const before = stages.slice(0, index);
      const guard = guardOf(stage);
      for (const { path, mark } of stage.guard_reads) {
        const written = isEarly(path) || before.some((earlier) => earlier.entry.definition.writes.includes(path));
        if (!written) this.reportEarlyRead(path, mark, 'the guard');
      }
      for (const path of stage.entry.definition.reads) this.checkRead(path, stage, before, guard);
      for (const path of stage.entry.definition.writes) this.checkWrite(path, stage, before, guard);
    });
  }

  private checkRead(path: FactPath, stage: LinkedStage, before: readonly LinkedStage[], guard: string): void {
    if (engine_facts.has(path)) return;
    const writers = before.filter(({ entry }) => entry.definition.writes.includes(path));
    if (writers.some((writer) => guardOf(writer) === '' || guardOf(writer) === guard)) return;
    const [maybe] = writers;
    if (maybe === undefined) {
      this.reportEarlyRead(path, stage.mark, 'the stage');
      return;
    }
    this.findings.report('C6004', stage.mark, `the fact ${path} may not be there`, {
      help: `${quote(maybe.entry.id)} writes it, but has a guard: remove it, or put the same guard here`,
    });
  }

  private reportEarlyRead(path: FactPath, mark: Mark, reader: string): void {
    const later = this.pipeline.stages.find(({ entry }) => entry.definition.writes.includes(path));
    const somewhere = [...this.all_stages.values()].find((stage) => stage.writes.includes(path));
    const help =
      later !== undefined
        ? `${quote(later.entry.id)} writes it: put that stage first`
        : somewhere !== undefined && `the stage ${quote(somewhere.name)} writes it: add it above`;
    this.findings.report('C6003', mark, `${reader} reads the fact ${path}, which nothing above writes`, {
      ...(help === false ? { help: 'it is known only after the response' } : { help }),
    });
  }

  private checkWrite(path: FactPath, stage: LinkedStage, before: readonly LinkedStage[], guard: string): void {
    const rival = before.find((earlier) => {
      // A stage that answers ends the request: what it wrote is never there for a later one.
      if (!earlier.entry.definition.writes.includes(path) || earlier.entry.definition.terminal) return false;
      return guard === '' || guardOf(earlier) === '' || guardOf(earlier) === guard;
    });
    if (rival === undefined) return;
    // One finding per pair of stages is enough.
    const first = stage.entry.definition.writes.find((other) => rival.entry.definition.writes.includes(other));
    if (first !== path) return;
    this.findings.report('C6005', stage.mark, `the fact ${path} is already written by ${quote(rival.entry.id)}`, {
      help: 'remove one of the two, or give them guards that exclude each other',
    });
  }

  /** Clauses and `finally` stages run after anything may have failed: only the engine's own facts are certain. */
  handlers(): void {
    const { on_error, finally: last } = this.pipeline;
    for (const stage of [...on_error, ...last]) {
      for (const path of stage.entry.definition.reads) {
        if (engine_facts.has(path) || initial_facts.has(path)) continue;
        this.findings.report(
          'C6004',
          stage.mark,
          `the fact ${path} may not be there: the request may have failed before`,
          {
            help: `the stage ${quote(stage.entry.definition.name)} must declare it in \`readsIfSet\``,
          },
        );
      }
    }
    this.clauses();
  }

  private clauses(): void {
    const handled = new Set<string>();
    for (const { entry, mark } of this.pipeline.on_error) {
      const codes = entry.errors ?? ['*'];
      if (handled.has('*') || codes.every((code) => handled.has(code))) {
        this.findings.report('W7006', mark, 'the clause is never reached: an earlier one handles the same errors');
      }
      if (entry.when === undefined) for (const code of codes) handled.add(code);
    }
  }

  order(): void {
    const { stages } = this.pipeline;
    stages.forEach(({ entry, mark }, index) => {
      const above = stages
        .slice(index + 1)
        .find((later) => entry.definition.below.includes(later.entry.definition.name));
      if (above === undefined) return;
      const completed = quote(above.entry.id);
      this.findings.report('C6007', mark, `the stage ${quote(entry.id)} completes what ${completed} begins below it`, {
        help: `move it below ${completed}`,
      });
    });
  }

  rewrites(): void {
    const audited = this.pipeline.finally.some(
      (stage) =>
        stage.entry.definition.name === 'audit' || stage.entry.definition.readsIfSet.includes('outcome.rewrites'),
    );
    if (audited) return;
    for (const { entry, mark } of this.pipeline.stages) {
      if (!entry.definition.needs.includes('rewrite-body')) continue;
      const message = `the stage ${quote(entry.id)} may rewrite the body, and nothing would record it`;
      this.findings.report('C6006', mark, message, { help: 'add to the pipeline: finally: [{ stage: audit }]' });
    }
  }
}
