import { createHash } from 'node:crypto';
import type { BrandingConfig } from '../../../base/contract/config.ts';
import { printable } from '../../../base/kit/text/printable.ts';
import type { PendingGrant } from '../../../domain/identity/sessions/device-grants.ts';

/** Markup whose values are already escaped. Only `html` makes it. */
export interface Html {
  readonly markup: string;
}

/** A template value: texts are escaped, lists joined, `undefined` is empty. */
type HtmlValue = string | number | Html | readonly Html[] | undefined;

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

// Headers of unknown senders are shown: bidirectional control characters could make a line read as something else.
function escaped(text: string): string {
  return printable(text).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

function markupOf(value: HtmlValue): string {
  if (value === undefined) return '';
  if (typeof value === 'string' || typeof value === 'number') return escaped(String(value));
  return 'markup' in value ? value.markup : value.map(({ markup }) => markup).join('');
}

/** HTML template that escapes every value, for element content and quoted attributes; not for scripts, styles or untrusted URLs. */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Html {
  return { markup: strings.reduce((markup, text, index) => markup + markupOf(values[index - 1]) + text) };
}

const PAGE_STYLE = `
:root {
  color-scheme: light dark;
  --ground: #f4f5f7; --sheet: #fff; --edge: #dcdfe5; --ink: #171a21; --soft: #535b69;
  --accent: #2448c5; --accent-over: #1b389d; --on-accent: #fff; --tint: #eef1fb; --tint-edge: #cfd8f6;
  --alarm: #a3211b; --alarm-tint: #fdf0ef; --alarm-edge: #efc4c1; --good: #17653a; --field-edge: #7d8594;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #101216; --sheet: #191c22; --edge: #2e333d; --ink: #eceef2; --soft: #a6aebc;
    --accent: #9db4ff; --accent-over: #bccbff; --on-accent: #10183a; --tint: #1f2536; --tint-edge: #35405f;
    --alarm: #ff9d96; --alarm-tint: #331a1a; --alarm-edge: #6b3431; --good: #7fd6a2; --field-edge: #7a8291;
  }
}
*, *::before, *::after { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; min-height: 100vh; min-height: 100svh; padding: 1.5rem 1rem; display: grid; align-content: center;
  justify-items: center; background: var(--ground); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main, .brand { width: 100%; max-width: 28rem; }
.brand { display: flex; align-items: center; gap: .6rem; margin: 0 0 .9rem; padding: 0 .25rem; color: var(--soft); font-weight: 600; font-size: .9375rem; }
.brand svg { width: 1.375rem; height: 1.375rem; flex: none; color: var(--accent); }
main { background: var(--sheet); border: 1px solid var(--edge); border-radius: 1rem; padding: clamp(1.25rem, 6vw, 2rem); overflow-wrap: break-word; }
main > :last-child { margin-bottom: 0; }
h1 { margin: 0 0 .6rem; font-size: 1.5rem; line-height: 1.25; font-weight: 650; letter-spacing: -.012em; text-wrap: balance; }
h2 { margin: 1.5rem 0 .5rem; font-size: 1.0625rem; line-height: 1.3; font-weight: 650; }
p { margin: 0 0 1rem; text-wrap: pretty; }
.soft { color: var(--soft); }
.small { font-size: .875rem; line-height: 1.5; }
label { display: block; margin: 1.25rem 0 .4rem; font-weight: 600; }
.hint { margin: .5rem 0 0; color: var(--soft); font-size: .875rem; }
code, input { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
input {
  display: block; width: 100%; padding: .7rem .8rem; color: var(--ink); background: var(--sheet); border: 1px solid var(--field-edge);
  border-radius: .6rem; font-size: 1.375rem; letter-spacing: .1em; text-transform: uppercase;
}
input[aria-invalid="true"] { border-color: var(--alarm); }
.code { margin: 1.25rem 0; padding: .9rem .5rem 1rem; text-align: center; background: var(--tint); border: 1px solid var(--tint-edge); border-radius: .75rem; }
.code span { display: block; color: var(--soft); font-size: .875rem; }
.code code { display: block; font-size: clamp(1.5rem, 9vw, 2.125rem); line-height: 1.3; font-weight: 600; letter-spacing: .08em; margin-right: -.08em; }
dl { display: grid; grid-template-columns: minmax(5.5rem, auto) 1fr; gap: .35rem 1rem; margin: 0 0 1.25rem; font-size: .9375rem; }
dt { color: var(--soft); }
time { white-space: nowrap; }
dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
@media (max-width: 22rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
.alert, .notice { margin: 0 0 1rem; padding: .7rem .9rem; border: 1px solid; border-radius: .6rem; font-size: .9375rem; }
.alert { color: var(--alarm); background: var(--alarm-tint); border-color: var(--alarm-edge); }
.notice { color: var(--ink); background: transparent; border-color: var(--edge); white-space: pre-line; }
.actions { display: grid; gap: .65rem; margin: 1.5rem 0 0; }
button, .button {
  display: block; width: 100%; min-height: 2.875rem; padding: .65rem 1rem; border: 1px solid transparent; border-radius: .6rem;
  font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer; transition: background-color .12s;
}
.primary { color: var(--on-accent); background: var(--accent); }
.primary:hover { background: var(--accent-over); }
.secondary { color: var(--ink); background: transparent; border-color: var(--field-edge); }
.secondary:hover { background: var(--tint); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 3px; }
input:focus-visible { outline-offset: 1px; }
.mark { display: block; width: 2.5rem; height: 2.5rem; margin: 0 0 1rem; }
.mark.good { color: var(--good); }
.mark.alarm { color: var(--alarm); }
.reference { margin: 1.5rem 0 0; padding-top: 1rem; border-top: 1px solid var(--edge); color: var(--soft); font-size: .8125rem; overflow-wrap: anywhere; }
pre { margin: 0 0 1rem; padding: .75rem .9rem; white-space: pre-wrap; overflow-wrap: anywhere; background: var(--tint); border: 1px solid var(--tint-edge); border-radius: .6rem; font-size: .875rem; }
a { color: var(--accent); }
.button.primary { color: var(--on-accent); }
.help { width: 100%; max-width: 28rem; margin: .9rem 0 0; padding: 0 .25rem; font-size: .875rem; }
@media (prefers-reduced-motion: reduce) { * { transition: none !important; } }
@media (forced-colors: active) { button, .button { border-color: ButtonText; } }
`;

/** Hash source of `PAGE_STYLE` for the content security policy, which blocks any other inline style. */
const PAGE_STYLE_SOURCE = `'sha256-${createHash('sha256').update(PAGE_STYLE).digest('base64')}'`;

const PRODUCT = 'Model gateway';

const GATE = 'M4 20V10a8 8 0 0 1 16 0v10M9 20v-9.5a3 3 0 0 1 6 0V20M2.5 20h19';

// An inline icon avoids the browser's request for /favicon.ico.
const ICON = `data:image/svg+xml,${encodeURIComponent(
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="#5b7cf0" stroke-width="2" stroke-linecap="round"><path d="${GATE}"/></svg>`,
)}`;

const STYLE: Html = { markup: `<style>${PAGE_STYLE}</style>` };

export interface Page {
  readonly title: string;
  readonly content: Html;
}

/** A whole HTML page, with the configured name and support link. */
export function layout({ title, content }: Page, { name = PRODUCT, support_url }: BrandingConfig = {}): string {
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex, nofollow">
<title>${title} · ${name}</title>
<link rel="icon" href="${ICON}">
${STYLE}
</head>
<body>
<header class="brand">
<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" aria-hidden="true"><path d="${GATE}"/></svg>
<span>${name}</span>
</header>
<main>
${content}
</main>
${support_url && html`<footer class="help"><a href="${support_url}" rel="noreferrer">Get help</a></footer>`}
</body>
</html>
`.markup;
}

