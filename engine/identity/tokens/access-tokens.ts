import { LRUCache } from 'lru-cache';
import { StageError } from '../../contract/errors.ts';
import type { BearerTokens, Clock, Log, Principal } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { createGroupCommit } from '../../kit/group-commit.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { Database } from '../../store/database.ts';
import { isPermanent } from '../../store/store-errors.ts';
import { isUnseen, OWNER_STATUS, type OwnerStatus } from '../deprovisioning/suspension.ts';
import type { DecidingGroups } from '../provider/deciding-groups.ts';
import { hashToken, isWellFormedToken, TOKENS_CHANNEL } from './token-format.ts';

/** Verification of access tokens, with a cache that follows changes in the database. */
export interface OpenAccessTokens extends BearerTokens {
  /** Writes down when tokens were last used. A timer calls it; so may a test. Never rejects. */
  flush(): Promise<void>;
  /** Looks up every token anew from now on, after a change made by this process. */
  forgetAll(): void;
  /** Whether some callers would be let in while the database is away. */
  knowsSome(): boolean;
  close(): Promise<void>;
}

/** How long the cache answers by itself. Revocations arrive at once; this is for when their announcement gets lost. */
const CACHE_MS = 30_000;
/** Clients wait little longer for an answer. The lookup goes on, and is remembered for when they ask again. */
const LOOKUP_PATIENCE_MS = 2500;
/** How long it answers where requests go on without the database; what it says may be that old, whatever was announced. */
const CACHE_AWAY_MS = 3_600_000;
/** How long a lookup is waited for then, and how long after one that failed none is. */
const AWAY_PATIENCE_MS = 500;
const AWAY_REST_MS = 1000;
const MAX_CACHED = 10_000;
/** Kept apart, so that a flood of made-up tokens can't push out the real ones. */
const MAX_CACHED_UNKNOWN = 1000;
/** Lookups that nobody waits for any more stay until a silent database answers: a flood of made-up tokens must not pile up. */
const MAX_LOOKING = 10_000;
const USE_INTERVAL_MS = 60_000;
const FLUSH_MS = 5000;
const MAX_BATCH = 100;
const CLOSE_PATIENCE_MS = 500;

interface Entry extends OwnerStatus {
  /** With those of the groups that decide something. */
  principal: Principal;
  /** All of the owner's. */
  readonly groups: readonly string[];
  /** By what the principal's were picked. */
  groups_of: string | undefined;
  /** Milliseconds since the epoch. */
  readonly expires_at: number;
  readonly revoked_at: number | undefined;
  /** When it was looked up, by the monotonic clock. */
  readonly read_at: number;
  /** When its use is to be noted again, by the monotonic clock. */
  use_due_at: number;
}

type Lookup = Promise<Entry | undefined>;

interface TokenRow extends OwnerStatus {
  readonly hash: string;
  readonly id: string;
  readonly name: string;
  readonly token_group: string;
  readonly team: string | null;
  readonly project: string | null;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
  readonly principal_id: string;
  readonly email: string;
  /** Groups of the owner, as the identity provider told them last. */
  readonly groups: readonly string[];
}

