import { StageError } from '../../contract/errors.ts';
import type { TextStream } from './text-rewriter.ts';

/** A number, or what stands where one could, is kept up to this length until it is whole. */
const ATOM_CHARS_MAX = 4096;

const ESCAPES: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** What is between the quotes of a JSON string. */
const inside = (text: string): string => JSON.stringify(text).slice(1, -1);

/**
 * Rewrites the strings of a JSON text that comes in pieces, each as a text of its own, names of members as well, so that it stays
 * JSON. A number in which something is found becomes a string.
 */
export class JsonTextRewriter implements TextStream {
  readonly #open: () => TextStream;
  #string: TextStream | undefined;
  /** The beginning of an escape. */
  #escape = '';
  /** The beginning of a number or a literal. */
  #atom = '';

  /** @param open begins a text */
  constructor(open: () => TextStream) {
    this.#open = open;
  }

  push(piece: string): string {
    let out = '';
    for (let i = 0; i < piece.length; ) {
      if (this.#escape !== '') {
        out += this.#escaped(piece[i++]!);
      } else if (this.#string === undefined) {
        out += this.#between(piece[i++]!);
      } else {
        const end = endOfPlain(piece, i);
        if (end > i) out += inside(this.#string.push(piece.slice(i, end)));
        if (piece[end] === '"') out += this.#close();
        else if (end < piece.length) this.#escape = '\\';
        i = end + 1;
      }
    }
    return out;
  }

  end(): string {
    const rest = this.#string === undefined ? this.#takeAtom() : inside(this.#string.end()) + this.#escape;
    this.#string = undefined;
    this.#escape = '';
    return rest;
  }

  #close(): string {
    const rest = inside(this.#string!.end());
    this.#string = undefined;
    return `${rest}"`;
  }

  #escaped(char: string): string {
    this.#escape += char;
    if (this.#escape[1] === 'u' && this.#escape.length < 6) return '';
    const escaped = this.#escape.slice(1);
    this.#escape = '';
    const code = escaped[0] === 'u' ? Number.parseInt(escaped.slice(1), 16) : Number.NaN;
    return inside(this.#string!.push(Number.isNaN(code) ? (ESCAPES[escaped] ?? escaped) : String.fromCharCode(code)));
  }

  #between(char: string): string {
    if (!/[\s[\]{},:"]/.test(char)) {
      this.#atom += char;
      if (this.#atom.length <= ATOM_CHARS_MAX) return '';
      throw new StageError('upstream_invalid', 'The upstream called a tool with something that is no JSON.');
    }
    const before = this.#takeAtom();
    if (char === '"') this.#string = this.#open();
    return before + char;
  }

  #takeAtom(): string {
    const atom = this.#atom;
    this.#atom = '';
    if (atom === '') return '';
    const text = this.#open();
    const rewritten = text.push(atom) + text.end();
    return rewritten === atom ? atom : JSON.stringify(rewritten);
  }
}

function endOfPlain(text: string, from: number): number {
  let end = from;
  while (end < text.length && text[end] !== '"' && text[end] !== '\\') end++;
  return end;
}
