/** Configurations with sign-in, for tests that need no gateway.yaml. */

import type { AuthConfig, GatewayConfig, OidcConfig, TokenGroupConfig } from '../../../engine/base/contract/config.ts';
import { stageConfig } from '../../../engine/edge/simulate/stage-harness.ts';
import { oidcConfig } from '../../support/identity/oidc-config.ts';

export const SECRETS: Readonly<Record<string, string>> = {
  CLIENT_SECRET: 'client-secret-of-the-gateway',
  SHORT_CLIENT_SECRET: 'fifteen-letters',
  SIGNING_KEY: 'signing-key-with-32-characters-or-more',
  OTHER_KEY: 'another-key-with-32-characters-or-more',
  SHORT_KEY: 'thirty-one-characters-are-short',
  PRIVATE_KEY: '-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----\n',
};

export function secret(name: string): string {
  const value = SECRETS[name];
  if (value === undefined) throw new Error(`the test has no secret ${name}`);
  return value;
}

/** A whole `auth` section; the rest has the defaults of the schema. */
export function authWith({
  oidc,
  session,
  ...more
}: { oidc?: Partial<OidcConfig>; session?: Partial<AuthConfig['session']> } & Partial<
  Omit<AuthConfig, 'oidc' | 'session'>
> = {}) {
  return {
    oidc: oidcConfig('https://id.example.com', { client_secret_env: 'CLIENT_SECRET', ...oidc }),
    session: { previous_signing_keys: [], ttl_minutes: 60, refresh_days: 30, ...session },
    personal_tokens: { check_minutes: 60 },
    teams: [],
    projects: [],
    limits: {
      device_authorizations: 30,
      code_submissions: 10,
      requests: 6000,
      refused_credentials: 300,
      window_seconds: 600,
    },
    ...more,
  } satisfies AuthConfig;
}

export function configWith(auth: AuthConfig = authWith(), token_groups?: readonly TokenGroupConfig[]): GatewayConfig {
  const config = stageConfig({ auth, ...(token_groups === undefined ? {} : { token_groups }) });
  return { ...config, server: { ...config.server, public_url: 'https://gateway.example.com/' } };
}
