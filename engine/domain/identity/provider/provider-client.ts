import { createPrivateKey, type KeyObject, type webcrypto } from 'node:crypto';
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
  tokenRevocation,
} from 'openid-client';
import type { OidcConfig } from '../../../base/contract/config.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import { EXIT_CONFIGURATION, StartError } from '../../../base/contract/start-error.ts';
import { isLoopbackUrl } from '../../../base/kit/net/addresses.ts';
import { DIRECT, type Way } from '../../../base/kit/net/way.ts';
import { secretHolder } from '../../../base/kit/secret-names.ts';
import { createRequestLimit, type RequestLimit } from '../sessions/attempt-limits.ts';
import { completeClaims, isTold, VERIFIED, wantedClaims } from './claims.ts';
import {
  type Claims,
  type Identified,
  type IdentityProvider,
  ProviderError,
  type ProviderGrant,
  type SignInAttempt,
} from './provider.ts';
import {
  basicCredentials,
  type SecretMethod,
  type ShownClient,
  type Step,
  secretMethod,
  toProviderError,
  wrongIssuer,
} from './provider-errors.ts';
import { createProviderFetch, type ProviderFetch } from './provider-fetch.ts';
import { askedScopes, type SignInScopes, textsOf } from './scopes.ts';

/** What a provider that leaves the list out may sign ID tokens with: anything that takes its private key. */
const SIGNATURES = ['RS', 'PS', 'ES'].flatMap((kind) => [256, 384, 512].map((bits) => `${kind}${bits}`));
/** The requests have a timeout of their own, which begins with each of them and heeds the clock. */
const NO_TIMEOUT_SECONDS = 3600;

/** How often in a minute keys are fetched again because they do not fit an ID token. */
const EARLY_RENEWALS = 6;

interface Conversation {
  readonly config: Configuration;
  readonly metadata: ServerMetadata;
  readonly shown: ShownClient;
  answer?: Response;
  /** The refresh token in that, also when it was then found wanting. */
  refresh_token?: string | undefined;
}

interface ProviderOptions {
  readonly oidc: OidcConfig;
  readonly secret: (name: string) => string;
  readonly redirect_uri: string;
  readonly log: Log;
  readonly clock: Clock;
  /** How each of its addresses is reached; directly where nothing is said. */
  readonly wayTo?: ((url: URL) => Way) | undefined;
}

/**
 * The identity provider of a configuration, by OpenID Connect with authorization code and PKCE (RFC 7636). Times in ID
 * tokens are judged by the machine's own clock, everything else by `clock`.
 */
export class OpenIdProvider implements IdentityProvider {
  readonly #oidc: OidcConfig;
  readonly #redirect_uri: string;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #own_secret: string;
  readonly #authentication: (method: SecretMethod | undefined) => ClientAuth;
  readonly #fetch: ProviderFetch;
  readonly #discover: () => Promise<ServerMetadata>;
  readonly #early_renewals: RequestLimit;
  readonly #wanted: readonly string[];
  /** Signing keys of the provider; openid-client renews them after five minutes. */
  #keys: ExportedJWKSCache | undefined;

  /** Raises StartError for a private key or `ca_file` that can't be used. */
  constructor({ oidc, secret, redirect_uri, log, clock, wayTo = () => DIRECT }: ProviderOptions) {
    const { timeout_seconds, ca_file } = oidc;
    this.#oidc = oidc;
    this.#redirect_uri = redirect_uri;
    this.#log = log;
    this.#clock = clock;
    this.#own_secret = secret(oidc.client_secret_env ?? oidc.private_key_env ?? '');
    this.#authentication = clientAuthentication(oidc, this.#own_secret);
    this.#fetch = createProviderFetch({ ca_file, timeout_seconds, clock, wayTo });
    this.#discover = renewHourly(() => readDiscovery(oidc, this.#fetch), { clock, log });
    this.#early_renewals = createRequestLimit({ clock, most: EARLY_RENEWALS, window_seconds: 60 });
    this.#wanted = wantedClaims(oidc);
  }