const MARKS = {
  good: html`<circle cx="20" cy="20" r="18"/><path d="m12.5 20.5 5 5 10-11"/>`,
  alarm: html`<circle cx="20" cy="20" r="18"/><path d="M20 11.5v10.5M20 28v.1"/>`,
} as const;

/** How something ended: a decorative sign, what a screen reader announces, and advice. */
export function outcome(
  kind: keyof typeof MARKS,
  heading: string,
  sentence: string | Html,
  advice?: string | Html,
): Html {
  return html`<svg class="mark ${kind}" viewBox="0 0 40 40" fill="none" stroke="currentColor" stroke-width="2.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${MARKS[kind]}</svg>
<div role="${kind === 'good' ? 'status' : 'alert'}">
<h1>${heading}</h1>
<p>${sentence}</p>
</div>
${advice && html`<p class="soft">${advice}</p>`}`;
}

/** Headers of every sign-in page, whose form may end at the identity provider. Raises TypeError for an invalid URL. */
export function pageHeaders(provider_origin?: string): Readonly<Record<string, string>> {
  // Browsers apply form-action to redirects after a form, too. The identity provider may redirect to a company's own sign-in on
  // unknown hosts: hence every https host. The form itself posts to this origin only.
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
    // Not no-referrer: browsers would send `Origin: null` with the form, which fails the CSRF check.
    'referrer-policy': 'same-origin',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
    'cache-control': 'no-store',
  };
}

