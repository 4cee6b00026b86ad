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
 * Leaves out reasoning with a proof of another upstream than this one, whose provider would refuse it. A proof that does not
 * say where it was made is left to its protocol.
 */
export function fitReasoning(conversation: Conversation, upstream: string, notes: Notes): Conversation {
  const isForeign = (part: Part): boolean => {
    if (part.kind !== 'reasoning' || part.proof === undefined || part.proof.kind === 'none') return false;
    return part.proof.upstream !== undefined && part.proof.upstream !== upstream;
  };
  if (!conversation.turns.some(({ parts }) => parts.some(isForeign))) return conversation;
  notes.note('foreign_reasoning');
  const turns = conversation.turns.map((turn) => ({ ...turn, parts: turn.parts.filter((part) => !isForeign(part)) }));
  return { ...conversation, turns };
}
