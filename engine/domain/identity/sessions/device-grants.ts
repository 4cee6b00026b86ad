import type { Clock } from '../../../base/contract/services.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Person } from '../provider/admit.ts';
import {
  hashSecret,
  isSecret,
  type Marks,
  makeId,
  makeRefreshToken,
  makeSecret,
  makeUserCode,
  openSuccessor,
  readUserCode,
  sealSuccessor,
  shownUserCode,
} from './opaque.ts';
import type { OpenSession } from './sessions.ts';

/** Who began a sign-in, to be shown to the person who is asked to confirm it. */
export interface Device {
  /** Product name and version from its user-agent header, shortened. */
  readonly client: string;
  readonly client_address: string;
  /** What the program says it is, by the parameter `surface`. */
  readonly surface?: string | undefined;
}

/** A sign-in that waits for a person. */
export interface PendingGrant extends Device {
  readonly id: string;
  /** As shown: WDJB-MJHT. */
  readonly user_code: string;
  readonly created_at: Date;
  readonly expires_at: Date;
}

/** What a device hears when it asks whether its sign-in is done (RFC 8628 section 3.5). */
export type PollResult =
  | { readonly outcome: 'pending' | 'slow_down' | 'expired' | 'unknown' }
  /** The code was used before, and not by a device that did not hear the answer; its session is over. */
  | { readonly outcome: 'used'; readonly session_id: string; readonly ended: boolean }
  | {
      readonly outcome: 'denied';
      /** Why the person was refused, in a sentence; absent where the person declined. */
      readonly because?: string | undefined;
      readonly surface?: string | undefined;
    }
  /** Repeated: the same session and refresh token as just before. */
  | { readonly outcome: 'signed_in' | 'repeated'; readonly session: OpenSession };

const LIFETIME_SECONDS = 600;
const INTERVAL_SECONDS = 5;
/** Timers may run out a little early. */
const INTERVAL_SLACK_MS = 100;
/** A device that asks every few seconds still gets what was approved in the last moment. */
const COLLECT_MS = 60_000;
/** As long as for a refresh token that was replaced; see `sessions.ts`. */
const REPEATED_MS = 30_000;
const DAY_MS = 24 * 60 * 60 * 1000;
/** Each has less than one chance in a million as long as fewer than 25 000 sign-ins are under way. */
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

/** Device authorization grants (RFC 8628). */
export type DeviceGrants = ReturnType<typeof createDeviceGrants>;

/** Creates the device authorization grants of a database. Everything raises store_unavailable. */
export function createDeviceGrants(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  /** How long after sign-in a session can be gone on with, in days. */
  readonly refresh_days: number;
  readonly makeCode?: () => string;
  /** Absent: device codes and refresh tokens have no mark. */
  readonly marks?: Marks;
  /** Is told after a session was ended, so that its tokens are refused here before anybody is answered. */
  readonly onEnded?: () => Promise<void>;
}) {
  const { database, clock, refresh_days, makeCode = makeUserCode, marks, onEnded } = options;
  const later = (milliseconds: number) => new Date(clock.now() + milliseconds);
  const pending = ([row]: readonly PendingGrant[]) => row && pendingGrant(row);
  const changed = async (name: string, text: string, values: readonly unknown[]): Promise<boolean> =>
    (await database.query(name, text, values)).length > 0;

  const insert = async ({ client, client_address, surface }: Device, device_code: string) => {
    const [row] = await database.query<{ user_code: string }>(
      'device_begin',
      `insert into device_grants (id, device_code_hash, user_code, client, client_address, created_at, expires_at, surface)
       values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (user_code) do nothing returning user_code`,
      [
        makeId('dev'),
        hashSecret(device_code),
        makeCode(),
        storable(client),
        storable(client_address),
        later(0),
        later(LIFETIME_SECONDS * 1000),
        surface === undefined ? null : storable(surface),
      ],
    );
    return row?.user_code;
  };

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
    async begin(device: Device) {
      const device_code = makeSecret(marks);
      for (let tried = 0; tried < MAX_CODES_TRIED; tried++) {
        const code = await insert(device, device_code);
        if (code === undefined) continue;
        return {
          device_code,
          user_code: shownUserCode(code),
          expires_in_seconds: LIFETIME_SECONDS,
          interval_seconds: INTERVAL_SECONDS,
        };
      }
      throw new Error(`${MAX_CODES_TRIED} user codes in a row were taken`);
    },

    /** Notes that a browser went to the identity provider with this state; an earlier state of the grant is void. */
    noteState: (grant_id: string, state: string) =>
      changed(
        'device_note_state',
        `update device_grants set state_hash = $2
         where id = $1 and status = 'pending' and expires_at > $3 returning id`,
        [storable(grant_id), hashSecret(state), later(0)],
      ),

    /** The grant a browser comes back for; a state is good once. */
    async takeState(state: string) {
      const text = `update device_grants set state_hash = null
        where state_hash = $1 and status = 'pending' and expires_at > $2 returning ${PENDING}`;
      return pending(await database.query<PendingGrant>('device_take_state', text, [hashSecret(state), later(0)]));
    },

    /** Lets the device have its session. False when the grant is not pending any more. */
    approve: (grant_id: string, { person, sealed_grant }: { readonly person: Person; readonly sealed_grant: string }) =>
      changed(
        'device_approve',
        `update device_grants set status = 'approved', person = $2, sealed_grant = $3, state_hash = null,
           expires_at = greatest(expires_at, $5)
         where id = $1 and status = 'pending' and expires_at > $4 returning id`,
        [storable(grant_id), storableJson(person), sealed_grant, later(0), later(COLLECT_MS)],
      ),

    /** @param because why the person was refused; absent where the person declined. */
    deny: (grant_id: string, because?: string) =>
      changed(
        'device_deny',
        `update device_grants set status = 'denied', state_hash = null, denied_because = $3
         where id = $1 and status = 'pending' and expires_at > $2 returning id`,
        [storable(grant_id), later(0), because === undefined ? null : storable(because)],
      ),

    /** Takes back that the person was refused, so that somebody else can sign in; `undefined` when the device heard of it. */
    async reopen(user_code: string) {
      const code = readUserCode(user_code);
      if (code === undefined) return undefined;
      const text = `update device_grants set status = 'pending', denied_because = null
        where user_code = $1 and status = 'denied' and denied_because is not null and heard_at is null and expires_at > $2
        returning ${PENDING}`;
      return pending(await database.query<PendingGrant>('device_reopen', text, [code, later(0)]));
    },

    /**
     * Ends an approved grant by beginning its session, once; sessions that the same program was refused to renew end by it. For
     * half a minute the same device code gets the same session again, for its answer may have been lost; after that, or once the
     * session was renewed, it ends the session.
     */
    async poll(device_code: string): Promise<PollResult> {
      if (!isSecret(device_code)) return { outcome: 'unknown' };
      const refresh_token = makeRefreshToken(marks);
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
