import type { OidcConfig } from '../../contract/config.ts';
import { secretPlace } from '../../kit/secret-names.ts';

/** How a client secret is sent: in the Authorization header or in the form. */
export type SecretMethod = OidcConfig['token_endpoint_auth_method'];

const METHODS: readonly SecretMethod[] = ['client_secret_basic', 'client_secret_post'];

/**
 * How the client secret is sent to a provider: as the configuration has it, unless the provider says that it takes the
 * other way alone.
 * @param offered `token_endpoint_auth_methods_supported` of its discovery document, whatever that is.
 */
export function secretMethod(configured: SecretMethod, offered: unknown): SecretMethod {
  if (!Array.isArray(offered) || offered.includes(configured)) return configured;
  return METHODS.find((method) => offered.includes(method)) ?? configured;
}

/** The way a client secret can be sent beside this one. */
export function otherMethod(method: SecretMethod): SecretMethod {
  return method === 'client_secret_basic' ? 'client_secret_post' : 'client_secret_basic';
}

/** The Authorization header that proves a client by its secret (RFC 6749 section 2.3.1). */
export function basicCredentials(client_id: string, secret: string): string {
  return `Basic ${Buffer.from(`${formEncoded(client_id)}:${formEncoded(secret)}`).toString('base64')}`;
}

/**
 * Form encoding (RFC 6749 appendix B) that touches only what it must. Many providers compare the bytes instead of decoding
 * them; openid-client would encode even the dash of a client id.
 */
function formEncoded(text: string): string {
  return encodeURIComponent(text).replaceAll('%20', '+');
}

/** What a provider was shown to be sure of the gateway. */
export interface ShownClient {
  readonly oidc: Pick<OidcConfig, 'client_id' | 'client_secret_env' | 'private_key_env'>;
  /** How the secret was sent; absent where a private key signed. */
  readonly method: SecretMethod | undefined;
  readonly redirect_uri: string;
}

/**
 * What to look at in gateway.yaml after a no of the token endpoint to the gateway itself; empty for any other error.
 * @param error as RFC 6749 section 5.2 names it; absent where the answer was a bare 401.
 */
export function clientHint(error: unknown, { oidc, method, redirect_uri }: ShownClient): string {
  const proof =
    method === undefined
      ? `the private key in ${secretPlace(oidc.private_key_env ?? '')}`
      : `the secret in ${secretPlace(oidc.client_secret_env ?? '')}`;
  const known = method === undefined ? ' (is its public key registered there?)' : '';
  switch (error) {
    case undefined:
    case 'invalid_client':
      return `check auth.oidc.client_id (${oidc.client_id}) and ${proof}${known}${sentOtherwise(method)}`;
    case 'unauthorized_client':
      return `some providers say so when ${proof} is wrong${known}: check it${sentOtherwise(method)}; otherwise the client ${oidc.client_id} may not use this grant type there: allow authorization code and refresh token`;
    case 'invalid_grant':
      return `client id and secret are right; the code was used before, came too late, or was given for another redirect URI than ${redirect_uri}`;
    case 'invalid_request':
    case 'redirect_uri_mismatch':
      return `check that the redirect URI ${redirect_uri} is registered there, to the letter`;
    default:
      return '';
  }
}

function sentOtherwise(method: SecretMethod | undefined): string {
  if (method === undefined) return '';
  const where = method === 'client_secret_basic' ? 'in the form' : 'in the Authorization header';
  return `; if both are right, the provider may take the secret only ${where}: set auth.oidc.token_endpoint_auth_method to ${otherMethod(method)}`;
}
