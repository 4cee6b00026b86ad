import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { getCACertificates } from 'node:tls';
import type { GatewayConfig, OidcConfig } from '../../../../base/contract/config.ts';
import type { Log } from '../../../../base/contract/services.ts';
import { StartError } from '../../../../base/contract/start-error.ts';
import { systemClock } from '../../../../base/kit/clock.ts';
import { formatNetworkError } from '../../../../base/kit/net/format-network-error.ts';
import { describeWay, UnusableProxy, wayTo } from '../../../../base/kit/net/way.ts';
import { secretIn, secretPlace } from '../../../../base/kit/secret-names.ts';
import { claimRoot } from '../../../../domain/identity/provider/claims.ts';
import { decidingGroups } from '../../../../domain/identity/provider/deciding-groups.ts';
import {
  type IdentityProvider,
  ProviderError,
  redirectUriOf,
  type SignInAttempt,
} from '../../../../domain/identity/provider/provider.ts';
import { OpenIdProvider } from '../../../../domain/identity/provider/provider-client.ts';
import { otherMethod, secretMethod } from '../../../../domain/identity/provider/provider-errors.ts';
import { askedScopes, type ScopeGap, scopeGaps, textsOf } from '../../../../domain/identity/provider/scopes.ts';
import { type LiveOutcome, type ProbeAnswer, probe, wrong } from './probe.ts';

type Discovery = Readonly<Record<string, unknown>>;

const ENDPOINTS = ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const;
/** What a provider takes that does not say (OpenID Connect Discovery 1.0 section 3). */
const ASSUMED_METHODS = ['client_secret_basic'];

/**
 * Reads the discovery document and the keys of the identity provider, compares what it offers with what is configured, and
 * sees whether it takes the gateway for its client. `seen` is told its answers.
 */
export async function checkProvider(
  config: GatewayConfig,
  env: NodeJS.ProcessEnv,
  timeout_seconds: number,
  seen: (answer: ProbeAnswer) => void = () => {},
): Promise<LiveOutcome> {
  const oidc = config.auth!.oidc!;
  try {
    const way = describeWay(wayTo(new URL(oidc.issuer_url), env));
    return { ...(await askProvider(config, oidc, { env, timeout_seconds, seen })), way };
  } catch (error) {
    if (!(error instanceof UnusableProxy)) throw error;
    return wrong(error.message, `correct ${error.by}`);
  }
}

/** How the provider is asked. */
interface Asking {
  readonly env: NodeJS.ProcessEnv;
  readonly timeout_seconds: number;
  readonly seen: (answer: ProbeAnswer) => void;
}