/** Opens the verification of access tokens; needs no database yet. */
export function openAccessTokens(options: {
  readonly database: Pick<Database, 'query' | 'listen'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
  /** The groups the configuration in force goes by; absent or `undefined`: all of an owner's. */
  readonly groups?: () => DecidingGroups | undefined;
  /**
   * How long what people made themselves goes on after the identity provider last verified them: nobody asks it about
   * somebody who has no session. Absent or `undefined`: without end.
   */
  readonly verified_days?: () => number | undefined;
  /** Whether tokens that were seen within the last hour are good enough while the database is away. Absent: never. */
  readonly goes_on_without?: () => boolean;
}): OpenAccessTokens {
  const { database, clock, log, every = everyInBackground, verified_days = () => undefined } = options;
  const { goes_on_without = () => false, groups = () => undefined } = options;
  const entries = new LRUCache<string, Entry>({ max: MAX_CACHED });
  /** When a hash nobody has may be looked up again. */
  const unknown = new LRUCache<string, number>({ max: MAX_CACHED_UNKNOWN });
  const looking = new Map<string, Lookup>();
  /** Entries from before are looked up again. By the monotonic clock, as is the next. */
  let fresh_from = Number.NEGATIVE_INFINITY;
  let away_until = 0;
  /** Last use by token id, not yet written. */
  let used = new Map<string, Date>();

  const onAnnounced = (hash: string) => {
    looking.delete(hash);
    entries.delete(hash);
    unknown.delete(hash);
  };
  const forgetAll = () => {
    looking.clear();
    entries.clear();
    unknown.clear();
  };
  const onMissed = () => {
    looking.clear();
    unknown.clear();
    fresh_from = clock.monotonic();
  };
  database.listen(TOKENS_CHANNEL, onAnnounced, onMissed).catch((error) => {
    log.warn({ err: error }, 'token changes are not announced; they take up to 30 seconds to be noticed');
  });

  const lookups = createGroupCommit<string, TokenRow | undefined>({
    lanes: 2,
    max_items: MAX_BATCH,
    isolates: () => false,
    async execute(hashes) {
      const rows = await database.query<TokenRow>(
        'token_lookup',
        `select encode(t.hash, 'base64') as hash, t.id, t.name, t.token_group, t.team, t.project, t.expires_at,
           t.revoked_at, p.id as principal_id, p.email, p.groups,
           ${OWNER_STATUS}
         from access_tokens t join principals p on p.id = t.principal_id
         where t.hash = any (array(select decode(h, 'base64') from unnest($1::text[]) as h))`,
        [hashes],
      );
      const by_hash = new Map(rows.map((row) => [row.hash, row]));
      return hashes.map((hash) => by_hash.get(hash));
    },
  });

  const look = (hash: string): Lookup => {
    const running = looking.get(hash);
    if (running !== undefined) return running;
    if (looking.size >= MAX_LOOKING) return Promise.reject(storeAway());
    const lookup: Lookup = lookups
      .run(hash)
      .then((row) => {
        const read_at = clock.monotonic();
        const entry = row && entryOf(row, read_at, entries.peek(hash)?.use_due_at ?? 0);
        // A change was announced meanwhile, and this may have been read before it.
        if (looking.get(hash) !== lookup) return entry;
        if (entry === undefined) unknown.set(hash, read_at + CACHE_MS);
        else entries.set(hash, entry);
        return entry;
      })
      .finally(() => {
        if (looking.get(hash) === lookup) looking.delete(hash);
      });
    looking.set(hash, lookup);
    return lookup;
  };

  const patiently = (lookup: Lookup, patience_ms: number): Lookup =>
    new Promise((resolve, reject) => {
      // What has arrived already is not late because this process is slow to read it.
      const timer = clock.after(patience_ms, () => setImmediate(() => reject(storeAway())));
      lookup.then(resolve, reject).finally(() => timer.close());
    });

  const admit = (entry: Entry | undefined): Principal => {
    if (entry === undefined) throw unknownToken();
    assertInForce(entry, clock.now(), verified_days);
    const deciding = groups();
    if (deciding?.id !== entry.groups_of) pickGroups(entry, deciding);
    const now = clock.monotonic();
    if (now >= entry.use_due_at) {
      entry.use_due_at = now + USE_INTERVAL_MS;
      used.set(entry.principal.token.id, new Date(clock.now()));
    }
    return entry.principal;
  };

  /** Whether what is known of a token may stand while the database is away. */
  const isEnough = ({ read_at }: Entry) => clock.monotonic() < read_at + CACHE_AWAY_MS && goes_on_without();
  const lookAgain = async (hash: string, known: Entry): Promise<Principal> => {
    if (clock.monotonic() < away_until) return admit(known);
    const found = await patiently(look(hash), AWAY_PATIENCE_MS).catch((error) => {
      if (isPermanent(error)) throw error;
      away_until = clock.monotonic() + AWAY_REST_MS;
      return known;
    });
    return admit(found);
  };

  const flush = async () => {
    if (used.size === 0) return;
    const batch = used;
    used = new Map();
    try {
      await database.query(
        'token_used',
        `update access_tokens t set last_used_at = greatest(t.last_used_at, u.at)
         from unnest($1::text[], $2::timestamptz[]) as u (id, at) where t.id = u.id`,
        [[...batch.keys()], [...batch.values()]],
      );
    } catch (error) {
      log.debug({ err: error }, 'the last use of some tokens was not noted');
    }
  };
  const stopFlushing = every(FLUSH_MS, flush);

  return {
    verify(token) {
      if (!isWellFormedToken(token)) throw malformedToken();
      const hash = hashToken(token);
      const now = clock.monotonic();
      const entry = entries.get(hash);
      if (entry !== undefined && now < entry.read_at + CACHE_MS && entry.read_at > fresh_from) return admit(entry);
      if (now < (unknown.get(hash) ?? 0)) throw unknownToken();
      if (entry !== undefined && isEnough(entry)) return lookAgain(hash, entry);
      return patiently(look(hash), LOOKUP_PATIENCE_MS).then(admit, (error) => {
        throw isPermanent(error) || error instanceof StageError ? error : storeAway(error);
      });
    },
    flush,
    forgetAll,
    knowsSome() {
      for (const entry of entries.values()) if (isEnough(entry)) return true;
      return false;
    },
    async close() {
      stopFlushing();
      await waitAtMost(CLOSE_PATIENCE_MS, flush());
    },
  };
}

