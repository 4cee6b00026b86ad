import { createPrivateKey, type KeyObject } from 'node:crypto';
import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type ClientAuth,
  ClientSecretPost,
  Configuration,
  calculatePKCECodeChallenge,
  clockTolerance,
  customFetch,
  discovery,
  type ExportedJWKSCache,
  enableNonRepudiationChecks,
  fetchUserInfo,
  getJwksCache,
  PrivateKeyJwt,
  refreshTokenGrant,
  type ServerMetadata,
  setJwksCache,
  type TokenEndpointResponse,
  tokenRevocation,
} from 'openid-client';
import type { OidcConfig } from '../../../base/contract/config.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../../base/contract/start-error.ts';
import { isLoopbackUrl } from '../../../base/kit/net/addresses.ts';
import { authoritiesWith } from '../../../base/kit/net/certificates.ts';
import { exchange } from '../../../base/kit/net/exchange.ts';
import { formatNetworkError } from '../../../base/kit/net/format-network-error.ts';
import { DIRECT, type Way } from '../../../base/kit/net/proxy-route.ts';
import { wholeResponse } from '../../../base/kit/net/whole-response.ts';
import { secretHolder } from '../../../base/kit/secret-names.ts';
import { createRateLimit } from '../sessions/attempt-limits.ts';
import { completeClaims, hasClaim, VERIFIED, wantedClaims } from './claims.ts';
import { type Claims, type Identified, ProviderError, type ProviderGrant, type SignInAttempt } from './provider.ts';
import {
  basicCredentials,
  type SecretMethod,
  type ShownClient,
  type Step,
  secretMethod,
  toProviderError,
  wrongIssuer,
} from './provider-errors.ts';
import { requestedScopes, type SignInScopes, textsOf } from './scopes.ts';

/** Signature algorithms of ID tokens of a provider without a list: all with a private key. */
const SIGNATURES = ['RS', 'PS', 'ES'].flatMap((kind) => [256, 384, 512].map((bits) => `${kind}${bits}`));
/** Disables the timeout of openid-client: each request has one of our own, by our clock. */
const NO_TIMEOUT_SECONDS = 3600;

/** Most renewals of keys per minute for ID tokens with an unknown key. */
const EARLY_RENEWALS = 6;

interface Conversation {
  readonly config: Configuration;
  readonly metadata: ServerMetadata;
  readonly shown: ShownClient;
  answer?: Response;
  /** The refresh token of the response, also if the response was rejected. */
  refresh_token?: string | undefined;
}

/** The identity provider of a configuration. It is not contacted before the first call. */
export type IdentityProvider = ReturnType<typeof createIdentityProvider>;

/**
 * Creates the client of an OpenID Connect provider, by code and PKCE (RFC 7636). Times in ID tokens are checked by the system clock.
 * Raises StartError for an unusable private key or `ca_file`; its functions raise ProviderError.
 */
