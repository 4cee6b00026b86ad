/**
 * A mock identity provider: OpenID Connect on the loopback address, with a few invented users and no passwords. Never use it
 * outside the demo.
 * @module
 */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import Provider, {
  type Configuration,
  errors,
  interactionPolicy,
  type JWK,
  type KoaContextWithOIDC,
} from 'oidc-provider';
import { openIdentityStore } from './identity-store.ts';
import { loginPage, loginPageHeaders, troublePage } from './login-page.ts';
import { type DemoPerson, PEOPLE } from './people.ts';

/** A running demo identity provider. */
export interface DemoIdentityProvider {
  readonly url: string;
  readonly people: readonly DemoPerson[];
  close(): Promise<void>;
}

/** How the demo's gateway is registered. */
export interface DemoClient {
  readonly client_id: string;
  readonly client_secret: string;
  readonly redirect_uri: string;
}

const INTERACTION = '/who/';
const LONGEST_FORM = 1024;
const HOUR_SECONDS = 3600;
const DAY_SECONDS = 24 * HOUR_SECONDS;

/**
 * Starts the demo's identity provider at its issuer URL, which must be one of 127.0.0.1. Rejects with EADDRINUSE when the
 * port is taken.
 * @param state_file keeps sign-ins over restarts.
 */
export async function startIdentityProvider(
  issuer_url: string,
  client: DemoClient,
  state_file: string,
): Promise<DemoIdentityProvider> {
  const provider = new Provider(issuer_url, configuration(client, state_file));
  const answer = provider.callback();
  const { host, hostname, port } = new URL(issuer_url);
  const client_origin = new URL(client.redirect_uri).origin;
  const server = createServer((req, res) => {
    forgetBrowser(req);
    // Another host name means a hostile web page (DNS rebinding).
    if (req.headers.host !== host) res.writeHead(421).end();
    else if (req.url?.startsWith(INTERACTION)) pickPerson(provider, client_origin, req, res).catch(() => res.destroy());
    else void answer(req, res);
  });
  server.listen(Number(port), hostname);
  await once(server, 'listening');
  return {
    url: issuer_url,
    people: PEOPLE,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function configuration({ client_id, client_secret, redirect_uri }: DemoClient, state_file: string): Configuration {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const key = { ...privateKey.export({ format: 'jwk' }), kid: randomUUID(), use: 'sig', alg: 'ES256' } as JWK;
  return {
    adapter: openIdentityStore(state_file),
    jwks: { keys: [key] },
    cookies: { keys: [randomUUID()] },
    clients: [
      {
        client_id,
        client_secret,
        redirect_uris: [redirect_uri],
        grant_types: ['authorization_code', 'refresh_token'],
        response_types: ['code'],
        id_token_signed_response_alg: 'ES256',
      },
    ],
    scopes: ['openid', 'offline_access'],
    claims: { openid: ['sub'], profile: ['name', 'groups'], email: ['email', 'email_verified'] },
    conformIdTokenClaims: false,
    features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: false } },
    interactions: { url: (_ctx, { uid }) => INTERACTION + uid, policy: withoutConsent() },
    findAccount: (_ctx, sub) => accountOf(sub),
    loadExistingGrant: consent,
    issueRefreshToken: async () => true,
    expiresWithSession: async () => false,
    ttl: {
      AccessToken: HOUR_SECONDS,
      IdToken: HOUR_SECONDS,
      Interaction: HOUR_SECONDS,
      Session: DAY_SECONDS,
      Grant: 30 * DAY_SECONDS,
      RefreshToken: 30 * DAY_SECONDS,
    },
    renderError(ctx, { error, error_description }) {
      ctx.set(loginPageHeaders(new URL(redirect_uri).origin));
      ctx.body = troublePage(`${error}: ${error_description ?? 'no more is known'}. Begin again from the terminal.`);
    },
  };
}

/** Skips the consent page. */
function withoutConsent(): interactionPolicy.DefaultPolicy {
  const policy = interactionPolicy.base();
  policy.remove('consent');
  return policy;
}

/** Ends the browser session, so that every sign-in can be another user. */
function forgetBrowser({ headers }: IncomingMessage): void {
  const cookies = headers.cookie?.split(/; */) ?? [];
  headers.cookie = cookies.filter((cookie) => !cookie.startsWith('_session')).join('; ');
}

function accountOf(sub: string) {
  const person = PEOPLE.find((candidate) => candidate.sub === sub);
  if (person === undefined) return undefined;
  const { name, email, groups } = person;
  return { accountId: sub, claims: () => ({ sub, name, email, email_verified: true, groups }) };
}

/** Grants all requested scopes. */
async function consent({ oidc }: KoaContextWithOIDC) {
  const { client, session, provider, params } = oidc;
  if (client === undefined || session?.accountId === undefined) return undefined;
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope(String(params?.scope ?? 'openid'));
  await grant.save();
  return grant;
}

/** Shows the users, and continues as the chosen one. */
async function pickPerson(
  provider: Provider,
  client_origin: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  const show = (status: number, html: string) => res.writeHead(status, loginPageHeaders(client_origin)).end(html);
  try {
    await provider.interactionDetails(req, res);
    if (req.method !== 'POST') return void show(200, loginPage(PEOPLE));
    const form = await readForm(req);
    const sub = form.get('person');
    if (sub !== null && accountOf(sub) === undefined)
      return void show(400, troublePage('There is no user of that name.'));
    const said_no = { error: 'access_denied', error_description: 'nobody was picked' };
    const result = sub === null ? said_no : { login: { accountId: sub, remember: false } };
    await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
  } catch (error) {
    if (!(error instanceof errors.OIDCProviderError)) throw error;
    show(400, troublePage('It has expired, or started in another browser. Start again from the terminal.'));
  }
}

async function readForm(req: IncomingMessage): Promise<URLSearchParams> {
  let text = '';
  for await (const chunk of req) {
    text += String(chunk);
    if (text.length > LONGEST_FORM) throw new Error('the form is too long');
  }
  return new URLSearchParams(text);
}
