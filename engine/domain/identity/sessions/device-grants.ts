import { StageError } from '../../../base/contract/errors.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import type { Background } from '../background.ts';
import type { Person } from '../provider/admit.ts';
import {
  hashSecret,
  isSecret,
  makeId,
  makeRefreshToken,
  makeSecret,
  makeUserCode,
  openSuccessor,
  readUserCode,
  type SecretTags,
  sealSuccessor,
  shownUserCode,
} from './secrets.ts';
import type { OpenSession } from './sessions.ts';

/** The device of a sign-in, shown to the person who confirms it. */
export interface Device {
  /** Product name and version from its user-agent header, shortened. */
  readonly client: string;
  readonly client_address: string;
  readonly surface?: string | undefined;
}

/** A pending sign-in. */
export interface PendingGrant extends Device {
  readonly id: string;
  /** As shown: WDJB-MJHT. */
  readonly user_code: string;
  readonly created_at: Date;
  readonly expires_at: Date;
}

/** Response to the poll of a device (RFC 8628 section 3.5). */
export type PollResult =
  | { readonly outcome: 'pending' | 'slow_down' | 'expired' | 'unknown' }
  /** The code was used before, not as a retry; its session ended. */
  | { readonly outcome: 'used'; readonly session_id: string; readonly ended: boolean }
  | {
      readonly outcome: 'denied';
      /** Why the person was rejected, in a sentence; absent if the person declined. */
      readonly because?: string | undefined;
      readonly surface?: string | undefined;
    }
  /** `repeated`: the same session and refresh token as before. */
  | { readonly outcome: 'signed_in' | 'repeated'; readonly session: OpenSession };

const LIFETIME_SECONDS = 600;
const INTERVAL_SECONDS = 5;
const INTERVAL_SLACK_MS = 100;
/** A device that polls every few seconds still gets an approval of the last moment. */
const COLLECT_MS = 60_000;
/** As for a replaced refresh token; see `sessions.ts`. */
const REPEATED_MS = 30_000;
const DAY_MS = 24 * 60 * 60 * 1000;
const MAX_CODES_TRIED = 5;

interface CollectedRow {
  readonly outcome: Exclude<PollResult['outcome'], 'used'>;
  readonly session_id: string | null;
  readonly person: Person;
  readonly sealed_refresh: string;
  readonly ended: boolean;
}

const PENDING = 'id, user_code, client, client_address, created_at, expires_at';

export function pendingGrant(row: PendingGrant): PendingGrant {
  return { ...row, user_code: shownUserCode(row.user_code) };
}

export type DeviceGrants = ReturnType<typeof createDeviceGrants>;