export function createIdentityProvider(options: {
  readonly oidc: OidcConfig;
  readonly secret: (name: string) => string;
  readonly redirect_uri: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly proxyRouteTo?: ((url: URL) => Way) | undefined;
}) {
  const { oidc, secret, redirect_uri, log, clock, proxyRouteTo = () => DIRECT } = options;
  const own_secret = secret(oidc.client_secret_env ?? oidc.private_key_env ?? '');
  const authentication = clientAuthentication(oidc, own_secret);
  const fetch = createProviderFetch(oidc, clock, proxyRouteTo);
  const discover = renewHourly(() => readDiscovery(oidc, fetch), { clock, log });
  const early_renewals = createRateLimit({ clock, most: EARLY_RENEWALS, window_seconds: 60 });
  const wanted = wantedClaims(oidc);
  /** Signing keys of the provider; openid-client renews them after five minutes. */
  let keys: ExportedJWKSCache | undefined;

  /** @param answered a response of the token endpoint to validate again instead of a new request. */
  async function begin(answered?: Response): Promise<Conversation> {
    const metadata = await discover();
    const offered = metadata.token_endpoint_auth_methods_supported;
    const method = oidc.client_secret_env ? secretMethod(oidc.token_endpoint_auth_method, offered) : undefined;
    const parameters = { [clockTolerance]: oidc.clock_skew_seconds };
    const config = new Configuration(metadata, oidc.client_id, parameters, authentication(method));
    const conversation: Conversation = { config, metadata, shown: { oidc, method, redirect_uri } };
    config.timeout = NO_TIMEOUT_SECONDS;
    config[customFetch] = async (url, init) => {
      if (url !== metadata.token_endpoint) return fetch(url, init);
      const answer = answered ?? (await readTokenAnswer(await fetch(url, init)));
      conversation.answer = answer.clone();
      conversation.refresh_token = await refreshTokenIn(answer);
      return answer;
    };
    // Without it the signature of an ID token goes unchecked where TLS verifies it (OpenID Connect Core 3.1.3.7).
    enableNonRepudiationChecks(config);
    if (isLoopbackUrl(oidc.issuer_url)) allowInsecureRequests(config);
    if (keys !== undefined) setJwksCache(config, keys);
    return conversation;
  }

  async function attempt<T>(
    { shown }: Pick<Conversation, 'shown'>,
    step: Step,
    secrets: readonly (string | undefined)[],
    task: () => Promise<T>,
  ): Promise<T> {
    try {
      return await task();
    } catch (error) {
      throw toProviderError(error, step, [own_secret, ...secrets], shown);
    }
  }

  function requestTokens<T>(
    conversation: Conversation,
    step: Step,
    secrets: readonly (string | undefined)[],
    task: (config: Configuration) => Promise<T>,
  ): Promise<T> {
    const former = keys;
    const validate = async (config: Configuration): Promise<T> => {
      try {
        return await task(config);
      } finally {
        keys = getJwksCache(config) ?? keys;
      }
    };
    return attempt(conversation, step, secrets, async () => {
      try {
        return await validate(conversation.config);
      } catch (error) {
        const { answer } = conversation;
        if (answer === undefined || !isAboutKeys(error) || keys?.uat !== former?.uat) throw error;
        // A person cannot choose the key. The limit protects a provider that signs with an unpublished key.
        if (early_renewals.take('keys') !== undefined) throw error;
        keys = undefined;
        try {
          return await validate((await begin(answer)).config);
        } finally {
          keys ??= former;
        }
      }
    });
  }

  function userinfo(conversation: Conversation, access_token: string, subject: string): Promise<Claims> {
    return attempt(conversation, 'userinfo endpoint', [access_token], () =>
      fetchUserInfo(conversation.config, access_token, subject),
    );
  }

  async function complete(conversation: Conversation, claims: Claims, sub: string, access_token: string) {
    const requested = oidc.email_verification === 'ignored' ? wanted : [...new Set([...wanted, VERIFIED])];
    const lacking = requested.filter((claim) => !hasClaim(claims, claim));
    if (lacking.length === 0 || conversation.metadata.userinfo_endpoint === undefined) return claims;
    try {
      return completeClaims(claims, await userinfo(conversation, access_token, sub), lacking, oidc.email_claim);
    } catch (error) {
      // Only `email_verified` was missing, which is optional here.
      const dispensable = lacking.every((claim) => !wanted.includes(claim));
      if (!dispensable || !(error instanceof ProviderError) || error.problem !== 'refused') throw error;
      log.debug({ err: error }, 'the identity provider does not state email_verified');
      return claims;
    }
  }

  async function renew(conversation: Conversation, grant: ProviderGrant, refresh_token: string): Promise<Identified> {
    const { subject, in_id_token = [] } = grant;
    const { issuer, userinfo_endpoint } = conversation.metadata;
    const tokens = await requestTokens(conversation, 'token endpoint', [refresh_token], (config) =>
      refreshTokenGrant(config, refresh_token),
    );
    const { sub = subject, nonce: _, ...signed } = tokens.claims() ?? {};
    if (sub !== subject) throw new ProviderError('invalid', 'token endpoint: the ID token is about another person');
    const claims = await complete(conversation, { ...signed, iss: issuer, sub }, subject, tokens.access_token);
    if (tokens.id_token === undefined && userinfo_endpoint === undefined) {
      throw new ProviderError('invalid', 'token endpoint: no ID token, and the provider has no userinfo endpoint');
    }
    if (tokens.id_token === undefined) requireSameClaims(claims, grant);
    const renewed = grantOf(subject, tokens, { in_id_token, refresh_token }, clock.now());
    return { claims, grant: renewed, scopes: scopesOf(conversation, tokens) };
  }

  function scopesOf({ metadata }: Conversation, { scope }: { readonly scope?: string | undefined }): SignInScopes {
    const listed = textsOf(metadata.scopes_supported);
    return { requested: requestedScopes(oidc, listed), listed, granted: scope?.split(' ') };
  }

  async function recheckWithoutRefreshToken(conversation: Conversation, grant: ProviderGrant): Promise<Identified> {
    const { issuer, userinfo_endpoint } = conversation.metadata;
    const { subject, access_token, access_token_expires_at = Number.POSITIVE_INFINITY } = grant;
    const unaskable = (why: string) => new ProviderError('unaskable', `token endpoint: its response ${why}`);
    if (access_token === undefined || userinfo_endpoint === undefined) {
      const lacks = access_token === undefined ? 'refresh token' : 'refresh token and has no userinfo endpoint';
      throw unaskable(`has no ${lacks}, so the person cannot be checked again`);
    }
    if (clock.now() >= access_token_expires_at) {
      const remedy = 'let it give one, by the scope offline_access or auth.oidc.authorization_parameters';
      throw unaskable(`had no refresh token, and the access token has expired; ${remedy}`);
    }
    const claims = await userinfo(conversation, access_token, subject);
    requireSameClaims(claims, grant);
    return { claims: { ...claims, iss: issuer, sub: subject }, grant };
  }

  return {
    /** Resolves when the provider responds to a new request. */
    async reach(): Promise<void> {
      const shown = { oidc, method: undefined, redirect_uri };
      await attempt({ shown }, 'discovery document', [], () => readDiscovery(oidc, fetch));
    },
    /** The URL for the browser; `other_account` requests a choice of account, even in a signed-in browser. */
    async authorizationUrl(
      { state, nonce, code_verifier }: SignInAttempt,
      how?: { readonly other_account: boolean },
    ): Promise<URL> {
      const conversation = await begin();
      const { config, metadata } = conversation;
      const code_challenge = await calculatePKCECodeChallenge(code_verifier);
      return attempt(conversation, 'discovery document', [state, nonce, code_challenge], async () =>
        buildAuthorizationUrl(config, {
          ...oidc.authorization_parameters,
          ...(how?.other_account && { prompt: promptForAccount(oidc, metadata.prompt_values_supported) }),
          redirect_uri,
          scope: requestedScopes(oidc, textsOf(metadata.scopes_supported)).join(' '),
          state,
          nonce,
          code_challenge,
          code_challenge_method: 'S256',
        }),
      );
    },
    /** Completes a sign-in by the redirect URI with the query of the browser. */
    async identify(callback: URL, { state, nonce, code_verifier }: SignInAttempt): Promise<Identified> {
      const conversation = await begin();
      const arrived = new URL(redirect_uri);
      arrived.search = callback.search;
      const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: code_verifier };
      const secrets = [state, nonce, code_verifier, ...callback.searchParams.getAll('code')];
      const tokens = await requestTokens(conversation, 'authorization code', secrets, (config) =>
        authorizationCodeGrant(config, arrived, checks),
      );
      const { nonce: _, ...claims } = tokens.claims()!;
      const completed = await complete(conversation, claims, claims.sub, tokens.access_token).catch(notThePerson);
      const in_id_token = wanted.filter((claim) => hasClaim(claims, claim));
      const grant = grantOf(claims.sub, tokens, { in_id_token }, clock.now());
      return { claims: completed, grant, scopes: scopesOf(conversation, tokens) };
    },
    /** Checks a person without a browser; raises `refused`, or `unaskable` if they must sign in for other reasons. */
    async recheck(grant: ProviderGrant): Promise<Identified> {
      const conversation = await begin();
      const { refresh_token } = grant;
      if (refresh_token === undefined) return recheckWithoutRefreshToken(conversation, grant);
      try {
        return await renew(conversation, grant, refresh_token);
      } catch (error) {
        const replaced = conversation.refresh_token;
        if (!(error instanceof ProviderError) || replaced === undefined || replaced === refresh_token) throw error;
        throw new ProviderError(error.problem, error.message, { grant: { ...grant, refresh_token: replaced } });
      }
    },
    /** Revokes a grant (RFC 7009); false without a token or a revocation endpoint. */
    async revoke({ refresh_token, access_token }: ProviderGrant): Promise<boolean> {
      const token = refresh_token ?? access_token;
      const conversation = await begin();
      if (token === undefined || conversation.metadata.revocation_endpoint === undefined) return false;
      const token_type_hint = refresh_token === undefined ? 'access_token' : 'refresh_token';
      await attempt(conversation, 'revocation endpoint', [token], () =>
        tokenRevocation(conversation.config, token, { token_type_hint }),
      );
      return true;
    },
    /** The sign-out URL of the provider; `undefined` without one. */
    async signOutUrl(): Promise<URL | undefined> {
      const { end_session_endpoint } = (await begin()).metadata;
      if (end_session_endpoint === undefined || !/^https?:/i.test(end_session_endpoint)) return undefined;
      const url = new URL(end_session_endpoint);
      url.searchParams.set('client_id', oidc.client_id);
      return url;
    },
  };
}