async function askProvider(
  config: GatewayConfig,
  oidc: OidcConfig,
  { env, timeout_seconds, seen }: Asking,
): Promise<LiveOutcome> {
  let ca: readonly string[] | undefined;
  try {
    ca = oidc.ca_file === undefined ? undefined : [...getCACertificates('default'), readFileSync(oidc.ca_file, 'utf8')];
  } catch {
    return wrong('its ca_file cannot be read', `may this user read ${oidc.ca_file}?`);
  }
  // The gateway waits no longer than this, however long the check may take.
  const patience_seconds = Math.min(oidc.timeout_seconds, timeout_seconds);
  const get = (url: string, accept: string) =>
    probe(url, {
      headers: { accept },
      timeout_seconds: patience_seconds,
      read_body: true,
      proxy: wayTo(new URL(url), env).proxy,
      ...(ca && { ca }),
    });
  const ask = async (url: string, what: string, remedy: string) => {
    try {
      const answer = await get(url, 'application/json');
      seen(answer);
      return readDocument(answer, url, what);
    } catch (error) {
      const reason = formatNetworkError(error, patience_seconds);
      if (/not trusted/.test(reason)) return wrong(reason, 'name the certificate of its authority with ca_file');
      return wrong(reason, /proxy/.test(reason) ? 'is the proxy of HTTPS_PROXY right?' : remedy);
    }
  };
  const url = `${oidc.issuer_url.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const found = await ask(url, 'discovery document', `is ${oidc.issuer_url} right?`);
  if ('ok' in found) return found;
  const { document } = found;
  const problem = judgeDiscovery(document, oidc.issuer_url, url);
  if (problem !== undefined) return problem;
  const keys = await ask(String(document.jwks_uri), 'list of keys', 'its discovery document names it as jwks_uri');
  if ('ok' in keys) return keys;
  if (!Array.isArray(keys.document.keys) || keys.document.keys.length === 0)
    return wrong('its list of keys is empty', `open ${document.jwks_uri}`);
  const redirect_uri = redirectUriOf(config);
  const look = (page: string) => get(page, 'text/html');
  const client = await checkClient({ oidc, env, redirect_uri, document, timeout_seconds: patience_seconds, look });
  if (!client.ok) return client;
  const deciding = decidingGroups(config, {});
  const uses_groups = deciding.any || deciding.names.size > 0;
  const gaps = (kind: ScopeGap['kind']) => gapsOf(document, oidc, uses_groups, kind);
  return {
    ok: true,
    what: ['discovery document and keys found, issuer matches', client.what].filter((part) => part !== '').join('; '),
    warnings: [...warningsOf(document, oidc), ...gaps('certain')],
    notes: [
      `the redirect URI to register there: ${redirect_uri}`,
      ...(client.notes ?? []),
      ...notesOf(document, oidc, uses_groups),
      ...gaps('likely'),
    ],
  };
}

function readDocument(
  { status, body }: ProbeAnswer,
  url: string,
  what: string,
): LiveOutcome | { readonly document: Discovery } {
  if (status !== 200) return wrong(`no ${what} (status ${status})`, `it is looked for at ${url}`);
  try {
    const document: unknown = JSON.parse(body);
    if (typeof document === 'object' && document !== null) return { document: document as Discovery };
  } catch {}
  return wrong(`its ${what} is not a JSON object`, `open ${url}`);
}

function judgeDiscovery(document: Discovery, issuer: string, url: string): LiveOutcome | undefined {
  if (document.issuer !== issuer) {
    const own = typeof document.issuer === 'string' ? document.issuer.slice(0, 200) : 'nothing';
    return wrong(`it calls itself ${own}`, 'write exactly that as auth.oidc.issuer_url');
  }
  const missing = ENDPOINTS.filter((key) => typeof document[key] !== 'string' || !URL.canParse(document[key]));
  if (missing.length > 0) return wrong(`its discovery document lacks ${missing.join(', ')}`, `open ${url}`);
  const plain = ENDPOINTS.filter((key) => issuer.startsWith('https:') && !/^https:/i.test(String(document[key])));
  if (plain.length > 0)
    return wrong(`its ${plain.join(', ')} is not an https address`, 'have the provider set up for https');
  if ((textsOf(document.response_types_supported) ?? ['code']).includes('code')) return undefined;
  const help = 'the gateway signs people in with an authorization code: the provider must offer that';
  return wrong('it does not offer the response type code', help);
}

/** What will probably keep people from signing in. */
function warningsOf(document: Discovery, oidc: OidcConfig): string[] {
  const methods = textsOf(document.token_endpoint_auth_methods_supported) ?? ASSUMED_METHODS;
  const method =
    oidc.private_key_env === undefined ? secretMethod(oidc.token_endpoint_auth_method, methods) : 'private_key_jwt';
  const challenges = textsOf(document.code_challenge_methods_supported) ?? ['S256'];
  const scopes = textsOf(document.scopes_supported);
  const claims = textsOf(document.claims_supported);
  const unknown = (oidc.scopes ?? []).filter((scope) => scopes !== undefined && !scopes.includes(scope));
  return [
    methods.includes(method)
      ? []
      : `it does not say that it takes ${method}; it takes ${methods.slice(0, 10).join(', ').slice(0, 200)}`,
    challenges.includes('S256') ? [] : 'it does not say that it takes PKCE with S256, which the gateway always uses',
    unknown.length === 0 ? [] : `it does not list the scope ${unknown.join(', ')}`,
    oidc.email_verification !== 'required' || claims === undefined || claims.includes('email_verified')
      ? []
      : 'it does not list the claim email_verified, without which nobody can sign in; where it never sends it and only administrators set addresses, set auth.oidc.email_verification to if_stated',
  ].flat();
}

/** Scopes that are not asked for, and the claims that may therefore be missing. */
function gapsOf(document: Discovery, oidc: OidcConfig, uses_groups: boolean, kind: ScopeGap['kind']): string[] {
  const listed = textsOf(document.scopes_supported);
  const found = scopeGaps(oidc, { asked: askedScopes(oidc, listed), listed });
  const wanted = found.filter(({ claims }) => uses_groups || !claims.includes(oidc.groups_claim));
  return wanted.flatMap((gap) => (gap.kind === kind ? `it ${gap.hint}` : []));
}

/** What is worth knowing, and may well be as it should be. */
function notesOf(document: Discovery, oidc: OidcConfig, uses_groups: boolean): string[] {
  const scopes = textsOf(document.scopes_supported) ?? ['offline_access'];
  const claims = textsOf(document.claims_supported);
  const offline =
    (oidc.scopes ?? scopes).includes('offline_access') || oidc.authorization_parameters.access_type === 'offline';
  const claim = claimRoot(oidc.groups_claim);
  return [
    offline
      ? []
      : 'without offline_access it may give no refresh token: people then sign in again once its access token ends',
    !uses_groups || claims === undefined || claims.includes(claim) || oidc.scopes?.includes(claim)
      ? []
      : `it does not list the claim ${claim}: see to it that it sends the groups in it`,
    typeof document.userinfo_endpoint === 'string'
      ? []
      : 'it has no userinfo endpoint: all claims must be in the ID token',
  ].flat();
}

/** What the client check is told. */
export interface ClientCheck {
  readonly oidc: OidcConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly redirect_uri: string;
  /** Its discovery document. */
  readonly document: Readonly<Record<string, unknown>>;
  readonly timeout_seconds: number;
  /** Asks for a page without following redirects. Rejects when there is no answer. */
  readonly look: (url: string) => Promise<ProbeAnswer>;
}

/** What became of a code that can't be good. */
type Redeemed = 'client accepted' | 'client refused' | { readonly unclear: string };

/** What became of a browser that may not sign anybody in. */
type Sent =
  | 'sent back'
  | 'refused'
  | 'refused the client'
  | 'refused the redirect URI'
  | 'unclear'
  | { readonly says: string };

const SILENT: Log = { debug() {}, info() {}, warn() {}, error() {} };

/**
 * Whether the provider takes the client id, its secret or key and the redirect URI. It is asked as in a sign-in: a browser that
 * may not show anything (`prompt=none`) and a code that can't be good. Nobody is signed in, and no secret is in what it says.
 */
async function checkClient(check: ClientCheck): Promise<LiveOutcome> {
  const { oidc, env } = check;
  const variable = oidc.client_secret_env ?? oidc.private_key_env ?? '';
  const proof = `the ${oidc.client_secret_env === undefined ? 'private key' : 'secret'} in ${secretPlace(variable)}`;
  // That it is missing is said elsewhere.
  if (!secretIn(variable, env)) return { ok: true, what: '' };
  let redeemed: Redeemed;
  try {
    redeemed = await redeem(check, oidc);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return wrong(error.message, `put another key into ${secretPlace(variable)}`);
  }
  if (redeemed === 'client accepted') return judgeRedirect(check, await send(check));
  if (typeof redeemed === 'object') {
    const note = `whether it takes the client id and ${proof} can't be told: ${redeemed.unclear}`;
    return { ok: true, what: '', notes: [note] };
  }
  const other = otherMethod(usedMethod(check));
  if (
    oidc.client_secret_env !== undefined &&
    (await redeem(check, { ...oidc, token_endpoint_auth_method: other })) === 'client accepted'
  ) {
    const where = other === 'client_secret_post' ? 'in the form' : 'in the Authorization header';
    return wrong(`it takes the secret only ${where}`, `set auth.oidc.token_endpoint_auth_method to ${other}`);
  }
  return judgeRefusal(check, await send(check), proof);
}

