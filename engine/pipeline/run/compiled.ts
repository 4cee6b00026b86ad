import type { ErrorCode } from '../../base/contract/errors.ts';
import type { FactPath } from '../../base/contract/facts.ts';
import type { FactView } from '../../base/contract/services.ts';
import type { StageDefinition, StageHooks } from '../../base/contract/stage.ts';
import type { PipelineSpec, StageEntry } from '../../base/source/spec.ts';
import type { FactSelection } from './fact-store.ts';

/** A stage entry ready to run: its hooks, its guard as a function, its declared facts as masks (see `factMask`). */
export interface CompiledStage {
  readonly id: string;
  readonly definition: StageDefinition;
  /** What the engine calls; `contain.ts` says what they never do. */
  readonly hooks: StageHooks;
  /** Absent means always. */
  readonly guard: ((facts: FactView) => boolean) | undefined;
  /** Whether it is in shadow mode: its guard is evaluated, and it has no hooks, but for `rewrite`. */
  readonly shadow: boolean;
  readonly readable: Uint8Array;
  readonly writable: Uint8Array;
}

/** A compiled `on_error` clause. */
export interface CompiledClause extends CompiledStage {
  /** Codes it handles; absent means all. */
  readonly errors: ReadonlySet<ErrorCode> | undefined;
}

/** A pipeline ready to run. */
export interface CompiledPipeline {
  readonly spec: PipelineSpec;
  /** Of the configuration it belongs to. */
  readonly version: string;
  /** Facts that its rules read and no audit field keeps: recorded under `seen`. */
  readonly seen_facts: readonly FactPath[];
  /** All facts that its rules read. */
  readonly rule_view: FactSelection;
  readonly stages: readonly CompiledStage[];
  readonly on_error: readonly CompiledClause[];
  readonly finally: readonly CompiledStage[];
  /** Whether any stage, also in shadow mode, has a `rewrite` hook. */
  readonly rewrites: boolean;
  /** Whether any stage has an `event` hook; without one a response is not observed at all. */
  readonly observed: boolean;
}

/** Watches a plan at work, for tests of pipelines and for explanations. */
export interface PlanObserver {
  /** A stage is made. @returns the hooks to call in the place of its own */
  onCreate(pipeline: PipelineSpec, entry: StageEntry, create: () => StageHooks): StageHooks;
  /** A guard of an entry or an `on_error` clause was evaluated. */
  onGuard(pipeline: PipelineSpec, entry: StageEntry, facts: FactView, held: boolean): void;
}

/** A request and the stages it has entered. */
interface Entered {
  readonly pipeline: CompiledPipeline;
  readonly entered: readonly CompiledStage[];
}

/** Whether a stage of this request rewrites its answer. */
export function rewritesAnswer({ pipeline, entered }: Entered): boolean {
  return pipeline.rewrites && entered.some(({ hooks }) => hooks.rewrite !== undefined);
}
