import type { RuleMode } from './routing.ts';

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