function judgeRefusal({ oidc, redirect_uri }: ClientCheck, sent: Sent, proof: string): LiveOutcome {
  const { client_id } = oidc;
  if (sent === 'sent back' || typeof sent === 'object') {
    const help = 'copy it from the provider again; if it is right, allow the client the authorization code flow there';
    return wrong(`it knows the client ${client_id} and refuses ${proof}`, help);
  }
  if (sent === 'refused the redirect URI') {
    const help = `register ${redirect_uri} there, then copy ${proof.replace(/ in .*/, '')} again`;
    return wrong(`it knows the client ${client_id}, but neither ${proof} nor the redirect URI`, help);
  }
  const copy = 'copy auth.oidc.client_id from the provider, to the letter';
  if (sent === 'refused')
    return wrong(
      `it refuses the client id ${client_id} or the redirect URI`,
      `${copy}, and register ${redirect_uri} there`,
    );
  if (sent === 'refused the client') return wrong(`it does not know the client ${client_id}`, copy);
  const help = 'copy auth.oidc.client_id and the secret or key from the provider again';
  return wrong(`it refuses the client id ${client_id} or ${proof}`, help);
}

function judgeRedirect({ redirect_uri }: ClientCheck, sent: Sent): LiveOutcome {
  if (typeof sent === 'object') {
    const help = 'compare auth.oidc.scopes and what the client may do there';
    return wrong(`it sends browsers back with ${sent.says}`, help);
  }
  if (sent === 'sent back') return { ok: true, what: 'takes the client id, its secret or key, and the redirect URI' };
  if (sent === 'unclear') {
    const notes = [`whether the redirect URI is registered can't be told: it must be ${redirect_uri}`];
    return { ok: true, what: 'takes the client id and its secret or key', notes };
  }
  return wrong('it takes the client, but not the redirect URI', `register ${redirect_uri} there, to the letter`);
}