/** Creates the device authorization grants of a database. All functions raise store_unavailable. */
export function createDeviceGrants(
  options: Pick<Background, 'database' | 'clock'> & {
    readonly refresh_days: number;
    readonly tags?: SecretTags;
    /** Called after a session ended: resolves when this process rejects its tokens. */
    readonly onEnded?: () => Promise<void>;
  },
) {
  const { database, clock, refresh_days, tags, onEnded } = options;
  const later = (milliseconds: number) => new Date(clock.now() + milliseconds);
  const pending = ([row]: readonly PendingGrant[]) => row && pendingGrant(row);
  const changed = async (name: string, text: string, values: readonly unknown[]): Promise<boolean> =>
    (await database.query(name, text, values)).length > 0;

  const hear = async (device_code: string) => {
    const [row] = await database.query<{ because: string | null; surface: string | null }>(
      'device_hear',
      `update device_grants set heard_at = coalesce(heard_at, $2)
       where device_code_hash = $1 and status = 'denied' returning denied_because as because, surface`,
      [hashSecret(device_code), later(0)],
    );
    return { because: row?.because ?? undefined, surface: row?.surface ?? undefined };
  };

  return {
    async begin({ client, client_address, surface }: Device) {
      const device_code = makeSecret(tags);
      // A random code is taken less than once in a million with fewer than 25,000 pending sign-ins.
      for (let tries = 1; tries <= MAX_CODES_TRIED; tries++) {
        const user_code = makeUserCode();
        const is_free = await changed(
          'device_begin',
          `insert into device_grants (id, device_code_hash, user_code, client, client_address, created_at, expires_at, surface)
           values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (user_code) do nothing returning id`,
          [
            makeId('dev'),
            hashSecret(device_code),
            user_code,
            storable(client),
            storable(client_address),
            later(0),
            later(LIFETIME_SECONDS * 1000),
            surface === undefined ? null : storable(surface),
          ],
        );
        if (is_free) {
          const seconds = { expires_in_seconds: LIFETIME_SECONDS, interval_seconds: INTERVAL_SECONDS };
          return { device_code, user_code: shownUserCode(user_code), ...seconds };
        }
      }
      throw new StageError('temporarily_unavailable', 'Too many sign-ins are pending. Try again shortly.');
    },

    noteState: (grant_id: string, state: string) =>
      changed(
        'device_note_state',
        `update device_grants set state_hash = $2
         where id = $1 and status = 'pending' and expires_at > $3 returning id`,
        [storable(grant_id), hashSecret(state), later(0)],
      ),

    /** The grant of a state; a state works once. */
    async takeState(state: string) {
      const text = `update device_grants set state_hash = null
        where state_hash = $1 and status = 'pending' and expires_at > $2 returning ${PENDING}`;
      return pending(await database.query<PendingGrant>('device_take_state', text, [hashSecret(state), later(0)]));
    },

    approve: (grant_id: string, { person, sealed_grant }: { readonly person: Person; readonly sealed_grant: string }) =>
      changed(
        'device_approve',
        `update device_grants set status = 'approved', person = $2, sealed_grant = $3, state_hash = null,
           expires_at = greatest(expires_at, $5)
         where id = $1 and status = 'pending' and expires_at > $4 returning id`,
        [storable(grant_id), storableJson(person), sealed_grant, later(0), later(COLLECT_MS)],
      ),

    /** @param because why the person was rejected; absent if the person declined. */
    deny: (grant_id: string, because?: string) =>
      changed(
        'device_deny',
        `update device_grants set status = 'denied', state_hash = null, denied_because = $3
         where id = $1 and status = 'pending' and expires_at > $2 returning id`,
        [storable(grant_id), later(0), because === undefined ? null : storable(because)],
      ),

    /** Reopens a rejected grant for another person; `undefined` if the device has polled the rejection. */
    async reopen(user_code: string) {
      const code = readUserCode(user_code);
      if (code === undefined) return undefined;
      const text = `update device_grants set status = 'pending', denied_because = null
        where user_code = $1 and status = 'denied' and denied_because is not null and heard_at is null and expires_at > $2
        returning ${PENDING}`;
      return pending(await database.query<PendingGrant>('device_reopen', text, [code, later(0)]));
    },

    /**
     * Redeems an approved grant once: begins its session, and ends sessions that the program failed to renew. For half a minute a
     * retry gets the same session, since the response may have been lost. Later, or once the session was renewed, a repeated code
     * ends the session.
     */
    async poll(device_code: string): Promise<PollResult> {
      if (!isSecret(device_code)) return { outcome: 'unknown' };
      const refresh_token = makeRefreshToken(tags);
      const [row] = await database.query<CollectedRow>(
        'device_collect',
        'select * from collect_device_grant($1, $2, $3, $4, $5, $6, $7, $8)',
        [
          hashSecret(device_code),
          later(0),
          later(INTERVAL_SLACK_MS - INTERVAL_SECONDS * 1000),
          later(-REPEATED_MS),
          makeId('ses'),
          hashSecret(refresh_token),
          await sealSuccessor(refresh_token, device_code),
          later(refresh_days * DAY_MS),
        ],
      );
      const { outcome, session_id: id, person, sealed_refresh, ended } = row!;
      if (outcome === 'denied') return { outcome, ...(await hear(device_code)) };
      if (outcome === 'unknown' && id !== null) {
        if (ended) await onEnded?.();
        return { outcome: 'used', session_id: id, ended };
      }
      if (outcome !== 'signed_in' && outcome !== 'repeated') return { outcome };
      return { outcome, session: { id: id!, person, refresh_token: await openSuccessor(sealed_refresh, device_code) } };
    },
  };
}
