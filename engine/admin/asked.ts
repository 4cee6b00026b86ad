import type { Changing } from '../audit/admin-changes.ts';
import type { LiveRecords } from '../audit/live-records.ts';
import type { GatewayConfig } from '../contract/config.ts';
import type { UpstreamStates } from '../contract/forwarding.ts';
import type { Clock, ModelCatalog } from '../contract/services.ts';
import type { Sessions } from '../identity/sessions/sessions.ts';
import type { Loaded, Policy } from '../source/spec.ts';
import type { Database } from '../store/database.ts';
import type { Caller } from './caller.ts';

/** What admin operations work with: one configuration, and the services behind it. */
export interface AdminOptions {
  readonly config: GatewayConfig;
  /** Managed policies; absent where only gateway.yaml was read. */
  readonly policies?: readonly Policy[];
  /** Absent where nobody can sign in. */
  readonly sessions: Pick<Sessions, 'list'> | undefined;
  readonly database: Pick<Database, 'query' | 'knex'>;
  readonly clock: Clock;
  readonly models: ModelCatalog;
  /** What rules are told by, and below which directory their files are named; absent where no gateway runs. */
  readonly explained?: { readonly loaded: Loaded; readonly directory: string };
  /** New audit records; absent where no gateway runs. */
  readonly live?: Pick<LiveRecords, 'listen'>;
  /** What this process knows of upstreams; absent where it serves no requests. */
  readonly upstreams?: Pick<UpstreamStates, 'list'>;
}

/** Who asks for an operation, and who changes what it changes. */
export interface Asked {
  readonly caller: Caller;
  readonly by: Changing;
}

/** Which part of a list is asked for. */
export interface PageAsked {
  readonly limit: number;
  readonly after?: string;
}