function entryOf(row: TokenRow, read_at: number, use_due_at: number): Entry {
  const { id, name, token_group: group } = row;
  return {
    principal: Object.freeze({
      id: row.principal_id,
      email: row.email,
      kind: 'access_token',
      groups: Object.freeze([...new Set([group, ...row.groups])]),
      roles: Object.freeze([]),
      team: row.team ?? undefined,
      project: row.project ?? undefined,
      token: Object.freeze({ id, name, group }),
    } as const),
    groups: row.groups,
    groups_of: undefined,
    expires_at: row.expires_at?.getTime() ?? Number.POSITIVE_INFINITY,
    revoked_at: row.revoked_at?.getTime(),
    verified_at: row.verified_at,
    put_off_until: row.put_off_until,
    is_blocked: row.is_blocked,
    read_at,
    use_due_at,
  };
}

/** Audit records and rules see no more groups than the configuration goes by: a person may be in hundreds. */
function pickGroups(entry: Entry, deciding: DecidingGroups | undefined): void {
  const { principal, groups } = entry;
  const { group } = principal.token;
  const picked = deciding?.among(groups) ?? groups;
  const names = group === undefined ? picked : [...new Set([group, ...picked])];
  entry.principal = Object.freeze({ ...principal, groups: Object.freeze(names) });
  entry.groups_of = deciding?.id;
}

function assertInForce(
  { expires_at, revoked_at, verified_at, put_off_until, is_blocked, principal }: Entry,
  now: number,
  verified_days: () => number | undefined,
): void {
  const { name, id } = principal.token;
  if (revoked_at !== undefined) {
    throw new StageError(
      'credential_revoked',
      `The access token "${name}" (${id}) was revoked on ${new Date(revoked_at).toISOString()}. Ask your administrator for a new one.`,
    );
  }
  if (now >= expires_at) {
    throw new StageError(
      'credential_expired',
      `The access token "${name}" (${id}) expired on ${new Date(expires_at).toISOString()}. Ask your administrator for a new one.`,
    );
  }
  if (is_blocked) {
    throw new StageError(
      'credential_revoked',
      `The access token "${name}" (${id}) is one you made yourself, and you may not use this gateway at the moment: your identity provider did not renew your sign-in, or the gateway does not let you in. Sign in again ("appscli login"); once you can, the token works again.`,
    );
  }
  const days = verified_days();
  if (isUnseen({ verified_at, put_off_until }, now, days)) {
    throw new StageError(
      'credential_expired',
      `The access token "${name}" (${id}) is one you made yourself, and you have not signed in for ${days} days. Sign in again ("appscli login"), and it works again.`,
    );
  }
}

function malformedToken(): StageError {
  return new StageError(
    'credential_invalid',
    'The access token is malformed: it starts with "gw_" and has 52 characters, the last 6 of which check the others. Copy it again as a whole.',
  );
}

function unknownToken(): StageError {
  return new StageError(
    'credential_invalid',
    'This gateway does not know the access token. Check that it was made for this gateway, or ask your administrator for a new one.',
  );
}

function storeAway(cause?: unknown): StageError {
  return new StageError(
    'store_unavailable',
    'The gateway cannot check access tokens at the moment. Try again shortly.',
    {
      cause,
    },
  );
}
