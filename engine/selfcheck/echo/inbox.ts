import { randomInt } from 'node:crypto';
import type { EchoAnswer, EchoedRequest, Expected } from './echo.ts';

/** Requests that are waited for or kept at once; the oldest make room. */
const EXPECTED_MAX = 100;

/** Room for bodies in memory, those of requests under way and those that are kept. */
export const HELD_BYTES_MAX = 64 * 1024 * 1024;

class Expectation implements Expected {
  readonly text: string;
  readonly answer: EchoAnswer;
  request: EchoedRequest | undefined;
  seen = 0;

  constructor(text: string, answer: EchoAnswer) {
    this.text = text;
    this.answer = answer;
  }

  received = () => this.request;
  count = () => this.seen;
}

/** What is waited for, and the first request that came for each. Holds a bounded number of bytes. */
export class Inbox {
  #held_bytes = 0;
  readonly #expected = new Map<string, Expectation>();
  readonly #usual: EchoAnswer;

  /** @param usual the answer to requests that nobody waits for. */
  constructor(usual: EchoAnswer = {}) {
    this.#usual = usual;
  }

  /** @param answer to the requests that hold the text. */
  expect(answer: EchoAnswer): Expected {
    if (this.#expected.size >= EXPECTED_MAX) this.#forget(this.#expected.values().next().value!);
    const expectation = new Expectation(`selfcheck ${wordOf(14)}`, answer);
    this.#expected.set(expectation.text, expectation);
    return expectation;
  }

  /** Takes room for bytes of a body; false where there is none. */
  take(bytes: number): boolean {
    if (this.#held_bytes + bytes > HELD_BYTES_MAX) return false;
    this.#held_bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.#held_bytes -= bytes;
  }

  /** Keeps a request where it is waited for, and says what it is answered and whether it was kept. */
  accept(request: EchoedRequest): { readonly answer: EchoAnswer; readonly is_kept: boolean } {
    for (const expectation of this.#expected.values()) {
      if (!request.body.includes(expectation.text)) continue;
      const is_kept = expectation.request === undefined;
      expectation.seen++;
      expectation.request ??= request;
      return { answer: expectation.answer, is_kept };
    }
    return { answer: this.#usual, is_kept: false };
  }

  #forget({ text, request }: Expectation): void {
    this.#expected.delete(text);
    if (request !== undefined) this.give(request.body.length);
  }
}

/** A word that nobody else says, and that no filter takes for a secret: consonants and vowels in turns. */
function wordOf(length: number): string {
  const letters = ['bdfgklmnprstvz', 'aeiou'] as const;
  return Array.from({ length }, (_, index) => letters[index % 2]!.charAt(randomInt(letters[index % 2]!.length))).join(
    '',
  );
}
