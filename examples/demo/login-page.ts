import { createHash } from 'node:crypto';
import type { DemoPerson } from './people.ts';

const STYLE = `
:root { color-scheme: light dark; --ink: #1d2127; --soft: #586070; --ground: #fff; --line: #d5d9e0; --accent: #0f6b50; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9ebef; --soft: #a7aebb; --ground: #15181c; --line: #3a404a; --accent: #6fd3ae; }
}
body { margin: 0; padding: 3rem 1.25rem; background: var(--ground); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 26rem; margin: 0 auto; }
h1 { margin: 0 0 .5rem; font-size: 1.5rem; line-height: 1.25; }
p { margin: 0 0 1.5rem; color: var(--soft); }
form { display: grid; gap: .75rem; }
button { padding: .75rem 1rem; border: 1px solid var(--line); border-radius: .5rem; background: none; color: inherit;
  font: inherit; text-align: left; cursor: pointer; }
button:hover { border-color: var(--accent); }
button:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
strong, small { display: block; }
small { color: var(--soft); font-size: .875rem; }
.cancel { border-color: transparent; text-align: center; text-decoration: underline; }
`;
const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

const ENTITIES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (character) => ENTITIES[character]!);
}

function button({ sub, name, email, groups, is }: DemoPerson): string {
  return `<button name="person" value="${escaped(sub)}"><strong>${escaped(name)}, ${escaped(email)}</strong>
<small>${escaped(is)} (${escaped(groups.join(', '))})</small></button>`;
}

function page(title: string, content: string): string {
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(title)}</title><style>${STYLE}</style></head>
<body><main><h1>${escaped(title)}</h1>
${content}
</main></body>
</html>
`;
}

/** The page with the users to choose from. */
export function loginPage(people: readonly DemoPerson[]): string {
  return page(
    'Who are you today?',
    `<p>This identity provider belongs to the demo. It replaces the one of your company, and needs no password.</p>
<form method="post">
${people.map(button).join('\n')}
<button class="cancel" name="cancel" value="yes">Cancel</button>
</form>`,
  );
}

/** The error page of a sign-in. */
export function troublePage(sentence: string): string {
  return page('This sign-in cannot continue', `<p>${escaped(sentence)}</p>`);
}

/**
 * Headers of these pages.
 * @param client_origin where the sign-in started: browsers apply `form-action` to redirects after a form, too.
 */
export function loginPageHeaders(client_origin: string): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${STYLE_HASH}'`,
    `form-action 'self' ${client_origin}`,
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ];
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy.join('; '),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  };
}
