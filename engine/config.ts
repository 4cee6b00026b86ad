import type { RetentionConfig } from './retention.ts';
import type { Protocol } from './translation/protocol.ts';

/**
 * gateway.yaml after validation: defaults filled in, deeply frozen, secrets still only names of environment
 * variables. The shape and its words are documented in `schemas/gateway.schema.json`.
 */
export interface GatewayConfig {
  readonly server: {
    readonly listen: string;
    readonly public_url: string;
    readonly profile: Profile;
    readonly trusted_proxies: readonly string[];
    /** Lower case. */
    readonly region_header?: string;
    readonly tls?: { readonly cert_file: string; readonly key_file: string };
    readonly limits: {
      readonly body_bytes: number;
      readonly header_bytes: number;
      readonly buffered_bytes: number;
      /** Absent: a quarter of `buffered_bytes`, and at least `body_bytes`. */
      readonly buffered_bytes_per_principal?: number;
      readonly requests_per_principal: number;
      readonly connections: number;
      readonly connections_per_principal: number;
      readonly json_depth: number;
      readonly json_values: number;
    };
    readonly drain: { readonly accept_seconds: number };
    readonly timeouts: {
      readonly connect_seconds: number;
      readonly first_byte_seconds: number;
      readonly idle_seconds: number;
      readonly drain_seconds: number;
      readonly request_head_seconds: number;
      readonly request_body_seconds: number;
      readonly request_silence_seconds: number;
    };
  };
  readonly database: {
    readonly postgres?: { readonly url_env: string; readonly pool_max: number };
    readonly embedded?: { readonly data_dir: string };
    readonly retention?: RetentionConfig;
  };
  readonly upstreams: readonly UpstreamConfig[];
  readonly models: readonly ModelConfig[];
  readonly token_groups: readonly TokenGroupConfig[];
  readonly routing: { readonly default_upstream: string; readonly rules: readonly RoutingRuleConfig[] };
  readonly spend_limits?: SpendLimitsConfig;
  readonly prices?: PricesConfig;
  /** Directory of the operator's own pipelines, absolute. */
  readonly pipelines?: string;
  /** The operator's own stage modules, absolute paths. */
  readonly stages: readonly string[];
  readonly auth?: AuthConfig;
  readonly policies?: PoliciesConfig;
  /** A section that later versions act on; validated, otherwise unread. */
  readonly telemetry?: Readonly<Record<string, unknown>>;
}

/** Vendor names for what the gateway itself writes. */
export interface Profile {
  /** Begins the names of the headers that tell callers how they stand with their limits. */
  readonly header_prefix: string;
  /** What the files and variables of coding clients are called; the neutral names where it says nothing. */
  readonly clients?: {
    readonly messages?: Partial<MessagesClientNames>;
    readonly coding_cli?: Partial<CodingCliNames>;
    readonly build_cli?: Partial<BuildCliNames>;
  };
}

/** Names of the Messages client. */
export interface MessagesClientNames {
  /** Its settings; `~/` stands for the home directory, here and in the other files. */
  readonly settings_file: string;
  /** Begins its variables of address, credential and models. */
  readonly variable_prefix: string;
  /** Begins its variables of features. */
  readonly feature_prefix: string;
}

/** Names of the coding CLI. */
export interface CodingCliNames {
  readonly config_file: string;
  readonly auth_file: string;
  /** Key of `auth_file` that holds the credential. */
  readonly key_name: string;
  /** Key of a provider that says whether the credential of `auth_file` is used. */
  readonly auth_flag: string;
}

/** Names of the build CLI. */
export interface BuildCliNames {
  readonly config_file: string;
  /** Variable of the key it uses when an entry names none. */
  readonly key_variable: string;
}

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

/** The `policies` section. */
export interface PoliciesConfig {
  readonly managed?: {
    readonly enabled: boolean;
    readonly default_policy?: string;
    /** Absolute. */
    readonly directory: string;
  };
}

/** Fields of requests that bound the output: of Messages and chat completions, chat completions, Responses. */
export const OUTPUT_BOUNDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const;

/** One of them. */
export type OutputBound = (typeof OUTPUT_BOUNDS)[number];

/** One entry of `upstreams`. */
export interface UpstreamConfig {
  readonly name: string;
  readonly type: 'vendor' | 'compat';
  readonly base_url: string;
  readonly api_key_env?: string;
  readonly auth_token_env?: string;
  readonly region?: string;
  /** APIs it speaks; for clients of another API the first is used. */
  readonly protocols: readonly Protocol[];
  readonly supports: {
    readonly prompt_cache_1h: boolean;
    readonly count_tokens: boolean;
    /** Chat completions: whether it can report usage at the end of a stream. */
    readonly stream_usage: boolean;
    readonly max_tokens_0: boolean;
  };
  /** Fields that bound the output and that it keeps to; under any other a request may take all the model can say. */
  readonly honours: readonly OutputBound[];
  /** How often a model is run at most for one answer in which it may use the upstream's tools as often as it likes. */
  readonly tool_iterations?: number;
  /** What becomes of an answer whose client has gone: read on for its bill, within `drain_limits`, or cancelled. */
  readonly on_client_abort: 'drain' | 'cancel';
  readonly drain_limits: { readonly seconds: number; readonly bytes: number; readonly requests: number };
  /** Contract multiplier on all prices at this upstream. */
  readonly price_multiplier: number;
  /** Fields of requests that callers may use here though they choose who serves or pays; places as in `tools[].model`. */
  readonly allow_fields?: readonly string[];
  /** Headers of requests that reach it though they choose who serves or pays; lower case. */
  readonly allow_headers?: readonly string[];
}

