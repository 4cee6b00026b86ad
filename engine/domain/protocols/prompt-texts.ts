import type { RequestBody } from '../../base/contract/stage.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import type { Json } from './translation/conversation.ts';

/** The role of a text in a request. */
export type PromptRole = 'system' | 'user' | 'assistant' | 'tool';

/** Kinds of texts in a request. `tool_call`: arguments of a tool call, as JSON where they are not a text. */
export type PromptKind = 'text' | 'thinking' | 'tool_call' | 'tool_result';

/** A text of a request. */
export interface PromptText {
  readonly role: PromptRole;
  readonly kind: PromptKind;
  readonly text: string;
}

type About = Pick<PromptText, 'role' | 'kind'>;

const ROLES: ReadonlyMap<unknown, PromptRole> = new Map([
  ['system', 'system'],
  ['developer', 'system'],
  ['assistant', 'assistant'],
  ['model', 'assistant'],
  ['tool', 'tool'],
  ['function', 'tool'],
  ['user', 'user'],
]);

const SAME = ['content', 'text', 'refusal', 'title', 'context', 'document', 'instructions', 'prompt'] as const;
const THINKING = ['thinking', 'reasoning', 'reasoning_content', 'summary'] as const;
const CALLS = ['tool_calls', 'function_call', 'function', 'custom', 'arguments', 'input', 'action', 'code'] as const;
const RESULTS = ['output', 'outputs', 'result', 'results', 'stdout', 'stderr', 'error_message'] as const;

const RESULT_TYPE = /tool_result$|_output$/;

/** Every text of a parsed request body, in order: prompts, the conversation, calls of tools and their results. */
export function* promptTexts(body: unknown): Generator<PromptText> {
  const { system, instructions, messages, prompt, input } = fieldsOf(body);
  for (const value of [system, instructions]) yield* textsOf(value, { role: 'system', kind: 'text' });
  for (const value of [prompt, messages, input]) yield* textsOf(value, { role: 'user', kind: 'text' });
}

/** Yields the texts of one message. No generators inside: in a deeply nested body, each level would slow down every text. */
function* textsOf(value: unknown, about: About): Generator<PromptText> {
  for (const item of Array.isArray(value) ? value : [value]) {
    const texts: PromptText[] = [];
    collect(item, about, texts);
    yield* texts;
  }
}

function collect(value: unknown, about: About, texts: PromptText[]): void {
  if (typeof value === 'string') {
    if (value !== '') texts.push({ ...about, text: value });
  } else if (Array.isArray(value)) {
    for (const item of value) collect(item, about, texts);
  } else if (typeof value === 'object' && value !== null) {
    collectPart(value as Json, about, texts);
  }
}

function collectPart(part: Json, outer: About, texts: PromptText[]): void {
  const { role: named, type, source } = part;
  const is_result = typeof type === 'string' && RESULT_TYPE.test(type);
  const role = is_result ? 'tool' : (ROLES.get(named) ?? outer.role);
  const kind = is_result || role === 'tool' ? 'tool_result' : type === 'reasoning' ? 'thinking' : outer.kind;
  const about = { role, kind };
  for (const key of SAME) collect(part[key], about, texts);
  // Images and files are encoded, so they have no texts.
  const { type: encoding, data, content } = fieldsOf(source);
  if (encoding === 'text') collect(data, about, texts);
  collect(content, about, texts);
  for (const key of THINKING) collect(part[key], { role, kind: 'thinking' }, texts);
  for (const key of CALLS) collectCall(part[key], role, texts);
  for (const key of RESULTS) collect(part[key], { role: 'tool', kind: 'tool_result' }, texts);
}

/** Arguments of a tool call: a text, or an object that counts as one text. */
function collectCall(value: unknown, role: PromptRole, texts: PromptText[]): void {
  const about = { role, kind: 'tool_call' } as const;
  if (typeof value === 'string') collect(value, about, texts);
  else if (Array.isArray(value)) for (const call of value) collectPart(fieldsOf(call), about, texts);
  else if (typeof value === 'object' && value !== null) {
    if (['name', 'arguments', 'function', 'custom'].some((key) => key in value))
      collectPart(value as Json, about, texts);
    else texts.push({ ...about, text: JSON.stringify(value) });
  }
}

/**
 * The texts of a request, in any API, in order: the system prompt, messages, tool calls and their results. Read only. Needs the
 * `raw-body` capability; raises the errors of reading a body. The texts are prompts: do not log or store them.
 */
export async function openPrompt(ctx: { readBody(): Promise<RequestBody> }): Promise<Iterable<PromptText>> {
  const body = await ctx.readBody();
  const json = await body.json();
  return { [Symbol.iterator]: () => promptTexts(json) };
}
