/** The types of `schemas/pipeline-test.schema.json`, which describes their meaning. @module */
import type { SpendScope } from '../../../base/contract/config.ts';
import type { LimitWindow } from '../../../base/contract/services.ts';

/** The default time of a case: a Tuesday at noon. */
export const DEFAULT_START = '2026-03-10T12:00:00Z';

/** The default e-mail address of a caller. */
export const DEFAULT_CALLER = 'dev@example.com';

export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Headers by lower-case name; `null` where one must be absent. */
export type HeaderValues = Readonly<Record<string, string | null>>;

export interface Caller {
  readonly credential?: 'bearer' | 'x-api-key' | 'none' | 'wrong' | 'expired' | 'revoked';
  readonly kind?: 'access_token' | 'session';
  readonly user?: string;
  readonly token_name?: string;
  readonly group?: string;
  readonly groups?: readonly string[];
  readonly team?: string;
  readonly project?: string;
  readonly region?: string;
  readonly address?: string;
}

/** A request to the gateway. */
export interface CaseRequest {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: HeaderValues;
  readonly json?: Json;
  readonly text?: string;
  readonly leaves?: 'before_answer' | 'during_answer';
}

/** A server-sent event: a JSON object, named by its `type` if it has one, or other data, such as `[DONE]`. */
export type CaseEvent = JsonObject | string;

/** The behaviour of an upstream for one request. */
export interface CaseUpstream {
  readonly status?: number;
  readonly headers?: HeaderValues;
  readonly json?: JsonObject;
  readonly text?: string;
  readonly events?: readonly CaseEvent[];
  readonly delay_seconds?: number;
  readonly pause_seconds?: number;
  readonly fails?: number | 'hang' | 'reset' | 'cut' | 'refuse';
}

/** Behaviours by upstream name: for its first request, its second and so on; the last applies to all further ones. */
export type CaseUpstreams = Readonly<Record<string, CaseUpstream | readonly CaseUpstream[]>>;

/** Expectations about a request that an upstream receives. */
export interface UpstreamExpectation {
  readonly path?: string;
  readonly headers?: HeaderValues;
  readonly json?: JsonObject;
  readonly unchanged?: true;
}

export interface Expectations {
  readonly status?: number;
  readonly error?: string | null;
  readonly headers?: HeaderValues;
  readonly json?: Json;
  readonly contains?: readonly string[];
  readonly lacks?: readonly string[];
  readonly unchanged?: true;
  readonly events?: readonly string[];
  readonly upstream?: UpstreamExpectation & { readonly name?: string };
  readonly upstreams?: Readonly<Record<string, UpstreamExpectation | readonly UpstreamExpectation[] | null>>;
  readonly attempts?: readonly JsonObject[];
  readonly candidates?: readonly string[];
  readonly dropped?: Readonly<Record<string, string>> | null;
  readonly facts?: JsonObject;
  readonly runs?: readonly string[];
  readonly skips?: readonly string[];
  readonly shadow?: readonly string[];
  readonly ledger?: JsonObject;
  readonly audit?: JsonObject;
  readonly never?: readonly ('upstream_call' | 'ledger_row' | 'audit_record' | 'network_call')[];
}

/** Usage of a limit before the first request: money, requests or tokens. */
export interface Spent {
  /** A list for a limit that counts each combination of scopes. */
  readonly scope: SpendScope | readonly SpendScope[];
  /** One for each scope, in the same order. */
  readonly key?: string | readonly string[];
  readonly window: LimitWindow;
  readonly usd?: number;
  readonly reserved_usd?: number;
  readonly requests?: number;
  readonly tokens?: number;
}

/** A temporary raise of a limit. */
export interface Granted extends Omit<Spent, 'reserved_usd'> {
  readonly until: string;
}

/** One request with its expectations. */
export interface Step {
  readonly at?: string;
  readonly caller: Caller;
  readonly request: CaseRequest;
  /** Names of upstreams that an administrator has drained. */
  readonly drained: readonly string[];
  readonly upstream?: CaseUpstream | undefined;
  /** The behaviour of each upstream, in place of `upstream`. */
  readonly upstreams?: CaseUpstreams | undefined;
  readonly expect: Expectations;
}

/** One case: consecutive requests that share budgets. */
export interface PipelineCase {
  readonly name: string;
  readonly at: string;
  readonly spent: readonly Spent[];
  readonly grants: readonly Granted[];
  readonly database: 'there' | 'away';
  /** At least one. */
  readonly steps: readonly Step[];
}

/** JSON pointer of a step below its case. */
export function stepPointer(index: number): string {
  return index === 0 ? '' : `/then/${index - 1}`;
}
