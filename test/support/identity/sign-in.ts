import type { Clock } from '../../../engine/api.ts';
import { freePort } from '../free-port.ts';
import { bootGateway, type ConfigSections, type TestGateway } from '../gateway.ts';
import { approveAt, createBrowser, type TestIdentityProvider } from './identity-provider.ts';

/** The signing key of session tokens in tests; must never be seen by a client. */
export const SIGNING_KEY = 'session-signing-key-0c1f7b62a9d84e53';

export interface BegunSignIn {
  readonly device_code: string;
  readonly user_code: string;
  readonly verification_uri: string;
  readonly verification_uri_complete: string;
  readonly expires_in: number;
  readonly interval: number;
}

export interface TokenAnswer {
  readonly status: number;
  readonly body: {
    readonly access_token: string;
    readonly refresh_token: string;
    readonly expires_in: number;
    readonly email?: string;
    readonly error?: string;
    readonly error_description?: string;
  };
}

/** Boots a gateway whose users sign in at `provider`; `auth`, `oidc`, `server` and `config` add to gateway.yaml. */
export async function bootSignIn(options: {
  readonly provider: TestIdentityProvider;
  readonly upstream_url?: string;
  readonly oidc?: ConfigSections;
  readonly auth?: ConfigSections;
  readonly server?: ConfigSections;
  readonly config?: ConfigSections;
  readonly database_url?: string;
  readonly clock?: Clock;
  readonly env?: NodeJS.ProcessEnv;
  /** Its public address, when that is another gateway's URL: a replica. */
  readonly public_url?: string;
}): Promise<TestGateway> {
  const { provider, upstream_url = 'http://127.0.0.1:9', database_url, clock, oidc, auth, server, config } = options;
  const port = await freePort();
  const public_url = options.public_url ?? `http://127.0.0.1:${port}`;
  provider.register(`${public_url}/oauth/callback`);
  const { issuer: issuer_url, client_id, client_secret } = provider;
  return bootGateway({
    upstream_url,
    ...(database_url === undefined ? {} : { database_url }),
    ...(clock === undefined ? {} : { clock }),
    env: { TEST_CLIENT_SECRET: client_secret, TEST_SIGNING_KEY: SIGNING_KEY, ...options.env },
    config: {
      server: { listen: `127.0.0.1:${port}`, public_url, ...server },
      auth: {
        oidc: { issuer_url, client_id, client_secret_env: 'TEST_CLIENT_SECRET', ...oidc },
        session: { signing_key_env: 'TEST_SIGNING_KEY' },
        ...auth,
      },
      ...config,
    },
  });
}

const post = (url: string, form: Record<string, string>) =>
  fetch(url, { method: 'POST', body: new URLSearchParams(form), redirect: 'manual' });

export async function beginSignIn(gateway_url: string): Promise<BegunSignIn> {
  return (await (await post(`${gateway_url}/oauth/device_authorization`, {})).json()) as BegunSignIn;
}

/** Confirms a code in a browser made of fetch, signs in at the provider, returns. The final page. */
export async function confirmInBrowser(
  gateway_url: string,
  user_code: string,
  sub: string,
): Promise<{ readonly status: number; readonly text: string }> {
  const browser = createBrowser();
  const confirmed = await browser.submit(`${gateway_url}/device`, { user_code, action: 'approve' });
  const location = confirmed.headers.get('location');
  const page = location === null ? confirmed : await browser.request(await approveAt(location, sub));
  return { status: page.status, text: await page.text() };
}

export async function askForToken(gateway_url: string, form: Record<string, string>): Promise<TokenAnswer> {
  const response = await post(`${gateway_url}/oauth/token`, form);
  return { status: response.status, body: (await response.json()) as TokenAnswer['body'] };
}

export function pollWith(device_code: string): Record<string, string> {
  return { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code };
}

export function refreshWith(refresh_token: string): Record<string, string> {
  return { grant_type: 'refresh_token', refresh_token };
}

/** Signs a user in, from the device's first request to its tokens. */
export async function signIn(gateway_url: string, sub: string): Promise<TokenAnswer['body']> {
  const { device_code, user_code } = await beginSignIn(gateway_url);
  const page = await confirmInBrowser(gateway_url, user_code, sub);
  const { status, body } = await askForToken(gateway_url, pollWith(device_code));
  if (status !== 200) throw new Error(`no tokens for ${sub}: ${JSON.stringify(body)}; the page said: ${page.text}`);
  return body;
}