function clientAuthentication(oidc: OidcConfig, secret: string): (method: SecretMethod | undefined) => ClientAuth {
  if (oidc.client_secret_env === undefined) {
    const authentication = PrivateKeyJwt(readClientKey(secret, oidc.private_key_env ?? '', oidc.private_key_id));
    return () => authentication;
  }
  return (method) =>
    method === 'client_secret_post'
      ? ClientSecretPost(secret)
      : (_server, { client_id }, _form, headers) => headers.set('authorization', basicCredentials(client_id, secret));
}

/** A rejected new access token concerns the token and its scopes, not the person. */
function notThePerson(error: unknown): never {
  if (!(error instanceof ProviderError) || error.problem !== 'refused') throw error;
  throw new ProviderError('invalid', error.message);
}

async function readDiscovery({ issuer_url, client_id }: OidcConfig, fetch: ProviderFetch): Promise<ServerMetadata> {
  const insecure = isLoopbackUrl(issuer_url) ? [allowInsecureRequests] : [];
  const config = await discovery(new URL(issuer_url), client_id, undefined, undefined, {
    [customFetch]: fetch,
    execute: insecure,
    timeout: NO_TIMEOUT_SECONDS,
  });
  const metadata: ServerMetadata = config.serverMetadata();
  // openid-client makes exceptions for some providers, which would admit people of every tenant.
  if (!URL.canParse(metadata.issuer) || new URL(metadata.issuer).href !== new URL(issuer_url).href) {
    throw new ProviderError('invalid', `discovery document: ${wrongIssuer(metadata.issuer, issuer_url)}`);
  }
  const { id_token_signing_alg_values_supported = [...SIGNATURES, 'EdDSA', 'Ed25519'] } = metadata;
  return { ...metadata, id_token_signing_alg_values_supported };
}

