import { setTimeout } from 'node:timers/promises';
import { StageError } from '../../../base/contract/errors.ts';
import { everyInBackground } from '../../../base/kit/clock.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { Background } from '../background.ts';

/** Registry of the signing keys of all gateways on a database. During a key rotation gateways meet keys that they do not have yet. */
export interface KeyHolders {
  /** Announces the key ids of this gateway, unless done recently. Raises store_unavailable. */
  announce(ids: readonly string[]): Promise<void>;
  /** Raises temporarily_unavailable for a key that another gateway has, or had a few minutes ago. */
  assertUnknown(id: string): Promise<void>;
}

export const NO_OTHER_HOLDERS: KeyHolders = { announce: async () => {}, assertUnknown: async () => {} };

const ANNOUNCED_MS = 30_000;
/** Longer than a restart; then users with old tokens must sign in again. */
const HELD_MS = 300_000;
/** Shortest interval between queries for unknown ids, which may be invented. */
const PAUSE_MS = 250;
const WARN_MS = 60_000;
const CLOSE_TIMEOUT_MS = 500;

/** `held`: ids of the keys in force, announced periodically. */
export function openKeyHolders(
  options: Background & { readonly held: () => readonly string[] },
): KeyHolders & { close(): Promise<void> } {
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
      log.debug({ err: error }, 'could not announce the signing keys yet');
    }
  };

  const readKnownKeys = async () => {
    const rows = await database.query<{ id: string }>('keys_held', 'select id from signing_keys where seen_at > $1', [
      new Date(clock.now() - HELD_MS),
    ]);
    return new Set(rows.map(({ id }) => id));
  };
  let pausing = Promise.resolve();
  let next: Promise<ReadonlySet<string>> | undefined;
  /** Reads the registry after this moment: a key may be announced just before its first token arrives. */
  const readNext = () => {
    next ??= pausing.then(() => {
      next = undefined;
      pausing = setTimeout(PAUSE_MS, undefined, { ref: false });
      return readKnownKeys();
    });
    return next;
  };

  let announcing = Promise.resolve();
  const stop = every(ANNOUNCED_MS, () => {
    announcing = announceInBackground();
  });

  return {
    announce,
    async assertUnknown(id) {
      if (!(await readNext()).has(id)) return;
      if (clock.monotonic() - warned_at >= WARN_MS) {
        warned_at = clock.monotonic();
        log.warn(
          { key: id },
          'this gateway lacks a signing key of another gateway, and responds 503: before a rotation, add the new key to auth.session.previous_signing_keys of every gateway',
        );
      }
      throw new StageError('temporarily_unavailable', ROTATING, { headers: { 'retry-after': '1' } });
    },
    async close() {
      stop();
      await waitAtMost(CLOSE_TIMEOUT_MS, announcing);
    },
  };
}

const ROTATING =
  'This replica does not have the signing key of your token. Try again shortly. If this persists, sign in again.';
