/** What a terminal would act upon instead of showing it, and what hides or reorders the text around it. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const UNPRINTABLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/g;

/** A text that is safe to show on a terminal: one mark in place of each character that is none to show. */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, '\uFFFD');
}
