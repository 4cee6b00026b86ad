import type { UpstreamTarget } from '../adapter.ts';
import type { Conversation, Part } from '../conversation.ts';
import type { Notes } from '../notes.ts';

/** The conversation without what the model refuses, whatever the protocol it is asked in. */
export function fitModel(conversation: Conversation, target: UpstreamTarget, notes: Notes): Conversation {
  return fitSampling(fitBound(conversation, target, notes), target, notes);
}

function fitBound(conversation: Conversation, { max_output_tokens }: UpstreamTarget, notes: Notes): Conversation {
  if ((conversation.max_output_tokens ?? 0) <= max_output_tokens) return conversation;
  notes.note('output_bound');
  return { ...conversation, max_output_tokens };
}

function fitSampling(conversation: Conversation, { sampling }: UpstreamTarget, notes: Notes): Conversation {
  if (sampling) return conversation;
  const { temperature, top_p, top_k, ...rest } = conversation;
  if (temperature === undefined && top_p === undefined && top_k === undefined) return conversation;
  notes.note('no_sampling');
  return rest;
}

/**
 * Leaves out reasoning of another Messages or Responses upstream than this one, whose provider would refuse it. What does not
 * say where it was made is left to its protocol.
 */
export function fitReasoning(conversation: Conversation, upstream: string, notes: Notes): Conversation {
  const isForeign = (part: Part): boolean => {
    if (part.kind !== 'reasoning' || part.proof?.upstream === undefined) return false;
    // Where there are no proofs at all, reasoning is text like any other.
    if (part.proof.kind === 'none' && part.proof.protocol !== 'messages') return false;
    return part.proof.upstream !== upstream;
  };
  if (!conversation.turns.some(({ parts }) => parts.some(isForeign))) return conversation;
  notes.note('foreign_reasoning');
  const turns = conversation.turns.map((turn) => ({ ...turn, parts: turn.parts.filter((part) => !isForeign(part)) }));
  return { ...conversation, turns };
}
