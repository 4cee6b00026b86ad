import type { Clock } from '../contract/services.ts';
import type { Database } from '../store/database.ts';

/**
 * Who changes something: a signed-in person by e-mail, somebody at a command line as user@host, a part of the gateway, or a
 * service token by its name and id, with who answers for it.
 */
export interface Actor {
  readonly kind: 'person' | 'command' | 'gateway' | 'service';
  readonly name: string;
}

/** What a change needs beside the change itself: where, when and by whom. */
export interface Changing {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Pick<Clock, 'now' | 'frozen'>;
  readonly actor: Actor;
  /** The session through which a person acts: nothing is made when it has ended, though its token is not refused yet. */
  readonly session_id?: string;
}

/** What was done, as `admin_changes` names it. */
export type AdminAction =
  | 'token.create'
  | 'token.rotate'
  | 'token.revoke'
  | 'token.move'
  | 'session.end'
  | 'person.deprovision'
  | 'person.suspend'
  | 'person.rebind'
  | 'limit.set'
  | 'limit.clear'
  | 'limit.grant'
  | 'limit.revoke'
  | 'service_token.create'
  | 'service_token.rotate'
  | 'service_token.revoke'
  | 'upstream.drain'
  | 'upstream.resume'
  | 'ledger.reprice';

/** One change an administrator, a person or the gateway made. Never holds a token, a hash or a secret. */
export interface AdminChange {
  readonly id: number;
  readonly at: Date;
  readonly actor: Actor;
  readonly action: AdminAction;
  /** Id of the token, session or grant, e-mail of the person, name of the upstream, or what is limited: `user ana@example.com per day`. */
  readonly subject: string;
  /** `null` for what did not exist before. */
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
}

/** The name of an actor as a token's `created_by` tells it. */
export function actorLabel({ kind, name }: Actor): string {
  return kind === 'person' ? name : `${kind} ${name}`;
}

/**
 * Changes, the newest first.
 * @param only `before` is the id of a change: only older ones, for the next page.
 * Raises store_unavailable.
 */
export async function listChanges(
  database: Pick<Database, 'query'>,
  only: { readonly since?: Date | undefined; readonly before?: number | undefined; readonly limit: number },
): Promise<AdminChange[]> {
  return database.query<AdminChange>(
    'admin_changes_list',
    `select id, at, jsonb_build_object('kind', actor_kind, 'name', actor) as actor, action, subject, before, after
     from admin_changes
     where ($1::timestamptz is null or at >= $1) and ($2::bigint is null or id < $2)
     order by id desc limit $3`,
    [only.since ?? null, only.before ?? null, only.limit],
  );
}
