/**
 * gateway.yaml after validation: defaults filled in, deeply frozen, secrets still only names of environment
 * variables. The shape and its words are documented in `schemas/gateway.schema.json`.
 */
export interface GatewayConfig {
  readonly server: {
    readonly listen: string;
    readonly public_url: string;
    readonly profile: string;
    readonly trusted_proxies: readonly string[];
    /** Lower case. */
    readonly region_header?: string;
    readonly tls?: { readonly cert_file: string; readonly key_file: string };
    readonly limits: { readonly body_bytes: number; readonly header_bytes: number; readonly buffered_bytes: number };
    readonly timeouts: {
      readonly connect_seconds: number;
      readonly first_byte_seconds: number;
      readonly idle_seconds: number;
      readonly drain_seconds: number;
      readonly request_body_seconds: number;
    };
  };
  readonly database: {
    readonly postgres?: { readonly url_env: string; readonly pool_max: number };
    readonly embedded?: { readonly data_dir: string };
  };
  readonly upstreams: readonly UpstreamConfig[];
  readonly models: readonly ModelConfig[];
  readonly token_groups: readonly TokenGroupConfig[];
  readonly routing: { readonly default_upstream: string; readonly rules: readonly RoutingRuleConfig[] };
  readonly spend_limits?: SpendLimitsConfig;
  /** Directory of the operator's own pipelines, absolute. */
  readonly pipelines?: string;
  /** The operator's own stage modules, absolute paths. */
  readonly stages: readonly string[];
  /** Sections that later versions act on; validated, otherwise unread. */
  readonly auth?: Readonly<Record<string, unknown>>;
  readonly policies?: Readonly<Record<string, unknown>>;
  readonly telemetry?: Readonly<Record<string, unknown>>;
}

/** One entry of `upstreams`. */
export interface UpstreamConfig {
  readonly name: string;
  readonly type: 'vendor' | 'compat';
  readonly base_url: string;
  readonly api_key_env?: string;
  readonly auth_token_env?: string;
  readonly region?: string;
  readonly supports: { readonly prompt_cache_1h: boolean; readonly count_tokens: boolean };
}

/** One entry of `models`; prices are USD per million tokens. */
export interface ModelConfig {
  readonly id: string;
  readonly family?: string;
  readonly display_name?: string;
  readonly context_window: number;
  readonly max_output_tokens: number;
  readonly upstream_ids: Readonly<Record<string, string>>;
  readonly pricing: {
    readonly input: number;
    readonly output: number;
    readonly cache_read?: number;
    readonly cache_write_5m?: number;
    readonly cache_write_1h?: number;
  };
}

/** One entry of `token_groups`: which models its tokens may use, as globs over ids or as families. */
export interface TokenGroupConfig {
  readonly name: string;
  readonly models?: readonly string[];
  readonly families?: readonly string[];
}

/** `shadow`: evaluated and recorded, never enforced. */
export type RuleMode = 'enforce' | 'shadow';

/** One entry of `routing.rules`; every field that is present must match. */
export interface RoutingRuleConfig {
  /** The place in the file, such as `routing.rules[0]`, where the file gives no name. */
  readonly name: string;
  readonly user?: string;
  readonly team?: string;
  readonly group?: string;
  readonly project?: string;
  readonly models?: readonly string[];
  readonly region?: string;
  /** JSON-Logic with named rules expanded. */
  readonly when?: unknown;
  readonly upstream: string;
  readonly mode: RuleMode;
}

/** Whose spending a limit counts. */
export type SpendScope = 'user' | 'team' | 'project' | 'model' | 'upstream';

/** One entry of `spend_limits.rules`. */
export interface SpendRuleConfig {
  readonly name: string;
  /** JSON-Logic with named rules expanded. */
  readonly when?: unknown;
  readonly scope: SpendScope;
  /** Present together with `limit_usd`. */
  readonly window?: 'day' | 'month';
  readonly limit_usd?: number;
  readonly concurrency?: number;
  readonly on_store_error?: 'deny' | 'allow';
  readonly mode: RuleMode;
}

/** The `spend_limits` section; amounts are USD. */
export interface SpendLimitsConfig {
  readonly defaults: { readonly user_daily_usd?: number; readonly team_monthly_usd?: number };
  readonly on_exceeded: 'deny';
  readonly on_store_error: 'deny' | 'allow';
  readonly reserve: 'worst_case' | 'typical';
  readonly status: 402 | 403 | 429;
  readonly time_zone: string;
  readonly rules: readonly SpendRuleConfig[];
}
