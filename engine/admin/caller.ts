import type { Actor } from '../audit/admin-changes.ts';
import { OperationError } from '../contract/operation-error.ts';
import type { Principal } from '../contract/services.ts';
import type { ServiceScope } from '../identity/tokens/service-scopes.ts';

/** Who asks for an admin operation: a person who signed in, a service token, or whoever runs a command. */
export interface Caller {
  readonly principal: Principal;
  readonly email: string;
  readonly is_admin: boolean;
  readonly actor: Actor;
  /** What a service token may do; absent for people and commands. */
  readonly scopes?: readonly ServiceScope[];
}

/** A caller that acts for no person: nothing is its own, and it has the rights of an administrator. */
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

/** Whose entries a list shows: everybody's only to administrators. Raises OperationError. */
export function ownerToList({ is_admin, email }: Caller, asked: string | undefined): string | undefined {
  if (is_admin) return asked;
  if (asked === undefined || asked === email) return email;
  throw new OperationError(`only administrators see what is ${asked}'s; leave "user" out to see your own`, 'forbidden');
}