/** Providers that support `select_account` without listing it; Google does not support `login`. */
const WITH_ACCOUNT_CHOICE: ReadonlySet<string> = new Set(['accounts.google.com', 'login.microsoftonline.com']);

/** The `prompt` for a choice of account (OpenID Connect Core 3.1.2.1). All providers but Google support `login`. */
function promptForAccount(
  { issuer_url, authorization_parameters }: Pick<OidcConfig, 'issuer_url' | 'authorization_parameters'>,
  offered: unknown,
): string {
  const chooses = Array.isArray(offered)
    ? offered.includes('select_account')
    : WITH_ACCOUNT_CHOICE.has(new URL(issuer_url).hostname);
  const wanted = (authorization_parameters.prompt ?? '').split(' ').filter((value) => value !== '' && value !== 'none');
  return [...new Set([...wanted, chooses ? 'select_account' : 'login'])].join(' ');
}

const RSA_BITS_MIN = 2048;
const RSA_ALGORITHM = /^(RS|PS)(256|384|512)$/;
const CURVES: Readonly<Record<string, string>> = { prime256v1: 'P-256', secp384r1: 'P-384', secp521r1: 'P-521' };

/**
 * Reads a private key: PEM, or a JSON Web Key, whose `alg` and `kid` then count. An RSA key signs RS256 unless its `alg`
 * has another one, an EC key ES256, ES384 or ES512 by its curve, an Ed25519 key Ed25519.
 * @param variable the name of the secret. Raises StartError, which names that and nothing of the key.
 */
