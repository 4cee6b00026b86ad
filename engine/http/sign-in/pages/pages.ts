import type { PendingGrant } from '../../../identity/sessions/device-grants.ts';
import { type Html, html } from './page-html.ts';
import { layout, mark } from './page-layout.ts';

export { pageHeaders } from './page-layout.ts';

// The forms' actions are relative: they are shown at /device alone, and public_url may have a path before it.

/**
 * The page where a person types the code a terminal shows. Sends `GET /device?user_code=...`; nothing is approved by
 * that.
 */
export function enterCodePage(
  options: {
    /** What was typed before, as it was typed. */
    readonly user_code?: string | undefined;
    /** A sentence about why that was no good. */
    readonly problem?: string | undefined;
    readonly login_notice?: string | undefined;
  } = {},
): string {
  const { user_code, problem, login_notice } = options;
  const invalid = problem === undefined ? undefined : html` aria-invalid="true"`;
  return layout({
    title: problem === undefined ? 'Enter your code' : 'Check your code',
    content: html`<h1>Enter your code</h1>
<p class="soft">Your terminal shows a code of eight letters. Type it here to sign in on that terminal.</p>
${notice(login_notice)}
${problem === undefined ? undefined : html`<p class="alert" role="alert" id="problem">${problem}</p>`}
<form method="get" action="device">
<label for="user_code">Code</label>
<input id="user_code" name="user_code" type="text" value="${user_code}" required autofocus maxlength="40" pattern="\\s*([A-Za-z][\\s._\\p{Pd}]*){8}" title="Eight letters, like WDJB-MJHT" inputmode="text" autocomplete="off" autocapitalize="characters" autocorrect="off" spellcheck="false"${invalid} aria-describedby="${problem === undefined ? 'hint' : 'problem hint'}">
<p class="hint" id="hint">Like WDJB-MJHT. Capitals and the dash don't matter.</p>
<div class="actions"><button class="primary" type="submit">Continue</button></div>
</form>`,
  });
}

/**
 * The page where a person says whether a sign-in is theirs. Sends `POST /device` with `user_code` and `action`
 * (approve, other or deny).
 */
export function confirmPage(options: {
  readonly grant: PendingGrant;
  readonly now: Date;
  readonly login_notice?: string | undefined;
}): string {
  const { grant, now, login_notice } = options;
  return layout({
    title: 'Confirm sign-in',
    content: html`<h1>Is this you signing in?</h1>
<p>Continue only if you started this yourself, and your terminal shows exactly this code.</p>
<p class="code"><span>Code</span> <code>${grant.user_code}</code></p>
<dl>
<dt>Program</dt><dd>${grant.client === '' ? 'It did not say' : grant.client}</dd>
<dt>Address</dt><dd>${grant.client_address}</dd>
<dt>Started</dt><dd>${ago(grant.created_at, now)}, at <time datetime="${grant.created_at.toISOString()}">${clockTime(grant.created_at)}</time></dd>
</dl>
${notice(login_notice)}
<form method="post" action="device">
<input type="hidden" name="user_code" value="${grant.user_code}">
<p class="small">If somebody sent you here or gave you the code, it is not yours: they would use the gateway in your name.</p>
<div class="actions">
<button class="primary" type="submit" name="action" value="approve">Continue to sign in</button>
<button class="secondary" type="submit" name="action" value="deny">This was not me</button>
<button class="secondary" type="submit" name="action" value="other">Use another account</button>
</div>
</form>`,
  });
}

/** The page at the end of a sign-in that worked. */
export function successPage(options: {
  readonly email: string;
  /** What signed in, as the confirmation showed it. */
  readonly client?: string | undefined;
}): string {
  const { email, client } = options;
  return layout({
    title: 'Signed in',
    content: html`${mark('good')}
<div role="status">
<h1>You are signed in</h1>
<p>${client === undefined || client === '' ? 'Your terminal' : client} now works as <strong>${email}</strong>.</p>
</div>
<p class="soft">You can close this window and go back to your terminal.</p>`,
  });
}

