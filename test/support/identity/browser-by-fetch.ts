/** A browser as far as fetch goes: cookies by host, no redirect followed by itself, no scripts. */

export type Browser = ReturnType<typeof createBrowser>;

interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly path: string;
}

/** Creates a browser that has been nowhere yet. Cookies do not heed the port, as in real browsers. */
export function createBrowser() {
  const jar = new Map<string, Cookie[]>();
  const sent = (url: URL) =>
    (jar.get(url.hostname) ?? []).filter(({ path }) => path === '/' || `${url.pathname}/`.startsWith(`${path}/`));
  const keep = (url: URL, line: string) => {
    const [pair = '', ...attributes] = line.split(/; */);
    const attribute = (name: string) =>
      attributes.find((text) => text.toLowerCase().startsWith(`${name}=`))?.slice(name.length + 1);
    const [name = '', value = ''] = [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)];
    const path = attribute('path') ?? '/';
    const others = (jar.get(url.hostname) ?? []).filter((cookie) => cookie.name !== name || cookie.path !== path);
    const expires = attribute('expires');
    const gone = attribute('max-age') === '0' || (expires !== undefined && Date.parse(expires) <= Date.now());
    jar.set(url.hostname, gone ? others : [...others, { name, value, path }]);
  };

  /** Sends a request with this browser's cookies and stores the new ones. Follows no redirect. */
  const request = async (address: string | URL, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(address);
    const headers = new Headers(init.headers);
    const cookie = sent(url).map(({ name, value }) => `${name}=${value}`);
    if (cookie.length > 0 && !headers.has('cookie')) headers.set('cookie', cookie.join('; '));
    const response = await fetch(url, { ...init, headers, redirect: 'manual' });
    for (const line of response.headers.getSetCookie()) keep(url, line);
    return response;
  };

  return {
    request,
    submit: (url: string | URL, form: Record<string, string>, headers: Record<string, string> = {}) =>
      request(url, {
        method: 'POST',
        body: new URLSearchParams(form),
        headers: { origin: new URL(url).origin, 'sec-fetch-site': 'same-origin', ...headers },
      }),
    cookies: (url: string | URL) => new Map(sent(new URL(url)).map(({ name, value }) => [name, value])),
  };
}

/** Signs in at the test provider; returns the redirect URI with its response, not requested yet. */
export function approveAt(authorization_url: string | URL, sub: string, browser = createBrowser()): Promise<URL> {
  return walk(new URL(authorization_url), { sub }, browser);
}

export function denyAt(authorization_url: string | URL, browser = createBrowser()): Promise<URL> {
  return walk(new URL(authorization_url), { deny: '1' }, browser);
}

async function walk(start: URL, form: Record<string, string>, browser: Browser): Promise<URL> {
  let url = start;
  let response = await browser.request(url);
  for (let steps = 0; steps < 10; steps++) {
    const location = response.headers.get('location');
    if (location !== null) {
      url = new URL(location, url);
      if (url.origin !== start.origin) return url;
      await response.body?.cancel();
      response = await browser.request(url);
    } else if (response.status === 200 && url.pathname.startsWith('/interaction/')) {
      await response.body?.cancel();
      response = await browser.submit(url, form);
    } else {
      throw new Error(`the identity provider answered ${response.status}: ${await response.text()}`);
    }
  }
  throw new Error('the identity provider never sent the browser back');
}
