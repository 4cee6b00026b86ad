import type { AuthConfig } from './config/auth.ts';
import type { PricesConfig, PricingConfig } from './config/prices.ts';
import type { Profile } from './config/profile.ts';
import type { RoutingRuleConfig } from './config/routing.ts';
import type { SpendLimitsConfig } from './config/spend-limits.ts';
import type { UpstreamConfig } from './config/upstreams.ts';
import type { RetentionConfig } from './retention.ts';

export type * from './config/auth.ts';
export type * from './config/prices.ts';
export type * from './config/profile.ts';
export type * from './config/routing.ts';
export * from './config/spend-limits.ts';
export * from './config/upstreams.ts';

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
      readonly unstreamed_first_byte_seconds: number;
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
  readonly branding?: BrandingConfig;
  /** A section that later versions act on; validated, otherwise unread. */
  readonly telemetry?: Readonly<Record<string, unknown>>;
}

/** The `branding` section: what people see on pages. */
export interface BrandingConfig {
  /** Absent: "Model gateway". */
  readonly name?: string;
  /** An https or mailto address. */
  readonly support_url?: string;
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

/** Settings of a model that have defaults. */
export type ModelSetting = 'context_window' | 'max_output_tokens' | `supports.${keyof ModelConfig['supports']}`;

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
  /** The most it may say in one answer; as much as its window holds where gateway.yaml doesn't tell. */
  readonly max_output_tokens: number;
  /** The bound that a translated request has where its client says none and its API must have one. */
  readonly default_output_tokens: number;
  /** Settings that gateway.yaml leaves out, so that they have their defaults. */
  readonly assumed: readonly ModelSetting[];
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
