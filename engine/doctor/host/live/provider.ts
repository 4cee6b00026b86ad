import { readFileSync } from 'node:fs';
import { getCACertificates } from 'node:tls';
import type { AuthConfig, GatewayConfig, OidcConfig } from '../../../contract/config.ts';
import { claimRoot } from '../../../identity/provider/claims.ts';
import { secretMethod } from '../../../identity/provider/client-authentication.ts';
import { decidingGroups } from '../../../identity/provider/deciding-groups.ts';
import { redirectUriOf } from '../../../identity/provider/issuer.ts';
import { askedScopes, type ScopeGap, scopeGaps, textsOf } from '../../../identity/provider/scopes.ts';
import { formatNetworkError } from '../../../kit/net/format-network-error.ts';
import { describeWay, UnusableProxy, wayTo } from '../../../kit/net/way.ts';
import type { LiveOutcome } from './live-check.ts';
import { type ProbeAnswer, probe } from './probe.ts';
import { checkClient } from './provider-client.ts';

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
  auth: AuthConfig & { readonly oidc: OidcConfig },
  env: NodeJS.ProcessEnv,
  timeout_seconds: number,
  seen: (answer: ProbeAnswer) => void = () => {},
): Promise<LiveOutcome> {
  try {
    const way = describeWay(wayTo(new URL(auth.oidc.issuer_url), env));
    return { ...(await askProvider(config, auth, { env, timeout_seconds, seen })), way };
  } catch (error) {
    if (!(error instanceof UnusableProxy)) throw error;
    return { ok: false, what: error.message, help: `correct ${error.by}` };
  }
}

async function askProvider(
  config: GatewayConfig,
  auth: AuthConfig & { readonly oidc: OidcConfig },
  how: {
    readonly env: NodeJS.ProcessEnv;
    readonly timeout_seconds: number;
    readonly seen: (answer: ProbeAnswer) => void;
  },
): Promise<LiveOutcome> {
  const { env, timeout_seconds, seen } = how;
  const { oidc } = auth;
  let ca: readonly string[] | undefined;
  try {
    ca = oidc.ca_file === undefined ? undefined : [...getCACertificates('default'), readFileSync(oidc.ca_file, 'utf8')];
  } catch {
    return { ok: false, what: 'its ca_file cannot be read', help: `may this user read ${oidc.ca_file}?` };
  }
  // The gateway waits no longer than this, however long the check may take.
  const patience_seconds = Math.min(oidc.timeout_seconds, timeout_seconds);
  const ask = createAsk({ ca, env, timeout_seconds: patience_seconds, seen });
  const url = `${oidc.issuer_url.replace(/\/$/, '')}/.well-known/openid-configuration`;
  const found = await ask(url, 'discovery document', `is ${oidc.issuer_url} right?`);
  if ('ok' in found) return found;
  const { document } = found;
  const problem = judgeDiscovery(document, oidc.issuer_url, url);
  if (problem !== undefined) return problem;
  const keys = await ask(String(document.jwks_uri), 'list of keys', 'its discovery document names it as jwks_uri');
  if ('ok' in keys) return keys;
  if (!Array.isArray(keys.document.keys) || keys.document.keys.length === 0) {
    return { ok: false, what: 'its list of keys is empty', help: `open ${document.jwks_uri}` };
  }
  const redirect_uri = redirectUriOf(config);
  const look = (page: string) =>
    probe(page, {
      headers: { accept: 'text/html' },
      timeout_seconds: patience_seconds,
      read_body: true,
      proxy: wayTo(new URL(page), env).proxy,
      ...(ca && { ca }),
    });
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

type Ask = (url: string, what: string, remedy: string) => Promise<LiveOutcome | { readonly document: Discovery }>;

function createAsk({
  ca,
  env,
  timeout_seconds,
  seen,
}: {
  readonly ca: readonly string[] | undefined;
  readonly env: NodeJS.ProcessEnv;
  readonly timeout_seconds: number;
  readonly seen: (answer: ProbeAnswer) => void;
}): Ask {
  return async (url, what, remedy) => {
    let answer: ProbeAnswer;
    try {
      const { proxy } = wayTo(new URL(url), env);
      answer = await probe(url, { timeout_seconds, read_body: true, proxy, ...(ca && { ca }) });
      seen(answer);
    } catch (error) {
      const reason = formatNetworkError(error, timeout_seconds);
      if (/not trusted/.test(reason))
        return { ok: false, what: reason, help: 'name the certificate of its authority with ca_file' };
      return { ok: false, what: reason, help: /proxy/.test(reason) ? 'is the proxy of HTTPS_PROXY right?' : remedy };
    }
    if (answer.status !== 200) {
      return { ok: false, what: `no ${what} (status ${answer.status})`, help: `it is looked for at ${url}` };
    }
    try {
      const document: unknown = JSON.parse(answer.body);
      if (typeof document === 'object' && document !== null) return { document: document as Discovery };
    } catch {}
    return { ok: false, what: `its ${what} is not a JSON object`, help: `open ${url}` };
  };
}

function judgeDiscovery(document: Discovery, issuer: string, url: string): LiveOutcome | undefined {
  if (document.issuer !== issuer) {
    const own = typeof document.issuer === 'string' ? document.issuer.slice(0, 200) : 'nothing';
    return { ok: false, what: `it calls itself ${own}`, help: 'write exactly that as auth.oidc.issuer_url' };
  }
  const missing = ENDPOINTS.filter((key) => typeof document[key] !== 'string' || !URL.canParse(document[key]));
  if (missing.length > 0) {
    return { ok: false, what: `its discovery document lacks ${missing.join(', ')}`, help: `open ${url}` };
  }
  const plain = ENDPOINTS.filter((key) => issuer.startsWith('https:') && !/^https:/i.test(String(document[key])));
  if (plain.length > 0) {
    return {
      ok: false,
      what: `its ${plain.join(', ')} is not an https address`,
      help: 'have the provider set up for https',
    };
  }
  if (!(textsOf(document.response_types_supported) ?? ['code']).includes('code')) {
    const help = 'the gateway signs people in with an authorization code: the provider must offer that';
    return { ok: false, what: 'it does not offer the response type code', help };
  }
  return undefined;
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
