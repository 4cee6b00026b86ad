import type { UpstreamTarget } from '../adapter.ts';
import type { Conversation, ReasoningWish } from '../conversation.ts';
import { shortUser } from '../end-user.ts';
import type { Notes } from '../notes.ts';
import { present } from '../read-json.ts';
import { writeMessages } from './write-messages.ts';
import { writeFormat, writeTools } from './write-tools.ts';

/** Tiers that the API has. */
const TIERS = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast']);

/** From this many tokens of a budget on, the effort is this. */
const EFFORTS_BY_BUDGET = [
  [16_384, 'high'],
  [4_096, 'medium'],
  [0, 'low'],
] as const;

/** Writes a request as nearly every server of this API understands it. Raises not_translatable by a rule. */
export function writeRequest(
  conversation: Conversation,
  target: UpstreamTarget,
  notes: Notes,
): Record<string, unknown> {
  const { model, instructions, turns, output_format, stream } = conversation;
  return {
    model,
    messages: writeMessages(instructions, turns, notes),
    ...writeTools(conversation, notes),
    ...writeBound(conversation, target, notes),
    ...writeSampling(conversation, notes),
    ...writeReasoning(conversation.reasoning, target, notes),
    ...(output_format !== undefined && { response_format: writeFormat(output_format, notes) }),
    ...writeAccount(conversation, notes),
    stream,
    ...(stream && { stream_options: { include_usage: true } }),
  };
}

/**
 * Models that think are bounded by max_completion_tokens: their best-known vendor refuses max_tokens with them. For all
 * others max_tokens is what every server knows, also those that skip the newer field and would not be bounded at all.
 */
function writeBound(
  { max_output_tokens: asked }: Conversation,
  { thinking, max_output_tokens }: UpstreamTarget,
  notes: Notes,
): Record<string, unknown> {
  if (asked === undefined) return {};
  if (asked > max_output_tokens) notes.note('output_bound');
  const bound = Math.min(asked, max_output_tokens);
  return thinking === 'none' ? { max_tokens: bound } : { max_completion_tokens: bound };
}

function writeSampling(conversation: Conversation, notes: Notes): Record<string, unknown> {
  const { temperature, top_p, top_k, frequency_penalty, presence_penalty, seed, stop } = conversation;
  if (top_k !== undefined) notes.note('top_k');
  return present({ temperature, top_p, frequency_penalty, presence_penalty, seed, stop });
}

function writeReasoning(
  wish: ReasoningWish | undefined,
  target: UpstreamTarget,
  notes: Notes,
): Record<string, unknown> {
  if (wish === undefined) return {};
  if (wish.show !== undefined) notes.note('reasoning_display');
  const effort = wish.effort ?? effortOfBudget(wish.budget_tokens, notes);
  if (effort === undefined) return {};
  if (target.thinking !== 'none') return { reasoning_effort: effort };
  if (effort !== 'none') notes.note('no_thinking');
  return {};
}

function effortOfBudget(budget_tokens: number | undefined, notes: Notes): ReasoningWish['effort'] {
  if (budget_tokens === undefined) return undefined;
  notes.note('thinking_budget');
  return EFFORTS_BY_BUDGET.find(([from]) => budget_tokens >= from)?.[1] ?? 'low';
}

function writeAccount(conversation: Conversation, notes: Notes): Record<string, unknown> {
  const { verbosity, user, metadata, service_tier, store, cache } = conversation;
  const stored = store === true;
  if (metadata !== undefined && !stored) notes.note('unstored_metadata');
  if (service_tier !== undefined && !TIERS.has(service_tier)) notes.note('service_tier');
  return present({
    verbosity,
    user: user === undefined ? undefined : shortUser(user, notes),
    metadata: stored ? metadata : undefined,
    service_tier: service_tier !== undefined && TIERS.has(service_tier) ? service_tier : undefined,
    store: stored ? true : undefined,
    prompt_cache_key: cache?.key,
    prompt_cache_retention: cache?.ttl === '1h' ? '24h' : undefined,
  });
}
