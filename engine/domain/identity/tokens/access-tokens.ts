import { LRUCache } from 'lru-cache';
import { StageError } from '../../../base/contract/errors.ts';
import type { BearerTokens, Principal } from '../../../base/contract/services.ts';
import { createGroupCommit, type GroupCommit } from '../../../base/kit/group-commit.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { openWriteBehind, type WriteBehind } from '../../../base/kit/write-behind.ts';
import type { Database } from '../../../base/store/database.ts';
import { isPermanent } from '../../../base/store/store-errors.ts';
import type { Background } from '../background.ts';
import { OWNER_STATUS, type OwnerStatus, suspension } from '../deprovisioning/deprovision.ts';
import type { DecidingGroups } from '../provider/deciding-groups.ts';
import { isRefreshToken } from '../sessions/secrets.ts';
import type { SessionTokens } from '../sessions/session-tokens.ts';
import { hashToken, isServiceToken, isWellFormedToken, TOKENS_CHANNEL } from './token-format.ts';

/** Lifetime of cache entries, in case a notification of a revocation is lost. */
const CACHE_MS = 30_000;
/** Longest wait for a lookup. It continues in the background, for a retry of the client. */
const LOOKUP_TIMEOUT_MS = 2500;
/** Lifetime of cache entries during a database outage, if requests are allowed then. */
const CACHE_AWAY_MS = 3_600_000;
/** Wait for a lookup during an outage, and pause after a failed one. */
const AWAY_TIMEOUT_MS = 500;
const AWAY_REST_MS = 1000;
const MAX_CACHED = 10_000;
/** Separate caches, so that invented tokens cannot evict genuine ones. */
const MAX_CACHED_UNKNOWN = 1000;
/** Most pending lookups: abandoned ones stay until the database responds. */
const MAX_LOOKING = 10_000;
const USE_INTERVAL_MS = 60_000;
const FLUSH_MS = 5000;
const MAX_BATCH = 100;

type Lookup = Promise<Entry | undefined>;

interface AccessTokensOptions extends Background {
  readonly database: Pick<Database, 'query' | 'listen'>;
  /** Groups that the configuration in force reads; absent or `undefined`: all. */
  readonly groups?: () => DecidingGroups | undefined;
  /** Days that personal tokens work after the last verification of their owner; absent: forever. */
  readonly verified_days?: () => number | undefined;
  /** The command to sign in, for messages. Absent: `appscli login`. */
  readonly how_to_sign_in?: () => string;
  /** Whether tokens seen within the last hour are accepted during a database outage. Absent: never. */
  readonly goes_on_without?: () => boolean;
}

/** Verifies access tokens, with a cache invalidated by notifications of the database; the database may be unavailable at first. */
export class AccessTokens implements BearerTokens {
  readonly #options: AccessTokensOptions;
  readonly #entries = new LRUCache<string, Entry>(atMost(MAX_CACHED));
  readonly #unknown = new LRUCache<string, number>({ max: MAX_CACHED_UNKNOWN });
  readonly #looking = new Map<string, Lookup>();
  readonly #lookups: GroupCommit<string, TokenRow | undefined>;
  readonly #used: WriteBehind<Date>;
  /** Entries from before this time are stale. Monotonic, as is the next. */
  #fresh_from = Number.NEGATIVE_INFINITY;
  #away_until = 0;

