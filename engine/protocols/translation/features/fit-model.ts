import type { UpstreamTarget } from '../adapter.ts';
import type { Conversation, Part, ReasoningPart } from '../conversation.ts';
import type { Notes } from '../notes.ts';
import { isMadeBy, type Maker } from '../proof.ts';

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
 * Leaves out reasoning of another Messages or Responses upstream than this one, whose provider would refuse it, and the state of
 * another chat upstream, whose thoughts stay as text. What does not say where it was made is left to its protocol.
 */
export function fitReasoning(conversation: Conversation, maker: Maker, notes: Notes): Conversation {
  const isForeign = ({ proof }: ReasoningPart): boolean => {
    if (proof?.upstream === undefined) return false;
    // Where there are no proofs at all, reasoning is text like any other.
    if (proof.kind === 'none' && proof.protocol !== 'messages') return false;
    return !isMadeBy(proof, maker) || (proof.kind === 'state' && maker.protocol !== 'chat');
  };
  const fit = (part: Part): readonly Part[] => {
    if (part.kind !== 'reasoning' || !isForeign(part)) return [part];
    notes.note(part.proof!.kind === 'state' ? 'foreign_state' : 'foreign_reasoning');
    if (part.proof!.kind !== 'state' || part.text === '') return [];
    return [{ ...part, proof: { protocol: 'chat', kind: 'none', value: '' } }];
  };
  if (!conversation.turns.some(({ parts }) => parts.some((part) => part.kind === 'reasoning' && isForeign(part))))
    return conversation;
  return { ...conversation, turns: conversation.turns.map((turn) => ({ ...turn, parts: turn.parts.flatMap(fit) })) };
}