function providerOf({ env, redirect_uri }: ClientCheck, oidc: OidcConfig, timeout_seconds: number): IdentityProvider {
  const secret = (name: string) => secretIn(name, env) ?? '';
  return new OpenIdProvider({
    oidc: { ...oidc, timeout_seconds },
    secret,
    redirect_uri,
    log: SILENT,
    clock: systemClock,
    wayTo: (url) => wayTo(url, env),
  });
}

function attempt(): SignInAttempt {
  const random = () => randomBytes(32).toString('base64url');
  return { state: random(), nonce: random(), code_verifier: random() };
}

async function redeem(check: ClientCheck, oidc: OidcConfig): Promise<Redeemed> {
  const made_up = attempt();
  const callback = new URL(check.redirect_uri);
  callback.searchParams.set('code', made_up.nonce);
  callback.searchParams.set('state', made_up.state);
  // A provider that names itself in the answer is believed only if it did (RFC 9207).
  callback.searchParams.set('iss', String(check.document.issuer));
  try {
    await providerOf(check, oidc, check.timeout_seconds).identify(callback, made_up);
    return { unclear: 'it took a code that was made up' };
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    switch (error.error) {
      case 'invalid_grant':
      // Of providers that have words of their own, such as Glewlwyd.
      case 'invalid_code':
        return 'client accepted';
      case 'invalid_client':
        return 'client refused';
      // Keycloak says it of a wrong secret, others of all three: only the browser tells.
      case 'unauthorized_client':
        return 'client refused';
      default:
        // Dex says invalid_request of a code, and does so only once it knows the client.
        if (error.error === 'invalid_request' && /expired code/i.test(error.message)) return 'client accepted';
        return /does not accept the client/.test(error.message) ? 'client refused' : { unclear: error.message };
    }
  }
}

async function send(check: ClientCheck): Promise<Sent> {
  let answer: ProbeAnswer;
  try {
    const url = await providerOf(check, check.oidc, check.timeout_seconds).authorizationUrl(attempt());
    url.searchParams.set('prompt', 'none');
    answer = await check.look(url.href);
  } catch {
    return 'unclear';
  }
  const { location } = answer.headers;
  if (answer.status >= 300 && answer.status < 400 && location?.startsWith(check.redirect_uri)) {
    const error = new URL(location).searchParams.get('error') ?? '';
    return OPERATORS.has(error) ? { says: error } : 'sent back';
  }
  if (answer.status < 400 || answer.status > 499) return 'unclear';
  // The page is for people: its words are a help where they are plain, and no more.
  if (/redirect[ _-]?ur[il]/i.test(answer.body)) return 'refused the redirect URI';
  return /client/i.test(answer.body) ? 'refused the client' : 'refused';
}

/** Errors that say that the request itself is wrong, and not that nobody is signed in. */
const OPERATORS: ReadonlySet<string> = new Set([
  'invalid_request',
  'invalid_scope',
  'unauthorized_client',
  'unsupported_response_type',
]);

function usedMethod({ oidc, document }: ClientCheck) {
  return secretMethod(oidc.token_endpoint_auth_method, document.token_endpoint_auth_methods_supported);
}
