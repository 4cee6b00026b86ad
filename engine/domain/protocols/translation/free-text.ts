import { parseBounded } from '../../../base/kit/json/bounded.ts';
import { optional, textAt } from '../read-json.ts';
import type { Json, Tool } from './conversation.ts';
import type { Notes } from './rules.ts';

/**
 * Free-text tools are called with plain text by their own protocol and with `{"input": text}` in a conversation. Both
 * directions work on pieces of a stream, so that a long patch arrives as it is written.
 */

/** JSON Schema of the arguments of a free-text tool in a conversation. */
export const FREE_TEXT_PARAMETERS = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
} as const;

/** Names of the tools that are called with plain text. */
export function freeTextTools(tools: readonly Tool[]): ReadonlySet<string> {
  return new Set(tools.filter(({ free_text }) => free_text === true).map(({ name }) => name));
}

/**
 * The description of a tool whose text must follow a grammar, which only the client's protocol can enforce. Raises
 * invalid_request.
 */
export function withGrammar(description: string | undefined, grammar: Json, param: string, notes: Notes): string {
  notes.note('tool_grammar');
  const syntax = optional(grammar, 'syntax', textAt, `${param}.`) ?? 'lark';
  const rules = `The input must follow this grammar (${syntax}):\n${textAt(grammar.definition, `${param}.definition`)}`;
  return description ? `${description}\n\n${rules}` : rules;
}

/** What stands before the text in the arguments of a free-text tool. */
export const FREE_TEXT_START = '{"input":"';

/** What stands after the text in the arguments of a free-text tool. */
export const FREE_TEXT_END = '"}';

/** A piece of text as a piece of a JSON string, without the quotes. */
export function escapeFreeText(piece: string): string {
  return JSON.stringify(piece).slice(1, -1);
}

/** Whole arguments for a text. */
export function freeTextArguments(text: string): string {
  return FREE_TEXT_START + escapeFreeText(text) + FREE_TEXT_END;
}

/** The text in whole arguments; arguments that are no object with a text `input` are the text themselves. */
export function freeTextOf(args: string): string {
  try {
    const value: unknown = parseBounded(args);
    const input = typeof value === 'object' && value !== null ? (value as Json).input : undefined;
    return typeof input === 'string' ? input : args;
  } catch {
    return args;
  }
}

/** The beginning of arguments up to the text, in any spacing. */
const START = /^\s*\{\s*"input"\s*:\s*"/;

/** The longest beginning that is looked at; models write 10 characters. */
const START_CHARS_MAX = 64;

/** The end of the text, or one character that is escaped. */
const MARK = /"|\\(?:u(.{4})|([^u]))/gs;

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' };

/** Takes the text out of arguments that come in pieces. */
export class FreeTextDecoder {
  #held = '';
  #state: 'start' | 'text' | 'over' = 'start';

  /** The text in this piece, as far as it is certain. */
  push(piece: string): string {
    if (this.#state === 'over') return '';
    const may_start = this.#held.length <= START_CHARS_MAX;
    this.#held += piece;
    if (this.#state === 'start') {
      const start = may_start ? START.exec(this.#held) : null;
      if (start === null) return '';
      this.#state = 'text';
      this.#held = this.#held.slice(start[0].length);
    }
    return this.#decode(this.#held);
  }

  #decode(source: string): string {
    let text = '';
    let from = 0;
    for (const { 0: mark, 1: code, 2: character, index } of source.matchAll(MARK)) {
      text += source.slice(from, index);
      if (mark === '"') {
        this.#state = 'over';
        return text;
      }
      text += code === undefined ? (ESCAPES[character!] ?? character) : unicode(code);
      from = index + mark.length;
    }
    // What is left of an escape comes with the next piece.
    const cut = source.indexOf('\\', from);
    const end = cut === -1 ? source.length : cut;
    this.#held = source.slice(end);
    return text + source.slice(from, end);
  }

  /** What is left when the arguments are complete. Arguments of another form are read whole here. */
  end(): string {
    const rest = this.#state === 'start' ? freeTextOf(this.#held) : '';
    this.#state = 'over';
    return rest;
  }
}

function unicode(digits: string): string {
  const code = Number.parseInt(digits, 16);
  return Number.isNaN(code) ? digits : String.fromCharCode(code);
}
