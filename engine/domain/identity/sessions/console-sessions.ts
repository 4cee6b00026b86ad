import type { Clock } from '../../../base/contract/services.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Background } from '../background.ts';
import type { Person } from '../provider/admit.ts';
import { hashSecret, isSecret, makeId, makeSecret, type SecretTags } from './secrets.ts';

export interface ConsoleSession {
  readonly cookie: string;
  /** Absent for a session of a link: then there is an `operator`. */
  readonly person?: {
    readonly session_id: string;
    readonly person: Person;
    /** The latest known groups of the person, from any of their sessions. */
    readonly groups: readonly string[];
    readonly checked_at: Date;
    readonly revoked_at: Date | null;
  };
  readonly operator?: string;
  readonly seen_at: Date;
  readonly expires_at: Date;
  readonly ends_at: Date;
}

/** Idle and absolute lifetime. */
const IDLE_MS = 30 * 60_000;
const LONGEST_MS = 8 * 60 * 60_000;
const SEEN_MS = 60_000;
/** Grace period of a replaced cookie. */
const REPLACED_MS = 30_000;
export const LINK_SECONDS = 60;

type Row = Pick<ConsoleSession, 'seen_at' | 'expires_at' | 'ends_at'> &
  Omit<NonNullable<ConsoleSession['person']>, 'session_id'> & {
    readonly session_id: string | null;
    readonly operator: string | null;
  };

/** A signed-in person, and the grant for later checks. */
export interface SignedIn {
  readonly person: Person;
  readonly sealed_grant: string;
  readonly client: string;
  readonly client_address: string;
}

export type ConsoleSessions = ReturnType<typeof createConsoleSessions>;

/** Creates the console sessions of a database. All functions raise store_unavailable. */
export function createConsoleSessions(
  options: Pick<Background, 'database' | 'clock'> & {
    readonly tags?: SecretTags | undefined;
  },
) {
  const { database, clock, tags } = options;
  const after = (ms: number) => new Date(clock.now() + ms);

  return {
    async open({ person, sealed_grant, client, client_address }: SignedIn) {
      const [id, cookie] = [makeId('ses'), makeSecret(tags)];
      const [row] = await database.query<{ opened: boolean }>(
        'console_open',
        'select open_console_session($1, $2, $3, $4, $5, $6, $7, $8, $9) as opened',
        [
          id,
          hashSecret(cookie),
          storableJson(person),
          sealed_grant,
          storable(client),
          storable(client_address),
          after(IDLE_MS),
          after(LONGEST_MS),
          after(0),
        ],
      );
      return row!.opened ? { id, cookie } : undefined;
    },

    /** The session of a cookie, also a revoked one; `undefined` for an unknown or expired cookie. */
    async find(cookie: string): Promise<ConsoleSession | undefined> {
      if (!isSecret(cookie)) return undefined;
      const [row] = await database.query<Row>(
        'console_find',
        `select c.session_id, c.operator, c.seen_at, c.expires_at, c.ends_at, s.person, s.checked_at, s.revoked_at, p.groups
         from console_sessions c left join sessions s on s.id = c.session_id left join principals p on p.id = s.principal_id
         where c.hash = $1 and c.expires_at > $2`,
        [hashSecret(cookie), after(0)],
      );
      if (row === undefined) return undefined;
      const { seen_at, expires_at, ends_at, session_id, operator, ...about } = row;
      const found = { cookie, seen_at, expires_at, ends_at };
      return session_id === null ? { ...found, operator: operator! } : { ...found, person: { session_id, ...about } };
    },

    async keep({ cookie, seen_at }: ConsoleSession): Promise<void> {
      if (clock.now() - seen_at.getTime() < SEEN_MS) return;
      await database.query('console_keep', 'select keep_console_session($1, $2, $3)', [
        hashSecret(cookie),
        after(IDLE_MS),
        after(0),
      ]);
    },

    /** Replaces the cookie of a session; `undefined` if the former one is no longer valid. */
    async replace({ cookie }: ConsoleSession): Promise<string | undefined> {
      const next = makeSecret(tags);
      const [row] = await database.query<{ replaced: boolean }>(
        'console_replace',
        'select replace_console_cookie($1, $2, $3, $4) as replaced',
        [hashSecret(cookie), hashSecret(next), after(REPLACED_MS), after(0)],
      );
      return row!.replaced ? next : undefined;
    },

    /** Removes the session of an operator; sessions of people end in `sessions`. */
    async forget({ cookie }: ConsoleSession): Promise<void> {
      const text = 'delete from console_sessions where hash = $1 and operator is not null';
      await database.query('console_forget', text, [hashSecret(cookie)]);
    },

    /** Begins the session of a link; `undefined` for an unknown, used or expired one. */
    async openLink(secret: string): Promise<{ readonly cookie: string; readonly operator: string } | undefined> {
      if (!isSecret(secret)) return undefined;
      const cookie = makeSecret(tags);
      const [row] = await database.query<{ operator: string }>(
        'console_link_open',
        `with link as (delete from console_links where hash = $1 returning operator, expires_at)
         insert into console_sessions (hash, operator, created_at, seen_at, expires_at, ends_at)
         select $2, operator, $3, $3, $4, $5 from link where expires_at > $3 returning operator`,
        [hashSecret(secret), hashSecret(cookie), after(0), after(IDLE_MS), after(LONGEST_MS)],
      );
      return row === undefined ? undefined : { cookie, operator: row.operator };
    },
  };
}

/** Makes the secret of a link that opens the console once, within a minute. */
export async function makeLink(
  { database, clock }: { readonly database: Pick<Database, 'query'>; readonly clock: Pick<Clock, 'now'> },
  operator: string,
): Promise<string> {
  const secret = makeSecret();
  await database.query(
    'console_link_make',
    `with gone as (delete from console_links where expires_at <= $3)
     insert into console_links (hash, operator, expires_at) values ($1, $2, $4)`,
    [hashSecret(secret), storable(operator), new Date(clock.now()), new Date(clock.now() + LINK_SECONDS * 1000)],
  );
  return secret;
}

/** Ends all sessions of links, and unused links. Returns the number of open sessions. */
export async function endLinks(database: Pick<Database, 'query'>): Promise<number> {
  const [row] = await database.query<{ ended: number }>(
    'console_links_end',
    `with links as (delete from console_links), gone as (
       delete from console_sessions where operator is not null returning expires_at > now() and not replaced as open
     )
     select (count(*) filter (where open))::integer as ended from gone`,
    [],
  );
  return row!.ended;
}
