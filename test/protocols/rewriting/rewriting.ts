/** Rewritings for tests, and functions that cut texts into pieces. */
import fc from 'fast-check';
import type { Rewriting } from '../../../engine/api.ts';
import { textsOf } from '../../../engine/domain/protocols/definitions.ts';
import { AnswerRewriter, compileRewriting, TextRewriter } from '../../../engine/domain/protocols/rewriting.ts';

/** E-mail addresses as users may write them: with no bound of their own. */
export const ADDRESSES: Rewriting = {
  replacements: [{ find: /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/, replace: '[address]' }],
  window_characters: 64,
};

/** The same, for addresses that end at a space. */
export const WORDS: Rewriting = { ...ADDRESSES, never_contains: /\s/ };

/** Cuts a text at these places, counted in thousandths of it. */
export function cut(text: string, places: readonly number[]): string[] {
  const at = [...new Set(places.map((place) => Math.floor((place * text.length) / 1000)))].sort((a, b) => a - b);
  return [0, ...at].map((start, i) => text.slice(start, at[i] ?? text.length));
}

/** Where to cut. */
export const places = fc.array(fc.integer({ min: 0, max: 1000 }), { maxLength: 40 });

/** Texts with addresses in them, whole, cut and nearly. */
export const texts = fc
  .array(
    fc.oneof(
      {
        weight: 4,
        arbitrary: fc.constantFrom('ann@example.com', 'a.b+c@x-y.example.org', 'Bob <bob@b.co>', '\u{1f600}'),
      },
      { weight: 2, arbitrary: fc.constantFrom('@', 'ann@', '@x.com', '.', ' ', '\n', '"', '\\', 'é', '\ud83d') },
      { weight: 1, arbitrary: fc.string({ maxLength: 90 }) },
      { weight: 1, arbitrary: fc.integer({ min: 1, max: 150 }).map((length) => 'a'.repeat(length)) },
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

/** A text rewritten piece by piece, and how often something was replaced. */
export function rewritten(rewriting: Rewriting, pieces: readonly string[]): { text: string; count: number } {
  let count = 0;
  const rewriter = new TextRewriter(compileRewriting(rewriting), () => count++);
  return { text: pieces.map((piece) => rewriter.push(piece)).join('') + rewriter.end(), count };
}

/** What rewrites the answers of a protocol, for a stage that is called `a`. */
export function rewriterOf(protocol: string, rewriting: Rewriting = WORDS): AnswerRewriter {
  const named = { id: 'a', rewriting: compileRewriting(rewriting) };
  return new AnswerRewriter(textsOf(protocol), [named], 'gw:messages@main:none::');
}
