import { type Replacement, type Rewriting, TEXT_KINDS } from '../../contract/rewriting.ts';

/** Longest window a stage may ask for, in characters: so much of a stream may wait. */
const WINDOW_CHARS_MAX = 4096;

function checkReplacement({ find, replace }: Replacement): Replacement {
  if (!(find instanceof RegExp)) throw new Error('`find` of a replacement is a regular expression');
  if (typeof replace !== 'string' && typeof replace !== 'function')
    throw new Error('`replace` of a replacement is a text or a function');
  return { find, replace };
}

/** What a `rewrite` hook returned, checked. Throws what is wrong with it. */
export function checkRewriting(returned: unknown): Rewriting | undefined {
  if (returned === undefined) return undefined;
  if (typeof returned !== 'object' || returned === null)
    throw new Error('a rewrite hook returns nothing, or an object with `replacements`');
  const { replacements, window_characters, never_contains, kinds } = returned as Partial<Rewriting>;
  if (!Array.isArray(replacements)) throw new Error('a rewrite hook returns `replacements`, a list');
  const is_window =
    Number.isInteger(window_characters) && window_characters! >= 1 && window_characters! <= WINDOW_CHARS_MAX;
  if (window_characters !== undefined && !is_window)
    throw new Error(`\`window_characters\` is a whole number from 1 to ${WINDOW_CHARS_MAX}`);
  if (never_contains !== undefined && !(never_contains instanceof RegExp))
    throw new Error('`never_contains` is a regular expression for one character');
  if (kinds !== undefined && !(Array.isArray(kinds) && kinds.every((kind) => TEXT_KINDS.includes(kind))))
    throw new Error(`\`kinds\` is a list of ${TEXT_KINDS.join(', ')}`);
  return {
    replacements: replacements.map(checkReplacement),
    ...(window_characters !== undefined && { window_characters }),
    ...(never_contains !== undefined && { never_contains }),
    ...(kinds !== undefined && { kinds: [...kinds] }),
  };
}