/** One entry of `models`. */
export interface ModelConfig {
  readonly id: string;
  readonly family?: string;
  readonly display_name?: string;
  /** Other names clients may send. */
  readonly aliases: readonly string[];
  readonly supports: {
    readonly tools: boolean;
    readonly images: boolean;
    /** How it is told to think in the Messages API. */
    readonly thinking: 'none' | 'budget' | 'adaptive';
    /** Whether it takes temperature, top_p and top_k. */
    readonly sampling: boolean;
    readonly prompt_cache_1h: boolean;
  };
  readonly context_window: number;
  readonly max_output_tokens: number;
  readonly upstream_ids: Readonly<Record<string, string>>;
  /** Absent only where `prices` says what it costs. */
  readonly pricing?: PricingConfig;
}

/** One entry of `token_groups`: which models its tokens may use, as globs over ids or as families. */
export interface TokenGroupConfig {
  readonly name: string;
  readonly models?: readonly string[];
  readonly families?: readonly string[];
  /** Groups of the identity provider whose signed-in members use it. */
  readonly members?: readonly string[];
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

/** Whose spending a limit can count, in the order in which a combination names them. */
export const SPEND_SCOPES = ['user', 'team', 'project', 'token', 'model', 'upstream'] as const;

/** Whose spending a limit counts. */
export type SpendScope = (typeof SPEND_SCOPES)[number];

/** Calendar windows of limits in money; a week begins on Monday. */
export const WINDOWS = ['day', 'week', 'month'] as const;

/** Calendar window of a limit in money. */
export type Window = (typeof WINDOWS)[number];

/** One entry of `spend_limits.rules`. It limits at least one of money, requests at once, requests and tokens per minute. */
export interface SpendRuleConfig {
  readonly name: string;
  /** JSON-Logic with named rules expanded. */
  readonly when?: unknown;
  /** Several: the limit is counted for each combination. */
  readonly scope: SpendScope | readonly SpendScope[];
  /** Present together with `limit_usd` or `limit_usd_by_group`. */
  readonly window?: Window;
  readonly limit_usd?: number;
  /** By group of the caller, the largest of those that match; `limit_usd` is for callers in none of them. */
  readonly limit_usd_by_group?: Readonly<Record<string, number>>;
  readonly concurrency?: number;
  readonly requests_per_minute?: number;
  readonly tokens_per_minute?: number;
  readonly on_store_error?: 'deny' | 'allow';
  readonly mode: RuleMode;
}

/** Keys of `spend_limits.defaults`, each the limit of every user, team, project or token by window. */
export type SpendDefault = `${'user' | 'team' | 'project' | 'token'}_${'daily' | 'weekly' | 'monthly'}_usd`;

/** The `spend_limits` section; amounts are USD. */
export interface SpendLimitsConfig {
  readonly defaults: Readonly<Partial<Record<SpendDefault, number>>>;
  readonly on_exceeded: 'deny';
  readonly on_store_error: 'deny' | 'allow';
  /** Longest a request waits for the database to hold its money, in seconds. */
  readonly store_timeout_seconds: number;
  /** Directory of what is to be settled later, absolute. */
  readonly spool_dir: string;
  readonly reserve: 'worst_case' | 'typical';
  /** Of a limit: how far all that is in flight may pass it at most, under `reserve: typical`. */
  readonly overshoot_percent: number;
  readonly status: 402 | 403 | 429;
  /** One sentence that ends every refusal: what the caller can do. */
  readonly advice?: string;
  readonly time_zone: string;
  readonly rules: readonly SpendRuleConfig[];
}

/** Prices in USD per million tokens. */
export interface TokenPrices {
  readonly input: number;
  readonly output: number;
  readonly cache_read?: number;
  readonly cache_write_5m?: number;
  readonly cache_write_1h?: number;
}

/** What a way of being served costs: token prices for inputs of every length where `input` is there, all times `multiplier`. */
export interface ServedPricingConfig extends Partial<TokenPrices> {
  readonly multiplier?: number;
}

/** Everything a model can cost; tools that the upstream runs in USD per 1,000 uses. */
export interface PricingConfig extends TokenPrices {
  readonly long_context?: TokenPrices & { readonly above_input_tokens: number };
  /** By the names that `service_tier`, `speed` and `inference_geo` have on the wire. */
  readonly service_tiers?: Readonly<Record<string, ServedPricingConfig>>;
  readonly speeds?: Readonly<Record<string, ServedPricingConfig>>;
  readonly inference_geos?: Readonly<Record<string, ServedPricingConfig>>;
  readonly server_tools?: Readonly<Record<string, number>>;
}

/** One entry of `prices.rows`: the price of some models, at one upstream or all, for a time. The first that matches holds. */
export interface PriceRowConfig {
  /** Globs over model ids. */
  readonly models: readonly string[];
  readonly upstream?: string;
  /** Dates (YYYY-MM-DD, midnight UTC): the first day it holds, and the first it no longer does. */
  readonly from?: string;
  readonly until?: string;
  /** Absent: the model's own pricing. */
  readonly pricing?: PricingConfig;
  /** Contract multiplier on all of it. */
  readonly multiplier: number;
}

/** The `prices` section. */
export interface PricesConfig {
  /** Price of a model that has none. */
  readonly unknown_model?: PricingConfig;
  readonly rows: readonly PriceRowConfig[];
}
