/** An identity provider that returns whatever a test scripts, true or not. @module */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { TestContext } from 'node:test';
import { exportJWK, generateKeyPair, type JWTHeaderParameters, SignJWT } from 'jose';
import { openPort } from '../net/own-port.ts';

/** The response of an endpoint: JSON with status 200, or its own script. */
export type Reply = object | ((req: IncomingMessage, res: ServerResponse, form: URLSearchParams) => void);

export type ScriptedProvider = Awaited<ReturnType<typeof startScriptedProvider>>;

export const NONCE = 'nonce-of-this-attempt';

export async function startScriptedProvider(t: TestContext) {
  let signing = await keyPair('key-1');
  const foreign = await keyPair('key-1');
  const server = createServer(async (req, res) => {
    const { pathname } = new URL(req.url ?? '/', issuer);
    provider.requests.push(pathname);
    const form = new URLSearchParams(await text(req));
    const by_path: Record<string, Reply | undefined> = {
      '/.well-known/openid-configuration': { ...endpoints(issuer), ...provider.metadata },
      '/jwks': provider.jwks,
      '/token': provider.token,
      '/userinfo': provider.userinfo,
      '/authorize': provider.authorize,
      '/revoke': provider.revoke,
    };
    const reply = by_path[pathname];
    if (typeof reply === 'function') reply(req, res, form);
    else answerJson(res, reply === undefined ? 404 : 200, reply ?? {});
  });
  const { url: issuer, close } = await openPort(server);
  t.after(close);
  const now = () => Math.floor(Date.now() / 1000);
  const replies: Record<'jwks' | 'token' | 'userinfo' | 'authorize' | 'revoke', Reply> = {
    jwks: { keys: [signing.public_jwk] },
    token: {},
    userinfo: { sub: 'anna' },
    authorize: {},
    revoke: {},
  };
  const provider = {
    issuer,
    ...replies,
    metadata: {} as Record<string, unknown>,
    requests: [] as string[],
    /** The claims of a good ID token for `gateway`, with changes; `undefined` leaves a claim out. */
    claims: (changes: Claims = {}): Claims => ({
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
    sign: (claims: Claims, header?: Partial<JWTHeaderParameters>) => sign(claims, signing, header),
    /** Signs with another key, which `jwks` does not have. */
    forge: (claims: Claims, header?: Partial<JWTHeaderParameters>) => sign(claims, foreign, header),
    async rotateKey(kid: string) {
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

type Claims = Record<string, unknown>;

type Pair = Awaited<ReturnType<typeof keyPair>>;

async function keyPair(kid: string) {
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  return { kid, privateKey, public_jwk: { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' } };
}

function sign(claims: Claims, { kid, privateKey }: Pair, header: Partial<JWTHeaderParameters> = {}) {
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