function readClientKey(text: string, variable: string, key_id?: string) {
  const unusable = (why: string) =>
    new StartError(`the private key in ${secretHolder(variable)} (auth.oidc) ${why}`, {
      exit_code: EXIT_CONFIGURATION,
    });
  let jwk: { readonly alg?: unknown; readonly kid?: unknown } | undefined;
  let key: KeyObject;
  try {
    jwk = text.trimStart().startsWith('{') ? JSON.parse(text) : undefined;
    key = createPrivateKey(jwk === undefined ? text : { key: jwk as never, format: 'jwk' });
  } catch {
    // The error would quote the key.
    throw unusable("can't be read: expected PKCS #8 in PEM without a passphrase, or a private JSON Web Key");
  }
  const kid = key_id ?? (typeof jwk?.kid === 'string' ? jwk.kid : undefined);
  const algorithm = signingAlgorithm(key, jwk?.alg);
  if (algorithm === undefined) {
    const expected = `RSA of at least ${RSA_BITS_MIN} bits, EC with the curve P-256, P-384 or P-521, or Ed25519`;
    const { modulusLength = '', namedCurve = modulusLength } = key.asymmetricKeyDetails ?? {};
    const type = `${key.asymmetricKeyType} ${namedCurve}`.trim();
    throw unusable(`is a key of an unsupported type (${type}): expected ${expected}`);
  }
  return { key: key.toCryptoKey(algorithm, false, ['sign']), ...(kid !== undefined && { kid }) };
}

function signingAlgorithm({ asymmetricKeyType: type, asymmetricKeyDetails = {} }: KeyObject, alg: unknown) {
  const { modulusLength = 0, namedCurve: curve = '' } = asymmetricKeyDetails;
  if (type === 'ed25519') return 'Ed25519';
  if (type === 'ec' && CURVES[curve] !== undefined) return { name: 'ECDSA', namedCurve: CURVES[curve] };
  if (type !== 'rsa' || modulusLength < RSA_BITS_MIN) return undefined;
  const [, padding = 'RS', bits = '256'] = RSA_ALGORITHM.exec(String(alg)) ?? [];
  return { name: padding === 'PS' ? 'RSA-PSS' : 'RSASSA-PKCS1-v1_5', hash: `SHA-${bits}` };
}

const RENEWED_MS = 3_600_000;
/** Retry interval after a failed renewal, while the former document is used. */
const RETRY_MS = 60_000;

/** Caches the discovery document for an hour, or through an outage of the provider; a failure is not cached. */
function renewHourly<T>(
  read: () => Promise<T>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): () => Promise<T> {
  let known: { readonly document: T; readonly due_at: number } | undefined;
  let reading: Promise<T> | undefined;

  const renew = async (): Promise<T> => {
    try {
      const document = await read();
      known = { document, due_at: clock.monotonic() + RENEWED_MS };
      return document;
    } catch (error) {
      const failure: ProviderError = toProviderError(error, 'discovery document', []);
      if (known === undefined || failure.problem !== 'unavailable') throw failure;
      log.warn({ reason: failure.message }, 'could not renew the discovery document of the identity provider');
      known = { document: known.document, due_at: clock.monotonic() + RETRY_MS };
      return known.document;
    }
  };

  return async () => {
    if (known !== undefined && clock.monotonic() < known.due_at) return known.document;
    reading ??= renew().finally(() => {
      reading = undefined;
    });
    return reading;
  };
}

/** The grant for later checks; `former.refresh_token` stays valid unless the response has another. */
function grantOf(
  subject: string,
  tokens: Pick<TokenEndpointResponse, 'access_token' | 'refresh_token' | 'expires_in'>,
  former: { readonly in_id_token: readonly string[]; readonly refresh_token?: string },
  now: number,
): ProviderGrant {
  const { in_id_token } = former;
  const refresh_token = tokens.refresh_token ?? former.refresh_token;
  const known = in_id_token.length === 0 ? {} : { in_id_token };
  if (refresh_token !== undefined) return { subject, refresh_token, ...known };
  const { access_token, expires_in } = tokens;
  const expiry = expires_in === undefined ? {} : { access_token_expires_at: now + expires_in * 1000 };
  return { subject, access_token, ...expiry, ...known };
}

/** Claims that the provider sends only at sign-in are unknown later, not removed. Raises ProviderError. */
function requireSameClaims(claims: Claims, { in_id_token = [] }: ProviderGrant): void {
  const missing = in_id_token.filter((claim) => !hasClaim(claims, claim));
  if (missing.length === 0) return;
  const problem = `it omits ${missing.join(', ')}, which only the ID token has, so a check without a new ID token is impossible`;
  throw new ProviderError('unaskable', `userinfo endpoint: ${problem}`);
}

