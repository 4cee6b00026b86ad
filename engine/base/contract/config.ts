/**
 * The configuration as stages and services see it: gateway.yaml after validation, with defaults, deeply frozen, secrets still
 * only names of environment variables. What each key means is in `schemas/gateway.schema.json`, which the types of
 * `config-files.ts` are generated from; here stands what loading changes.
 * @module
 */
import type { GatewayFile } from './config-files.ts';
import type { Pricing, Profile, TierPricing } from './config-parts.ts';
import type { Protocol } from './protocol.ts';

export type { Profile } from './config-parts.ts';

type FileUpstream = GatewayFile['upstreams'][number];
type FileModel = GatewayFile['models'][number];
type FileRoutingRule = GatewayFile['routing']['rules'][number];

/** The whole of it. */
export interface GatewayConfig extends Omit<GatewayFile, 'server' | 'database' | 'upstreams' | 'models' | 'routing'> {
  readonly server: Omit<GatewayFile['server'], 'profile'> & {
    readonly profile: Profile;
    /** What gateway.yaml calls the profile; absent where nobody read one. */
    readonly profile_name?: string;
  };
  /** One of `postgres` and `embedded` is there. */
  readonly database: Partial<NonNullable<GatewayFile['database']>>;
  readonly upstreams: readonly UpstreamConfig[];
  readonly models: readonly ModelConfig[];
  /** Whether there is no section `models`: then the models are those of the upstreams' lists that the catalogue knows. */
  readonly from_model_lists?: true;
  readonly routing: Omit<GatewayFile['routing'], 'default_upstream' | 'default_upstreams' | 'rules'> & {
    readonly default_upstreams: readonly RouteUpstream[];
    readonly rules: readonly RoutingRuleConfig[];
  };
}

/** An upstream of a route with its place: lower orders first, weights share the sessions of an order. */
export interface RouteUpstream {
  readonly upstream: string;
  readonly order: number;
  readonly weight: number;
}

/** One entry of `upstreams`. */
export interface UpstreamConfig
  extends Omit<FileUpstream, 'protocols' | 'profile' | 'supports' | 'cache_pool' | 'state_boundary'> {
  /** Upstreams of one pool share a prompt cache; of its own where gateway.yaml names none. */
  readonly cache_pool: string;
  /** Upstreams within one can read each other's encrypted reasoning and stored responses; by address and credential where gateway.yaml names none. */
  readonly state_boundary: string;
  /** Whose header names it takes; absent where neither it, nor its address, nor `server.profile` tells. */
  readonly profile?: Profile | undefined;
  /** Protocols it speaks; for clients of another one the first is used. */
  readonly protocols: readonly Protocol[];
  readonly supports: Required<Omit<FileUpstream['supports'], 'strict_turns'>> & {
    /** Whether its chat templates want user and assistant to take turns; absent: by the name of the model. */
    readonly strict_turns?: boolean;
    /** Whether it takes thinking blocks with an empty signature, as servers do that sign nothing. */
    readonly unsigned_reasoning: boolean;
  };
}

/** One entry of `models`. */
export interface ModelConfig extends Omit<FileModel, 'aliases'> {
  /** Other names, for everybody. */
  readonly aliases: readonly string[];
  /** Other names, for members of groups. */
  readonly group_aliases: readonly GroupAlias[];
  readonly context_window: number;
  /** The most it may say in one answer; as much as its window holds where gateway.yaml doesn't tell. */
  readonly max_output_tokens: number;
  /** The bound that a translated request has where its client says none and its protocol must have one. */
  readonly default_output_tokens: number;
  /** Settings that neither gateway.yaml nor the catalogue tells, so that they have their defaults. */
  readonly assumed: readonly ModelSetting[];
  /** Prices of the catalogue by upstream, oldest first; absent where gateway.yaml has `pricing`, or the catalogue none. */
  readonly catalogue?: Readonly<Record<string, readonly DatedPricing[]>>;
}

/** A price that holds from midnight UTC of a day, or from the beginning. */
export interface DatedPricing {
  /** YYYY-MM-DD. */
  readonly from?: string;
  readonly pricing: PricingConfig;
}

/** A name that stands for a model where a member of one of the groups uses it. */
export interface GroupAlias {
  readonly name: string;
  readonly groups: readonly string[];
}

/** Settings of a model that have defaults. */
export type ModelSetting = 'context_window' | 'max_output_tokens' | `supports.${keyof FileModel['supports']}`;

