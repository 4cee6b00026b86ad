/**
 * A real OpenID Connect provider on the loopback address: `register` the redirect URI of each gateway, and change `people`
 * while it runs. Its login page has a button "Sign in as anna" for each user and one "Deny"; there is no consent page.
 * Its clock is the machine's own. It remembers a browser that signed in (single sign-on), as real ones do.
 */
import { generateKeyPairSync, type JsonWebKey, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import Provider, {
  type Adapter,
  type AdapterPayload,
  type ClientMetadata,
  type Configuration,
  type KoaContextWithOIDC,
} from 'oidc-provider';

export { approveAt, type Browser, createBrowser, denyAt } from './browser-by-fetch.ts';

export interface TestPerson {
  email?: unknown;
  email_verified?: unknown;
  name?: unknown;
  groups?: unknown;
  [claim: string]: unknown;
}

export const PEOPLE = {
  anna: { email: 'Anna@example.com', email_verified: true, name: 'Anna Adler', groups: ['engineering', 'admins'] },
  ben: { email: 'ben@example.com', email_verified: true, name: 'Ben Brook', groups: ['marketing'] },
  cleo: { email: 'cleo@example.net', email_verified: false, name: 'Cleo Chen', groups: ['engineering'] },
} as const satisfies Record<string, TestPerson>;

export type Endpoint = 'discovery' | 'authorization' | 'token' | 'userinfo' | 'jwks';

/**
 * How an endpoint behaves: `down` cuts the connection, `hang` never responds, `slow_body` sends the beginning of it and
 * no more, `error500` fails, `garbage` returns 200 with an HTML page.
 */
export type Mode = 'up' | 'down' | 'hang' | 'slow_body' | 'error500' | 'garbage';

export interface IdentityProviderOptions {
  readonly people?: Record<string, TestPerson>;
  /** Names of further claims that may be given out; those of `people` always are. */
  readonly claims?: readonly string[];
  /** Scopes, beside the usual ones, each with the claims of this scope alone. */
  readonly scopes?: Readonly<Record<string, readonly string[]>>;
  readonly client_id?: string;
  readonly token_endpoint_auth_method?: 'client_secret_basic' | 'client_secret_post' | 'private_key_jwt';
  readonly client_key?: JsonWebKey;
  /** Whether it gives out refresh tokens and knows the scope offline_access; by default it does. */
  readonly refresh_tokens?: boolean;
  /** Whether a refresh token is good once; by default it is. */
  readonly rotate_refresh_tokens?: boolean;
  readonly access_token_seconds?: number;
  /** Host name of the issuer; `localhost` makes it another site than a gateway at 127.0.0.1. */
  readonly host?: '127.0.0.1' | 'localhost';
  readonly tls?: { readonly cert: string; readonly key: string };
}

export type TestIdentityProvider = Awaited<ReturnType<typeof startIdentityProvider>>;

const HTML = { 'content-type': 'text/html' };
const USUAL_CLAIMS = ['email', 'email_verified', 'name', 'groups', 'roles', 'team', 'project', 'realm_access'];
const ENDPOINTS: Readonly<Record<string, Endpoint>> = {
  '/.well-known/openid-configuration': 'discovery',
  '/auth': 'authorization',
  '/token': 'token',
  '/me': 'userinfo',
  '/jwks': 'jwks',
};

export async function startIdentityProvider(options: IdentityProviderOptions = {}) {
  const { client_id = 'gateway', host = '127.0.0.1', tls } = options;
  const client_secret = `secret-${randomUUID()}`;
  const people = new Map<string, TestPerson>(Object.entries(structuredClone(options.people ?? PEOPLE)));
  const only_in_userinfo = new Set<string>();
  const requests: ReturnType<typeof recordingOf>[] = [];
  const modes = new Map<Endpoint | 'all', Mode>();
  const redirect_uris: string[] = [];
  const client = (): ClientMetadata => ({
    client_id,
    ...(options.client_key === undefined ? { client_secret } : { jwks: { keys: [options.client_key as never] } }),
    redirect_uris: [...redirect_uris],
    grant_types: options.refresh_tokens === false ? ['authorization_code'] : ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: options.token_endpoint_auth_method ?? 'client_secret_basic',
    id_token_signed_response_alg: 'ES256',
  });
  const adapters = createMemoryAdapters((id) => (id === client_id && redirect_uris.length > 0 ? client() : undefined));

  let handle: (req: IncomingMessage, res: ServerResponse) => unknown = () => {};
  const listener = (req: IncomingMessage, res: ServerResponse) => {
    const { pathname } = new URL(req.url ?? '/', 'http://provider');
    const endpoint = ENDPOINTS[pathname.replace(/^\/auth\/.*/, '/auth')] ?? 'other';
    requests.push(recordingOf(req, endpoint));
    // Node.js sends the machine's time, and browsers subtract it from the moment at which a cookie expires.
    res.setHeader('date', new Date().toUTCString());
    const mode = (endpoint === 'other' ? undefined : modes.get(endpoint)) ?? modes.get('all') ?? 'up';
    if (mode === 'up') handle(req, res);
    else MISBEHAVIOURS[mode](req, res);
  };
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `${tls === undefined ? 'http' : 'https'}://${host}:${(server.address() as AddressInfo).port}`;

  const provider = new Provider(issuer, configurationOf(options, people, only_in_userinfo, adapters.create));
  const response = provider.callback();
  handle = (req, res) =>
    req.url?.startsWith('/interaction/') ? interact(provider, people, req, res) : response(req, res);

  return {
    issuer,
    client_id,
    client_secret,
    /** By `sub`; change them as you like while it runs. */
    people,
    /** Claims left out of the ID token, for the userinfo endpoint alone; change it as you like. */
    only_in_userinfo,
    /** Every request, in order of arrival; cleared by setting `length` to 0. */
    requests,
    register: (uri: string) => void redirect_uris.push(uri),
    setMode(mode: Mode, endpoint?: Endpoint) {
      if (endpoint === undefined) modes.clear();
      modes.set(endpoint ?? 'all', mode);
    },
    forgetEverything: adapters.clear,
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function configurationOf(
  {
    claims = [],
    scopes = {},
    refresh_tokens = true,
    rotate_refresh_tokens = true,
    access_token_seconds = 3600,
  }: IdentityProviderOptions,
  people: ReadonlyMap<string, TestPerson>,
  only_in_userinfo: ReadonlySet<string>,
  adapter: NonNullable<Configuration['adapter']>,
): Configuration {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const extra = [...people.values()].flatMap((person) => Object.keys(person));
  const of_scopes = new Set(Object.values(scopes).flat());
  const usual = [...USUAL_CLAIMS, ...claims, ...extra].filter((claim) => !of_scopes.has(claim));
  return {
    adapter,
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256', kid: randomUUID() } as never] },
    scopes: [
      ...new Set(['openid', 'profile', 'email', ...Object.keys(scopes), ...(refresh_tokens ? ['offline_access'] : [])]),
    ],
    claims: {
      openid: ['sub', ...new Set(usual)],
      profile: ['name'],
      email: ['email'],
      ...Object.fromEntries(Object.entries(scopes).map(([scope, names]) => [scope, [...names]])),
    },
    conformIdTokenClaims: false,
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'private_key_jwt'],
    cookies: { keys: [randomUUID()] },
    features: { devInteractions: { enabled: false }, revocation: { enabled: true, allowedPolicy: () => true } },
    ttl: {
      AccessToken: access_token_seconds,
      IdToken: 3600,
      Grant: 86_400,
      Interaction: 600,
      Session: 86_400,
      RefreshToken: 86_400,
    },
    issueRefreshToken: async () => refresh_tokens,
    rotateRefreshToken: rotate_refresh_tokens,
    expiresWithSession: async () => false,
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    findAccount: (_ctx, sub) => {
      const person = people.get(sub);
      if (person === undefined) return undefined;
      const claimsIn = (use: string) =>
        Object.entries(person).filter(([claim]) => use !== 'id_token' || !only_in_userinfo.has(claim));
      return { accountId: sub, claims: (use) => ({ sub, ...Object.fromEntries(claimsIn(use)) }) };
    },
    loadExistingGrant: consent,
    renderError: (ctx, { error, error_description }) => {
      ctx.type = 'text';
      ctx.body = `${error}: ${error_description}`;
    },
  };
}

/** Every user agrees to everything, without a prompt. */
async function consent({ oidc }: KoaContextWithOIDC) {
  const { client, session, provider, params } = oidc;
  if (client === undefined || session?.accountId === undefined) return undefined;
  const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
  grant.addOIDCScope(String(params?.scope ?? 'openid'));
  await grant.save();
  return grant;
}

async function interact(
  provider: Provider,
  people: ReadonlyMap<string, TestPerson>,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  if (req.method !== 'POST') {
    const buttons = [...people.keys()].map((sub) => `<button name="sub" value="${sub}">Sign in as ${sub}</button>`);
    res.writeHead(200, { 'content-type': 'text/html; charset=utf-8' });
    res.end(
      `<!doctype html><html lang="en"><title>Test provider</title><form method="post">${buttons.join(' ')} <button name="deny" value="1">Deny</button></form></html>`,
    );
    return;
  }
  let body = '';
  for await (const chunk of req) body += String(chunk);
  const form = new URLSearchParams(body);
  const sub = form.get('sub') ?? '';
  const result = people.has(sub)
    ? { login: { accountId: sub } }
    : { error: 'access_denied', error_description: form.has('deny') ? 'the person said no' : 'nobody by that name' };
  try {
    await provider.interactionFinished(req, res, result, { mergeWithLastSubmission: false });
  } catch (error) {
    res.writeHead(400, { 'content-type': 'text/plain' });
    res.end(String(error));
  }
}

const MISBEHAVIOURS: Readonly<Record<Exclude<Mode, 'up'>, (req: IncomingMessage, res: ServerResponse) => void>> = {
  down: (req) => req.socket.destroy(),
  hang: () => {},
  slow_body: (_req, res) => void res.writeHead(200, { 'content-type': 'application/json' }).write('{"'),
  error500: (_req, res) => void res.writeHead(500, HTML).end('<h1>Internal Server Error</h1>'),
  garbage: (_req, res) => void res.writeHead(200, HTML).end('<h1>Welcome to this network</h1>'),
};

/** Notes a request without consuming its body, which is complete after the response. */
function recordingOf(req: IncomingMessage, endpoint: Endpoint | 'other') {
  const chunks: Buffer[] = [];
  const push = req.push.bind(req);
  req.push = (chunk: Buffer | null, encoding?: BufferEncoding) => {
    if (chunk !== null) chunks.push(chunk);
    return push(chunk, encoding);
  };
  const { method = '', url = '', headers } = req;
  return {
    endpoint,
    method,
    url,
    headers,
    get body() {
      return Buffer.concat(chunks).toString();
    },
  };
}

/** The memory for tokens and sessions of a test's identity provider. Clients come from `findClient`. */
function createMemoryAdapters(findClient: (id: string) => AdapterPayload | undefined): {
  create(model: string): Adapter;
  clear(): void;
} {
  const entries = new Map<string, AdapterPayload>();
  const create = (model: string): Adapter => {
    const key = (id: string) => `${model}:${id}`;
    const findWhere = async (field: 'uid' | 'userCode', value: string) =>
      [...entries].find(([name, payload]) => name.startsWith(key('')) && payload[field] === value)?.[1];
    return {
      upsert: async (id, payload) => void entries.set(key(id), payload),
      find: async (id) => (model === 'Client' ? findClient(id) : entries.get(key(id))),
      findByUid: (uid) => findWhere('uid', uid),
      findByUserCode: (code) => findWhere('userCode', code),
      async consume(id) {
        const payload = entries.get(key(id));
        if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1000);
      },
      destroy: async (id) => void entries.delete(key(id)),
      async revokeByGrantId(grant) {
        for (const [name, payload] of entries) if (payload.grantId === grant) entries.delete(name);
      },
    };
  };
  return { create, clear: () => entries.clear() };
}
