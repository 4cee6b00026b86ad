import { readFileSync } from 'node:fs';
import { getCACertificates } from 'node:tls';
import type { OidcConfig } from '../../../../base/contract/config.ts';
import { StartError } from '../../../../base/contract/start-error.ts';
import { systemClock } from '../../../../base/kit/clock.ts';
import { type Exchange, wholeExchange } from '../../../../base/kit/net/exchange.ts';
import { formatNetworkError, networkFault } from '../../../../base/kit/net/format-network-error.ts';
import { describeProxyRoute, proxyRouteTo, UnusableProxy } from '../../../../base/kit/net/proxy-route.ts';
import { secretIn, secretPlace } from '../../../../base/kit/secret-names.ts';
import { decidingGroups } from '../../../../domain/identity/provider/deciding-groups.ts';
import { newSignInAttempt, ProviderError, redirectUriOf } from '../../../../domain/identity/provider/provider.ts';
import { createIdentityProvider, type IdentityProvider } from '../../../../domain/identity/provider/provider-client.ts';
import { otherMethod, secretMethod } from '../../../../domain/identity/provider/provider-errors.ts';
import { requestedScopes, type ScopeGap, scopeGaps, textsOf } from '../../../../domain/identity/provider/scopes.ts';
import { type LiveOptions, type LiveOutcome, SILENT, wrong } from './probe.ts';

type Discovery = Readonly<Record<string, unknown>>;

const ENDPOINTS = ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const;
/** The default if a provider does not list its methods (OpenID Connect Discovery 1.0 section 3). */
const ASSUMED_METHODS = ['client_secret_basic'];

/** Checks discovery document, keys, features, and acceptance of the client. Calls `seen` with each response. */
export async function checkProvider(
  options: LiveOptions,
  seen: (answer: Exchange) => void = () => {},
): Promise<LiveOutcome> {
  const oidc = options.config.auth!.oidc!;
  try {
    const way = describeProxyRoute(proxyRouteTo(new URL(oidc.issuer_url), options.env));
    return { ...(await askProvider(options, oidc, seen)), way };
  } catch (error) {
    if (!(error instanceof UnusableProxy)) throw error;
    return wrong(error.message, `correct ${error.by}`);
  }
}

