import { parseBounded } from '../../../base/kit/json/bounded.ts';
import { optional, textAt } from '../read-json.ts';
import type { Json, Tool } from './conversation.ts';
import type { Notes } from './rules.ts';

/** Free-text tools get plain text, and `{"input": text}` in a conversation; both stream in pieces. */

/** JSON Schema of the arguments of a free-text tool in a conversation. */
export const FREE_TEXT_PARAMETERS = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
} as const;

export function freeTextTools(tools: readonly Tool[]): ReadonlySet<string> {
  return new Set(tools.filter(({ free_text }) => free_text === true).map(({ name }) => name));
}

/** Adds a grammar, which only the client's protocol enforces, to the description. Raises invalid_request. */
export function withGrammar(description: string | undefined, grammar: Json, param: string, notes: Notes): string {
  notes.note('tool_grammar');
  const syntax = optional(grammar, 'syntax', textAt, `${param}.`) ?? 'lark';
  const rules = `The input must follow this grammar (${syntax}):\n${textAt(grammar.definition, `${param}.definition`)}`;
  return description ? `${description}\n\n${rules}` : rules;
}

export const FREE_TEXT_START = '{"input":"';

export const FREE_TEXT_END = '"}';

/** A piece of text as a piece of a JSON string, without the quotes. */
export function escapeFreeText(piece: string): string {
  return JSON.stringify(piece).slice(1, -1);
}

export function freeTextArguments(text: string): string {
  return FREE_TEXT_START + escapeFreeText(text) + FREE_TEXT_END;
}

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

const START_CHARS_MAX = 64;

/** The end of the text, or one character that is escaped. */
const MARK = /"|\\(?:u(.{4})|([^u]))/gs;

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' };

export class FreeTextDecoder {
  #held = '';
  #state: 'start' | 'text' | 'over' = 'start';

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
    // The next piece has the rest of the escape.
    const cut = source.indexOf('\\', from);
    const end = cut === -1 ? source.length : cut;
    this.#held = source.slice(end);
    return text + source.slice(from, end);
  }

  /** The remaining text at the end of the arguments; arguments of another form are parsed here. */
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
