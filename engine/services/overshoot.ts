import type { SpendLimitsConfig } from '../config.ts';
import { isCertain } from '../load/guards.ts';
import type { PipelineSpec } from '../load/spec.ts';

/** How far spending can pass the configured limits. */
export interface Overshoot {
  /** Most by which one limit can be passed, in nano-USD; absent when there are no limits, so that nothing is bounded. */
  readonly bound_nano_usd?: number;
  /** What costs money and is in no bound, in words. */
  readonly not_bounded: readonly string[];
}

/** A tool that the upstream runs is billed per use, and how often it is used is known only afterwards. */
const PROVIDER_TOOLS = 'tools that the upstream runs itself';
/** Fees by the month, minimum charges, taxes. */
const OTHER_FEES = 'fees other than for tokens';

function hasLimits({ defaults, rules }: SpendLimitsConfig): boolean {
  const amounts = [
    ...Object.values(defaults),
    ...rules.map((rule) => (rule.mode === 'shadow' ? undefined : rule.limit_usd)),
  ];
  return amounts.some((amount) => amount !== undefined);
}

/** Whether every request that a pipeline sends out has first held the most it can cost. Counting tokens is free. */
function holdsAll({ match, stages }: PipelineSpec): boolean {
  if (match.surface === 'count_tokens') return true;
  const runs = stages.filter(({ mode }) => mode === 'enforce');
  const sender = runs.findIndex(({ definition }) => definition.terminal && definition.needs.includes('network'));
  return (
    sender < 0 ||
    runs.slice(0, sender).some((entry) => {
      const charges = (entry.options as { charge?: string }).charge !== 'nothing';
      return isCertain(entry) && charges && entry.definition.writes.includes('spend.reserved_nano_usd');
    })
  );
}

/**
 * The overshoot bound of spend limits. A request first holds the most it can cost, and is refused when a limit has no room
 * for that: no limit is passed, whatever runs at once. `typical` behaves like `worst_case` in this version.
 */
export function overshootBound(limits: SpendLimitsConfig | undefined, pipelines: readonly PipelineSpec[]): Overshoot {
  if (limits === undefined || !hasLimits(limits)) return { not_bounded: ['all spending'] };
  const open = pipelines.filter((pipeline) => !holdsAll(pipeline));
  const unheld = open.map(({ name }) => `what the pipeline ${name} sends without a full hold`);
  return { bound_nano_usd: 0, not_bounded: [...unheld, PROVIDER_TOOLS, OTHER_FEES] };
}
