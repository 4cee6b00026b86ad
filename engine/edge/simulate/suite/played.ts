/** What there is to play with, and what is known when a request was played. */

import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { AttemptRecord, AuditRecord, FactView } from '../../../base/contract/services.ts';
import type { Loaded } from '../../../base/source/spec.ts';
import type { Counted } from '../../../domain/budget/limits/headroom.ts';
import type {
  Caller,
  CaseRequest,
  CaseUpstream,
  CaseUpstreams,
  Granted,
  Spent,
} from '../../../pipeline/load/tests/test-case.ts';
import type { ClientResponse } from '../client.ts';
import type { Attempt, LedgerRow } from '../memory/memory-ledger.ts';
import type { Received, ScriptedUpstream } from '../upstream.ts';
import type { RequestTrace } from './watch.ts';

/** A request as an upstream received it. */
export interface Call extends Received {
  /** Name of the upstream. */
  readonly upstream: string;
  /** Path and query string below the upstream's base URL, base path included. */
  readonly url: string;
}

/** A record of the gateway's log. */
export interface LogRecord {
  readonly level: 'warn' | 'error';
  readonly message: string;
  /** The message of the error that was logged with it. */
  readonly reason: string | undefined;
}

/** Everything that is known about one request after it is over. */
export interface Played {
  /** `undefined` when the client left before the head. */
  readonly response: ClientResponse | undefined;
  readonly sent_body: Buffer;
  /** What reached upstreams. */
  readonly calls: readonly Call[];
  /** What the upstream that answered last was to send. */
  readonly upstream_body: Buffer;
  /** Upstreams that were asked although the test does not say what they do. */
  readonly unscripted: readonly string[];
  /** Whether the test says of no upstream what it does: all of them answered with an empty body. */
  readonly is_unscripted: boolean;
  /** What happened inside; `undefined` when no pipeline took the request. */
  readonly trace: RequestTrace | undefined;
  /** All facts at the end; empty when no pipeline took the request. */
  readonly facts: FactView;
  /** What became of each attempt to have it served. */
  readonly attempts: readonly AttemptRecord[];
  /** Reservations that were tried, with the state of every limit at that moment. */
  readonly reservations: readonly Attempt[];
  readonly ledger: readonly LedgerRow[];
  /** Records for the audit table and for files. */
  readonly audit: readonly AuditRecord[];
  readonly log: readonly LogRecord[];
  /** Connections that stages tried to open and that were refused. */
  readonly refused: readonly { readonly destination: string; readonly stage: string | undefined }[];
  /** Whether the request came to an end; otherwise nothing happened any more, and it was given up. */
  readonly ended: boolean;
  /** What must hold for every request and did not. */
  readonly broken_promises: readonly string[];
}

/** What to send, as whom, and what upstreams make of it. */
export interface PlayInput {
  readonly request: CaseRequest;
  /** Path of a request that names none. */
  readonly path: string;
  readonly caller?: Caller;
  readonly upstream?: CaseUpstream | undefined;
  readonly upstreams?: CaseUpstreams | undefined;
}

/** A gateway to play with. Requests come one after another and share budgets. */
export interface Playground {
  readonly config: GatewayConfig;
  /** Milliseconds since the epoch. */
  now(): number;
  /** Lets time pass. */
  advance(milliseconds: number): void;
  /** Drains these upstreams and no others. */
  drain(names: readonly string[]): void;
  /** Puts something on a counter; the key of a user, team, project or token is the caller's own unless it is given. */
  spend(spent: Spent, caller: Caller): void;
  /** Grants room on top of a limit; keys as for `spend`. */
  grant(granted: Granted, caller: Caller): void;
  /** Takes over what another ledger counts. */
  count(counted: Counted): void;
  play(input: PlayInput): Promise<Played>;
  close(): Promise<void>;
}

/** What to play with. */
export interface PlayOptions {
  /** A configuration without errors. */
  readonly loaded: Loaded;
  /** Start of time; a date with a time zone, or milliseconds since the epoch. */
  readonly at?: string | number;
  /** `away`: tokens can't be verified and nothing can be reserved. */
  readonly database?: 'there' | 'away';
  /** Whether callers have an address or region, which a trusted proxy then tells. */
  readonly behind_proxy?: boolean;
  /** An upstream to share; one of its own otherwise. */
  readonly upstream?: ScriptedUpstream;
}
