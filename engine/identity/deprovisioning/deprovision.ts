import type { Actor, Changing } from '../../audit/admin-changes.ts';
import { storable } from '../../kit/storable.ts';

/**
 * What is lost: sessions always; of the access tokens none, those the person made, or all. `suspend`: those the person made
 * are refused until the person is let in again.
 */
export interface Deprovisioning {
  /** E-mail address, any case. */
  readonly user: string;
  readonly actor: Actor;
  /** A reason for people, such as "the identity provider refused"; never a secret. */
  readonly because: string;
  readonly tokens: 'none' | 'suspend' | 'self_service' | 'all';
}

/** How much was ended, and whether the gateway knows the person at all. */
export interface Deprovisioned {
  readonly known: boolean;
  readonly sessions: number;
  readonly tokens: number;
}

/**
 * Ends a person's sessions, sign-ins under way and access tokens at once; every gateway refuses them within a second.
 * Nothing keeps the person from signing in again: that is up to the identity provider. Raises store_unavailable.
 */
export async function deprovision(
  { database, clock }: Pick<Changing, 'database' | 'clock'>,
  { user, actor, because, tokens }: Deprovisioning,
): Promise<Deprovisioned> {
  const [ended] = await database.query<Deprovisioned>(
    'deprovision',
    'select known, sessions, tokens from deprovision($1, $2, $3, $4, $5, $6)',
    [user.toLowerCase(), tokens, because, actor.kind, actor.name, new Date(clock.now())],
  );
  return ended!;
}

/**
 * Ends one session; every gateway refuses its tokens within a second. Raises store_unavailable.
 * @param which `user`: only when it is that person's.
 * @returns whether there was one to end.
 */
export async function endSession(
  { database, clock, actor }: Changing,
  which: { readonly id: string; readonly user?: string | undefined; readonly because: string },
): Promise<boolean> {
  const rows = await database.query<{ ended: boolean }>(
    'session_end_of',
    `select end_session(id, $1, $2, $3, $4) as ended from sessions
     where id = $5 and ($6::text is null or principal_id = $6)`,
    [
      which.because,
      actor.kind,
      actor.name,
      new Date(clock.now()),
      which.id,
      which.user === undefined ? null : `user:${which.user.toLowerCase()}`,
    ],
  );
  return rows[0]?.ended ?? false;
}

/**
 * Ends all sessions of a person, and sign-ins of theirs that are under way; every gateway refuses their tokens within a second.
 * Raises store_unavailable.
 * @param which `but`: the id of one that goes on, and then sign-ins under way do as well.
 * @returns how many there were.
 */
export async function endSessionsOf(
  { database, clock, actor }: Changing,
  which: { readonly user: string; readonly but?: string | undefined; readonly because: string },
): Promise<number> {
  const { but = null, because } = which;
  const user = storable(which.user.toLowerCase());
  if (but === null) {
    const text = `update device_grants set status = 'denied', person = null, sealed_grant = null
      where status = 'approved' and person ->> 'email' = $1`;
    await database.query('sign_ins_deny', text, [user]);
  }
  const [row] = await database.query<{ ended: number }>(
    'sessions_end_all',
    `with mine as (
       select id from sessions where principal_id = $1 and revoked_at is null and expires_at > $5
         and ($6::text is null or id <> $6) order by id
     )
     select (count(*) filter (where end_session(id, $2, $3, $4, $5)))::integer as ended from mine`,
    [`user:${user}`, because, actor.kind, actor.name, new Date(clock.now()), but],
  );
  return row!.ended;
}
