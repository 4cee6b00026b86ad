import type { TextKind } from '../../contract/rewriting.ts';
import { isObject } from '../read-json.ts';
import { type AnswerTexts, keyOf, type Path, type Place, type TextId, textUnlessKnown, valueAt } from '../rewriting.ts';
import type { Json } from '../translation/conversation.ts';

function kindOf(path: Path): TextKind {
  const field = path[2] === 'text' ? 'content' : path[3];
  if (field === 'content') return 'text';
  if (field === 'refusal') return 'refusal';
  if (field === 'tool_calls' || field === 'function_call') return 'tool_input';
  return typeof field === 'string' && field.startsWith('reasoning') ? 'reasoning' : 'other';
}

/** What a place in a choice is called in each chunk: elements of lists by their own index. */
function stepsOf(path: Path, chunk: Json): readonly unknown[] {
  return path.slice(2).map((step, at) => {
    const index = typeof step === 'number' ? valueAt(chunk, [...path.slice(0, 3 + at), 'index']) : undefined;
    return index ?? step;
  });
}

function brings(choice: unknown, steps: readonly unknown[]): boolean {
  let value = choice;
  for (const step of steps) {
    if (Array.isArray(value)) value = value.find((one, at) => ((isObject(one) && one.index) ?? at) === step);
    else value = isObject(value) ? value[String(step)] : undefined;
  }
  return typeof value === 'string';
}

interface ChatText extends TextId {
  readonly part: { readonly choice: unknown; readonly steps: readonly unknown[] };
}

const choiceOf = (path: Path, chunk: Json): unknown => valueAt(chunk, [...path.slice(0, 2), 'index']) ?? path[1];

function saidKinds(choice: Json): Set<TextKind> {
  const delta = isObject(choice.delta) ? choice.delta : {};
  const fields = Object.keys(delta).filter(
    (key) => key !== 'role' && delta[key] && !(Array.isArray(delta[key]) && delta[key].length === 0),
  );
  return new Set(fields.map((field) => kindOf(['choices', 0, 'delta', field])));
}

/** Only what leads to a text, with what tells where it belongs. */
function along(value: unknown, path: Path, text: string): unknown {
  const [step, ...rest] = path;
  if (step === undefined) return text;
  const inner = along(valueAt(value, [step]), rest, text);
  if (typeof step === 'number') return [inner];
  const { index, type } = isObject(value) ? value : {};
  return { ...(index !== undefined && { index }), ...(type !== undefined && { type }), [step]: inner };
}

/** Where the texts of chat completions stand. */
export const chatTexts: AnswerTexts = {
  placeOf(path, chunk): Place | undefined {
    const key = keyOf(path);
    if (key === 'logprobs' && path.length === 3) return { is: 'put', json: 'null' };
    const found = textUnlessKnown(path, kindOf(path));
    const is_text = path.length > 3 || path[2] === 'text';
    if (found === undefined || path[0] !== 'choices' || !is_text) return found;
    const is_json = key === 'arguments';
    const kind = kindOf(path);
    if (path[2] !== 'delta' && path[2] !== 'text') return { is: is_json ? 'json' : 'text', kind };
    const part = { choice: choiceOf(path, chunk), steps: stepsOf(path, chunk) };
    const last = typeof valueAt(chunk, [...path.slice(0, 2), 'finish_reason']) === 'string';
    const id: ChatText = { key: JSON.stringify(part), part, kind };
    return { is: is_json ? 'json_piece' : 'piece', id, last };
  },
  endsBefore(chunk, { part, kind }) {
    if (chunk.error !== undefined && chunk.error !== null) return true;
    const { choice: index, steps } = part as ChatText['part'];
    const choices = Array.isArray(chunk.choices) ? chunk.choices : [];
    const choice: unknown = choices.find((one, at) => isObject(one) && (one.index ?? at) === index);
    if (!isObject(choice) || brings(choice, steps)) return false;
    // What is said of another kind comes after it.
    const said = saidKinds(choice);
    return typeof choice.finish_reason === 'string' || (said.size > 0 && !said.has(kind));
  },
  pieceLike({ usage: _usage, choices, ...chunk }, path, text) {
    const index = choiceOf(path, { choices });
    const said = along(valueAt({ choices }, path.slice(0, 2)), path.slice(2), text) as Json;
    return { ...chunk, choices: [{ ...said, index, finish_reason: null }] };
  },
};
