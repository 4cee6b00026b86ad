/** The `auth` section. */
export interface AuthConfig {
  readonly oidc?: OidcConfig;
  readonly session: {
    readonly signing_key_env?: string;
    readonly previous_signing_keys: readonly { readonly key_env: string }[];
    readonly ttl_minutes: number;
    readonly refresh_days: number;
    readonly token_group?: string;
  };
  readonly self_made_tokens: {
    /** Absent: `session.refresh_days`. */
    readonly suspend_after_days?: number;
    readonly check_minutes: number;
  };
  readonly admin_groups?: readonly string[];
  readonly teams: readonly NamedGroups[];
  readonly projects: readonly NamedGroups[];
  readonly login_notice?: string;
  readonly limits: {
    readonly device_authorizations: number;
    readonly code_submissions: number;
    readonly requests: number;
    readonly refused_credentials: number;
    readonly window_seconds: number;
  };
}

/** A team or project, by the groups of the identity provider that make it up. */
export interface NamedGroups {
  readonly name: string;
  readonly groups: readonly string[];
}

/** `auth.oidc`: the identity provider. One of `client_secret_env` and `private_key_env` is there. */
export interface OidcConfig {
  readonly issuer_url: string;
  readonly client_id: string;
  readonly client_secret_env?: string;
  readonly private_key_env?: string;
  readonly private_key_id?: string;
  readonly token_endpoint_auth_method: 'client_secret_basic' | 'client_secret_post';
  readonly scopes?: readonly string[];
  readonly authorization_parameters: Readonly<Record<string, string>>;
  readonly allowed_groups?: readonly string[];
  /** Name of a claim, or a JSON pointer when it begins with a slash; so are the other `_claim` keys. */
  readonly groups_claim: string;
  readonly keep_groups?: readonly string[];
  readonly email_claim: string;
  readonly email_verification: 'required' | 'if_stated';
  readonly allowed_email_domains?: readonly string[];
  readonly team_claim?: string;
  readonly project_claim?: string;
  readonly clock_skew_seconds: number;
  readonly timeout_seconds: number;
  /** Absolute. */
  readonly ca_file?: string;
}