  constructor(options: AccessTokensOptions) {
    const { database, clock, log, every } = options;
    this.#options = options;
    const execute = (hashes: readonly string[]) => this.#readRows(hashes);
    this.#lookups = createGroupCommit({ lanes: 2, max_items: MAX_BATCH, isolates: () => false, execute });
    this.#used = openWriteBehind({
      write: (used) =>
        database.query(
          'token_used',
          // Locks in a fixed order: other replicas write the same rows.
          `with used as (
             select t.id, u.at from access_tokens t join unnest($1::text[], $2::timestamptz[]) as u (id, at) on u.id = t.id
             order by t.id for no key update of t
           )
           update access_tokens t set last_used_at = greatest(t.last_used_at, used.at) from used where t.id = used.id`,
          [[...used.keys()], [...used.values()]],
        ),
      interval_ms: FLUSH_MS,
      when_late: 'could not record the last use of tokens yet',
      log,
      every,
    });
    const onMissed = () => {
      this.#looking.clear();
      this.#unknown.clear();
      this.#fresh_from = clock.monotonic();
    };
    database
      .listen(TOKENS_CHANNEL, (hash) => this.#forget(hash), onMissed)
      .catch((error) => {
        log.warn({ err: error }, 'no notifications of token changes; they take up to 30 seconds to take effect');
      });
  }

  verify(token: string): Principal | Promise<Principal> {
    if (!isWellFormedToken(token)) throw new StageError('credential_invalid', MALFORMED);
    const hash = hashToken(token);
    const now = this.#options.clock.monotonic();
    const entry = this.#entries.get(hash);
    if (entry !== undefined && now < entry.read_at + CACHE_MS && entry.read_at > this.#fresh_from) {
      return this.#admit(entry);
    }
    if (now < (this.#unknown.get(hash) ?? 0)) throw new StageError('credential_invalid', UNKNOWN);
    if (entry !== undefined && this.#isEnough(entry)) return this.#lookAgain(hash, entry);
    return this.#lookWithin(hash, LOOKUP_TIMEOUT_MS).then(
      (found) => this.#admit(found),
      (error) => {
        throw isPermanent(error) || error instanceof StageError ? error : storeUnavailableError(error);
      },
    );
  }

  forgetAll(): void {
    this.#looking.clear();
    this.#entries.clear();
    this.#unknown.clear();
  }

  knowsSome(): boolean {
    for (const entry of this.#entries.values()) if (this.#isEnough(entry)) return true;
    return false;
  }

  flush(): Promise<void> {
    return this.#used.flush();
  }

  close(): Promise<void> {
    return this.#used.close();
  }

  #forget(hash: string): void {
    this.#looking.delete(hash);
    this.#entries.delete(hash);
    this.#unknown.delete(hash);
  }

  async #readRows(hashes: readonly string[]): Promise<(TokenRow | undefined)[]> {
    const rows = await this.#options.database.query<TokenRow>(
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
    if (this.#looking.size >= MAX_LOOKING) return Promise.reject(storeUnavailableError());
    const lookup: Lookup = this.#lookups
      .run(hash)
      .then((row) => {
        const read_at = this.#options.clock.monotonic();
        const entry = row && {
          ...row,
          principal: undefined,
          groups_of: undefined,
          read_at,
          use_due_at: this.#entries.peek(hash)?.use_due_at ?? 0,
        };
        // A notification arrived meanwhile, so this result may be stale.
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
      // A result that has arrived is not late because this process is slow to read it.
      const timer = this.#options.clock.after(patience_ms, () => setImmediate(() => reject(storeUnavailableError())));
      lookup.then(resolve, reject).finally(() => timer.close());
    });
  }

  async #lookAgain(hash: string, known: Entry): Promise<Principal> {
    if (this.#options.clock.monotonic() < this.#away_until) return this.#admit(known);
    const found = await this.#lookWithin(hash, AWAY_TIMEOUT_MS).catch((error) => {
      if (isPermanent(error)) throw error;
      this.#away_until = this.#options.clock.monotonic() + AWAY_REST_MS;
      return known;
    });
    return this.#admit(found);
  }

  #isEnough({ read_at }: Entry): boolean {
    return this.#options.clock.monotonic() < read_at + CACHE_AWAY_MS && this.#options.goes_on_without?.() === true;
  }

  #admit(entry: Entry | undefined): Principal {
    if (entry === undefined) throw new StageError('credential_invalid', UNKNOWN);
    this.#requireInForce(entry);
    const deciding = this.#options.groups?.();
    if (entry.principal === undefined || deciding?.id !== entry.groups_of) {
      entry.principal = principalOf(entry, deciding);
      entry.groups_of = deciding?.id;
    }
    const now = this.#options.clock.monotonic();
    if (now >= entry.use_due_at) {
      entry.use_due_at = now + USE_INTERVAL_MS;
      this.#used.note(entry.id, new Date(this.#options.clock.now()));
    }
    return entry.principal;
  }

  #requireInForce(entry: Entry): void {
    const { id, name, expires_at, revoked_at } = entry;
    const now = this.#options.clock.now();
    const refusal = (code: 'credential_revoked' | 'credential_expired', why: string) =>
      new StageError(code, `The access token "${name}" (${id}) ${why}`);
    if (revoked_at !== null) {
      const why = `was revoked on ${revoked_at.toISOString()}. ${howToReplace(entry)}`;
      throw refusal('credential_revoked', why);
    }
    if (expires_at !== null && now >= expires_at.getTime()) {
      const why = `expired on ${expires_at.toISOString()}. ${howToReplace(entry)}`;
      throw refusal('credential_expired', why);
    }
    const days = this.#options.verified_days?.();
    if (!suspension(entry, now, days).suspended) return;
    const sign_in = `Sign in again ("${this.#options.how_to_sign_in?.() ?? 'appscli login'}")`;
    if (entry.is_blocked) {
      const why = `is suspended: your identity provider did not renew your sign-in, or the gateway does not admit you. ${sign_in} to use the token again.`;
      throw refusal('credential_revoked', why);
    }
    const why = `is suspended: the identity provider has not confirmed you for ${days} days. ${sign_in} to use the token again.`;
    throw refusal('credential_revoked', why);
  }
}