// Form actions are relative, as public_url may have a path; the forms are shown at /device only.

/** The page where a person types the user code. Sends `GET /device?user_code=...`, which approves nothing. */
export function enterCodePage({
  user_code,
  problem,
  login_notice,
}: {
  readonly [Name in 'user_code' | 'problem' | 'login_notice']?: string | undefined;
} = {}): Page {
  const invalid = problem === undefined ? undefined : html` aria-invalid="true"`;
  return {
    title: problem === undefined ? 'Enter your code' : 'Check your code',
    content: html`<h1>Enter your code</h1>
<p class="soft">Your terminal shows a code of eight letters. Type it here to sign in on that terminal.</p>
${notice(login_notice)}
${problem === undefined ? undefined : html`<p class="alert" role="alert" id="problem">${problem}</p>`}
<form method="get" action="device">
<label for="user_code">Code</label>
<input id="user_code" name="user_code" type="text" value="${user_code}" required autofocus maxlength="40" pattern="\\s*([A-Za-z][\\s._\\p{Pd}]*){8}" title="Eight letters, like WDJB-MJHT" inputmode="text" autocomplete="off" autocapitalize="characters" autocorrect="off" spellcheck="false"${invalid} aria-describedby="${problem === undefined ? 'hint' : 'problem hint'}">
<p class="hint" id="hint">Like WDJB-MJHT. Case and the dash don't matter.</p>
<div class="actions"><button class="primary" type="submit">Continue</button></div>
</form>`,
  };
}

/**
 * The page where a person confirms that a sign-in is theirs. Sends `POST /device` with `user_code` and `action` (approve, other or
 * deny).
 */
export function confirmPage({
  grant,
  now,
  login_notice,
}: {
  readonly grant: PendingGrant;
  readonly now: Date;
  readonly login_notice?: string | undefined;
}): Page {
  return {
    title: 'Confirm sign-in',
    content: html`<h1>Is this you signing in?</h1>
<p>Continue only if you started this sign-in yourself, and your terminal shows exactly this code.</p>
<p class="code"><span>Code</span> <code>${grant.user_code}</code></p>
<dl>
<dt>Program</dt><dd>${grant.client === '' ? 'Unknown' : grant.client}</dd>
<dt>Address</dt><dd>${grant.client_address}</dd>
<dt>Started</dt><dd>${ago(grant.created_at, now)}, at <time datetime="${grant.created_at.toISOString()}">${clockTime(grant.created_at)}</time></dd>
</dl>
${notice(login_notice)}
<form method="post" action="device">
<input type="hidden" name="user_code" value="${grant.user_code}">
<p class="small">If somebody sent you the link or the code, do not continue: they would use the gateway in your name.</p>
<div class="actions">
<button class="primary" type="submit" name="action" value="approve">Continue to sign in</button>
<button class="secondary" type="submit" name="action" value="deny">This was not me</button>
<button class="secondary" type="submit" name="action" value="other">Use another account</button>
</div>
</form>`,
  };
}

