/**
 * The loaded configuration: gateway.yaml after validation, with defaults, deeply frozen. Secrets are names of environment variables.
 * `schemas/gateway.schema.json` describes each key, and the types of `config-files.ts` are generated from it. This file has the
 * types that loading changes.
 * @module
 */
import type { GatewayFile } from './config-files.ts';
import type { Pricing, Profile, TierPricing } from './config-parts.ts';
import type { Protocol } from './protocol.ts';

export type { Profile } from './config-parts.ts';

type FileUpstream = GatewayFile['upstreams'][number];
type FileModel = GatewayFile['models'][number];
type FileRoutingRule = GatewayFile['routing']['rules'][number];

/** The configuration of a gateway. */
export interface GatewayConfig extends Omit<GatewayFile, 'server' | 'database' | 'upstreams' | 'models' | 'routing'> {
  readonly server: Omit<GatewayFile['server'], 'profile'> & {
    readonly profile: Profile;
    /** The profile name in gateway.yaml; absent if no profile was read. */
    readonly profile_name?: string;
  };
  /** Has either `postgres` or `embedded`. */
  readonly database: Partial<NonNullable<GatewayFile['database']>>;
  readonly upstreams: readonly UpstreamConfig[];
  readonly models: readonly ModelConfig[];
  /** Set without a section `models`: the models are then those that the upstreams list and the catalogue knows. */
  readonly from_model_lists?: true;
  readonly routing: Omit<GatewayFile['routing'], 'default_upstream' | 'default_upstreams' | 'rules'> & {
    readonly default_upstreams: readonly RouteUpstream[];
    readonly rules: readonly RoutingRuleConfig[];
  };
}

/** An upstream of a route. Lower orders come first; weights divide the sessions of an order. */
export interface RouteUpstream {
  readonly upstream: string;
  readonly order: number;
  readonly weight: number;
}

/** One entry of `upstreams`. */
export interface UpstreamConfig
  extends Omit<FileUpstream, 'protocols' | 'profile' | 'supports' | 'cache_pool' | 'state_boundary'> {
  /** Upstreams of one pool share a prompt cache; default: a pool of its own. */
  readonly cache_pool: string;
  /** Upstreams of one boundary can read each other's encrypted reasoning and stored responses; default: by address and credential. */
  readonly state_boundary: string;
  /** Vendor of its header names; absent if neither gateway.yaml nor its address decides it. */
  readonly profile?: Profile | undefined;
  /** Its protocols; clients of another protocol are translated to the first. */
  readonly protocols: readonly Protocol[];
  readonly supports: Required<Omit<FileUpstream['supports'], 'strict_turns'>> & {
    /** Whether its chat templates require alternating user and assistant messages; absent: by the name of the model. */
    readonly strict_turns?: boolean;
    /** Whether it accepts thinking blocks with an empty signature, as servers without signatures do. */
    readonly unsigned_reasoning: boolean;
  };
}

/** One entry of `models`. */
export interface ModelConfig extends Omit<FileModel, 'aliases'> {
  readonly aliases: readonly string[];
  readonly group_aliases: readonly GroupAlias[];
  readonly context_window: number;
  /** Maximum output tokens of one response; default: the context window. */
  readonly max_output_tokens: number;
  /** Output limit of a translated request, if the client sends none and the protocol requires one. */
  readonly default_output_tokens: number;
  /** Settings that have their defaults, because neither gateway.yaml nor the catalogue sets them. */
  readonly assumed: readonly ModelSetting[];
  /** Catalogue prices by upstream, oldest first; absent if gateway.yaml has `pricing`, or the catalogue no price. */
  readonly catalogue?: Readonly<Record<string, readonly DatedPricing[]>>;
}

/** A price that is valid from midnight UTC of a day, or from the beginning. */
export interface DatedPricing {
  readonly from?: string;
  readonly pricing: PricingConfig;
}

export interface GroupAlias {
  readonly name: string;
  readonly groups: readonly string[];
}

/** Settings of a model that have defaults. */
export type ModelSetting = 'context_window' | 'max_output_tokens' | `supports.${keyof FileModel['supports']}`;

