import type { GatewayConfig } from '../../base/contract/config.ts';
import { ERRORS, type ErrorCode, StageError } from '../../base/contract/errors.ts';
import type { UpstreamStates } from '../../base/contract/forwarding.ts';
import { OperationError, type OperationProblem } from '../../base/contract/operation-error.ts';
import type { Clock, ModelCatalog, Principal } from '../../base/contract/services.ts';
import type { Loaded, Policy } from '../../base/source/spec.ts';
import type { Database } from '../../base/store/database.ts';
import type { Actor, Changing } from '../../domain/audit/admin-changes.ts';
import type { LiveRecords } from '../../domain/audit/live-records.ts';
import type { Sessions } from '../../domain/identity/sessions/sessions.ts';
import type { ServiceScope } from '../../domain/identity/tokens/service-tokens.ts';

/** Caller of an admin operation: a signed-in person, a service token or a local command. */
export interface Caller {
  readonly principal: Principal;
  readonly email: string;
  readonly is_admin: boolean;
  readonly actor: Actor;
  /** Scopes of a service token; absent for people and commands. */
  readonly scopes?: readonly ServiceScope[];
}

/** A caller that is not a person: it owns nothing and has the admin role. */
export function programCaller(id: string, name: string, actor: Actor, scopes?: readonly ServiceScope[]): Caller {
  const principal: Principal = Object.freeze({
    id,
    email: `${actor.kind}:${name}`,
    kind: 'session',
    groups: [],
    roles: ['admin'],
    team: undefined,
    project: undefined,
    token: { id, name, group: undefined },
  });
  return { principal, email: principal.email, is_admin: true, actor, ...(scopes !== undefined && { scopes }) };
}

/** Owner filter of a list: only administrators see entries of other people. Raises OperationError. */
export function ownerToList({ is_admin, email }: Caller, user: string | undefined): string | undefined {
  if (is_admin) return user;
  if (user === undefined || user === email) return email;
  throw new OperationError(`admin role required to see entries of ${user}; omit "user" to see your own`, 'forbidden');
}

/** Dependencies of admin operations: one configuration and its services. */
export interface AdminOptions {
  readonly config: GatewayConfig;
  /** Managed policies; absent if only gateway.yaml was read. */
  readonly policies?: readonly Policy[];
  readonly sessions: Pick<Sessions, 'list'> | undefined;
  readonly database: Pick<Database, 'query' | 'knex'>;
  readonly clock: Clock;
  readonly models: ModelCatalog;
  /** Source of rules, and the base directory of their file names; absent outside a running gateway. */
  readonly explained?: { readonly loaded: Loaded; readonly directory: string };
  /** New audit records; absent outside a running gateway. */
  readonly live?: Pick<LiveRecords, 'listen'>;
  /** States of upstreams in this process; absent if it serves no requests. */
  readonly upstreams?: Pick<UpstreamStates, 'list'>;
}

/** Caller of an operation, and the author of its changes. */
export interface OperationContext {
  readonly caller: Caller;
  readonly by: Changing;
}

const CODES = {
  invalid: 'invalid_request',
  missing: 'not_found',
  conflict: 'conflict',
  forbidden: 'forbidden',
} as const satisfies Readonly<Record<OperationProblem, ErrorCode>>;

/** Message, HTTP status and code of a rejected operation; `undefined` for other errors. */
export function refusalOf(error: unknown) {
  if (!(error instanceof OperationError)) return undefined;
  const code = CODES[error.problem];
  return { message: error.message, code, status: ERRORS[code].status };
}

/** Converts a rejection to an HTTP error with a whole sentence; returns other errors unchanged. */
export function asStageError(error: unknown): unknown {
  const refusal = refusalOf(error);
  if (refusal === undefined) return error;
  const sentence = refusal.message[0]!.toUpperCase() + refusal.message.slice(1);
  return new StageError(refusal.code, /[.?]$/.test(sentence) ? sentence : `${sentence}.`);
}
