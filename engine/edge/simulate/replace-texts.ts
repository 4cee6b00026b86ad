import type { Rewriting } from '../../base/contract/rewriting.ts';
import { compileRewriting, TextRewriter } from '../../domain/protocols/rewriting.ts';
import { checkRewriting } from '../../pipeline/run/rewriting.ts';

/**
 * What the `rewrite` hook of a stage makes of a text that comes in pieces.
 * @param rewriting what the hook returned. Throws what is wrong with it.
 * @returns the text as it goes on, piece by piece, the last being what was held back until the end; and how often something was
 * replaced
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
