import { LRUCache } from 'lru-cache';
import { StageError } from '../../contract/errors.ts';
import type { BearerTokens, Clock, Log, Principal } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { createGroupCommit, type GroupCommit } from '../../kit/group-commit.ts';
import { atMost } from '../../kit/memory.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { Database } from '../../store/database.ts';
import { isPermanent } from '../../store/store-errors.ts';
import { OWNER_STATUS } from '../deprovisioning/suspension.ts';
import type { DecidingGroups } from '../provider/deciding-groups.ts';
import { demandInForce, malformedToken, storeAway, unknownToken } from './access-token-errors.ts';
import { type Entry, entryOf, pickGroups, type TokenRow } from './known-token.ts';
import { hashToken, isWellFormedToken, TOKENS_CHANNEL } from './token-format.ts';

/** How long the cache answers by itself. Revocations arrive at once; this is for when their announcement gets lost. */
const CACHE_MS = 30_000;
/** Clients wait little longer for an answer. The lookup goes on, and is remembered for when they ask again. */
const LOOKUP_PATIENCE_MS = 2500;
/** How long it answers where requests go on without the database; what it says may be that old, whatever was announced. */
export const CACHE_AWAY_MS = 3_600_000;
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

type Lookup = Promise<Entry | undefined>;

/** What verification of access tokens takes. */
interface AccessTokensOptions {
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
  /** The command by which people sign in. Absent: `appscli login`. */
  readonly how_to_sign_in?: () => string;
  /** Whether tokens that were seen within the last hour are good enough while the database is away. Absent: never. */
  readonly goes_on_without?: () => boolean;
}

/** Verification of access tokens, with a cache that follows changes in the database; needs no database to begin with. */
export class AccessTokens implements BearerTokens {
  readonly #database: AccessTokensOptions['database'];
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #groups: () => DecidingGroups | undefined;
  readonly #force: Parameters<typeof demandInForce>[2];
  readonly #goesOnWithout: () => boolean;
  readonly #entries = new LRUCache<string, Entry>(atMost(MAX_CACHED));
  /** When a hash nobody has may be looked up again. */
  readonly #unknown = new LRUCache<string, number>({ max: MAX_CACHED_UNKNOWN });
  readonly #looking = new Map<string, Lookup>();
  readonly #lookups: GroupCommit<string, TokenRow | undefined>;
  readonly #stopFlushing: () => void;
  /** Entries from before are looked up again. By the monotonic clock, as is the next. */
  #fresh_from = Number.NEGATIVE_INFINITY;
  #away_until = 0;
  /** Last use by token id, not yet written. */
  #used = new Map<string, Date>();

