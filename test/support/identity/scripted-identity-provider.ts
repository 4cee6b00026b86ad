/** An identity provider that returns whatever a test scripts, true or not. @module */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose';

/** The response of an endpoint: JSON with status 200, or its own script. */
export type Reply = object | ((req: IncomingMessage, res: ServerResponse, form: URLSearchParams) => void);

export interface ScriptedProvider {
  readonly issuer: string;
  metadata: Record<string, unknown>;
  jwks: Reply;
  token: Reply;
  userinfo: Reply;
  authorize: Reply;
  revoke: Reply;
  readonly requests: string[];
  /** The claims of a good ID token for `gateway`, with changes; `undefined` leaves a claim out. */
  claims(changes?: Record<string, unknown>): Record<string, unknown>;
  sign(claims: Record<string, unknown>, header?: Partial<JWTHeaderParameters>): Promise<string>;
  /** Signs with another key, which `jwks` does not have. */
  forge(claims: Record<string, unknown>, header?: Partial<JWTHeaderParameters>): Promise<string>;
  rotateKey(kid: string): Promise<void>;
}

export const NONCE = 'nonce-of-this-attempt';

export async function startScriptedProvider(t: TestContext): Promise<ScriptedProvider> {
  let signing = await keyPair('key-1');
  const foreign = await keyPair('key-1');
  const server = createServer(async (req, res) => {
    const { pathname } = new URL(req.url ?? '/', issuer);
    provider.requests.push(pathname);
    const form = new URLSearchParams(await bodyOf(req));
    const replies: Record<string, Reply | undefined> = {
      '/.well-known/openid-configuration': { ...endpoints(issuer), ...provider.metadata },
      '/jwks': provider.jwks,
      '/token': provider.token,
      '/userinfo': provider.userinfo,
      '/authorize': provider.authorize,
      '/revoke': provider.revoke,
    };
    const reply = replies[pathname];
    if (typeof reply === 'function') reply(req, res, form);
    else answerJson(res, reply === undefined ? 404 : 200, reply ?? {});
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const now = () => Math.floor(Date.now() / 1000);
  const provider: ScriptedProvider = {
    issuer,
    metadata: {},
    jwks: { keys: [signing.public_jwk] },
    token: {},
    userinfo: { sub: 'anna' },
    authorize: {},
    revoke: {},
    requests: [],
    claims: (changes) => ({
      iss: issuer,
      aud: 'gateway',
      sub: 'anna',
      email: 'anna@example.com',
      groups: [],
      nonce: NONCE,
      iat: now(),
      exp: now() + 600,
      ...changes,
    }),
    sign: (claims, header) => sign(claims, signing, header),
    forge: (claims, header) => sign(claims, foreign, header),
    async rotateKey(kid) {
      signing = await keyPair(kid);
      provider.jwks = { keys: [signing.public_jwk] };
    },
  };
  return provider;
}

export function answerJson(
  res: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  res.writeHead(status, { 'content-type': 'application/json', ...headers });
  res.end(JSON.stringify(body));
}

export function tokens(id_token: string | undefined, more: object = {}): object {
  const rest = { access_token: 'access-token-1', token_type: 'Bearer', expires_in: 300, ...more };
  return id_token === undefined ? rest : { ...rest, id_token };
}

type Pair = Awaited<ReturnType<typeof keyPair>>;

async function keyPair(kid: string) {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  return { kid, privateKey, public_jwk: { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' } };
}

function sign(claims: Record<string, unknown>, { kid, privateKey }: Pair, header: Partial<JWTHeaderParameters> = {}) {
  return new SignJWT(claims).setProtectedHeader({ alg: 'ES256', kid, ...header }).sign(privateKey);
}

function endpoints(issuer: string) {
  return {
    issuer,
    authorization_endpoint: `${issuer}/authorize`,
    token_endpoint: `${issuer}/token`,
    jwks_uri: `${issuer}/jwks`,
    userinfo_endpoint: `${issuer}/userinfo`,
    id_token_signing_alg_values_supported: ['ES256'],
    scopes_supported: ['openid', 'email'],
  };
}

async function bodyOf(req: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of req) body += String(chunk);
  return body;
}
