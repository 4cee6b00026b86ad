import type { AnswerRewriter } from '../../protocols/rewriting/answer-rewriter.ts';
import type { CompiledPipeline, CompiledStage } from '../compiled.ts';

/** A request and the stages it has entered. */
interface Entered {
  readonly pipeline: CompiledPipeline;
  readonly entered: readonly CompiledStage[];
}

/** Whether a stage of this request rewrites its answer. */
export function rewritesAnswer({ pipeline, entered }: Entered): boolean {
  return pipeline.rewrites && entered.some(({ hooks }) => hooks.rewrite !== undefined);
}

/** Who looks through the answer of one request. */
export class AnswerRewrites {
  /** Stages in shadow mode whose guards held. */
  readonly watching: CompiledStage[] = [];
  /** What rewrites the answer. */
  rewriter: AnswerRewriter | undefined;
  /** What counts for the stages in shadow mode. */
  watcher: AnswerRewriter | undefined;

  /** How often each stage replaced something, or would have; `undefined` where none did. */
  get replaced(): Readonly<Record<string, number>> | undefined {
    const all = [...(this.rewriter?.replaced ?? []), ...this.watched];
    return all.length === 0 ? undefined : Object.fromEntries(all);
  }

  /** How often each stage in shadow mode would have replaced something. */
  get watched(): ReadonlyMap<string, number> {
    // What was held back is a text like any other.
    this.watcher?.flush();
    return this.watcher?.replaced ?? new Map();
  }
}
