import { setTimeout } from 'node:timers/promises';
import { StageError } from '../../../base/contract/errors.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import { type Every, everyInBackground } from '../../../base/kit/clock.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { Database } from '../../../base/store/database.ts';

/** Which keys the gateways on one database have: while they are changed one by one, each meets keys of the others. */
export interface KeyHolders {
  /** Says that this gateway has these keys, by their ids; at once when it said so lately. Raises store_unavailable. */
  announce(ids: readonly string[]): Promise<void>;
  /**
   * Raises temporarily_unavailable for the id of a key that another gateway has, or had a few minutes ago, and
   * store_unavailable when that can't be told. Resolves for one that nobody has.
   */
  demandUnknown(id: string): Promise<void>;
}

/** Of a gateway that shares its database with no other. */
export const NO_OTHER_HOLDERS: KeyHolders = { announce: async () => {}, demandUnknown: async () => {} };

const ANNOUNCED_MS = 30_000;
/**
 * A key counts as another gateway's for five minutes after the last that has it said so: longer than a restart takes. Where
 * the only gateway changes its key, whoever has a token of the old one waits that long for being told to sign in again.
 */
const HELD_MS = 300_000;
/** However many unknown ids come, made-up ones among them, the database is asked about them at most so often. */
const PAUSE_MS = 250;
const WARN_MS = 60_000;
const CLOSE_PATIENCE_MS = 500;

/**
 * Opens what is known of keys.
 * @param options.held the ids of the configuration in force, said again and again.
 */
export function openKeyHolders(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly held: () => readonly string[];
  readonly every?: Every;
}): KeyHolders & { close(): Promise<void> } {
  const { database, clock, log, held, every = everyInBackground } = options;
  const announced = new Map<string, number>();
  let warned_at = Number.NEGATIVE_INFINITY;

  const write = async (ids: readonly string[]) => {
    const at = clock.monotonic();
    await database.query(
      'keys_announce',
      `insert into signing_keys as k (id, seen_at) select id, $2 from unnest($1::text[]) id order by id
       on conflict (id) do update set seen_at = greatest(k.seen_at, excluded.seen_at)`,
      [[...new Set(ids)], new Date(clock.now())],
    );
    for (const id of ids) announced.set(id, at);
  };
  const announce = async (ids: readonly string[]) => {
    const due_before = clock.monotonic() - 2 * ANNOUNCED_MS;
    if (ids.some((id) => (announced.get(id) ?? Number.NEGATIVE_INFINITY) <= due_before)) await write(ids);
  };
  const announceInBackground = async () => {
    try {
      const ids = held();
      if (ids.length > 0) await write(ids);
    } catch (error) {
      log.debug({ err: error }, 'which signing keys this gateway has is said later');
    }
  };

  const readHeld = async () => {
    const rows = await database.query<{ id: string }>('keys_held', 'select id from signing_keys where seen_at > $1', [
      new Date(clock.now() - HELD_MS),
    ]);
    return new Set(rows.map(({ id }) => id));
  };
  let pausing = Promise.resolve();
  let next: Promise<ReadonlySet<string>> | undefined;
  /** What is read after this moment: a key may be announced just before a token signed with it arrives. */
  const readNext = () => {
    next ??= pausing.then(() => {
      next = undefined;
      pausing = setTimeout(PAUSE_MS, undefined, { ref: false });
      return readHeld();
    });
    return next;
  };

  let announcing = Promise.resolve();
  const stop = every(ANNOUNCED_MS, () => {
    announcing = announceInBackground();
  });

  return {
    announce,
    async demandUnknown(id) {
      if (!(await readNext()).has(id)) return;
      if (clock.monotonic() - warned_at >= WARN_MS) {
        warned_at = clock.monotonic();
        log.warn(
          { key: id },
          'what another gateway signed or sealed cannot be read here, and is answered with 503: put its signing key into auth.session.previous_signing_keys of every gateway before one of them signs with it',
        );
      }
      throw heldElsewhere();
    },
    async close() {
      stop();
      await waitAtMost(CLOSE_PATIENCE_MS, announcing);
    },
  };
}

function heldElsewhere(): StageError {
  return new StageError(
    'temporarily_unavailable',
    'The signing key of the gateway is being changed, and this replica does not have the one that is needed here. Try again shortly.',
    { headers: { 'retry-after': '1' } },
  );
}
