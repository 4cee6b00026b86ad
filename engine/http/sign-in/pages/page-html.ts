import { printable } from '../../../kit/text/printable.ts';

/** Markup whose values are already escaped. Only `html` makes it. */
export interface Html {
  readonly markup: string;
}

/** What may stand in a template: texts are escaped, lists joined, and what is absent leaves nothing. */
export type HtmlValue = string | number | Html | readonly Html[] | undefined;

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

// Much of what is shown came from a stranger's headers, and a character that reorders its line could make it read as
// something else.
function escaped(text: string): string {
  return printable(text).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

function markupOf(value: HtmlValue): string {
  if (value === undefined) return '';
  if (typeof value === 'string' || typeof value === 'number') return escaped(String(value));
  return 'markup' in value ? value.markup : value.map(({ markup }) => markup).join('');
}

/**
 * A template of markup that escapes every value put in, for element content and quoted attributes; never for scripts,
 * styles or URLs of others.
 */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return { markup: strings.reduce((markup, text, index) => markup + markupOf(values[index - 1]) + text) };
}
