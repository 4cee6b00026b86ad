/** Interfaces of the services that stages use, which they import from `engine/api.ts`. @module */

import type { GatewayConfig, ModelConfig, UpstreamConfig } from './config.ts';
import type { UpstreamStates } from './forwarding.ts';
import type { AudioTokens, CounterName, Ledger, LimitChanges, TokenCounts } from './money.ts';
import type { StageContext } from './stage.ts';

export type * from './forwarding.ts';
export type * from './money.ts';

type MaybePromise<T> = T | Promise<T>;

/** The services of a stage; passed to `create`. */
export interface Services {
  readonly config: GatewayConfig;
  readonly clock: Clock;
  readonly log: Log;
  /** The value of an environment variable that gateway.yaml or the options of the stage name. Never put it into a fact. */
  secret(name: string): string;
  readonly tokens: BearerTokens;
  readonly models: ModelCatalog;
  readonly upstreams: UpstreamStates;
  readonly policies: ManagedPolicies;
  readonly ledger: Ledger;
  readonly limits_in_force: LimitsInForce;
  readonly audit: AuditLog;
  readonly health: Health;
  readonly pipeline: PipelineInfo;
  /** Compiles a JSON-Logic condition that passed the load checks. */
  condition(logic: unknown): (facts: FactView) => boolean;
  /**
   * Facts of a request as a nested read-only object, for `condition`. Custom stages get all facts; shipped stages get those that
   * rules of the pipeline and of gateway.yaml read.
   */
  facts(ctx: StageContext<never, never, never>): FactView;
  /** The audit record of a request, without prompt text. @param now in milliseconds since the epoch */
  record(ctx: StageContext<never, never, never>, now: number): AuditRecord;
}

export interface PipelineInfo {
  /** The protocol it serves; values as in the fact `request.protocol`. */
  readonly protocol: string;
  /** Names of the active stages, in order. */
  readonly stages: readonly string[];
  /** Facts that its guards, the rules of gateway.yaml and custom stages read. */
  readonly facts_read: ReadonlySet<string>;
}

/** The services that all pipelines have in common. */
export type SharedServices = Omit<Services, 'pipeline'>;

/** Facts as a nested, null-prototype, read-only object: `{ request: { model } }`. */
export type FactView = Readonly<Record<string, unknown>>;

/** A scheduled task. */
export interface Timer {
  refresh(): unknown;
  close(): unknown;
  /** Lets the process exit while the task waits. */
  unref(): unknown;
}

/** A clock that tests can replace. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Monotonic milliseconds, for durations. */
  monotonic(): number;
  /** Runs a task once, after this many milliseconds. */
  after(milliseconds: number, task: () => void): Timer;
  /** Whether a test sets the time; the database then gets the time from here instead of its own clock. */
  readonly frozen: boolean;
}

/** Structured log. Fields never contain secrets or prompt text. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** The person or machine behind a credential. */
export interface Principal {
  readonly id: string;
  readonly email: string;
  /** Name of a signed-in person, if the identity provider reports it. */
  readonly name?: string;
  readonly kind: 'access_token' | 'session';
  readonly groups: readonly string[];
  readonly roles: readonly string[];
  readonly team: string | undefined;
  readonly project: string | undefined;
  /** The access token or session; `group` is the token group, which a signed-in person may lack. */
  readonly token: { readonly id: string; readonly name: string; readonly group: string | undefined };
}

/** Verification of bearer credentials: access tokens, and session tokens of people who signed in. */
export interface BearerTokens {
  /**
   * The principal of a token; synchronous if cached.
   * Raises credential_invalid, credential_expired, credential_revoked, store_unavailable.
   */
  verify(token: string): MaybePromise<Principal>;
}

/** The models of gateway.yaml, their prices, and who may use them. */
export interface ModelCatalog {
  /** All models, in file order; without a section `models` those of the upstreams' lists. A change makes a new array. */
  readonly all: readonly ModelConfig[];
  /** Finds a model by id or alias. @param groups of the caller, if known: an alias may be limited to some */
  find(id: string, groups?: readonly string[]): ModelConfig | undefined;
  /** Finds the model that prices a request, by id; includes the placeholder of requests without a model. */
  charged(id: string): ModelConfig | undefined;
  /** Why a caller may not use a model; `undefined` if it may. */
  refusal(caller: ModelCaller, model: ModelConfig): ModelRefusal | undefined;
  /** Whether an upstream serves a model; false only without a section `models`, by the list of the upstream. */
  isServedAt(model: ModelConfig, upstream: string): boolean;
  upstream(name: string): UpstreamConfig;
  /** Exact cost of usage in nano-USD, rounded up once. */
  cost(model: ModelConfig, usage: Usage, route: PricedRoute): number;
  /** Finds the model that responded, by its name at the upstream; `undefined` if unknown. */
  answering(name: string, upstream: string, requested: string): ModelConfig | undefined;
  /** The current price. Throws, like `cost`, if the model has none at that upstream and time. */
  price(model: ModelConfig, route: PricedRoute): EffectivePrice;
}