/** The page for somebody the identity provider or the gateway doesn't let in. */
export function deniedPage(options: {
  /** Why, and what to do about it. */
  readonly reason: string;
  /** What else to know; that the terminal stopped waiting unless said otherwise. */
  readonly advice?: string | undefined;
  readonly reference?: Reference | undefined;
  /** Of the sign-in that ended, where somebody else may take it on. The page is then shown at /oauth/callback. */
  readonly user_code?: string | undefined;
}): string {
  const { reason, reference, user_code } = options;
  const { advice = 'The sign-in in your terminal has ended too. To try again, start it there.' } = options;
  const more =
    user_code === undefined
      ? undefined
      : html`<form method="post" action="../device">
<input type="hidden" name="user_code" value="${user_code}">
<p class="actions"><button class="primary" type="submit" name="action" value="other">Sign in as somebody else</button></p>
</form>`;
  return errorPage({ title: 'Access denied', sentence: reason, advice, reference, more });
}

/** The page after "This was not me". */
export function declinedPage(): string {
  return layout({
    title: 'Sign-in refused',
    content: html`${mark('good')}
<div role="status">
<h1>The sign-in was refused</h1>
<p>Nobody was signed in, and the code is of no use any more.</p>
</div>
<p class="soft">If somebody asked you to enter that code, tell your administrator: it may have been an attempt to use your account. You can close this window.</p>`,
  });
}

/** The page for a code or a sign-in that took too long, or was used before. */
export function expiredPage(): string {
  return errorPage({
    title: 'This code is no longer good',
    sentence: 'It has expired, or it was used before. Codes last ten minutes and work once.',
    advice: 'Start signing in again in your terminal, and use the new code it shows.',
  });
}

/** What an administrator needs to find a page's request in the log. */
export interface Reference {
  readonly request_id: string;
  readonly at: Date;
}

/** The page for what went wrong otherwise. */
export function errorPage(options: {
  readonly title: string;
  /** What went wrong. */
  readonly sentence: string;
  /** What to do about it. */
  readonly advice: string;
  /** A path of the gateway or an absolute URL of it; never one that a request brought. */
  readonly again?: { readonly href: string; readonly label: string } | undefined;
  readonly reference?: Reference | undefined;
  readonly more?: Html | undefined;
}): string {
  const { title, sentence, advice, again, more, reference } = options;
  return layout({
    title,
    content: html`${mark('alarm')}
<div role="alert">
<h1>${title}</h1>
<p>${sentence}</p>
</div>
<p class="soft">${advice}</p>
${more}
${again && html`<p class="actions"><a class="button primary" href="${again.href}">${again.label}</a></p>`}
${reference && html`<p class="reference">For your administrator: request ${reference.request_id}, <time datetime="${reference.at.toISOString()}">${reference.at.toISOString().slice(0, 10)} ${clockTime(reference.at)}</time></p>`}`,
  });
}

/** The page at the sign-in paths of a gateway that has no identity provider. */
export function signInOffPage(): string {
  return errorPage({
    title: 'Sign-in is not set up',
    sentence: 'This gateway has no identity provider, so nobody can sign in here.',
    advice:
      'Use an access token instead; the administrator makes one for you. To turn sign-in on, the administrator sets auth.oidc in gateway.yaml.',
  });
}

function notice(text: string | undefined): Html | undefined {
  return text === undefined ? undefined : html`<aside class="notice" aria-label="Notice">${text}</aside>`;
}

/** `14:05 UTC`: where the reader is can't be known without a script. */
function clockTime(at: Date): string {
  return `${at.toISOString().slice(11, 16)} UTC`;
}

function ago(then: Date, now: Date): string {
  const minutes = Math.floor((now.getTime() - then.getTime()) / 60_000);
  if (minutes < 1) return 'less than a minute ago';
  return minutes === 1 ? 'a minute ago' : `${minutes} minutes ago`;
}