  constructor(options: AccessTokensOptions) {
    const { database, clock, log, every = everyInBackground, groups = () => undefined } = options;
    this.#database = database;
    this.#clock = clock;
    this.#log = log;
    this.#groups = groups;
    const { verified_days = () => undefined, how_to_sign_in = () => 'appscli login' } = options;
    this.#force = { verified_days, how_to_sign_in };
    this.#goesOnWithout = options.goes_on_without ?? (() => false);
    const execute = (hashes: readonly string[]) => this.#readRows(hashes);
    this.#lookups = createGroupCommit({ lanes: 2, max_items: MAX_BATCH, isolates: () => false, execute });
    this.#stopFlushing = every(FLUSH_MS, () => this.flush());
    const onMissed = () => {
      this.#looking.clear();
      this.#unknown.clear();
      this.#fresh_from = clock.monotonic();
    };
    database
      .listen(TOKENS_CHANNEL, (hash) => this.#forget(hash), onMissed)
      .catch((error) => {
        log.warn({ err: error }, 'token changes are not announced; they take up to 30 seconds to be noticed');
      });
  }

  verify(token: string): Principal | Promise<Principal> {
    if (!isWellFormedToken(token)) throw malformedToken();
    const hash = hashToken(token);
    const now = this.#clock.monotonic();
    const entry = this.#entries.get(hash);
    if (entry !== undefined && now < entry.read_at + CACHE_MS && entry.read_at > this.#fresh_from) {
      return this.#admit(entry);
    }
    if (now < (this.#unknown.get(hash) ?? 0)) throw unknownToken();
    if (entry !== undefined && this.#isEnough(entry)) return this.#lookAgain(hash, entry);
    return this.#lookWithin(hash, LOOKUP_PATIENCE_MS).then(
      (found) => this.#admit(found),
      (error) => {
        throw isPermanent(error) || error instanceof StageError ? error : storeAway(error);
      },
    );
  }

  /** Looks up every token anew from now on, after a change made by this process. */
  forgetAll(): void {
    this.#looking.clear();
    this.#entries.clear();
    this.#unknown.clear();
  }

  /** Whether some callers would be let in while the database is away. */
  knowsSome(): boolean {
    for (const entry of this.#entries.values()) if (this.#isEnough(entry)) return true;
    return false;
  }

  /** Writes down when tokens were last used. A timer calls it; so may a test. Never rejects. */
  async flush(): Promise<void> {
    if (this.#used.size === 0) return;
    const batch = this.#used;
    this.#used = new Map();
    try {
      await this.#database.query(
        'token_used',
        `update access_tokens t set last_used_at = greatest(t.last_used_at, u.at)
         from unnest($1::text[], $2::timestamptz[]) as u (id, at) where t.id = u.id`,
        [[...batch.keys()], [...batch.values()]],
      );
    } catch (error) {
      this.#log.debug({ err: error }, 'the last use of some tokens was not noted');
    }
  }

  async close(): Promise<void> {
    this.#stopFlushing();
    await waitAtMost(CLOSE_PATIENCE_MS, this.flush());
  }

  #forget(hash: string): void {
    this.#looking.delete(hash);
    this.#entries.delete(hash);
    this.#unknown.delete(hash);
  }

  async #readRows(hashes: readonly string[]): Promise<(TokenRow | undefined)[]> {
    const rows = await this.#database.query<TokenRow>(
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
  }

  #note(hash: string, entry: Entry | undefined, read_at: number): void {
    if (entry === undefined) {
      this.#unknown.set(hash, read_at + CACHE_MS);
      this.#entries.delete(hash);
    } else {
      this.#entries.set(hash, entry);
    }
  }

  #look(hash: string): Lookup {
    const running = this.#looking.get(hash);
    if (running !== undefined) return running;
    if (this.#looking.size >= MAX_LOOKING) return Promise.reject(storeAway());
    const lookup: Lookup = this.#lookups
      .run(hash)
      .then((row) => {
        const read_at = this.#clock.monotonic();
        const entry = row && entryOf(row, read_at, this.#entries.peek(hash)?.use_due_at ?? 0);
        // A change was announced meanwhile, and this may have been read before it.
        if (this.#looking.get(hash) !== lookup) return entry;
        this.#note(hash, entry, read_at);
        return entry;
      })
      .finally(() => {
        if (this.#looking.get(hash) === lookup) this.#looking.delete(hash);
      });
    this.#looking.set(hash, lookup);
    return lookup;
  }

  #lookWithin(hash: string, patience_ms: number): Lookup {
    const lookup = this.#look(hash);
    return new Promise((resolve, reject) => {
      // What has arrived already is not late because this process is slow to read it.
      const timer = this.#clock.after(patience_ms, () => setImmediate(() => reject(storeAway())));
      lookup.then(resolve, reject).finally(() => timer.close());
    });
  }

  async #lookAgain(hash: string, known: Entry): Promise<Principal> {
    if (this.#clock.monotonic() < this.#away_until) return this.#admit(known);
    const found = await this.#lookWithin(hash, AWAY_PATIENCE_MS).catch((error) => {
      if (isPermanent(error)) throw error;
      this.#away_until = this.#clock.monotonic() + AWAY_REST_MS;
      return known;
    });
    return this.#admit(found);
  }

  /** Whether what is known of a token may do while the database is away. */
  #isEnough({ read_at }: Entry): boolean {
    return this.#clock.monotonic() < read_at + CACHE_AWAY_MS && this.#goesOnWithout();
  }

  #admit(entry: Entry | undefined): Principal {
    if (entry === undefined) throw unknownToken();
    demandInForce(entry, this.#clock.now(), this.#force);
    const deciding = this.#groups();
    if (deciding?.id !== entry.groups_of) pickGroups(entry, deciding);
    const now = this.#clock.monotonic();
    if (now >= entry.use_due_at) {
      entry.use_due_at = now + USE_INTERVAL_MS;
      this.#used.set(entry.principal.token.id, new Date(this.#clock.now()));
    }
    return entry.principal;
  }
}
