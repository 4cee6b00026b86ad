import type { OidcConfig } from '../../contract/config.ts';
import { otherMethod, type SecretMethod } from './client-authentication.ts';

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
    method === undefined ? `the private key in ${oidc.private_key_env}` : `the secret in ${oidc.client_secret_env}`;
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
