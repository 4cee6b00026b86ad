/** Users who sign in, for tests of their sessions. */
import type { Database } from '../../../engine/base/store/database.ts';
import type { Person } from '../../../engine/domain/identity/provider/admit.ts';
import { createAttemptLimits } from '../../../engine/domain/identity/sessions/attempt-limits.ts';
import {
  createDeviceGrants,
  type DeviceGrants,
  type PendingGrant,
} from '../../../engine/domain/identity/sessions/device-grants.ts';
import type { OpenSession, PresentedToken } from '../../../engine/domain/identity/sessions/sessions.ts';
import { quietLog, type TestStore } from '../../support/store.ts';

export const START = '2026-03-10T12:00:00Z';

let people = 0;

export function anyPerson(more: Partial<Person> = {}): Person {
  const name = `person-${++people}`;
  return { issuer: 'https://id.example.com', subject: name, email: `${name}@example.com`, groups: ['staff'], ...more };
}

export const DEVICE = { client: 'coder/1.2.3', client_address: '192.0.2.1' };

export function sent(refresh_token: string, client_address = DEVICE.client_address): PresentedToken {
  return { refresh_token, client_address };
}

export interface GrantsAndForm extends DeviceGrants {
  enter(user_code: string): Promise<PendingGrant | undefined>;
}

/** Opens the device grants of a database, with a form that accepts any number of wrong codes. */
export function openGrantsAndForm(
  options: Omit<Parameters<typeof createDeviceGrants>[0], 'refresh_days'> & { readonly refresh_days?: number },
): GrantsAndForm {
  const most = { device_authorizations: 1e6, code_submissions: 1e6, requests: 1e6, refused_credentials: 1e6 };
  const attempts = createAttemptLimits({ ...options, limits: { ...most, window_seconds: 600 }, log: quietLog });
  return {
    ...createDeviceGrants({ refresh_days: 30, ...options }),
    async enter(user_code) {
      const entered = await attempts.enterCode('192.0.2.77', user_code);
      if ('retry_after_seconds' in entered) throw new Error('too many codes were entered');
      return entered.grant;
    },
  };
}

/** Brings a sign-in to where the device may collect its session; returns the device code. */
export async function approveSignIn(grants: GrantsAndForm, person: Person, sealed_grant = 'sealed'): Promise<string> {
  const { device_code, user_code } = await grants.begin(DEVICE);
  const grant = await grants.enter(user_code);
  if (grant === undefined || !(await grants.approve(grant.id, { person, sealed_grant })))
    throw new Error('the sign-in could not be approved');
  return device_code;
}

export async function signIn(grants: GrantsAndForm, person: Person, sealed_grant?: string): Promise<OpenSession> {
  const polled = await grants.poll(await approveSignIn(grants, person, sealed_grant));
  if (polled.outcome !== 'signed_in') throw new Error(`the sign-in ended as ${polled.outcome}`);
  return polled.session;
}

let tokens = 0;

/** Puts a session of somebody into the database. */
export async function addSession(
  { database }: { readonly database: Pick<Database, 'query'> },
  { user, id, at, groups = [] }: { user: string; id: string; at: Date; groups?: readonly string[] },
): Promise<void> {
  await database.query(
    'test_add_session',
    `with owner as (
       insert into principals (id, email, groups) values ('user:' || $1::text, $1, $4)
       on conflict (id) do update set email = excluded.email returning id
     )
     insert into sessions (id, principal_id, person, sealed_grant, client, client_address, created_at, checked_at, expires_at)
     select $2, id, jsonb_build_object('email', $1::text, 'issuer', 'https://id.example.com', 'subject', $1), 'sealed', 'test/1',
       '192.0.2.1', $3::timestamptz, $3::timestamptz, $3::timestamptz + interval '30 days' from owner`,
    [user, id, at, groups],
  );
}

/** Puts an access token of somebody into the database; returns its id and how it is announced. */
export async function addToken(store: Pick<TestStore, 'rows'>, email: string, self_service = false) {
  const id = `tok_${++tokens}`;
  const hash = Buffer.alloc(32, tokens).toString('base64');
  await store.rows(
    `with owner as (
       insert into principals (id, email) values ('user:' || $1, $1) on conflict (id) do update set email = excluded.email
       returning id
     )
     insert into access_tokens (id, hash, prefix, principal_id, token_group, name, self_service)
     select $2, decode($3, 'base64'), 'gw_test', owner.id, 'all', 'test', $4 from owner`,
    ...[email, id, hash, self_service],
  );
  return { id, hash };
}