/** A named error (RFC 6749 section 5.2) counts with any content type and challenge. */
async function readTokenAnswer(response: Response): Promise<Response> {
  const { status } = response;
  if (status < 400 || status > 499) return response;
  const { error } = await jsonOf(response);
  if (typeof error !== 'string' || error === '') return response;
  return new Response(await response.text(), { status, headers: { 'content-type': 'application/json' } });
}

async function refreshTokenIn(response: Response): Promise<string | undefined> {
  const { refresh_token } = await jsonOf(response);
  return typeof refresh_token === 'string' && refresh_token !== '' ? refresh_token : undefined;
}

/** Whether an ID token matches none of the known keys, as after a key rotation of the provider. */
function isAboutKeys(error: unknown): boolean {
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (code === 'OAUTH_KEY_SELECTION_FAILED') return true;
  return cause instanceof Error && cause.message === 'JWT signature verification failed';
}

async function jsonOf(response: Response): Promise<Readonly<Record<string, unknown>>> {
  const body: unknown = await response
    .clone()
    .json()
    .catch(() => undefined);
  return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
}

/** Sends a request to the identity provider, and reads the whole response. Raises ProviderError. */
type ProviderFetch = (
  url: string,
  init: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly body?: unknown;
  },
) => Promise<Response>;

/** Responses come within `timeout_seconds`, at most 1 MiB, without redirects. Raises StartError for `ca_file`. */
function createProviderFetch(
  { ca_file, timeout_seconds }: OidcConfig,
  clock: Clock,
  proxyRouteTo: (url: URL) => Way,
): ProviderFetch {
  const ca = ca_file === undefined ? undefined : authoritiesWith(ca_file, 'auth.oidc.ca_file');
  return async (url, { method, headers, body }) => {
    const { origin, pathname, protocol } = new URL(url);
    const what = `${method} ${origin}${pathname}`;
    const is_plain = protocol !== 'https:';
    if (is_plain && !isLoopbackUrl(origin)) {
      throw new ProviderError('invalid', `${what}: the identity provider must have an https address`);
    }
    const timeout = new AbortController();
    const timer = clock.after(timeout_seconds * 1000, () =>
      timeout.abort(
        new ProviderError('unavailable', `${what}: no complete response within ${timeout_seconds} seconds`),
      ),
    );
    try {
      const answer = await exchange(url, {
        method,
        headers,
        ...(body !== undefined && body !== null && { body: String(body) }),
        ...(ca && { ca }),
        // Plain HTTP is for providers on this machine, without a proxy.
        ...(!is_plain && { proxy: proxyRouteTo(new URL(origin)).proxy }),
        signal: timeout.signal,
      });
      const problem = statusProblem(answer.status);
      if (problem !== undefined) throw new ProviderError(problem[0], `${what}: ${problem[1]}`);
      if (answer.ending === 'too_large')
        throw new ProviderError('invalid', `${what}: the response is longer than 1 MiB`);
      if (answer.ending === 'too_late') throw timeout.signal.reason;
      if (answer.ending === 'cut') throw Object.assign(new Error('cut'), { code: 'ECONNRESET' });
      return wholeResponse(answer.status, answer.headers, answer.body);
    } catch (error) {
      throw error instanceof ProviderError ? error : networkProblem(error, what, timeout_seconds);
    } finally {
      timer.close();
    }
  };
}

function statusProblem(status: number): [ProviderError['problem'], string] | undefined {
  if (status === 429 || (status >= 500 && status <= 599)) return ['unavailable', `it returns HTTP ${status}`];
  if (status >= 300 && status <= 399) {
    return ['invalid', `it returns HTTP ${status}, a redirect, which the gateway does not follow`];
  }
  return status >= 200 && status <= 499 ? undefined : ['invalid', `it returns HTTP ${status}`];
}

function networkProblem(error: unknown, what: string, timeout_seconds: number): ProviderError {
  const reason = formatNetworkError(error, timeout_seconds);
  if (!reason.startsWith('its certificate')) return new ProviderError('unavailable', `${what}: ${reason}`);
  const help = reason.includes('not trusted')
    ? '; set auth.oidc.ca_file to a file with the certificate of its authority'
    : '';
  return new ProviderError('invalid', `${what}: ${reason}${help}`);
}
