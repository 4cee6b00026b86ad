import type { Rewriting } from '../../base/contract/rewriting.ts';
import { compileRewriting, TextRewriter } from '../../domain/protocols/rewriting.ts';
import { checkRewriting } from '../../pipeline/run/rewriting.ts';

/**
 * Applies the result of a stage's `rewrite` hook to a text in pieces.
 * @param rewriting return value of the hook. Throws if it is invalid.
 * @returns the rewritten text and its pieces, the last being what was buffered until the end; and the number of replacements
 */
export function replaceTexts(
  rewriting: Rewriting | undefined,
  pieces: readonly string[],
): { text: string; pieces: readonly string[]; replaced: number } {
  const checked = checkRewriting(rewriting);
  if (checked === undefined) return { text: pieces.join(''), pieces, replaced: 0 };
  let replaced = 0;
  const rewriter = new TextRewriter(compileRewriting(checked), () => replaced++);
  const passed = [...pieces.map((piece) => rewriter.push(piece)), rewriter.end()];
  return { text: passed.join(''), pieces: passed, replaced };
}
