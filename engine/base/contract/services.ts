/**
 * What the engine offers to stages, as types; the rooms of the engine have what is behind them. Stages import these from
 * `engine/api.ts`.
 * @module
 */

import type { GatewayConfig, ModelConfig, UpstreamConfig } from './config.ts';
import type { UpstreamStates } from './forwarding.ts';
import type { AudioTokens, CounterName, Ledger, LimitChanges, TokenCounts } from './money.ts';
import type { StageContext } from './stage.ts';

export type * from './forwarding.ts';
export type * from './money.ts';

type MaybePromise<T> = T | Promise<T>;

/** What the gateway offers a stage; passed to `create`. */
export interface Services {
  readonly config: GatewayConfig;
  readonly clock: Clock;
  readonly log: Log;
  /** Value of an environment variable that gateway.yaml or the stage's options name. Keep it in a closure, never in a fact. */
  secret(name: string): string;
  readonly tokens: BearerTokens;
  readonly models: ModelCatalog;
  readonly upstreams: UpstreamStates;
  readonly policies: ManagedPolicies;
  readonly ledger: Ledger;
  readonly limits_in_force: LimitsInForce;
  readonly audit: AuditLog;
  readonly health: Health;
  /** The pipeline that the stage is made for. */
  readonly pipeline: PipelineNotes;
  /** Compiles a JSON-Logic condition over facts that passed the load checks. */
  condition(logic: unknown): (facts: FactView) => boolean;
  /**
   * Facts of a request as a nested read-only object, for `condition`: all for a stage of the operator's, for others those that the
   * rules of its pipeline and of gateway.yaml look at.
   */
  facts(ctx: StageContext<never, never, never>): FactView;
  /**
   * The audit record of a request: who, what, by which decisions, with which result. No text of anybody's prompt is in it.
   * @param now in milliseconds since the epoch
   */
  record(ctx: StageContext<never, never, never>, now: number): AuditRecord;
}

/** What a stage may know of its pipeline. */
export interface PipelineNotes {
  /** What it serves, as the fact `request.protocol` has it. */
  readonly protocol: string;
  /** Names of the stages in force, in order. */
  readonly stages: readonly string[];
  /** Facts that its guards, the rules of gateway.yaml and the operator's own stages look at. */
  readonly facts_read: ReadonlySet<string>;
}

/** The services that all pipelines have in common. */
export type SharedServices = Omit<Services, 'pipeline'>;

/** Facts as a nested, null-prototype, read-only object: `{ request: { model } }`. */
export type FactView = Readonly<Record<string, unknown>>;

/** A task that waits for its time. */
export interface Timer {
  /** Starts the wait anew. */
  refresh(): unknown;
  /** Gives the task up. */
  close(): unknown;
  /** Lets the process end while the task waits. */
  unref(): unknown;
}

/** Time, so that tests can stop it. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Monotonic milliseconds, for durations. */
  monotonic(): number;
  /** Runs a task once this many milliseconds have passed. */
  after(milliseconds: number, task: () => void): Timer;
  /** Whether time is set by a test; the database is then told the time instead of asking its own clock. */
  readonly frozen: boolean;
}

/** Structured log. Fields never have secrets or prompt text. */
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
  /** Name of a signed-in person, where the identity provider tells it. */
  readonly name?: string;
  readonly kind: 'access_token' | 'session';
  readonly groups: readonly string[];
  readonly roles: readonly string[];
  readonly team: string | undefined;
  readonly project: string | undefined;
  /** The access token, or the session; `group` is the token group, which a signed-in person may not have. */
  readonly token: { readonly id: string; readonly name: string; readonly group: string | undefined };
}

/** Verification of bearer credentials: access tokens, and session tokens of people who signed in. */
export interface BearerTokens {
  /**
   * The principal behind a token; returned at once when it is cached.
   * Raises credential_invalid, credential_expired, credential_revoked, store_unavailable.
   */
  verify(token: string): MaybePromise<Principal>;
}

/** The models of gateway.yaml, and who may use which. */
export interface ModelCatalog {
  /** All models, in file order; where gateway.yaml names none, those of the upstreams' lists, another array when they change. */
  readonly all: readonly ModelConfig[];
  /**
   * The model that an identifier or an alias stands for.
   * @param groups of whoever uses it, where that is known: an alias may be for some groups only.
   */
  find(id: string, groups?: readonly string[]): ModelConfig | undefined;
  /** The model by whose price a request is charged, by its identifier: also that of requests that name none. */
  charged(id: string): ModelConfig | undefined;
  /** Why a caller may not use a model; `undefined` when it may. */
  refusal(caller: ModelCaller, model: ModelConfig): ModelRefusal | undefined;
  /** Whether an upstream that its requests are routed to serves a model; false only where gateway.yaml names no models. */
  isServedAt(model: ModelConfig, upstream: string): boolean;
  upstream(name: string): UpstreamConfig;
  /** Exact price of usage, in nano-USD, rounded up to the next integer once. */
  cost(model: ModelConfig, usage: Usage, route: PricedRoute): number;
  /** The model that an upstream's name stands for, where a request asked for another or the same; `undefined`: nobody knows it. */
  answering(name: string, upstream: string, requested: string): ModelConfig | undefined;
  /** The price in force. Throws, as `cost` does, where the model has none at that upstream and time. */
  price(model: ModelConfig, route: PricedRoute): EffectivePrice;
}

