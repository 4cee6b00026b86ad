import type { Clock, Log } from '../../contract/services.ts';
import { type Every, everyInBackground } from '../../kit/clock.ts';
import { waitAtMost } from '../../kit/wait-at-most.ts';
import type { OpenRevocations } from '../sessions/revocations.ts';
import { type AccessTokens, CACHE_AWAY_MS } from '../tokens/access-tokens.ts';
import { callersFile, type KeptCallers, readCallers, removeCallers, writeCallers } from './callers-file.ts';
import type { SealingKey } from './sealing-keys.ts';

/** How often it is looked whether there is something to write. */
const TICK_MS = 1000;
/** Least time between two writings, and the longest that the times in the file lag behind. */
const PAUSE_MS = 2000;
const REFRESH_MS = 60_000;
/** As many access tokens as are kept, those that were used last: sealed they are a megabyte. */
const TOKENS_MAX = 2000;
const CLOSE_PATIENCE_MS = 2000;
/** What was kept later than this from now was kept by a clock that is wrong. */
const SKEW_MS = 60_000;

/** What keeping callers takes. */
export interface KnownCallersOptions {
  readonly access_tokens: Pick<AccessTokens, 'changes' | 'kept' | 'remember' | 'forgetAll'>;
  readonly revocations: Pick<OpenRevocations, 'changes' | 'kept' | 'remember'>;
  /** Which database this is. Raises store_unavailable. */
  databaseId(): Promise<string>;
  /** Where the database is, without credentials. */
  readonly database_address: string;
  /** Absolute; `undefined`: nothing is kept. */
  spool_dir(): string | undefined;
  /** Whether some requests go on without the database, in the configuration in force. */
  needed(): boolean;
  keys(): readonly SealingKey[];
  readonly clock: Clock;
  readonly log: Log;
  readonly every?: Every;
}

/**
 * Keeps on disk who is known, sealed, where requests go on without the database: a gateway that starts while the database is
 * away then serves whom the one before it knew. What the database says wins as soon as it is there.
 */
export class KnownCallers {
  readonly #options: KnownCallersOptions;
  readonly #stop: () => void;
  #database_id: string | undefined;
  #written_changes = 0;
  #written_at = Number.NEGATIVE_INFINITY;
  #writing: Promise<void> | undefined;
  #in_trouble = false;
  #is_removed = false;
  /** Why nobody is known from before, in words. */
  #problem: string | undefined;

  constructor(options: KnownCallersOptions) {
    this.#options = options;
    const { every = everyInBackground } = options;
    this.#stop = every(TICK_MS, () => void this.write());
  }

  /** The database that was in use when callers were last kept, for as long as it was not asked. */
  get database_id(): string | undefined {
    return this.#database_id;
  }

  /** Why nobody is known from before; `undefined` where somebody is, or nobody needs to be. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Takes in what the process before this one kept, as far as it is not too old. Never rejects. */
  async read(): Promise<void> {
    const { needed, keys, clock, access_tokens, revocations } = this.#options;
    const path = this.#path();
    if (path === undefined || !needed()) return;
    const found = keys();
    if (found.length === 0) {
      this.#problem = 'no secret of the configuration is long enough to seal who is known';
      return;
    }
    const read = await readCallers(path, found);
    if ('problem' in read) {
      this.#problem = PROBLEMS[read.problem];
      return;
    }
    const { database_id, tokens, ended_sessions } = read.kept;
    const now = clock.now();
    const isGood = (at: number) => now - at < CACHE_AWAY_MS && at - now < SKEW_MS;
    const good = tokens.filter(({ read_at }) => isGood(read_at));
    this.#database_id = database_id;
    access_tokens.remember(good);
    if (ended_sessions !== undefined && isGood(ended_sessions.known_until)) revocations.remember(ended_sessions);
    else if (good.length === 0) this.#problem = 'who is known from before was last seen more than an hour ago';
  }

  /** Writes who is known, when that has changed and the database is there. A timer calls it; so may a test. Never rejects. */
  write(): Promise<void> {
    this.#writing ??= this.#writeNow().finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async close(): Promise<void> {
    this.#stop();
    await this.#writing;
    this.#written_at = Number.NEGATIVE_INFINITY;
    await waitAtMost(CLOSE_PATIENCE_MS, this.write());
  }

  #path(): string | undefined {
    const directory = this.#options.spool_dir();
    return directory === undefined ? undefined : callersFile(directory, this.#options.database_address);
  }

  async #writeNow(): Promise<void> {
    const { needed, keys, clock, log, access_tokens, revocations } = this.#options;
    const path = this.#path();
    const key = keys()[0];
    if (path === undefined) return;
    if (!needed() || key === undefined) {
      if (!this.#is_removed) await removeCallers(path);
      this.#is_removed = true;
      return;
    }
    const changes = access_tokens.changes + revocations.changes;
    const since = clock.monotonic() - this.#written_at;
    if (since < (changes === this.#written_changes ? REFRESH_MS : PAUSE_MS)) return;
    const database_id = await this.#learnDatabase();
    if (database_id === undefined) return;
    const kept: KeptCallers = {
      database_id,
      tokens: access_tokens.kept(TOKENS_MAX),
      ended_sessions: revocations.kept(),
    };
    try {
      await writeCallers(path, kept, key);
      this.#is_removed = false;
      this.#in_trouble = false;
    } catch (error) {
      if (!this.#in_trouble) log.error({ path, err: error }, 'who is known cannot be kept on the disk');
      this.#in_trouble = true;
    }
    this.#written_changes = changes;
    this.#written_at = clock.monotonic();
  }

  /** `undefined` while it is away. */
  async #learnDatabase(): Promise<string | undefined> {
    const { databaseId, access_tokens, log } = this.#options;
    let database_id: string;
    try {
      database_id = await databaseId();
    } catch {
      return undefined;
    }
    if (this.#database_id !== undefined && this.#database_id !== database_id) {
      access_tokens.forgetAll();
      log.warn(
        { database_id, of_database_id: this.#database_id },
        'this is another database than before; whom that one knew is forgotten',
      );
    }
    this.#database_id = database_id;
    this.#problem = undefined;
    return database_id;
  }
}

const PROBLEMS = {
  missing: 'no gateway kept on this disk whom it knew',
  unreadable: 'what was kept of who is known cannot be read',
  sealed_with_another_secret: 'what was kept of who is known was sealed with a secret that is not in the configuration',
} as const;
