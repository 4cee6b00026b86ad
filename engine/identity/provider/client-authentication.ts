import type { OidcConfig } from '../../contract/config.ts';

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
