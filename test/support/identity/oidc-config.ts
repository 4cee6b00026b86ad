import type { OidcConfig } from '../../../engine/base/contract/config.ts';

/** `auth.oidc` with its defaults. */
export function oidcConfig(issuer_url: string, changes: Partial<OidcConfig> = {}): OidcConfig {
  return {
    issuer_url,
    client_id: 'gateway',
    ...(changes.private_key_env === undefined && { client_secret_env: 'OIDC_CLIENT_SECRET' }),
    token_endpoint_auth_method: 'client_secret_basic',
    authorization_parameters: {},
    groups_claim: 'groups',
    email_claim: 'email',
    email_verification: 'required',
    clock_skew_seconds: 30,
    timeout_seconds: 10,
    ...changes,
  };
}