const MALFORMED =
  'The access token is malformed: expected "gw_" and 49 more characters, with a checksum at the end. Copy the whole token again.';
const UNKNOWN =
  'The access token is unknown. Check that it is for this gateway, or ask your administrator for a new one.';

/** Only personal tokens have a `verified_at`. */
function howToReplace({ verified_at }: OwnerStatus): string {
  return verified_at === null
    ? 'Ask your administrator for a new one.'
    : 'Create a new one in the console, or ask your administrator for one.';
}

function storeUnavailableError(cause?: unknown): StageError {
  const problem = 'The gateway cannot check access tokens now. Try again shortly.';
  return new StageError('store_unavailable', problem, { cause });
}

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
  readonly groups: readonly string[];
}

interface Entry extends TokenRow {
  principal: Principal | undefined;
  groups_of: string | undefined;
  /** Monotonic, as is the next. */
  readonly read_at: number;
  use_due_at: number;
}

/** Limits the groups of a principal to those that the configuration reads: a person may have hundreds. */
function principalOf(row: TokenRow, deciding: DecidingGroups | undefined): Principal {
  const { id, name, token_group: group, groups } = row;
  return Object.freeze({
    id: row.principal_id,
    email: row.email,
    kind: 'access_token',
    groups: Object.freeze([...new Set([group, ...(deciding?.among(groups) ?? groups)])]),
    roles: Object.freeze([]),
    team: row.team ?? undefined,
    project: row.project ?? undefined,
    token: Object.freeze({ id, name, group }),
  } as const);
}

/** Prefix of a JWT: a JSON object in base64url. */
const SIGNED = /^ey[\w-]*\./;

const REFRESH_TOKEN =
  'This is a refresh token, which only renews session tokens at /oauth/token. Send the session token: the field `access_token` of the same response.';
const SERVICE_TOKEN =
  'This is a service token, which is for the admin API only. Create an access token for models ("appscli tokens create").';
const NO_SIGN_IN =
  'This looks like a session token, but this gateway has no sign-in. Send an access token, which begins with "gw_".';

/** Verifies both kinds of bearer credentials. `sessions` is absent without sign-in. */
export function createBearerTokens(access: BearerTokens, sessions: SessionTokens | undefined): BearerTokens {
  return {
    verify(token) {
      if (isRefreshToken(token)) throw new StageError('credential_invalid', REFRESH_TOKEN);
      if (isServiceToken(token)) throw new StageError('credential_invalid', SERVICE_TOKEN);
      if (!SIGNED.test(token)) return access.verify(token);
      if (sessions !== undefined) return sessions.verify(token);
      throw new StageError('credential_invalid', NO_SIGN_IN);
    },
  };
}