/** One entry of `routing.rules`; every field that is present must match. Named rules in `when` are expanded. */
export interface RoutingRuleConfig extends Omit<FileRoutingRule, 'name' | 'upstream' | 'upstreams'> {
  /** The position in the file, such as `routing.rules[0]`, where the file gives no name. */
  readonly name: string;
  /** At least one. */
  readonly upstreams: readonly RouteUpstream[];
}

/** `shadow`: evaluated and recorded, never enforced. */
export type RuleMode = FileRoutingRule['mode'];

/** The `branding` section: what people see on pages. */
export type BrandingConfig = NonNullable<GatewayFile['branding']>;

/** The `policies` section. */
export type PoliciesConfig = NonNullable<GatewayFile['policies']>;

/** One entry of `token_groups`: which models its tokens may use, as globs over ids or as families. */
export type TokenGroupConfig = GatewayFile['token_groups'][number];

/** The `auth` section. */
export type AuthConfig = NonNullable<GatewayFile['auth']>;

/** A team or project, by the groups of the identity provider that make it up. */
export type NamedGroups = AuthConfig['teams'][number];

/** `auth.oidc`: the identity provider. One of `client_secret_env` and `private_key_env` is there. */
export type OidcConfig = NonNullable<AuthConfig['oidc']>;

/** How many whole months are kept. */
export type RetentionConfig = NonNullable<GatewayFile['database']>['retention'];

/** What is kept where gateway.yaml says nothing. */
export const DEFAULT_RETENTION: RetentionConfig = { ledger_months: 'forever', audit_months: 13 };

/** Prices in USD per million tokens. */
export type TokenPrices = Pick<
  Pricing,
  'input' | 'output' | 'cache_read' | 'cache_write_5m' | 'cache_write_1h' | 'audio_input' | 'audio_output'
>;

/** Everything a model can cost; tools that the upstream runs in USD per 1,000 uses. */
export type PricingConfig = Pricing;

/** What a way of being served costs: token prices for inputs of every length where `input` is there, all times `multiplier`. */
export type ServedPricingConfig = TierPricing;

/** The `prices` section. */
export type PricesConfig = NonNullable<GatewayFile['prices']>;

/** One entry of `prices.rows`: the price of some models, at one upstream or all, for a time. The first that matches holds. */
export type PriceRowConfig = PricesConfig['rows'][number];

/** The `spend_limits` section; amounts are USD. */
export type SpendLimitsConfig = NonNullable<GatewayFile['spend_limits']>;

/** One entry of `spend_limits.rules`. It limits at least one of money, requests at once, requests and tokens per minute. */
export type SpendRuleConfig = SpendLimitsConfig['rules'][number];

/** Keys of `spend_limits.defaults`, each the limit of every user, team, project or token by window. */
export type SpendDefault = keyof SpendLimitsConfig['defaults'];

/** Whose spending a limit can count, in the order in which a combination names them; `rule` is of a rule that counts only what matches. */
export const SPEND_SCOPES = ['user', 'team', 'project', 'token', 'model', 'upstream', 'rule'] as const;

/** Whose spending a limit counts. */
export type SpendScope = (typeof SPEND_SCOPES)[number];

/** Calendar windows of limits in money; a week begins on Monday. */
export const WINDOWS = ['day', 'week', 'month'] as const;

/** Calendar window of a limit in money. */
export type Window = (typeof WINDOWS)[number];

/** Fields of requests that bound the output: of Messages and chat completions, chat completions, Responses. */
export const OUTPUT_BOUNDS = ['max_tokens', 'max_completion_tokens', 'max_output_tokens'] as const;

/** One of them. */
export type OutputBound = (typeof OUTPUT_BOUNDS)[number];

/** Those of chat completions. */
export type ChatBound = NonNullable<FileUpstream['max_tokens_field']>;

type ClientNames = Required<NonNullable<Profile['clients']>>;

/** Names of the Messages client. */
export type MessagesClientNames = Required<ClientNames['messages']>;

/** Names of the coding CLI. */
export type CodingCliNames = Required<ClientNames['coding_cli']>;

/** Names of the build CLI. */
export type BuildCliNames = Required<ClientNames['build_cli']>;

/** Where a client looks for what an administrator wants on every machine; nothing where it looks nowhere. */
export type ManagedFiles = MessagesClientNames['managed_file'];
