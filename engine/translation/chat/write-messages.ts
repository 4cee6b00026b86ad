import type { Part, TextPart, ToolCallPart, ToolResultPart, Turn } from '../conversation.ts';
import type { Notes } from '../notes.ts';
import { writeContent, writePart } from './write-content.ts';

type Message = Record<string, unknown>;

/** Begins the text of a result that is an error, as the API has no flag for it. */
const ERROR_PREFIX = 'Error: ';

/** The order that a message has for what an assistant says. */
const RANKS: Readonly<Record<Part['kind'], number>> = {
  reasoning: 0,
  text: 1,
  image: 1,
  document: 1,
  refusal: 2,
  tool_call: 3,
  tool_result: 4,
};

/** Writes instructions and turns as messages. Raises not_translatable by a rule. */
export function writeMessages(instructions: readonly TextPart[], turns: readonly Turn[], notes: Notes): Message[] {
  const messages: Message[] = [];
  if (instructions.length > 0) messages.push(instructionMessage(instructions, notes));
  for (let at = 0; at < turns.length; ) {
    const assistant = turns[at]!.role === 'assistant';
    const next = turns.findIndex(({ role }, index) => index > at && (role === 'assistant') !== assistant);
    const group = turns.slice(at, next === -1 ? turns.length : next);
    if (assistant) messages.push(...assistantMessage(group, notes));
    else messages.push(...clientMessages(group, at, notes));
    at += group.length;
  }
  return messages;
}

/** Role system, as every server knows it; developer is known to few. */
function instructionMessage(texts: readonly TextPart[], notes: Notes): Message {
  return { role: 'system', content: writeContent(texts, 'system', notes) };
}

/** One message for neighbouring turns of the assistant, since results must follow the calls at once. */
function assistantMessage(turns: readonly Turn[], notes: Notes): Message[] {
  const parts = turns.flatMap((turn) => turn.parts).filter((part) => isKept(part, notes));
  if (parts.some((part, index) => index > 0 && RANKS[part.kind] < RANKS[parts[index - 1]!.kind])) {
    notes.note('part_order');
  }
  const texts = parts.filter((part) => part.kind === 'text');
  const calls = parts.filter((part) => part.kind === 'tool_call');
  const reasoning = joined(parts, 'reasoning', '\n\n');
  const refusal = joined(parts, 'refusal', '');
  if (parts.length === 0) return [];
  return [
    {
      role: 'assistant',
      content:
        texts.length > 0 ? writeContent(texts, 'messages', notes) : reasoning !== '' && calls.length === 0 ? '' : null,
      ...(reasoning !== '' && { reasoning_content: reasoning }),
      ...(refusal !== '' && { refusal }),
      ...(calls.length > 0 && { tool_calls: calls.map((call) => writeCall(call, notes)) }),
    },
  ];
}

/** Whether a part of the assistant can be said: reasoning only where no provider has to recognise it. */
function isKept(part: Part, notes: Notes): boolean {
  if (part.kind !== 'reasoning' || part.proof === undefined) return part.kind !== 'reasoning' || part.text !== '';
  notes.note('foreign_reasoning');
  return false;
}

function joined(parts: readonly Part[], kind: 'reasoning' | 'refusal', between: string): string {
  return parts.flatMap((part) => (part.kind === kind ? [part.text] : [])).join(between);
}

function writeCall({ id, name, arguments: text, cache }: ToolCallPart, notes: Notes): unknown {
  if (cache !== undefined) notes.note('part_cache');
  return { id, type: 'function', function: { name, arguments: text === '' ? '{}' : text } };
}

/** Results of all these turns come first: nothing may stand between calls and their results. */
function clientMessages(turns: readonly Turn[], first: number, notes: Notes): Message[] {
  const results = turns.flatMap(({ parts }) => parts.filter((part) => part.kind === 'tool_result'));
  const attached = results.flatMap((result) => attachments(result, notes));
  return [
    ...results.map((result) => resultMessage(result, notes)),
    ...(attached.length > 0 ? [{ role: 'user', content: attached }] : []),
    ...turns.flatMap((turn, index) => spokenMessage(turn, `messages.${first + index}`, notes)),
  ];
}

function spokenMessage({ role, parts }: Turn, param: string, notes: Notes): Message[] {
  const texts = parts.filter((part) => part.kind === 'text');
  if (role === 'instructions') return texts.length > 0 ? [instructionMessage(texts, notes)] : [];
  const said = parts.filter((part) => part.kind === 'text' || part.kind === 'image' || part.kind === 'document');
  return said.length > 0 ? [{ role: 'user', content: writeContent(said, param, notes) }] : [];
}

function resultMessage({ call_id, parts, is_error, cache }: ToolResultPart, notes: Notes): Message {
  if (cache !== undefined) notes.note('part_cache');
  const texts = parts.filter((part) => part.kind === 'text');
  const said =
    texts.length === 0 && parts.length > 0 ? [{ kind: 'text', text: 'See the next message.' } as const] : texts;
  return {
    role: 'tool',
    tool_call_id: call_id,
    content: writeContent(is_error ? asError(said, notes) : said, '', notes),
  };
}

function asError(texts: readonly TextPart[], notes: Notes): readonly TextPart[] {
  const [first, ...rest] = texts;
  if (first?.text.startsWith(ERROR_PREFIX)) return texts;
  notes.note('result_error');
  return [{ ...first, kind: 'text', text: `${ERROR_PREFIX}${first?.text ?? ''}` }, ...rest];
}

/** What a result has beside text, below a line that says whose it is. */
function attachments({ call_id, parts }: ToolResultPart, notes: Notes): unknown[] {
  const files = parts.filter((part) => part.kind !== 'text');
  if (files.length === 0) return [];
  notes.note('result_attachments');
  const title = { type: 'text', text: `Part of the result of tool call ${call_id}:` };
  return [title, ...files.map((file) => writePart(file, `the result of tool call ${call_id}`, notes))];
}
