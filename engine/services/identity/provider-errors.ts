import { ProviderError, type ProviderProblem } from './provider.ts';

/** Where in a sign-in something failed; `code exchange` is the token endpoint when it is given an authorization code. */
export type Step =
  | 'discovery document'
  | 'authorization response'
  | 'code exchange'
  | 'token endpoint'
  | 'userinfo endpoint';

/** Errors of OAuth 2 and OpenID Connect that say no to a person, rather than to the gateway. */
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
const MAX_DESCRIPTION = 300;
const SHORTEST_SECRET = 4;

/** What errors of openid-client have, beside their message. */
interface ClientTrouble {
  readonly code?: unknown;
  readonly message?: string;
  /** As the provider names it. */
  readonly error?: unknown;
  readonly error_description?: unknown;
  readonly status?: unknown;
  readonly cause?: unknown;
}

/**
 * Says in one sentence without secrets why the identity provider gave no usable answer.
 * @param secrets what was sent to it: the provider may repeat that in its description.
 */
export function toProviderError(error: unknown, step: Step, secrets: readonly (string | undefined)[]): ProviderError {
  for (let each = error; each instanceof Error; each = each.cause) if (each instanceof ProviderError) return each;
  const trouble = error as ClientTrouble;
  const [problem, reason] = explain(trouble, step);
  const asked = step === 'code exchange' ? 'token endpoint' : step;
  const where = trouble.code === 'OAUTH_AUTHORIZATION_RESPONSE_ERROR' ? 'authorization response' : asked;
  return new ProviderError(problem, `${where}: ${withoutSecrets(reason, secrets)}`);
}

function explain(trouble: ClientTrouble, step: Step): [ProviderProblem, string] {
  switch (trouble.code) {
    case 'OAUTH_RESPONSE_BODY_ERROR':
    case 'OAUTH_AUTHORIZATION_RESPONSE_ERROR':
      return [problemOf(String(trouble.error), step), `${described(trouble)}${hint(step, trouble.error)}`];
    case 'OAUTH_WWW_AUTHENTICATE_CHALLENGE':
      return step === 'userinfo endpoint'
        ? ['refused', `it does not accept the access token any more (HTTP ${String(trouble.status)})`]
        : ['invalid', `it does not accept the client id, secret or key (HTTP ${String(trouble.status)})`];
    case 'OAUTH_RESPONSE_IS_NOT_CONFORM': {
      const { status } = trouble.cause as Response;
      const says_no = step === 'userinfo endpoint' && (status === 401 || status === 403);
      return [says_no ? 'refused' : 'invalid', `it answers HTTP ${status}${hint(step)}`];
    }
    case 'OAUTH_RESPONSE_IS_NOT_JSON': {
      const type = (trouble.cause as Response).headers.get('content-type') ?? 'nothing said';
      return ['invalid', `it answers something else than JSON (content-type: ${type})${hint(step)}`];
    }
    case 'OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED': {
      const { attribute, expected, body } = trouble.cause as Comparison;
      return ['invalid', attribute === 'issuer' ? wrongIssuer(body?.issuer, expected) : inLibraryWords(trouble)];
    }
    case 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED': {
      const help = 'compare the clocks of both, or raise auth.oidc.clock_skew_seconds';
      return ['invalid', `${inLibraryWords(trouble)}; ${help}`];
    }
    default:
      return ['invalid', inLibraryWords(trouble)];
  }
}

/** What to look at in gateway.yaml. */
function hint(step: Step, error?: unknown): string {
  if (step === 'discovery document') return '; check auth.oidc.issuer_url';
  return error === 'invalid_client' ? '; check auth.oidc.client_id, its secret or key, and how that is sent' : '';
}

/** What openid-client says of a value that is not the expected one. */
interface Comparison {
  readonly attribute: string;
  readonly expected: unknown;
  readonly body?: { readonly issuer?: unknown };
}

/** Says that a discovery document is of another issuer, which may differ by a slash at its end alone. */
export function wrongIssuer(stated: unknown, issuer_url: unknown): string {
  const names = `its issuer is ${JSON.stringify(stated)}, not ${JSON.stringify(issuer_url)}`;
  return `${names}; write auth.oidc.issuer_url exactly as the document says it, if that is your provider`;
}

function problemOf(error: string, step: Step): ProviderProblem {
  // The code was used, came too late or belongs to another redirect URI, none of which is up to the person.
  if (error === 'invalid_grant' && step === 'code exchange') return 'invalid';
  if (REFUSED.has(error)) return 'refused';
  return UNAVAILABLE.has(error) ? 'unavailable' : 'invalid';
}

function described({ error, error_description }: ClientTrouble): string {
  return typeof error_description === 'string' ? `${String(error)}: ${error_description}` : String(error);
}

/** Messages of openid-client and of what it is built on hold no values; those of other errors may. */
function inLibraryWords({ message, cause }: ClientTrouble): string {
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