/** One entry of `routing.rules`; all present fields must match. Named rules in `when` are expanded. */
export interface RoutingRuleConfig extends Omit<FileRoutingRule, 'name' | 'upstream' | 'upstreams'> {
  /** The name in the file, or its position, such as `routing.rules[0]`. */
  readonly name: string;
  readonly upstreams: readonly RouteUpstream[];
}

/** `shadow`: evaluated and recorded, never enforced. */
export type RuleMode = FileRoutingRule['mode'];

/** The `branding` section: names and colours of web pages. */
export type BrandingConfig = NonNullable<GatewayFile['branding']>;

/** The `policies` section. */
export type PoliciesConfig = NonNullable<GatewayFile['policies']>;

/** One entry of `token_groups`: the models that its tokens may use, as globs over ids or as families. */
export type TokenGroupConfig = GatewayFile['token_groups'][number];

/** The `auth` section. */
export type AuthConfig = NonNullable<GatewayFile['auth']>;

/** A team or project, defined by groups of the identity provider. */
export type NamedGroups = AuthConfig['teams'][number];

/** `auth.oidc`: the identity provider. Has either `client_secret_env` or `private_key_env`. */
export type OidcConfig = NonNullable<AuthConfig['oidc']>;

/** The `retention` section: months of data to keep. */
export type RetentionConfig = NonNullable<GatewayFile['database']>['retention'];

/** Default retention. */
export const DEFAULT_RETENTION: RetentionConfig = { ledger_months: 'forever', audit_months: 13 };

/** Prices in USD per million tokens. */
export type TokenPrices = Pick<
  Pricing,
  'input' | 'output' | 'cache_read' | 'cache_write_5m' | 'cache_write_1h' | 'audio_input' | 'audio_output'
>;

/** All prices of a model; server tools in USD per 1,000 uses. */
export type PricingConfig = Pricing;

/** Prices of a service tier: token prices for all input lengths if `input` is set, times `multiplier`. */
export type ServedPricingConfig = TierPricing;

/** The `prices` section. */
export type PricesConfig = NonNullable<GatewayFile['prices']>;

/** One entry of `prices.rows`: the price of some models at one upstream or all, for a period. The first match applies. */
export type PriceRowConfig = PricesConfig['rows'][number];

/** The `spend_limits` section; amounts are USD. */
export type SpendLimitsConfig = NonNullable<GatewayFile['spend_limits']>;

/** One entry of `spend_limits.rules`. It limits at least one of money, concurrent requests, requests and tokens per minute. */
export type SpendRuleConfig = SpendLimitsConfig['rules'][number];

/** Keys of `spend_limits.defaults`: the limit of each user, team, project or token, by window. */
export type SpendDefault = keyof SpendLimitsConfig['defaults'];

/** Scopes of a limit, in the order of a combined scope; `rule` counts only the requests that match a rule. */
export const SPEND_SCOPES = ['user', 'team', 'project', 'token', 'model', 'upstream', 'rule'] as const;

/** Scope of a limit. */
export type SpendScope = (typeof SPEND_SCOPES)[number];

/** Request fields that limit the output: of Messages and chat completions, chat completions, Responses. */
export const OUTPUT_BOUNDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const;

/** One of `OUTPUT_BOUNDS`. */
export type OutputBound = (typeof OUTPUT_BOUNDS)[number];

/** The output limits of chat completions. */
export type ChatBound = NonNullable<FileUpstream['max_tokens_field']>;

type ClientNames = Required<NonNullable<Profile['clients']>>;

/** Vendor names of the Messages client. */
export type MessagesClientNames = Required<ClientNames['messages']>;

/** Vendor names of the coding CLI. */
export type CodingCliNames = Required<ClientNames['coding_cli']>;

/** Vendor names of the build CLI. */
export type BuildCliNames = Required<ClientNames['build_cli']>;

/** Path of a client's system-wide settings file, by operating system; empty if it has none. */
export type ManagedFiles = MessagesClientNames['managed_file'];