async function askProvider(
  { config, env, timeout_seconds }: LiveOptions,
  oidc: OidcConfig,
  seen: (answer: Exchange) => void,
): Promise<LiveOutcome> {
  let ca: readonly string[] | undefined;
  try {
    ca = oidc.ca_file === undefined ? undefined : [...getCACertificates('default'), readFileSync(oidc.ca_file, 'utf8')];
  } catch {
    return wrong('cannot read its ca_file', `check that this user may read ${oidc.ca_file}`);
  }
  // The gateway's own timeout applies, even if the check allows more.
  const limit_seconds = Math.min(oidc.timeout_seconds, timeout_seconds);
  const get = (url: string, accept: string) =>
    wholeExchange(url, {
      headers: { accept },
      seconds: limit_seconds,
      proxy: proxyRouteTo(new URL(url), env).proxy,
      ...(ca && { ca }),
    });
  const ask = async (url: string, what: string, remedy: string) => {
    try {
      const answer = await get(url, 'application/json');
      seen(answer);
      return readDocument(answer, url, what);
    } catch (error) {
      const reason = formatNetworkError(error, limit_seconds);
      const fault = networkFault(error);
      if (fault === 'untrusted') return wrong(reason, 'set ca_file to the certificate of its authority');
      return wrong(reason, fault === 'proxy' ? 'check the proxy in HTTPS_PROXY' : remedy);
    }
  };
  const url = `${oidc.issuer_url.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const found = await ask(url, 'discovery document', `check auth.oidc.issuer_url: ${oidc.issuer_url}`);
  if ('ok' in found) return found;
  const { document } = found;
  const problem = validateDiscovery(document, oidc.issuer_url, url);
  if (problem !== undefined) return problem;
  const keys = await ask(String(document.jwks_uri), 'list of keys', 'the discovery document names it as jwks_uri');
  if ('ok' in keys) return keys;
  if (!Array.isArray(keys.document.keys) || keys.document.keys.length === 0)
    return wrong('its list of keys is empty', `open ${document.jwks_uri}`);
  const redirect_uri = redirectUriOf(config);
  const look = (page: string) => get(page, 'text/html');
  const client = await checkClient({ oidc, env, redirect_uri, document, timeout_seconds: limit_seconds, look });
  if (!client.ok) return client;
  const deciding = decidingGroups(config, {});
  const uses_groups = deciding.any || deciding.names.size > 0;
  const listed = textsOf(document.scopes_supported);
  const wanted = scopeGaps(oidc, { requested: requestedScopes(oidc, listed), listed }).filter(
    ({ claims }) => uses_groups || !claims.includes(oidc.groups_claim),
  );
  const gaps = (kind: ScopeGap['kind']) => wanted.flatMap((gap) => (gap.kind === kind ? `it ${gap.hint}` : []));
  return {
    ok: true,
    what: ['discovery document and keys found, issuer matches', client.what].filter((part) => part !== '').join('; '),
    warnings: [...warningsOf(document, oidc), ...gaps('certain')],
    notes: [`the redirect URI to register there: ${redirect_uri}`, ...(client.notes ?? []), ...gaps('likely')],
  };
}

function readDocument(
  { status, body }: Exchange,
  url: string,
  what: string,
): LiveOutcome | { readonly document: Discovery } {
  if (status !== 200) return wrong(`no ${what} (status ${status})`, `expected at ${url}`);
  try {
    const document: unknown = JSON.parse(body.toString());
    if (typeof document === 'object' && document !== null) return { document: document as Discovery };
  } catch {}
  return wrong(`its ${what} is not a JSON object`, `open ${url}`);
}

function validateDiscovery(document: Discovery, issuer: string, url: string): LiveOutcome | undefined {
  if (document.issuer !== issuer) {
    const own = typeof document.issuer === 'string' ? document.issuer.slice(0, 200) : 'nothing';
    return wrong(`its issuer is ${own}`, 'set auth.oidc.issuer_url to exactly that');
  }
  const missing = ENDPOINTS.filter((key) => typeof document[key] !== 'string' || !URL.canParse(document[key]));
  if (missing.length > 0) return wrong(`its discovery document lacks ${missing.join(', ')}`, `open ${url}`);
  const plain = ENDPOINTS.filter((key) => issuer.startsWith('https:') && !/^https:/i.test(String(document[key])));
  if (plain.length > 0)
    return wrong(`its ${plain.join(', ')} is not an https address`, 'configure the provider for https');
  if ((textsOf(document.response_types_supported) ?? ['code']).includes('code')) return undefined;
  const help = 'enable the authorization code flow at the provider';
  return wrong('it does not offer the response type code', help);
}

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
      : `it does not list ${method} as supported, but ${methods.slice(0, 10).join(', ').slice(0, 200)}`,
    challenges.includes('S256') ? [] : 'it does not list PKCE with S256, which the gateway always uses',
    unknown.length === 0 ? [] : `it does not list the scope ${unknown.join(', ')}`,
    oidc.email_verification !== 'required' || claims === undefined || claims.includes('email_verified')
      ? []
      : 'it does not list the claim email_verified, which sign-in requires; if it never sends it and only administrators set addresses, set auth.oidc.email_verification to if_stated',
  ].flat();
}

interface ClientCheck {
  readonly oidc: OidcConfig;
  readonly env: NodeJS.ProcessEnv;
  readonly redirect_uri: string;
  readonly document: Readonly<Record<string, unknown>>;
  readonly timeout_seconds: number;
  /** Requests a page without following redirects. Rejects without a response. */
  readonly look: (url: string) => Promise<Exchange>;
}

type Redeemed = 'client accepted' | 'client refused' | { readonly unclear: string };

type Sent =
  | 'sent back'
  | 'refused'
  | 'refused the client'
  | 'refused the redirect URI'
  | 'unclear'
  | { readonly says: string };

/** Simulates a sign-in with `prompt=none` and a made-up code. Signs nobody in, and reports no secret. */
async function checkClient(check: ClientCheck): Promise<LiveOutcome> {
  const { oidc, document, env } = check;
  const variable = oidc.client_secret_env ?? oidc.private_key_env ?? '';
  const proof = `the ${oidc.client_secret_env === undefined ? 'private key' : 'secret'} in ${secretPlace(variable)}`;
  // Another check reports a missing secret.
  if (!secretIn(variable, env)) return { ok: true, what: '' };
  let redeemed: Redeemed;
  try {
    redeemed = await redeem(check, oidc);
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    return wrong(error.message, `replace the key in ${secretPlace(variable)}`);
  }
  if (redeemed === 'client accepted') return classifyRedirect(check, await send(check));
  if (typeof redeemed === 'object') {
    const note = `unknown whether it accepts the client id and ${proof}: ${redeemed.unclear}`;
    return { ok: true, what: '', notes: [note] };
  }
  const other = otherMethod(
    secretMethod(oidc.token_endpoint_auth_method, document.token_endpoint_auth_methods_supported),
  );
  if (
    oidc.client_secret_env !== undefined &&
    (await redeem(check, { ...oidc, token_endpoint_auth_method: other })) === 'client accepted'
  ) {
    const where = other === 'client_secret_post' ? 'in the form' : 'in the Authorization header';
    return wrong(`it accepts the secret only ${where}`, `set auth.oidc.token_endpoint_auth_method to ${other}`);
  }
  return classifyRefusal(check, await send(check), proof);
}

function classifyRefusal({ oidc, redirect_uri }: ClientCheck, sent: Sent, proof: string): LiveOutcome {
  const { client_id } = oidc;
  if (sent === 'sent back' || typeof sent === 'object') {
    const help =
      'copy it from the provider again; if it is right, enable the authorization code flow for the client there';
    return wrong(`it knows the client ${client_id}, but rejects ${proof}`, help);
  }
  if (sent === 'refused the redirect URI') {
    const help = `register ${redirect_uri} there, then copy ${proof.replace(/ in .*/, '')} again`;
    return wrong(`it knows the client ${client_id}, but rejects ${proof} and the redirect URI`, help);
  }
  const copy = 'copy auth.oidc.client_id exactly from the provider';
  if (sent === 'refused')
    return wrong(
      `it rejects the client id ${client_id} or the redirect URI`,
      `${copy}, and register ${redirect_uri} there`,
    );
  if (sent === 'refused the client') return wrong(`it does not know the client ${client_id}`, copy);
  const help = 'copy auth.oidc.client_id and the secret or key from the provider again';
  return wrong(`it rejects the client id ${client_id} or ${proof}`, help);
}

function classifyRedirect({ redirect_uri }: ClientCheck, sent: Sent): LiveOutcome {
  if (typeof sent === 'object') {
    const help = "compare auth.oidc.scopes to the client's permissions there";
    return wrong(`it redirects browsers back with the error ${sent.says}`, help);
  }
  if (sent === 'sent back') return { ok: true, what: 'accepts the client id, its secret or key, and the redirect URI' };
  if (sent === 'unclear') {
    const notes = [`unknown whether the redirect URI is registered: it must be ${redirect_uri}`];
    return { ok: true, what: 'accepts the client id and its secret or key', notes };
  }
  return wrong('it accepts the client, but not the redirect URI', `register exactly ${redirect_uri} there`);
}

function providerOf({ env, redirect_uri }: ClientCheck, oidc: OidcConfig, timeout_seconds: number): IdentityProvider {
  const secret = (name: string) => secretIn(name, env) ?? '';
  return createIdentityProvider({
    oidc: { ...oidc, timeout_seconds },
    secret,
    redirect_uri,
    log: SILENT,
    clock: systemClock,
    proxyRouteTo: (url) => proxyRouteTo(url, env),
  });
}

async function redeem(check: ClientCheck, oidc: OidcConfig): Promise<Redeemed> {
  const made_up = newSignInAttempt();
  const callback = new URL(check.redirect_uri);
  callback.searchParams.set('code', made_up.nonce);
  callback.searchParams.set('state', made_up.state);
  // A provider that supports RFC 9207 must name itself in the response.
  callback.searchParams.set('iss', String(check.document.issuer));
  try {
    await providerOf(check, oidc, check.timeout_seconds).identify(callback, made_up);
    return { unclear: 'it accepted a made-up code' };
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    switch (error.error) {
      case 'invalid_grant':
      // Some providers, such as Glewlwyd, use their own codes.
      case 'invalid_code':
        return 'client accepted';
      case 'invalid_client':
        return 'client refused';
      // Keycloak returns it for a wrong secret, others for all three causes: the browser request distinguishes them.
      case 'unauthorized_client':
        return 'client refused';
      default:
        // Dex returns invalid_request for a bad code, but only after it has authenticated the client.
        if (error.error === 'invalid_request' && /expired code/i.test(error.message)) return 'client accepted';
        return /does not accept the client/.test(error.message) ? 'client refused' : { unclear: error.message };
    }
  }
}

async function send(check: ClientCheck): Promise<Sent> {
  let answer: Exchange;
  try {
    const url = await providerOf(check, check.oidc, check.timeout_seconds).authorizationUrl(newSignInAttempt());
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
  // The page is for people: its text is only a hint.
  const page = answer.body.toString();
  if (/redirect[ _-]?ur[il]/i.test(page)) return 'refused the redirect URI';
  return /client/i.test(page) ? 'refused the client' : 'refused';
}

/** Errors about the request itself, in contrast to a missing sign-in. */
const OPERATORS: ReadonlySet<string> = new Set([
  'invalid_request',
  'invalid_scope',
  'unauthorized_client',
  'unsupported_response_type',
]);
