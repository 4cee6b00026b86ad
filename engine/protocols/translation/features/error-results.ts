import type { TextPart, ToolResultPart } from '../conversation.ts';
import type { Notes } from '../notes.ts';

const PREFIX = 'Error: ';

/** The content of a result that is an error, for protocols that have no flag for it: its text begins by saying so. */
export function asError<P extends ToolResultPart['parts'][number]>(
  parts: readonly P[],
  notes: Notes,
): readonly (P | TextPart)[] {
  const [first, ...rest] = parts;
  if (first?.kind === 'text' && first.text.startsWith(PREFIX)) return parts;
  notes.note('result_error');
  if (first?.kind === 'text') return [{ ...first, text: PREFIX + first.text }, ...rest];
  const what = parts.length === 0 ? 'the tool failed.' : 'see what follows.';
  return [{ kind: 'text', text: PREFIX + what }, ...parts];
}
