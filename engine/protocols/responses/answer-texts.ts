import type { TextKind } from '../../contract/rewriting.ts';
import { isObject } from '../read-json.ts';
import { type AnswerTexts, keyOf, type Path, type Place, type TextId, textUnlessKnown, valueAt } from '../rewriting.ts';
import type { Json } from '../translation/conversation.ts';
import { isMadeItem } from '../translation/made-reasoning.ts';

/** Keys of images, beside those that other protocols have. */
const IMAGES: ReadonlySet<string | undefined> = new Set(['result', 'partial_image_b64']);

/** What a response says beside what it repeats of its request. */
const ANSWERING: ReadonlySet<unknown> = new Set(['output', 'output_text', 'error', 'incomplete_details']);

function kindOfType(type: unknown): TextKind | undefined {
  if (typeof type !== 'string') return undefined;
  if (type.includes('reasoning') || type === 'summary_text') return 'reasoning';
  if (type.includes('refusal')) return 'refusal';
  if (type.includes('output_text')) return 'text';
  return /_call\b|_call_/.test(type) ? 'tool_input' : undefined;
}

/** The kind that the innermost typed object around a place says. */
function kindOf(path: Path, event: Json): TextKind {
  let kind = kindOfType(event.type);
  let value: unknown = event;
  for (const step of path) {
    value = isObject(value) || Array.isArray(value) ? (value as Json)[step] : undefined;
    if (isObject(value)) kind = kindOfType(value.type) ?? kind;
  }
  return kind ?? 'other';
}

/** The thought of an item that a translation has made, all of it; a provider's own says only what it is about. */
function translatedThought(item: unknown): string | undefined {
  if (!isObject(item) || !isMadeItem(item) || !Array.isArray(item.summary)) return undefined;
  return item.summary.map((part) => (isObject(part) && typeof part.text === 'string' ? part.text : '')).join('');
}

interface ResponseText extends TextId {
  readonly part: Json;
}

const sameOrUnsaid = (one: unknown, other: unknown): boolean =>
  one === undefined || other === undefined || one === other;

/** Where the texts of a Responses answer stand. */
export const responsesTexts: AnswerTexts = {
  counter: 'sequence_number',
  repeats: true,
  placeOf(path, event): Place | undefined {
    const key = keyOf(path);
    const [top, inner] = path;
    if (top === 'response' && inner !== undefined && !ANSWERING.has(inner)) return { is: 'skip' };
    if (event.object === 'response' && top !== undefined && !ANSWERING.has(top)) return { is: 'skip' };
    if (key === 'logprobs' && typeof path.at(-1) === 'string') return { is: 'put', json: '[]' };
    const { type } = event;
    if (path.length === 1 && key === 'delta' && typeof type === 'string') {
      if (/\baudio\.delta$/.test(type)) return undefined;
      const base = type.slice(0, -'.delta'.length);
      const { item_id, output_index, content_index, summary_index } = event;
      const part = { base, item_id, output_index, content_index, summary_index };
      const id: ResponseText = { key: JSON.stringify(part), part, kind: kindOf(path, event) };
      return { is: base.includes('arguments') ? 'json_piece' : 'piece', id };
    }
    if (IMAGES.has(key)) return undefined;
    if (key === 'encrypted_content') {
      const thought = translatedThought(valueAt(event, path.slice(0, -1)));
      return thought === undefined ? undefined : { is: 'proof', of: thought };
    }
    if (key === 'arguments') {
      const is_object = path.at(-1) === key && isObject(valueAt(event, path));
      return { is: is_object ? 'values' : 'json', kind: 'tool_input' };
    }
    // What a program of the provider is, is a text; elsewhere this is a word for an error.
    if (key === 'code' && kindOf(path, event) === 'tool_input') return { is: 'text', kind: 'tool_input' };
    return textUnlessKnown(path, kindOf(path, event));
  },
  endsBefore(event, { part }) {
    const { type, output_index, item_id } = event;
    if (typeof type !== 'string') return false;
    if (type === 'error' || /^response\.(completed|incomplete|failed|cancelled)$/.test(type)) return true;
    if (!type.endsWith('.done')) return false;
    const text = part as Json;
    const id = isObject(event.item) ? event.item.id : item_id;
    if (output_index === undefined ? !sameOrUnsaid(id, text.item_id) : output_index !== text.output_index) return false;
    if (type === 'response.output_item.done') return true;
    return (
      sameOrUnsaid(event.content_index, text.content_index) && sameOrUnsaid(event.summary_index, text.summary_index)
    );
  },
  pieceLike: (event, _path, text) => ({
    ...event,
    delta: text,
    ...(Array.isArray(event.logprobs) && { logprobs: [] }),
  }),
};
