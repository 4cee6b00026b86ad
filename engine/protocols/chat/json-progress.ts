/** Follows JSON text of an object that comes in pieces, and knows when it is whole. Keeps no text. */
export class JsonProgress {
  #depth = 0;
  #in_string = false;
  #escaped = false;
  /** Whether the text so far is a whole object. */
  complete = false;
  /** Whether anything came at all. */
  begun = false;

  /** Takes the next piece. */
  add(text: string): void {
    this.begun ||= text !== '';
    for (let index = 0; index < text.length; index += 1) this.#step(text.charCodeAt(index));
  }

  #step(code: number): void {
    if (this.#in_string) {
      if (this.#escaped) this.#escaped = false;
      else if (code === BACKSLASH) this.#escaped = true;
      else if (code === QUOTE) this.#in_string = false;
    } else if (code === QUOTE) this.#in_string = true;
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) this.#depth += 1;
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      this.#depth -= 1;
      this.complete ||= this.#depth === 0;
    }
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
