import type { BrandingConfig } from '../../../contract/config.ts';
import { type Html, type HtmlValue, html } from './page-html.ts';
import { PAGE_STYLE, PAGE_STYLE_SOURCE } from './page-style.ts';

const PRODUCT = 'Model gateway';

const GATE = 'M4 20V10a8 8 0 0 1 16 0v10M9 20v-9.5a3 3 0 0 1 6 0V20M2.5 20h19';

// A browser asks every site for an icon; one inside the page spares the gateway a request and the console an error.
const ICON = `data:image/svg+xml,${encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#5b7cf0" stroke-width="2" stroke-linecap="round"><path d="${GATE}"/></svg>`,
)}`;

const STYLE: Html = { markup: `<style>${PAGE_STYLE}</style>` };

const titleEnd = (name: string): Html => html` · ${name}</title>`;
const brand = (name: string): Html => html`<span>${name}</span>`;
const TITLE_END = titleEnd(PRODUCT);
const BRAND = brand(PRODUCT);
const PAGE_END: Html = { markup: '</body>\n</html>' };

/**
 * A page under the name that the configuration gives the gateway, with the way to help. What is replaced is markup, which no text
 * in a page can be.
 */
export function branded(page: string, { name, support_url }: BrandingConfig = {}): string {
  const help =
    support_url === undefined
      ? PAGE_END
      : html`<footer class="help"><a href="${support_url}" rel="noreferrer">Get help</a></footer>
${PAGE_END}`;
  const named = name ?? PRODUCT;
  return page
    .replace(TITLE_END.markup, () => titleEnd(named).markup)
    .replace(BRAND.markup, () => brand(named).markup)
    .replace(PAGE_END.markup, () => help.markup);
}

/** A whole page: its title is also said after the product's name by the browser. */
export function layout(page: { readonly title: string; readonly content: HtmlValue }): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex, nofollow">
<title>${page.title}${TITLE_END}
<link rel="icon" href="${ICON}">
${STYLE}
</head>
<body>
<header class="brand">
<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" aria-hidden="true"><path d="${GATE}"/></svg>
${BRAND}
</header>
<main>
${page.content}
</main>
${PAGE_END}
</html>
`.markup;
}

const MARKS = {
  good: html`<circle cx="20" cy="20" r="18"/><path d="m12.5 20.5 5 5 10-11"/>`,
  alarm: html`<circle cx="20" cy="20" r="18"/><path d="M20 11.5v10.5M20 28v.1"/>`,
} as const;

/** A sign above a heading that repeats what it says, and so is nothing to a screen reader. */
export function mark(kind: keyof typeof MARKS): Html {
  return html`<svg class="mark ${kind}" viewBox="0 0 40 40" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${MARKS[kind]}</svg>`;
}

/**
 * Headers of every page of sign-in, content type included.
 * @param provider_origin origin of the identity provider's issuer; left out when sign-in is off. Raises TypeError when
 * it is no URL.
 */
export function pageHeaders(provider_origin?: string): Readonly<Record<string, string>> {
  // Browsers hold the redirects after a sent form against form-action too. The identity provider may send the browser
  // on to a company's own sign-in, whose hosts nobody can list here: hence every https one. The form itself only ever
  // goes to this origin.
  const targets = ["'self'", 'https:'];
  if (provider_origin !== undefined) targets.push(new URL(provider_origin).origin);
  const policy = [
    "default-src 'none'",
    `style-src ${PAGE_STYLE_SOURCE}`,
    'img-src data:',
    `form-action ${targets.join(' ')}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy.join('; '),
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
    // Not no-referrer: it makes browsers send `Origin: null` with the form, which proves nothing.
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  };
}
