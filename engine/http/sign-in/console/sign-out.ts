import { type Html, html } from '../pages/page-html.ts';
import { layout, mark } from '../pages/page-layout.ts';
import { CONSOLE_PATH, CONSOLE_SIGNED_OUT_PATH } from '../paths.ts';
import type { Route } from '../routes.ts';

/** The page after signing out. */
export function signedOut(issuer: string, atProvider: () => Promise<URL | undefined>): Route {
  return {
    path: CONSOLE_SIGNED_OUT_PATH,
    speaks: 'page',
    async get() {
      // The page is worth showing whatever becomes of the provider.
      const url = await atProvider().catch(() => undefined);
      return { status: 200, page: signedOutPage(`${issuer}${CONSOLE_PATH}`, url) };
    },
  };
}

function signedOutPage(console_url: string, provider_url: URL | undefined): string {
  return layout({
    title: 'Signed out',
    content: html`${mark('good')}
<div role="status">
<h1>You are signed out of the console</h1>
<p>The session in this browser has ended. Programs in your terminal stay signed in.</p>
</div>
${provider_url && stillSignedIn(provider_url)}
<p class="actions"><a class="button primary" href="${console_url}">Sign in again</a></p>`,
  });
}

function stillSignedIn({ href }: URL): Html {
  return html`<p class="soft">Your company's sign-in may still know this browser, and then lets it in again without a password. On a machine that others use, <a href="${href}" rel="noreferrer">sign out there, too</a>.</p>`;
}