  async reach(): Promise<void> {
    const shown = { oidc: this.#oidc, method: undefined, redirect_uri: this.#redirect_uri };
    await this.#attempt({ shown }, 'discovery document', [], () => readDiscovery(this.#oidc, this.#fetch));
  }

  async authorizationUrl({ state, nonce, code_verifier }: SignInAttempt, how?: { readonly other_account: boolean }) {
    const conversation = await this.#begin();
    const { config, metadata } = conversation;
    const code_challenge = await calculatePKCECodeChallenge(code_verifier);
    return this.#attempt(conversation, 'discovery document', [state, nonce, code_challenge], async () =>
      buildAuthorizationUrl(config, {
        ...this.#oidc.authorization_parameters,
        ...(how?.other_account && { prompt: promptForAccount(this.#oidc, metadata.prompt_values_supported) }),
        redirect_uri: this.#redirect_uri,
        scope: askedScopes(this.#oidc, textsOf(metadata.scopes_supported)).join(' '),
        state,
        nonce,
        code_challenge,
        code_challenge_method: 'S256',
      }),
    );
  }

  async identify(callback: URL, { state, nonce, code_verifier }: SignInAttempt): Promise<Identified> {
    const conversation = await this.#begin();
    const arrived = new URL(this.#redirect_uri);
    arrived.search = callback.search;
    const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: code_verifier };
    const secrets = [state, nonce, code_verifier, ...callback.searchParams.getAll('code')];
    const tokens = await this.#askForTokens(conversation, 'authorization code', secrets, (config) =>
      authorizationCodeGrant(config, arrived, checks),
    );
    const { nonce: _, ...claims } = tokens.claims()!;
    const completed = await this.#complete(conversation, claims, claims.sub, tokens.access_token).catch(notThePerson);
    const in_id_token = this.#wanted.filter((claim) => isTold(claims, claim));
    const grant = grantOf(claims.sub, tokens, { in_id_token }, this.#clock.now());
    return { claims: completed, grant, scopes: this.#scopes(conversation, tokens) };
  }

  async recheck(grant: ProviderGrant): Promise<Identified> {
    const conversation = await this.#begin();
    const { refresh_token } = grant;
    if (refresh_token === undefined) return this.#askUserinfo(conversation, grant);
    try {
      return await this.#refresh(conversation, grant, refresh_token);
    } catch (error) {
      const replaced = conversation.refresh_token;
      if (!(error instanceof ProviderError) || replaced === undefined || replaced === refresh_token) throw error;
      throw new ProviderError(error.problem, error.message, { grant: { ...grant, refresh_token: replaced } });
    }
  }

  async revoke({ refresh_token, access_token }: ProviderGrant): Promise<boolean> {
    const token = refresh_token ?? access_token;
    const conversation = await this.#begin();
    if (token === undefined || conversation.metadata.revocation_endpoint === undefined) return false;
    const token_type_hint = refresh_token === undefined ? 'access_token' : 'refresh_token';
    await this.#attempt(conversation, 'revocation endpoint', [token], () =>
      tokenRevocation(conversation.config, token, { token_type_hint }),
    );
    return true;
  }

  async signOutUrl(): Promise<URL | undefined> {
    const { metadata } = await this.#begin();
    const { end_session_endpoint } = metadata;
    if (end_session_endpoint === undefined || !/^https?:/i.test(end_session_endpoint)) return undefined;
    const url = new URL(end_session_endpoint);
    url.searchParams.set('client_id', this.#oidc.client_id);
    return url;
  }

  /** @param answered what the token endpoint answered already, to be looked at instead of asking again. */
  async #begin(answered?: Response): Promise<Conversation> {
    const oidc = this.#oidc;
    const metadata = await this.#discover();
    const offered = metadata.token_endpoint_auth_methods_supported;
    const method = oidc.client_secret_env ? secretMethod(oidc.token_endpoint_auth_method, offered) : undefined;
    const parameters = { [clockTolerance]: oidc.clock_skew_seconds };
    const config = new Configuration(metadata, oidc.client_id, parameters, this.#authentication(method));
    const conversation: Conversation = { config, metadata, shown: { oidc, method, redirect_uri: this.#redirect_uri } };
    config.timeout = NO_TIMEOUT_SECONDS;
    config[customFetch] = async (url, init) => {
      if (url !== metadata.token_endpoint) return this.#fetch(url, init);
      const answer = answered ?? (await readTokenAnswer(await this.#fetch(url, init)));
      conversation.answer = answer.clone();
      conversation.refresh_token = await refreshTokenIn(answer);
      return answer;
    };
    // Without it the signature of an ID token goes unchecked where TLS verifies it (OpenID Connect Core 3.1.3.7).
    enableNonRepudiationChecks(config);
    if (isLoopbackUrl(oidc.issuer_url)) allowInsecureRequests(config);
    if (this.#keys !== undefined) setJwksCache(config, this.#keys);
    return conversation;
  }

  async #attempt<T>(
    { shown }: Pick<Conversation, 'shown'>,
    step: Step,
    secrets: readonly (string | undefined)[],
    task: () => Promise<T>,
  ): Promise<T> {
    try {
      return await task();
    } catch (error) {
      throw toProviderError(error, step, [this.#own_secret, ...secrets], shown);
    }
  }

  #askForTokens<T>(
    conversation: Conversation,
    step: Step,
    secrets: readonly (string | undefined)[],
    task: (config: Configuration) => Promise<T>,
  ): Promise<T> {
    const former = this.#keys;
    const judge = async (config: Configuration): Promise<T> => {
      try {
        return await task(config);
      } finally {
        this.#keys = getJwksCache(config) ?? this.#keys;
      }
    };
    return this.#attempt(conversation, step, secrets, async () => {
      try {
        return await judge(conversation.config);
      } catch (error) {
        const { answer } = conversation;
        if (answer === undefined || !isAboutKeys(error) || this.#keys?.uat !== former?.uat) throw error;
        // Whoever signs in can't choose the key; a provider that signs with one it does not publish is still spared.
        if (this.#early_renewals.take('keys') !== undefined) throw error;
        this.#keys = undefined;
        try {
          return await judge((await this.#begin(answer)).config);
        } finally {
          this.#keys ??= former;
        }
      }
    });
  }

  #userinfo(conversation: Conversation, access_token: string, subject: string): Promise<Claims> {
    return this.#attempt(conversation, 'userinfo endpoint', [access_token], () =>
      fetchUserInfo(conversation.config, access_token, subject),
    );
  }

  /** The claims of an ID token, with those from the userinfo endpoint that it lacks. */
  async #complete(conversation: Conversation, claims: Claims, sub: string, access_token: string): Promise<Claims> {
    const is_asked = this.#oidc.email_verification !== 'ignored';
    const asked = is_asked ? new Set([...this.#wanted, VERIFIED]) : this.#wanted;
    const lacking = [...asked].filter((claim) => !isTold(claims, claim));
    if (lacking.length === 0 || conversation.metadata.userinfo_endpoint === undefined) return claims;
    try {
      const told = await this.#userinfo(conversation, access_token, sub);
      return completeClaims(claims, told, lacking, this.#oidc.email_claim);
    } catch (error) {
      // Only whether the address is verified was missing: a no at this endpoint, unlike silence, is one for good.
      const dispensable = lacking.every((claim) => !this.#wanted.includes(claim));
      if (!dispensable || !(error instanceof ProviderError) || error.problem !== 'refused') throw error;
      this.#log.debug({ err: error }, 'the identity provider does not say whether an e-mail address is verified');
      return claims;
    }
  }

  async #refresh(conversation: Conversation, grant: ProviderGrant, refresh_token: string): Promise<Identified> {
    const { subject, in_id_token = [] } = grant;
    const { metadata } = conversation;
    const tokens = await this.#askForTokens(conversation, 'token endpoint', [refresh_token], (config) =>
      refreshTokenGrant(config, refresh_token),
    );
    const { sub = subject, nonce: _, ...signed } = tokens.claims() ?? {};
    if (sub !== subject) throw new ProviderError('invalid', 'token endpoint: the ID token is about somebody else');
    const stated = { ...signed, iss: metadata.issuer, sub };
    const claims = await this.#complete(conversation, stated, subject, tokens.access_token);
    if (tokens.id_token === undefined && metadata.userinfo_endpoint === undefined) {
      throw new ProviderError('invalid', 'token endpoint: no ID token, and there is no userinfo endpoint to ask');
    }
    if (tokens.id_token === undefined) demandStillTold(claims, grant);
    const renewed = grantOf(subject, tokens, { in_id_token, refresh_token }, this.#clock.now());
    return { claims, grant: renewed, scopes: this.#scopes(conversation, tokens) };
  }

  #scopes({ metadata }: Conversation, { scope }: { readonly scope?: string | undefined }): SignInScopes {
    const listed = textsOf(metadata.scopes_supported);
    return { asked: askedScopes(this.#oidc, listed), listed, granted: scope?.split(' ') };
  }

  async #askUserinfo(conversation: Conversation, grant: ProviderGrant): Promise<Identified> {
    const { issuer, userinfo_endpoint } = conversation.metadata;
    const { subject, access_token, access_token_expires_at = Number.POSITIVE_INFINITY } = grant;
    if (access_token === undefined || userinfo_endpoint === undefined) {
      const lacks = access_token === undefined ? 'refresh token' : 'refresh token and has no userinfo endpoint';
      throw new ProviderError('unaskable', `token endpoint: it gave no ${lacks}, so it can't be asked again`);
    }
    if (this.#clock.now() >= access_token_expires_at) {
      const hint = 'let it give one, by the scope offline_access or auth.oidc.authorization_parameters';
      throw new ProviderError('unaskable', `token endpoint: it gave no refresh token, and access has expired; ${hint}`);
    }
    const told = await this.#userinfo(conversation, access_token, subject);
    demandStillTold(told, grant);
    return { claims: { ...told, iss: issuer, sub: subject }, grant };
  }
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

/** A no to an access token that was given a moment ago is about that and its scopes. */
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
  // openid-client makes exceptions for some providers, which let in people of every tenant.
  if (!URL.canParse(metadata.issuer) || new URL(metadata.issuer).href !== new URL(issuer_url).href) {
    throw new ProviderError('invalid', `discovery document: ${wrongIssuer(metadata.issuer, issuer_url)}`);
  }
  const { id_token_signing_alg_values_supported = [...SIGNATURES, 'EdDSA', 'Ed25519'] } = metadata;
  return { ...metadata, id_token_signing_alg_values_supported };
}

/** Providers that know `select_account` and do not say so, Google not knowing `login` at all. */
const WITH_ACCOUNT_CHOICE: ReadonlySet<string> = new Set(['accounts.google.com', 'login.microsoftonline.com']);

/**
 * The `prompt` that has a provider ask which account it is, beside what the configuration wants (OpenID Connect Core section
 * 3.1.2.1). Every provider knows `login`, but for Google.
 * @param offered `prompt_values_supported` of its discovery document, whatever that is.
 */
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

/** The private key a client proves itself with (RFC 7523), ready to sign. */
interface ClientKey {
  readonly key: webcrypto.CryptoKey;
  readonly kid?: string;
}

interface Jwk {
  readonly alg?: unknown;
  readonly kid?: unknown;
}

const RSA_BITS_MIN = 2048;
const RSA_ALGORITHM = /^(RS|PS)(256|384|512)$/;
const CURVES: Readonly<Record<string, string>> = { prime256v1: 'P-256', secp384r1: 'P-384', secp521r1: 'P-521' };

/**
 * Reads a private key: PEM, or a JSON Web Key, whose `alg` and `kid` then count. An RSA key signs RS256 unless its `alg`
 * says otherwise, an EC key ES256, ES384 or ES512 by its curve, an Ed25519 key Ed25519.
 * @param variable the name of the secret. Raises StartError, which names that and nothing of the key.
 */
function readClientKey(text: string, variable: string, key_id?: string): ClientKey {
  const unusable = (why: string) =>
    new StartError(`the private key in ${secretHolder(variable)} (auth.oidc) ${why}`, {
      exit_code: EXIT_CONFIGURATION,
    });
  const jwk = text.trimStart().startsWith('{') ? parseJwk(text, unusable) : undefined;
  const key = parseKey(jwk ?? text, unusable);
  const kid = key_id ?? (typeof jwk?.kid === 'string' ? jwk.kid : undefined);
  return { key: importable(key, jwk?.alg, unusable), ...(kid !== undefined && { kid }) };
}

type Complaint = (why: string) => StartError;

const EXPECTED = 'expected PKCS #8 in PEM without a passphrase, or a private JSON Web Key';

function parseJwk(text: string, unusable: Complaint): Jwk {
  try {
    return JSON.parse(text) as Jwk;
  } catch {
    // The error would quote the key.
    throw unusable(`is not valid JSON: ${EXPECTED}`);
  }
}

function parseKey(source: Jwk | string, unusable: Complaint): KeyObject {
  try {
    return createPrivateKey(typeof source === 'string' ? source : { key: source as never, format: 'jwk' });
  } catch {
    throw unusable(`can't be read: ${EXPECTED}`);
  }
}

function importable(key: KeyObject, alg: unknown, unusable: Complaint): webcrypto.CryptoKey {
  const { modulusLength = 0, namedCurve = '' } = key.asymmetricKeyDetails ?? {};
  switch (key.asymmetricKeyType) {
    case 'rsa': {
      if (modulusLength < RSA_BITS_MIN) {
        throw unusable(`is an RSA key of ${modulusLength} bits: at least ${RSA_BITS_MIN} are needed`);
      }
      const [, padding = 'RS', bits = '256'] = RSA_ALGORITHM.exec(String(alg)) ?? [];
      const name = padding === 'PS' ? 'RSA-PSS' : 'RSASSA-PKCS1-v1_5';
      return key.toCryptoKey({ name, hash: `SHA-${bits}` }, false, ['sign']);
    }
    case 'ec': {
      const curve = CURVES[namedCurve];
      if (curve === undefined) throw unusable('is an EC key of another curve than P-256, P-384 or P-521');
      return key.toCryptoKey({ name: 'ECDSA', namedCurve: curve }, false, ['sign']);
    }
    case 'ed25519':
      return key.toCryptoKey('Ed25519', false, ['sign']);
    default:
      throw unusable(`is a key of type ${key.asymmetricKeyType}: expected RSA, EC or Ed25519`);
  }
}

const RENEWED_MS = 3_600_000;
/** How soon to try again after a failed renewal of what still serves. */
const RETRY_MS = 60_000;

/**
 * What the discovery document says: read when it is first needed, once for everybody who waits for it, and again after an
 * hour. While the provider is down the former serves on; a failure is never kept. Raises ProviderError.
 */
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
      log.warn({ reason: failure.message }, 'the discovery document of the identity provider could not be renewed');
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

/** What of a token endpoint's answer it takes to ask again (RFC 6749 section 5.1). */
interface GivenTokens {
  readonly access_token: string;
  readonly refresh_token?: string | undefined;
  readonly expires_in?: number | undefined;
}

/**
 * What it takes to ask about a person again, out of what the token endpoint gave.
 * @param former the refresh token that was asked with, which stays good where no other one is given.
 * @param now in milliseconds since the epoch.
 */
function grantOf(
  subject: string,
  tokens: GivenTokens,
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

/** What the provider tells at sign-in and keeps to itself afterwards is unknown, which is not the same as gone. Raises ProviderError. */
function demandStillTold(claims: Claims, { in_id_token = [] }: ProviderGrant): void {
  const missing = in_id_token.filter((claim) => !isTold(claims, claim));
  if (missing.length === 0) return;
  const problem = `it tells ${missing.join(', ')} only in the ID token, so it can't be asked again without a new one`;
  throw new ProviderError('unaskable', `userinfo endpoint: ${problem}`);
}

/**
 * An answer of the token endpoint as RFC 6749 section 5.2 has it: an error that says what it is counts, whatever content type
 * and challenge a provider or a proxy put on it. Every other answer stays as it came.
 */
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

/** Whether an ID token fits none of the keys at hand, as after the provider took new ones. */
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
