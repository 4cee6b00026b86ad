/** What `schemas/pipeline-test.schema.json` describes in words. */

import type { SpendScope } from '../../../base/contract/config.ts';
import type { LimitWindow } from '../../../base/contract/services.ts';

/** Start of time where nobody says otherwise: a Tuesday, at noon. */
export const DEFAULT_START = '2026-03-10T12:00:00Z';

/** E-mail address of a caller whose test does not name one. */
export const SOMEBODY = 'dev@example.com';

/** A value of JSON. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };
export type JsonObject = { readonly [key: string]: Json };

/** Headers by lower-case name; `null` where one must be absent. */
export type HeaderWishes = Readonly<Record<string, string | null>>;

/** Who asks. */
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

/** What is sent to the gateway. */
export interface CaseRequest {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: HeaderWishes;
  readonly json?: Json;
  readonly text?: string;
  readonly leaves?: 'before_answer' | 'during_answer';
}

/** A server-sent event: JSON, named by its `type` where it has one, or data that is no JSON, such as `[DONE]`. */
export type CaseEvent = JsonObject | string;

/** What an upstream does with a request. */
export interface CaseUpstream {
  readonly status?: number;
  readonly headers?: HeaderWishes;
  readonly json?: JsonObject;
  readonly text?: string;
  readonly events?: readonly CaseEvent[];
  readonly delay_seconds?: number;
  readonly pause_seconds?: number;
  readonly fails?: number | 'hang' | 'reset' | 'cut' | 'refuse';
}

/** What each upstream does, by its name: with its first request, its second and so on; the last is for all further ones. */
export type CaseUpstreams = Readonly<Record<string, CaseUpstream | readonly CaseUpstream[]>>;

/** What an upstream sees of a request. */
export interface Sight {
  readonly path?: string;
  readonly headers?: HeaderWishes;
  readonly json?: JsonObject;
  readonly unchanged?: true;
}

/** Things that must not happen. */
type Unwanted = 'upstream_call' | 'ledger_row' | 'audit_record' | 'network_call';

/** What must be so in the end. */
export interface Expectations {
  readonly status?: number;
  readonly error?: string | null;
  readonly headers?: HeaderWishes;
  readonly json?: Json;
  readonly contains?: readonly string[];
  readonly lacks?: readonly string[];
  readonly unchanged?: true;
  readonly events?: readonly string[];
  readonly upstream?: Sight & { readonly name?: string };
  readonly upstreams?: Readonly<Record<string, Sight | readonly Sight[] | null>>;
  readonly attempts?: readonly JsonObject[];
  readonly candidates?: readonly string[];
  readonly dropped?: Readonly<Record<string, string>> | null;
  readonly facts?: JsonObject;
  readonly runs?: readonly string[];
  readonly skips?: readonly string[];
  readonly shadow?: readonly string[];
  readonly ledger?: JsonObject;
  readonly audit?: JsonObject;
  readonly never?: readonly Unwanted[];
}

/** What counts against a limit before the first request: money, or requests or tokens. */
export interface Spent {
  /** Several: a limit that is counted for each combination. */
  readonly scope: SpendScope | readonly SpendScope[];
  /** As many as there are scopes, in their order. */
  readonly key?: string | readonly string[];
  readonly window: LimitWindow;
  readonly usd?: number;
  readonly reserved_usd?: number;
  readonly requests?: number;
  readonly tokens?: number;
}

/** Room on top of a limit, until a moment. */
export interface Granted extends Omit<Spent, 'reserved_usd'> {
  readonly until: string;
}

/** One request and what must become of it. */
export interface Step {
  readonly at?: string;
  readonly caller: Caller;
  readonly request: CaseRequest;
  /** Names of upstreams that an administrator has drained. */
  readonly drained: readonly string[];
  /** What every upstream does. */
  readonly upstream?: CaseUpstream | undefined;
  /** What each of them does, in the place of `upstream`. */
  readonly upstreams?: CaseUpstreams | undefined;
  readonly expect: Expectations;
}

/** One case: requests in turn that share budgets. */
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
