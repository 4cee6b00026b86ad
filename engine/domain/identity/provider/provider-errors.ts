import type { OidcConfig } from '../../../base/contract/config.ts';
import { secretPlace } from '../../../base/kit/secret-names.ts';
import { ProviderError, type ProviderProblem } from './provider.ts';

/** Step of a sign-in; `authorization code` is the token endpoint with a code. */
export type Step =
  | 'discovery document'
  | 'authorization response'
  | 'authorization code'
  | 'token endpoint'
  | 'userinfo endpoint'
  | 'revocation endpoint';

/** Errors of OAuth 2 and OpenID Connect that reject the person, not the gateway. */
const REFUSED: ReadonlySet<string> = new Set([
  'access_denied',
  'account_selection_required',
  'consent_required',
  'interaction_required',
  'invalid_grant',
  'invalid_token',
  'login_required',
]);
const UNAVAILABLE: ReadonlySet<string> = new Set(['server_error', 'temporarily_unavailable', 'slow_down']);
const LIBRARY_ERRORS: ReadonlySet<string> = new Set(['OperationProcessingError', 'UnsupportedOperationError']);
const ABOUT_GATEWAY: ReadonlySet<string> = new Set(['OAUTH_RESPONSE_BODY_ERROR', 'OAUTH_WWW_AUTHENTICATE_CHALLENGE']);
const MAX_DESCRIPTION = 300;
const SHORTEST_SECRET = 4;

interface ClientProblem {
  readonly code?: unknown;
  readonly message?: string;
  readonly error?: unknown;
  readonly error_description?: unknown;
  readonly status?: unknown;
  readonly cause?: unknown;
}

/** Describes why the provider gave no usable response, without `secrets`: it may repeat what was sent. */
export function toProviderError(
  error: unknown,
  step: Step,
  secrets: readonly (string | undefined)[],
  shown?: ShownClient,
): ProviderError {
  for (let each = error; each instanceof Error; each = each.cause) if (each instanceof ProviderError) return each;
  const client_problem = error as ClientProblem;
  const [problem, reason] = explain(client_problem, step);
  const at_authorization = client_problem.code === 'OAUTH_AUTHORIZATION_RESPONSE_ERROR';
  const where = at_authorization ? 'authorization response' : step === 'authorization code' ? 'token endpoint' : step;
  const is_about_gateway =
    problem === 'invalid' && shown !== undefined && ABOUT_GATEWAY.has(String(client_problem.code));
  const is_token_step = step === 'authorization code' || step === 'token endpoint';
  const hint = is_about_gateway && is_token_step ? clientHint(client_problem.error, shown) : '';
  const named = typeof client_problem.error === 'string' ? { error: client_problem.error } : {};
  // The hint is our own text and may name the client, so it is not redacted.
  return new ProviderError(problem, `${where}: ${withoutSecrets(reason, secrets)}${hint}`, named);
}

function explain(client_problem: ClientProblem, step: Step): [ProviderProblem, string] {
  switch (client_problem.code) {
    case 'OAUTH_RESPONSE_BODY_ERROR':
    case 'OAUTH_AUTHORIZATION_RESPONSE_ERROR':
      return explainError(client_problem, step);
    case 'OAUTH_WWW_AUTHENTICATE_CHALLENGE':
      return explainChallenge(client_problem, step);
    case 'OAUTH_RESPONSE_IS_NOT_CONFORM':
    case 'OAUTH_RESPONSE_IS_NOT_JSON': {
      const { status, headers } = client_problem.cause as Response;
      const is_json = client_problem.code === 'OAUTH_RESPONSE_IS_NOT_CONFORM';
      const form = is_json ? '' : ` without JSON (content-type: ${headers.get('content-type') ?? 'none'})`;
      const hint = step === 'discovery document' ? '; check auth.oidc.issuer_url' : '';
      return [decides(step, status) ? 'refused' : 'invalid', `it returns HTTP ${status}${form}${hint}`];
    }
    case 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED': {
      const { attribute, expected, body } = client_problem.cause as Comparison;
      return ['invalid', attribute === 'issuer' ? wrongIssuer(body?.issuer, expected) : libraryMessage(client_problem)];
    }
    case 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED': {
      const help = 'compare the clocks of both, or raise auth.oidc.clock_skew_seconds';
      return ['invalid', `${libraryMessage(client_problem)}; ${help}`];
    }
    default:
      return ['invalid', libraryMessage(client_problem)];
  }
}

/** A rejected renewal has 400 or 401; 403, 404 and others come from proxies, and would sign everyone out. */
function decides(step: Step, status: number): boolean {
  if (step === 'userinfo endpoint') return status === 401 || status === 403;
  return step === 'token endpoint' && (status === 400 || status === 401);
}

