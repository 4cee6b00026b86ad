/**
 * What the engine offers to stages, as types; `engine/services/` holds what is behind them. Stages import these from
 * `engine/api.ts`.
 * @module
 */
import type { StageContext } from './api.ts';
import type { GatewayConfig, ModelConfig, SpendScope, UpstreamConfig } from './config.ts';

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
  readonly policies: ManagedPolicies;
  readonly ledger: Ledger;
  readonly audit: AuditLog;
  readonly health: Health;
  /** Compiles a JSON-Logic condition over facts that passed the load checks. */
  condition(logic: unknown): (facts: FactView) => boolean;
  /** Facts of a request as a nested read-only object, for `condition`. */
  facts(ctx: StageContext<never, never, never>): FactView;
}

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

/** Structured log. Fields never hold secrets or prompt text. */
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
  /** All models, in file order. */
  readonly all: readonly ModelConfig[];
  find(id: string): ModelConfig | undefined;
  /** Why a caller may not use a model; `undefined` when it may. */
  refusal(caller: ModelCaller, model: ModelConfig): ModelRefusal | undefined;
  upstream(name: string): UpstreamConfig;
  /** Exact price of usage, in nano-USD, rounded up to the next integer once. */
  cost(model: ModelConfig, tokens: TokenCounts): number;
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
  | { readonly by: 'policy'; readonly policy: string };

/** Managed policies: settings for clients, by who asks. */
export interface ManagedPolicies {
  /** What is meant for somebody with these groups and this e-mail address; `undefined` when no policy is. Costs next to nothing. */
  of(person: { readonly groups: readonly string[]; readonly email: string }): EffectivePolicy | undefined;
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
  /** Ids of the only models that may be used; `undefined` when no policy says so. */
  readonly models: ReadonlySet<string> | undefined;
  /** Name of the policy that says so. */
  readonly models_policy: string | undefined;
}

/** Token counts that are priced apart. `input` excludes everything cached. */
export interface TokenCounts {
  readonly input: number;
  readonly output: number;
  readonly cache_read: number;
  readonly cache_write_5m: number;
  readonly cache_write_1h: number;
}

/** Calendar window of a limit. */
export type Window = 'day' | 'month';

/** One counter a request counts against, and its limit when it has one. Several claims may share a counter. */
export interface LimitClaim {
  readonly scope: SpendScope;
  /** Who or what is counted: an e-mail address, the name of a team, project or upstream, a model's identifier. */
  readonly key: string;
  readonly window: Window;
  /** `null`: counted, not limited. */
  readonly limit_nano_usd: number | null;
  /** Name of the spend rule, for people. */
  readonly rule: string;
  /** Whether the limit is only reported when it has no room. */
  readonly shadow?: boolean;
}

/** Who asked whom for what; the identity part of a ledger row. */
export interface LedgerIdentity {
  readonly request_id: string;
  readonly surface: string;
  readonly principal_id: string;
  readonly user: string;
  readonly team: string | null;
  readonly project: string | null;
  readonly token_id: string | null;
  readonly model: string;
  readonly upstream: string;
  readonly upstream_model: string;
}

/** A hold to place before forwarding. */
export interface ReservationRequest extends LedgerIdentity {
  readonly amount_nano_usd: number;
  readonly claims: readonly LimitClaim[];
}

/** The state of one limit. Amounts in nano-USD. */
export interface LimitStanding {
  readonly scope: SpendScope;
  readonly key: string;
  readonly window: Window;
  readonly rule: string;
  readonly limit_nano_usd: number;
  readonly spent_nano_usd: number;
  readonly held_nano_usd: number;
  /** End of the window, milliseconds since the epoch. */
  readonly resets_at: number;
}

/** Where a number came from. */
export type Provenance = 'upstream' | 'estimate' | 'abort';

/** What a forwarded request used, to be written to the ledger. */
export interface Settlement extends LedgerIdentity {
  readonly status: number | null;
  readonly aborted: boolean;
  readonly tokens: TokenCounts;
  readonly cost_nano_usd: number;
  /** Per number: `input`, `output`, `cache_read`, `cache_write_5m`, `cache_write_1h`, `cost`. */
  readonly provenance: Readonly<Record<string, Provenance>>;
  /** Whether a reservation was placed under this request id. */
  readonly reserved: boolean;
}

/** The money: reservations before forwarding, ledger rows after. */
export interface Ledger {
  /**
   * Holds an amount against every claim, all or nothing, durably.
   * @param onShadow is told of every limit in shadow mode that had no room, when the hold was placed nevertheless.
   * @returns the exceeded limit that resets last, or `undefined` when the hold was placed.
   * Raises store_unavailable.
   */
  reserve(
    request: ReservationRequest,
    onShadow?: (standing: LimitStanding) => void,
  ): Promise<LimitStanding | undefined>;
  /** Writes the ledger row and turns the hold into spend, in one transaction. Kept and retried while the store is away. */
  settle(settlement: Settlement): Promise<void>;
  /** Gives a hold back without a ledger row, for a request that never left. */
  release(request_id: string): Promise<void>;
}

/** One audit record; JSON-serialisable, no prompt text, no secrets. A field that is `undefined` is left out. */
export type AuditRecord = Readonly<
  Record<string, string | number | boolean | null | readonly string[] | object | undefined>
>;

/** Where audit records go. */
export interface AuditLog {
  /** Queues a record for the audit table; kept and retried while the store is away. */
  write(record: AuditRecord): void;
  /** Appends one JSON line to a file (`-` is standard output). */
  appendLine(path: string, record: AuditRecord): void;
}

/** The state of one part of the gateway. */
export interface HealthPart {
  readonly ok: boolean;
  /** For the log; may name hosts. */
  readonly detail?: string;
  /** What anybody may know about it. */
  readonly told?: Readonly<Record<string, string | number>>;
}

/** Readiness checks. */
export interface Health {
  /** State of each named part; `database` always exists, and `configuration` where it can be reloaded. */
  check(): Promise<Readonly<Record<string, HealthPart>>>;
}