/** Upstream and time of a request, which decide the price of a model. */
export interface PricedRoute {
  readonly upstream: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Prices of tokens. */
export interface TokenRates {
  /** Pico-USD per token, by kind of token; audio only if it has its own price. */
  readonly pico: Readonly<Record<keyof TokenCounts, number>> & {
    readonly audio_input?: number;
    readonly audio_output?: number;
  };
  /** The prices of requests with more input tokens than `above_input_tokens`, including cached ones. */
  readonly long_context?: { readonly above_input_tokens: number; readonly pico: TokenRates['pico'] };
}

/** Prompt cache lifetime of a request. */
export type CacheLifetime = 'none' | '5m' | '1h';

/** Fields beside model and input length that can have a price; names as on the wire. */
export const SERVED_FIELDS = ['service_tier', 'speed', 'inference_geo'] as const;

/** How an upstream serves a request, by the fields that can have a price; names as on the wire. */
export interface Served {
  readonly service_tier?: string;
  readonly speed?: string;
  readonly inference_geo?: string;
}

/** The current price of a model at an upstream. */
export interface EffectivePrice extends TokenRates {
  /** Source: `models`, `catalogue`, an entry such as `prices.rows[2]`, or `prices.unknown_model`. */
  readonly source: string;
  /** Prices by how a request is served; absent if all are the same. */
  readonly served?: {
    /** The values that have a price, by field. */
    readonly names: Readonly<Record<keyof Served, readonly string[]>>;
    /** Prices by combination: the values of `SERVED_FIELDS` joined by `/`; an empty value is the default. */
    readonly rates: Readonly<Record<string, TokenRates>>;
  };
  /** Pico-USD per use of a server tool, by name; other tools have no price. */
  readonly server_tools_pico: Readonly<Record<string, number>>;
}

/** The usage of a request. */
export interface Usage extends TokenCounts {
  /** How the request was served, if reported. */
  readonly served?: Served;
  readonly server_tools?: Readonly<Record<string, number>>;
  /** The audio tokens among input and output, which have their own prices; absent without audio. */
  readonly audio?: AudioTokens;
}

/** The properties of a caller that decide which models it may use. */
export interface ModelCaller {
  readonly token_group: string | undefined;
  readonly groups: readonly string[];
  readonly email: string;
}

/** Why a caller may not use a model. */
export type ModelRefusal =
  | { readonly by: 'token_group'; readonly token_group: string | undefined }
  /** The policy whose list of models lacks this one. */
  | { readonly by: 'policy'; readonly policy: string }
  /** Without a section `models`: no upstream of the route lists the model. */
  | { readonly by: 'list' };

/** Run-time changes of the limits of gateway.yaml. */
export interface LimitsInForce {
  /** The changes of the limit on one counter. Raises store_unavailable. */
  changes(name: CounterName): Promise<LimitChanges>;
}

/** Managed policies: settings for clients, by caller. */
export interface ManagedPolicies {
  /** The settings for a person, by groups and e-mail address; `undefined` if no policy applies. Cached. */
  of(person: { readonly groups: readonly string[]; readonly email: string }): EffectivePolicy | undefined;
  /** Records that a client of a principal has received these settings, or has them already. */
  served(principal_id: string, policy: EffectivePolicy): void;
}

/** The merged settings of all policies that apply to a person. */
export interface EffectivePolicy {
  /** Names of the policies, in order of priority; the last one wins. */
  readonly names: readonly string[];
  readonly settings: Readonly<Record<string, unknown>>;
  /** JSON text as it is served: uuid, checksum, settings. */
  readonly body: string;
  /** `sha256:` and the hexadecimal digest of the settings. */
  readonly checksum: string;
  /** The checksum in quotes (RFC 9110 section 8.8.3). */
  readonly etag: string;
  /** Identifies the set of policies; independent of their settings. */
  readonly uuid: string;
  /** Ids of the allowed models (globs, without a section `models`); `undefined` if no policy restricts them. */
  readonly models: ReadonlySet<string> | undefined;
  /** Name of the policy that restricts the models. */
  readonly models_policy: string | undefined;
}

/** An audit record: JSON-serialisable, without prompt text or secrets. Fields that are `undefined` are omitted. */
export type AuditRecord = Readonly<
  Record<string, string | number | boolean | null | readonly string[] | object | undefined>
>;

/** Where audit records go. */
export interface AuditLog {
  /**
   * In a custom stage: adds custom fields to the audit record of the current request, under `found.<stage>`. At most 32 fields: numbers,
   * booleans, strings of at most 200 characters, and lists of at most 20 of these. Throws for other values, and once the record is
   * written. Outside of a request it writes a separate record.
   * In the stage `audit`: queues a record for the audit table, and retries while the database is unavailable.
   */
  write(record: AuditRecord): void;
  /** Appends one JSON line to a file (`-` is standard output). */
  appendLine(path: string, record: AuditRecord): void;
}

/** The health of one component of the gateway. */
export interface HealthPart {
  readonly ok: boolean;
  /** Public one-word state where `ok` is not enough, such as `read_only`. */
  readonly state?: string;
  /** Whether requests currently need the component; default true. */
  readonly needed?: boolean;
  /** For the log; may name hosts. */
  readonly detail?: string;
  /** Public reason why requests are rejected. */
  readonly reason?: string;
  readonly public_details?: Readonly<Record<string, string | number | Readonly<Record<string, string | number>>>>;
}

/** Readiness checks. */
export interface Health {
  /** Whether the gateway is shutting down; it still serves requests that arrive. */
  readonly stopping?: boolean;
  /** Health by component: always `database`; in a running gateway also `spool`, `configuration` and `upstreams`. */
  check(): Promise<Readonly<Record<string, HealthPart>>>;
}