/** A challenge of another scheme than the gateway's authentication is about the refresh token. */
function explainChallenge({ status, cause }: ClientProblem, step: Step): [ProviderProblem, string] {
  if (step === 'userinfo endpoint') {
    return ['refused', `it no longer accepts the access token (HTTP ${String(status)})`];
  }
  const schemes = Array.isArray(cause) ? cause.map((challenge: { scheme?: unknown }) => String(challenge.scheme)) : [];
  if (step === 'token endpoint' && schemes.length > 0 && schemes.every((scheme) => /^bearer$/i.test(scheme))) {
    return ['refused', `it no longer accepts the refresh token (HTTP ${String(status)})`];
  }
  return ['invalid', `it does not accept the client id, secret or key (HTTP ${String(status)})`];
}

interface Comparison {
  readonly attribute: string;
  readonly expected: unknown;
  readonly body?: { readonly issuer?: unknown };
}

export function wrongIssuer(stated: unknown, issuer_url: unknown): string {
  const names = `its issuer is ${JSON.stringify(stated)}, not ${JSON.stringify(issuer_url)}`;
  return `${names}; if that is your provider, set auth.oidc.issuer_url to exactly that issuer`;
}

function explainError({ error, error_description }: ClientProblem, step: Step): [ProviderProblem, string] {
  const code = String(error);
  const reason = typeof error_description === 'string' ? `${code}: ${error_description}` : code;
  // The code was used, expired or is of another redirect URI, which the person cannot change.
  if (code === 'invalid_grant' && step === 'authorization code') return ['invalid', reason];
  if (REFUSED.has(code)) return ['refused', reason];
  return [UNAVAILABLE.has(code) ? 'unavailable' : 'invalid', reason];
}

/** Messages of openid-client and its dependencies contain no values; those of other errors may. */
function libraryMessage({ message, cause }: ClientProblem): string {
  const because = cause instanceof Error && LIBRARY_ERRORS.has(cause.name) ? cause.message : message;
  return [...new Set([message, because])].join(': ');
}

function withoutSecrets(text: string, secrets: readonly (string | undefined)[]): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret !== undefined && secret.length >= SHORTEST_SECRET) clean = clean.replaceAll(secret, '[secret]');
  }
  return clean.replace(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, MAX_DESCRIPTION);
}

export type SecretMethod = OidcConfig['token_endpoint_auth_method'];

const METHODS: readonly SecretMethod[] = ['client_secret_basic', 'client_secret_post'];

/** How to send the client secret: as configured, unless the provider supports only the other way. */
export function secretMethod(configured: SecretMethod, offered: unknown): SecretMethod {
  if (!Array.isArray(offered) || offered.includes(configured)) return configured;
  return METHODS.find((method) => offered.includes(method)) ?? configured;
}

export function otherMethod(method: SecretMethod): SecretMethod {
  return method === 'client_secret_basic' ? 'client_secret_post' : 'client_secret_basic';
}

export function basicCredentials(client_id: string, secret: string): string {
  return `Basic ${Buffer.from(`${formEncoded(client_id)}:${formEncoded(secret)}`).toString('base64')}`;
}

/** Many providers compare the bytes instead of decoding them (RFC 6749 appendix B): encodes only what must be. */
function formEncoded(text: string): string {
  return encodeURIComponent(text).replaceAll('%20', '+');
}

export interface ShownClient {
  readonly oidc: Pick<OidcConfig, 'client_id' | 'client_secret_env' | 'private_key_env'>;
  /** How the secret was sent; absent for a private key. */
  readonly method: SecretMethod | undefined;
  readonly redirect_uri: string;
}

/** What to check after the token endpoint rejected the gateway itself; `error` is absent for a bare 401. */
function clientHint(error: unknown, { oidc, method, redirect_uri }: ShownClient): string {
  const { client_id, client_secret_env = '', private_key_env = '' } = oidc;
  const proof =
    method === undefined
      ? `the private key in ${secretPlace(private_key_env)} (is its public key registered there?)`
      : `the secret in ${secretPlace(client_secret_env)}; if both are right, set auth.oidc.token_endpoint_auth_method to ${otherMethod(method)}`;
  switch (error) {
    case undefined:
    case 'invalid_client':
      return `; check auth.oidc.client_id (${client_id}) and ${proof}`;
    case 'unauthorized_client':
      return `; allow the client ${client_id} the grant types authorization code and refresh token; some providers report this for a wrong secret or key: check auth.oidc.client_id and ${proof}`;
    case 'invalid_grant':
      return `; client id and secret are right; the code was used before, has expired, or is for another redirect URI than ${redirect_uri}`;
    case 'invalid_request':
    case 'redirect_uri_mismatch':
      return `; check that exactly the redirect URI ${redirect_uri} is registered there`;
    default:
      return '';
  }
}
