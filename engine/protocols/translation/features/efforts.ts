import type { ReasoningWish } from '../conversation.ts';
import type { Notes } from '../notes.ts';

/** Words for how much a model shall think, from the least to the most. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;

/** From this many tokens of a budget on, the effort is this. */
const EFFORTS_BY_BUDGET = [
  [16_384, 'high'],
  [4096, 'medium'],
  [0, 'low'],
] as const;

/** The effort to ask a model for that takes no budgets: the one that was wished, else that of the budget. */
export function effortOf({ effort, budget_tokens }: ReasoningWish, notes: Notes): ReasoningWish['effort'] {
  if (effort !== undefined || budget_tokens === undefined) return effort;
  notes.note('thinking_budget');
  return EFFORTS_BY_BUDGET.find(([from]) => budget_tokens >= from)?.[1] ?? 'low';
}
