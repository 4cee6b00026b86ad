import type { OidcConfig } from '../../config.ts';

/** How a client secret is sent: in the Authorization header or in the form. */
type SecretMethod = OidcConfig['token_endpoint_auth_method'];

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