/** What decides the price of a model: who serves it and when it was asked. */
export interface PricedRoute {
  readonly upstream: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

/** Prices of tokens. */
export interface TokenRates {
  /** Pico-USD per token, by kind of token; of audio only where it has a price of its own. */
  readonly pico: Readonly<Record<keyof TokenCounts, number>> & {
    readonly audio_input?: number;
    readonly audio_output?: number;
  };
  /** The tier of requests with more input tokens than `above_input_tokens`, cached ones counted. */
  readonly long_context?: { readonly above_input_tokens: number; readonly pico: TokenRates['pico'] };
}

/** Prompt cache lifetime that a request asked for. */
export type CacheLifetime = 'none' | '5m' | '1h';

/** What can have a price beside the model and the length of its input, by the words of the wire. */
export const SERVED_FIELDS = ['service_tier', 'speed', 'inference_geo'] as const;

/** How an upstream serves a request, as far as that can have a price of its own; names as on the wire. */
export interface Served {
  readonly service_tier?: string;
  readonly speed?: string;
  readonly inference_geo?: string;
}

/** The price in force for a model at an upstream. */
export interface EffectivePrice extends TokenRates {
  /** Where it comes from: `models`, `catalogue`, the entry such as `prices.rows[2]`, or `prices.unknown_model`. */
  readonly source: string;
  /** Prices by how a request is served; absent where that makes no difference. */
  readonly served?: {
    /** The names that have a price, by field. */
    readonly names: Readonly<Record<keyof Served, readonly string[]>>;
    /** One for every combination of names, by the names of `SERVED_FIELDS` joined by `/`; an empty one is the ordinary way. */
    readonly rates: Readonly<Record<string, TokenRates>>;
  };
  /** Pico-USD per use of a tool that the upstream runs, by name; a tool that is not here has no price. */
  readonly server_tools_pico: Readonly<Record<string, number>>;
}

/** What a request used. */
export interface Usage extends TokenCounts {
  /** How it was served; absent where nothing is said about it. */
  readonly served?: Served;
  /** Uses of tools that the upstream ran, by name. */
  readonly server_tools?: Readonly<Record<string, number>>;
  /** What of the input and output was audio, which has prices of its own; absent where nothing was. */
  readonly audio?: AudioTokens;
}

/** Who asks for models, as far as that decides which ones there are. */
export interface ModelCaller {
  readonly token_group: string | undefined;
  readonly groups: readonly string[];
  readonly email: string;
}

/** What keeps a model from a caller. */
export type ModelRefusal =
  | { readonly by: 'token_group'; readonly token_group: string | undefined }
  /** The policy that set the list of models which lacks this one. */
  | { readonly by: 'policy'; readonly policy: string }
  /** gateway.yaml names no models, and no upstream that its requests are routed to has it on its list. */
  | { readonly by: 'list' };

/** What was set and granted at run time on limits of gateway.yaml. */
export interface LimitsInForce {
  /** What was changed about the limit on one counter. Raises store_unavailable. */
  changes(name: CounterName): Promise<LimitChanges>;
}

/** Managed policies: settings for clients, by who asks. */
export interface ManagedPolicies {
  /** What is meant for somebody with these groups and this e-mail address; `undefined` when no policy is. Costs next to nothing. */
  of(person: { readonly groups: readonly string[]; readonly email: string }): EffectivePolicy | undefined;
  /** Notes that a client of somebody was given these settings, or has them already. */
  served(principal_id: string, policy: EffectivePolicy): void;
}

/** What somebody gets: the settings of all policies meant for them, laid over each other. */
export interface EffectivePolicy {
  /** Names of the policies, the one with the last word last. */
  readonly names: readonly string[];
  readonly settings: Readonly<Record<string, unknown>>;
  /** JSON text as it is served: uuid, checksum, settings. */
  readonly body: string;
  /** `sha256:` and the hexadecimal digest of the settings. */
  readonly checksum: string;
  /** The checksum in quotes (RFC 9110 section 8.8.3). */
  readonly etag: string;
  /** Stays the same for the same policies, whatever their settings are. */
  readonly uuid: string;
  /**
   * Ids of the only models that may be used; `undefined` when no policy says so. Where gateway.yaml names no models, the globs
   * of the policy.
   */
  readonly models: ReadonlySet<string> | undefined;
  /** Name of the policy that says so. */
  readonly models_policy: string | undefined;
}

/** One audit record; JSON-serialisable, no prompt text, no secrets. A field that is `undefined` is left out. */
export type AuditRecord = Readonly<
  Record<string, string | number | boolean | null | readonly string[] | object | undefined>
>;

/** Where audit records go. */
export interface AuditLog {
  /**
   * Of a stage of the operator's: adds fields to the audit record of the request whose hook is running, under `found` and the name of
   * the stage. Up to 32, each a number, true or false, a text of up to 200 characters, or a list of up to 20 of them. Raises an error
   * for others, and where the record is written already. Outside of requests they make a record of their own.
   * Of `audit`: queues a record for the audit table; kept and retried while the store is away.
   */
  write(record: AuditRecord): void;
  /** Appends one JSON line to a file (`-` is standard output). */
  appendLine(path: string, record: AuditRecord): void;
}

/** The state of one part of the gateway. */
export interface HealthPart {
  readonly ok: boolean;
  /** One word for anybody where `ok` says too little, such as `read_only`. */
  readonly state?: string;
  /** Whether requests need it as things are; absent means yes. */
  readonly needed?: boolean;
  /** For the log; may name hosts. */
  readonly detail?: string;
  /** Why requests are refused for it, in words for anybody. */
  readonly reason?: string;
  /** What anybody may know about it. */
  readonly told?: Readonly<Record<string, string | number | Readonly<Record<string, string | number>>>>;
}

/** Readiness checks. */
export interface Health {
  /** Whether the gateway was told to stop: it serves what comes, and wants no more. */
  readonly stopping?: boolean;
  /** State of each named part; `database` always exists, `spool`, `configuration` and `upstreams` in a running gateway. */
  check(): Promise<Readonly<Record<string, HealthPart>>>;
}
