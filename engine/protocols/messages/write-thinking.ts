import type { UpstreamTarget } from '../translation/adapter.ts';
import type { Conversation, ReasoningWish } from '../translation/conversation.ts';
import { effortOf } from '../translation/features/efforts.ts';
import type { Notes } from '../translation/notes.ts';
import type { RuleName } from '../translation/rules.ts';
import type { Block, Message } from './write-blocks.ts';

/** The smallest budget that upstreams take, in tokens. */
const BUDGET_MIN = 1024;

/** Budgets of efforts, in tokens. */
const BUDGETS = { minimal: 1024, low: 1024, medium: 8192, high: 16_384, xhigh: 24_576, max: 32_000 } as const;

/** How the model shall think: fields for the request, and whether it will. */
export interface Thinking {
  readonly on: boolean;
  readonly thinking?: Block;
  readonly effort?: string;
}

/** Decides how the model is told to think; what it cannot be told is noted. */
export function writeThinking(
  { reasoning, tool_choice }: Conversation,
  target: UpstreamTarget,
  messages: readonly Message[],
  max_tokens: number,
  notes: Notes,
): Thinking {
  if (reasoning === undefined) return { on: false };
  if (reasoning.effort === 'none') return silent(target, notes);
  const obstacle = obstacleTo(target, tool_choice, messages, max_tokens);
  if (obstacle !== undefined) {
    notes.note(obstacle);
    return { on: false };
  }
  return target.thinking === 'adaptive' ? adaptive(reasoning, notes) : budgeted(reasoning, max_tokens, notes);
}

/** Some models that adapt refuse to be told not to think; unless they are told to, most don't. */
function silent(target: UpstreamTarget, notes: Notes): Thinking {
  if (target.thinking === 'none') return { on: false };
  if (target.thinking === 'budget') return { on: false, thinking: { type: 'disabled' } };
  notes.note('thinking_effort');
  return { on: false };
}

function obstacleTo(
  target: UpstreamTarget,
  tool_choice: Conversation['tool_choice'],
  messages: readonly Message[],
  max_tokens: number,
): RuleName | undefined {
  if (target.thinking === 'none') return 'no_thinking';
  if (tool_choice?.kind === 'any' || tool_choice?.kind === 'tool') return 'thinking_with_forced_tool';
  if (target.thinking === 'adaptive') return undefined;
  // Models with a budget must have begun with a thought of their own; those that adapt need not.
  if (answersForeignCalls(messages)) return 'thinking_in_tool_loop';
  if (max_tokens <= BUDGET_MIN) return 'thinking_without_room';
  return undefined;
}

/** Whether the last message answers calls that the provider did not think about itself. */
function answersForeignCalls(messages: readonly Message[]): boolean {
  if (messages.at(-1)?.content[0]?.type !== 'tool_result') return false;
  const first = messages.at(-2)?.content[0]?.type;
  return first !== 'thinking' && first !== 'redacted_thinking';
}

function display({ show }: ReasoningWish): Block {
  if (show === undefined) return {};
  return { display: show ? 'summarized' : 'omitted' };
}

function adaptive(wish: ReasoningWish, notes: Notes): Thinking {
  const thinking = { type: 'adaptive', ...display(wish) };
  const effort = effortOf(wish, notes);
  if (effort === 'minimal') notes.note('thinking_effort');
  return { on: true, thinking, ...(effort !== undefined && { effort: effort === 'minimal' ? 'low' : effort }) };
}

function budgeted(wish: ReasoningWish, max_tokens: number, notes: Notes): Thinking {
  const effort = wish.effort === undefined || wish.effort === 'none' ? 'medium' : wish.effort;
  // An effort must leave room for the answer itself; a budget that the client chose needs to fit only.
  const asked = wish.budget_tokens ?? Math.min(BUDGETS[effort], Math.floor(max_tokens / 2));
  const budget_tokens = Math.min(Math.max(asked, BUDGET_MIN), max_tokens - 1);
  if (budget_tokens !== wish.budget_tokens) notes.note('thinking_effort');
  return { on: true, thinking: { type: 'enabled', budget_tokens, ...display(wish) } };
}
