import type { Clock } from '../contract/services.ts';
import { storable } from '../kit/storable.ts';
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

/** What can be done, as `admin_changes` names it. */
export const ADMIN_ACTION_NAMES = [
  'token.create',
  'token.rotate',
  'token.revoke',
  'token.move',
  'session.end',
  'person.deprovision',
  'person.suspend',
  'person.rebind',
  'limit.set',
  'limit.clear',
  'limit.grant',
  'limit.revoke',
  'service_token.create',
  'service_token.rotate',
  'service_token.revoke',
  'upstream.drain',
  'upstream.resume',
  'ledger.reprice',
] as const;

/** What was done. */
export type AdminAction = (typeof ADMIN_ACTION_NAMES)[number];

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

/** Which changes are meant; every field that is present must match. */
export interface ChangeFilter {
  /** From this moment on. */
  readonly since?: Date | undefined;
  /** Before this moment. */
  readonly until?: Date | undefined;
  /** Who made it: whole words of the name, in any case. */
  readonly actor?: string | undefined;
  readonly action?: string | undefined;
  /** What it was done to, whose that is, or what came of it: whole words of an id, address or name, in any case. */
  readonly subject?: string | undefined;
}

/** SQL for what is asked for, so that each statement uses the index that leads to it. The parameters are those of `valuesOf`. */
function meaning({ actor, action, subject }: ChangeFilter): { readonly name: string; readonly sql: string } {
  const parts = [
    ['actor', actor, 'words_of(actor) @> words_of($3)'],
    ['action', action, 'action = $4'],
    ['subject', subject, 'words_of(change_names(subject, before, after)) @> words_of($5)'],
  ] as const;
  const asked = parts.filter(([, wanted]) => wanted !== undefined);
  const period = '($1::timestamptz is null or at >= $1) and ($2::timestamptz is null or at < $2)';
  // A statement has all its parameters, whatever it asks for.
  const typed = `num_nulls($3::text, $4::text, $5::text) >= 0`;
  return {
    name: asked.map(([name]) => `_${name}`).join(''),
    sql: [period, typed, ...asked.map(([, , condition]) => condition)].join(' and '),
  };
}

function valuesOf({ since, until, actor, action, subject }: ChangeFilter): unknown[] {
  const text = (value: string | undefined) => (value === undefined ? null : storable(value));
  return [since ?? null, until ?? null, text(actor), action ?? null, text(subject)];
}

/**
 * Changes, the newest first. `before` is the id of a change: only older ones, for the next page. Raises store_unavailable.
 */
export async function listChanges(
  database: Pick<Database, 'query'>,
  { before, limit, ...filter }: ChangeFilter & { readonly before?: number | undefined; readonly limit: number },
): Promise<AdminChange[]> {
  const { name, sql } = meaning(filter);
  return database.query<AdminChange>(
    `admin_changes_list${name}`,
    `select id, at, jsonb_build_object('kind', actor_kind, 'name', actor) as actor, action, subject, before, after
     from admin_changes where ${sql} and ($6::bigint is null or id < $6)
     order by id desc limit $7`,
    [...valuesOf(filter), before ?? null, limit],
  );
}

/** How many changes are meant, counted up to `most`. Raises store_unavailable. */
export async function countChanges(
  database: Pick<Database, 'query'>,
  filter: ChangeFilter,
  most: number,
): Promise<number> {
  const { name, sql } = meaning(filter);
  const [row] = await database.query<{ count: number }>(
    `admin_changes_count${name}`,
    `select count(*) from (select from admin_changes where ${sql} limit $6) as meant`,
    [...valuesOf(filter), most],
  );
  return row!.count;
}
