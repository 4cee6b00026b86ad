import type { TextPart, Turn } from '../conversation.ts';
import type { Notes } from '../notes.ts';

/** Instructions in the middle of a conversation, as texts of the user that say what they are. */
export function lateInstructions({ parts }: Turn, notes: Notes): TextPart[] {
  notes.note('instructions_turn');
  const texts = parts.filter((part) => part.kind === 'text' && part.text !== '') as TextPart[];
  return texts.map((part) => ({ ...part, text: `<system_message>\n${part.text}\n</system_message>` }));
}
