import type { Conversation, Part } from '../conversation.ts';
import type { Notes } from '../notes.ts';

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
