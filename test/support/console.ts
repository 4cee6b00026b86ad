/**
 * Users who are signed in to the console of a gateway under test.
 *
 * ```ts
 * const anna = await signInToConsole(gateway.url, 'anna');       // an administrator by auth.admin_groups
 * await anna.call('GET', '/admin/api/me');                        // as the console itself does
 * await anna.send('POST', '/admin/api/tokens', { headers: {} });  // the cookie and nothing else: as another site has it sent
 * await openAs(page, gateway.url, 'ben', '/console/usage');       // in a real browser, signed in already
 * await openConsole(page, gateway.url, 'ben', '/console/usage');  // signs in with the browser itself, which is slower
 * ```
 * Boot the gateway with `bootSignIn` and `auth: { admin_groups: ['admins'] }`.
 */
import type { Page } from 'playwright-core';
import { approveAt, type Browser, createBrowser } from './identity/identity-provider.ts';

/** The console's headers of each request beside its cookie. */
export const OF_CONSOLE = { 'x-console': '1', 'sec-fetch-site': 'same-origin' } as const;

/** A response, its body parsed where it is JSON. */
export interface ConsoleAnswer {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: tests state their expectations of it.
  readonly body: any;
}

/** A signed-in user. */
export type ConsolePerson = ReturnType<typeof personIn>;

/** Signs a user of the test identity provider in, by fetch, and returns them with their cookie. */
export async function signInToConsole(
  gateway_url: string,
  sub: string,
  browser = createBrowser(),
): Promise<ConsolePerson> {
  const left = await browser.request(`${gateway_url}/console/sign-in`);
  const location = left.headers.get('location');
  if (location === null) throw new Error(`no way to the identity provider: ${left.status} ${await left.text()}`);
  const back = await browser.request(await approveAt(location, sub));
  if (back.status !== 303) throw new Error(`${sub} was not signed in: ${back.status} ${await back.text()}`);
  return personIn(gateway_url, browser);
}

/** The user of a browser with cookies. */
export function personIn(gateway_url: string, browser: Browser) {
  const send = async (method: string, path: string, init: RequestInit = {}): Promise<ConsoleAnswer> => {
    const response = await browser.request(`${gateway_url}${path}`, { ...init, method });
    const text = await response.text();
    const is_json = /^application\/json\b/.test(response.headers.get('content-type') ?? '');
    return { status: response.status, headers: response.headers, body: is_json ? JSON.parse(text) : text };
  };
  return {
    browser,
    /** The header that a browser sends. */
    get cookie() {
      return [...browser.cookies(gateway_url)].map(([name, value]) => `${name}=${value}`).join('; ');
    },
    /** Sends a request with the cookie and without any proof of its origin. */
    send,
    /** Sends a request like the console. */
    call: (method: string, path: string, body?: unknown) =>
      send(method, path, {
        headers: { ...OF_CONSOLE, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
  };
}

/** Opens a page of the console in a real browser for a signed-in user. */
export async function openAs(page: Page, gateway_url: string, sub: string, path: string): Promise<void> {
  const { browser } = await signInToConsole(gateway_url, sub);
  const cookies = [...browser.cookies(gateway_url)].map(([name, value]) => ({ name, value, url: gateway_url }));
  await page.context().addCookies(cookies.map((cookie) => ({ ...cookie, httpOnly: true, sameSite: 'Lax' as const })));
  await page.goto(`${gateway_url}${path}`);
}

/** Signs a user in with a real browser, which ends at a page of the console. */
export async function openConsole(page: Page, gateway_url: string, sub: string, path = '/console'): Promise<void> {
  await page.goto(`${gateway_url}/console/sign-in?back_to=${encodeURIComponent(path)}`);
  await page.getByRole('button', { name: `Sign in as ${sub}` }).click();
  await page.waitForURL((url) => url.pathname.startsWith('/console'));
}
