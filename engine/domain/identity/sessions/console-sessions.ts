import type { Clock } from '../../../base/contract/services.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Person } from '../provider/admit.ts';
import { hashSecret, isSecret, type Marks, makeId, makeSecret } from './opaque.ts';

export interface ConsoleSession {
  readonly cookie: string;
  /** Absent where a link opened it: then it is `operator`'s. */
  readonly person?: {
    readonly session_id: string;
    readonly person: Person;
    /** What the gateway has learned of the person's groups since, by whatever session of theirs. */
    readonly groups: readonly string[];
    readonly checked_at: Date;
    readonly revoked_at: Date | null;
  };
  readonly operator?: string;
  readonly seen_at: Date;
  /** When it ends unless it is used. */
  readonly expires_at: Date;
  readonly ends_at: Date;
}

/** How long a session lasts that is not used, and how long one lasts that is. */
const IDLE_MS = 30 * 60_000;
const LONGEST_MS = 8 * 60 * 60_000;
const SEEN_MS = 60_000;
/** How long requests may still bring a cookie that was replaced. */
const REPLACED_MS = 30_000;
/** How long a link is good. */
export const LINK_SECONDS = 60;

interface Row {
  readonly session_id: string | null;
  readonly operator: string | null;
  readonly seen_at: Date;
  readonly expires_at: Date;
  readonly ends_at: Date;
  readonly person: Person;
  readonly groups: readonly string[];
  readonly checked_at: Date;
  readonly revoked_at: Date | null;
}

/** Who signed in, and with what the identity provider is asked about them again. */
export interface SignedIn {
  readonly person: Person;
  readonly sealed_grant: string;
  readonly client: string;
  readonly client_address: string;
}

/** Sessions of browsers. */
export type ConsoleSessions = ReturnType<typeof createConsoleSessions>;

/** Creates the sessions of the console of a database. Everything raises store_unavailable. */
export function createConsoleSessions(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  /** Absent: cookies have no mark. */
  readonly marks?: Marks | undefined;
}) {
  const { database, clock, marks } = options;
  const after = (ms: number) => new Date(clock.now() + ms);

  return {
    async open({ person, sealed_grant, client, client_address }: SignedIn) {
      const [id, cookie] = [makeId('ses'), makeSecret(marks)];
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

    /** The session of a cookie, also one that was ended; `undefined` for one that is unknown or over. */
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

    /** Notes that a session is in use, which lets it last. */
    async keep({ cookie, seen_at }: ConsoleSession): Promise<void> {
      if (clock.now() - seen_at.getTime() < SEEN_MS) return;
      await database.query('console_keep', 'select keep_console_session($1, $2, $3)', [
        hashSecret(cookie),
        after(IDLE_MS),
        after(0),
      ]);
    },

    /** Another cookie for the same session; `undefined` where the one it was is no good any more. */
    async replace({ cookie }: ConsoleSession): Promise<string | undefined> {
      const next = makeSecret(marks);
      const [row] = await database.query<{ replaced: boolean }>(
        'console_replace',
        'select replace_console_cookie($1, $2, $3, $4) as replaced',
        [hashSecret(cookie), hashSecret(next), after(REPLACED_MS), after(0)],
      );
      return row!.replaced ? next : undefined;
    },

    /** Removes the session of an operator; that of a person ends in `sessions`. */
    async forget({ cookie }: ConsoleSession): Promise<void> {
      const text = 'delete from console_sessions where hash = $1 and operator is not null';
      await database.query('console_forget', text, [hashSecret(cookie)]);
    },

    /** Begins the session of whoever printed a link; `undefined` where it is unknown, used or over. */
    async openLink(secret: string): Promise<{ readonly cookie: string; readonly operator: string } | undefined> {
      if (!isSecret(secret)) return undefined;
      const cookie = makeSecret(marks);
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

/** Makes what a link holds that opens the console once, within a minute. Raises store_unavailable. */
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

/**
 * Ends all sessions that links have opened, and what links were not used. Raises store_unavailable.
 * @returns how many sessions were open.
 */
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
