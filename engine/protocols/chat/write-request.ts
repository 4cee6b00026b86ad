import { present } from '../read-json.ts';
import type { UpstreamTarget } from '../translation/adapter.ts';
import type { Conversation, ReasoningWish } from '../translation/conversation.ts';
import { effortOf } from '../translation/features/efforts.ts';
import { shortUser } from '../translation/features/end-user.ts';
import { writePromptCache } from '../translation/features/prompt-cache.ts';
import { CHAT_STOPS_MAX } from '../translation/features/stop-sequences.ts';
import type { Notes } from '../translation/notes.ts';
import { writeMessages } from './write-messages.ts';
import { writeFormat, writeTools } from './write-tools.ts';

/** Tiers that the protocol has. */
const TIERS = new Set(['auto', 'default', 'flex', 'scale', 'priority', 'fast']);

/** Writes a request as nearly every server of this protocol understands it. Raises not_translatable by a rule. */
export function writeRequest(
  conversation: Conversation,
  target: UpstreamTarget,
  notes: Notes,
): Record<string, unknown> {
  const { model, instructions, turns, output_format, stream } = conversation;
  return {
    model,
    messages: writeMessages(instructions, turns, target, notes),
    ...writeTools(conversation, notes),
    ...writeBound(conversation, target),
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
 * others max_tokens is what every server knows, also those that skip the newer field and would not be bounded at all. What
 * gateway.yaml says of the upstream comes first.
 */
function writeBound({ max_output_tokens: bound }: Conversation, target: UpstreamTarget): Record<string, unknown> {
  if (bound === undefined) return {};
  const usual = target.thinking === 'none' ? 'max_tokens' : 'max_completion_tokens';
  return { [target.max_tokens_field ?? usual]: bound };
}

function writeSampling(conversation: Conversation, notes: Notes): Record<string, unknown> {
  const { temperature, top_p, top_k, frequency_penalty, presence_penalty, seed, stop } = conversation;
  if (top_k !== undefined) notes.note('top_k');
  if (stop !== undefined && stop.length > CHAT_STOPS_MAX) notes.note('many_stops');
  const told = stop?.slice(0, CHAT_STOPS_MAX);
  return present({ temperature, top_p, frequency_penalty, presence_penalty, seed, stop: told });
}

function writeReasoning(
  wish: ReasoningWish | undefined,
  target: UpstreamTarget,
  notes: Notes,
): Record<string, unknown> {
  if (wish === undefined) return {};
  if (wish.show !== undefined) notes.note('reasoning_display');
  const effort = effortOf(wish, notes);
  if (effort === undefined) return {};
  if (target.thinking !== 'none') return { reasoning_effort: effort };
  if (effort !== 'none') notes.note('no_thinking');
  return {};
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
    ...writePromptCache(cache),
  });
}
