import { countAt, invalid, isAbsent, noteOthers, objectAt, optional, textAt } from '../read-json.ts';
import type { Json } from '../translation/adapter.ts';
import type { ReasoningWish } from '../translation/conversation.ts';
import type { Notes } from '../translation/notes.ts';

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'] as const;

const CONFIG_FIELDS: ReadonlySet<string> = new Set(['effort', 'format', 'task_budget']);
const THINKING_FIELDS: ReadonlySet<string> = new Set(['type', 'budget_tokens', 'display']);

/** How much the client wants the model to think. Raises invalid_request. */
export function readReasoning(body: Json, notes: Notes): ReasoningWish | undefined {
  const effort = readEffort(body, notes);
  const thinking = optional(body, 'thinking', objectAt);
  if (thinking === undefined) return effort && { effort };
  noteOthers(thinking, THINKING_FIELDS, notes);
  switch (thinking.type) {
    case 'disabled':
      if (effort !== undefined) notes.note('effort_without_thinking');
      return { effort: 'none' };
    case 'enabled':
      return {
        ...(effort && { effort }),
        budget_tokens: countAt(thinking.budget_tokens, 'thinking.budget_tokens'),
        ...readDisplay(thinking, notes),
      };
    case 'between_tools':
      notes.note('thinking_between_tools');
      return { ...(effort && { effort }) };
    case 'adaptive':
      return { ...(effort && { effort }), ...readDisplay(thinking, notes) };
    default:
      throw invalid('thinking.type', 'must be adaptive, enabled, between_tools or disabled');
  }
}

function readEffort(body: Json, notes: Notes): ReasoningWish['effort'] {
  const config = optional(body, 'output_config', objectAt);
  if (config === undefined) return undefined;
  noteOthers(config, CONFIG_FIELDS, notes);
  if (!isAbsent(config.task_budget)) notes.note('task_budget');
  const said = optional(config, 'effort', textAt, 'output_config.');
  const effort = EFFORTS.find((known) => known === said);
  if (said !== undefined && effort === undefined) notes.note('unknown_effort');
  return effort;
}

/** New words for the display come with new versions of clients, and all so far show something. */
function readDisplay(thinking: Json, notes: Notes): Pick<ReasoningWish, 'show'> {
  const display = optional(thinking, 'display', textAt, 'thinking.');
  if (display === undefined) return {};
  if (display !== 'summarized' && display !== 'omitted') notes.note('thinking_display');
  return { show: display !== 'omitted' };
}