export function successPage({ email, client = '' }: { readonly email: string; readonly client?: string }): Page {
  const sentence = html`${client === '' ? 'Your terminal' : client} now works as <strong>${email}</strong>.`;
  const advice = 'You can close this window and go back to your terminal.';
  return { title: 'Signed in', content: outcome('good', 'You are signed in', sentence, advice) };
}

/** The page for a person whom the identity provider or the gateway rejects. */
export function deniedPage(options: {
  readonly reason: string;
  /** By default: the terminal stopped waiting. */
  readonly advice?: string | undefined;
  readonly reference?: Reference | undefined;
  /** User code of the sign-in, to continue it with another account. The page is then shown at /oauth/callback. */
  readonly user_code?: string | undefined;
}): Page {
  const { reason, reference, user_code } = options;
  const { advice = 'The sign-in in your terminal has ended too. To try again, start it there.' } = options;
  const more =
    user_code === undefined
      ? undefined
      : html`<form method="post" action="../device">
<input type="hidden" name="user_code" value="${user_code}">
<p class="actions"><button class="primary" type="submit" name="action" value="other">Use another account</button></p>
</form>`;
  return errorPage({ title: 'Access denied', sentence: reason, advice, more }, reference);
}

/** The page after "This was not me". */
export function declinedPage(): Page {
  const sentence = 'Nobody was signed in, and the code is no longer valid.';
  const advice =
    'If somebody asked you to enter that code, tell your administrator: it may have been an attempt to use your account. You can close this window.';
  return { title: 'Sign-in rejected', content: outcome('good', 'The sign-in was rejected', sentence, advice) };
}

export function expiredPage(): Page {
  return errorPage({
    title: 'This code is no longer valid',
    sentence: 'It has expired or was already used. Codes last ten minutes and work once.',
    advice: 'Start the sign-in again in your terminal, and use the new code.',
  });
}

/** Request id and time, by which an administrator finds a request in the log. */
export interface Reference {
  readonly request_id: string;
  readonly at: Date;
}

export interface ErrorTexts {
  readonly title: string;
  readonly sentence: string;
  readonly advice: string;
  /** A URL of the gateway; never one from a request. */
  readonly again?: { readonly href: string; readonly label: string } | undefined;
  readonly more?: Html | undefined;
}

export function errorPage({ title, sentence, advice, again, more }: ErrorTexts, reference?: Reference): Page {
  return {
    title,
    content: html`${outcome('alarm', title, sentence, advice)}
${more}
${again && html`<p class="actions"><a class="button primary" href="${again.href}">${again.label}</a></p>`}
${reference && html`<p class="reference">For your administrator: request ${reference.request_id}, <time datetime="${reference.at.toISOString()}">${reference.at.toISOString().slice(0, 10)} ${clockTime(reference.at)}</time></p>`}`,
  };
}

export function signInOffPage(): Page {
  return errorPage({
    title: 'Sign-in is not set up',
    sentence: 'This gateway has no identity provider.',
    advice:
      'Use an access token instead; your administrator can create one. To enable sign-in, an administrator sets auth.oidc in gateway.yaml.',
  });
}

function notice(text: string | undefined): Html | undefined {
  return text === undefined ? undefined : html`<aside class="notice" aria-label="Notice">${text}</aside>`;
}

/** `14:05 UTC`: pages have no script that could know the reader's time zone. */
function clockTime(at: Date): string {
  return `${at.toISOString().slice(11, 16)} UTC`;
}

function ago(then: Date, now: Date): string {
  const minutes = Math.floor((now.getTime() - then.getTime()) / 60_000);
  if (minutes < 1) return 'less than a minute ago';
  return minutes === 1 ? 'a minute ago' : `${minutes} minutes ago`;
}
