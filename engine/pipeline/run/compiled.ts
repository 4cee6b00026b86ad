import type { ErrorCode } from '../../base/contract/errors.ts';
import type { FactPath } from '../../base/contract/facts.ts';
import type { FactView } from '../../base/contract/services.ts';
import type { StageDefinition, StageHooks } from '../../base/contract/stage.ts';
import type { PipelineSpec, StageEntry } from '../../base/source/spec.ts';
import type { FactSelection } from './fact-store.ts';

/** A stage entry, ready to run: its hooks, its guard as a function, its declared facts as masks (see `factMask`). */
export interface CompiledStage {
  readonly id: string;
  readonly definition: StageDefinition;
  /** The contained hooks; see `contain.ts` for their guarantees. */
  readonly hooks: StageHooks;
  readonly guard: ((facts: FactView) => boolean) | undefined;
  /** Shadow mode: its guard is evaluated, and `rewrite` is its only hook. */
  readonly shadow: boolean;
  readonly readable: Uint8Array;
  readonly writable: Uint8Array;
}

export interface CompiledClause extends CompiledStage {
  /** The error codes it handles; absent means all. */
  readonly errors: ReadonlySet<ErrorCode> | undefined;
}

/** A pipeline, ready to run. */
export interface CompiledPipeline {
  readonly spec: PipelineSpec;
  readonly version: string;
  /** Facts that its rules read and that have no audit field: recorded under `seen`. */
  readonly seen_facts: readonly FactPath[];
  /** All facts that its rules read. */
  readonly rule_view: FactSelection;
  readonly stages: readonly CompiledStage[];
  readonly on_error: readonly CompiledClause[];
  readonly finally: readonly CompiledStage[];
  /** Whether any stage has a `rewrite` hook, in shadow mode or not. */
  readonly rewrites: boolean;
  /** Whether any stage has an `event` hook. Without one, responses are not observed. */
  readonly observed: boolean;
}

/** Observes a plan, for pipeline tests and explanations. */
export interface PlanObserver {
  /** Called in place of `create`. @returns the hooks to use */
  onCreate(pipeline: PipelineSpec, entry: StageEntry, create: () => StageHooks): StageHooks;
  /** Called after the guard of an entry or an `on_error` clause was evaluated. */
  onGuard(pipeline: PipelineSpec, entry: StageEntry, facts: FactView, held: boolean): void;
}

interface Entered {
  readonly pipeline: CompiledPipeline;
  readonly entered: readonly CompiledStage[];
}

/** Whether an entered stage rewrites the response. */
export function rewritesAnswer({ pipeline, entered }: Entered): boolean {
  return pipeline.rewrites && entered.some(({ hooks }) => hooks.rewrite !== undefined);
}
