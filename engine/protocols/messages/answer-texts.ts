import type { TextKind } from '../../contract/rewriting.ts';
import { isObject } from '../read-json.ts';
import { type AnswerTexts, keyOf, type Path, textUnlessKnown, valueAt } from '../rewriting.ts';
import type { Json } from '../translation/conversation.ts';

const KINDS: Readonly<Record<string, TextKind>> = { text: 'text', thinking: 'reasoning', partial_json: 'tool_input' };

const DELTA_TYPES: Readonly<Record<string, string>> = {
  text: 'text_delta',
  thinking: 'thinking_delta',
  partial_json: 'input_json_delta',
};

function textOf(index: unknown, field: string) {
  return { key: JSON.stringify([index, field]), part: index, kind: KINDS[field] ?? 'other' } as const;
}

function isBlock(path: Path): boolean {
  return (path.length === 2 && path[0] === 'content_block') || (path.length === 3 && path[0] === 'content');
}

/** Where the texts of a Messages answer stand. */
export const messagesTexts: AnswerTexts = {
  placeOf(path, event) {
    const key = keyOf(path);
    const comes_in_pieces = path.length === 2 && (path[0] === 'delta' || path[0] === 'content_block');
    if (comes_in_pieces && event.index !== undefined) {
      if (key === 'signature') return { is: 'proof', of: textOf(event.index, 'thinking') };
      if (key === 'partial_json') return { is: 'json_piece', id: textOf(event.index, key) };
      if (path[0] === 'delta' || key! in DELTA_TYPES)
        return textUnlessKnown(path) && { is: 'piece', id: textOf(event.index, key!) };
    }
    if (isBlock(path) && key === 'input') return { is: 'values', kind: 'tool_input' };
    if (isBlock(path) && key === 'signature') {
      const thinking = valueAt(event, [...path.slice(0, -1), 'thinking']);
      return typeof thinking === 'string' ? { is: 'proof', of: thinking } : undefined;
    }
    return textUnlessKnown(path, isBlock(path) ? KINDS[key!] : undefined);
  },
  endsBefore({ type, index, delta }, { part }) {
    // A proof is of the whole thought, and so comes behind what was held back of it.
    const is_proof = isObject(delta) && 'signature' in delta;
    if (type === 'content_block_stop' || type === 'content_block_start' || is_proof) return index === part;
    return type === 'message_delta' || type === 'message_stop' || type === 'error';
  },
  pieceLike(event: Json, path, text) {
    const field = keyOf(path)!;
    const type = DELTA_TYPES[field] ?? valueAt(event, ['delta', 'type']);
    return { type: 'content_block_delta', index: event.index, delta: { type, [field]: text } };
  },
};
