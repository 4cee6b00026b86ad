/** People who sign in, for tests of what becomes of them. */
import type { Person } from '../../../engine/services/identity/admission.ts';
import type { DeviceGrants } from '../../../engine/services/identity/device-grants.ts';
import type { OpenSession, PresentedToken } from '../../../engine/services/identity/sessions.ts';

export const START = '2026-03-10T12:00:00Z';

let people = 0;

/** Somebody nobody has seen before; the rest has defaults. */
export function somebody(more: Partial<Person> = {}): Person {
  const name = `person-${++people}`;
  return { issuer: 'https://id.example.com', subject: name, email: `${name}@example.com`, groups: ['staff'], ...more };
}

export const DEVICE = { client: 'coder/1.2.3', client_address: '192.0.2.1' };

/** A refresh token as a client sends it. */
export function sent(refresh_token: string, client_address = DEVICE.client_address): PresentedToken {
  return { refresh_token, client_address };
}

/** Brings a sign-in to where the device may collect its session; returns the device code. */
export async function approveSignIn(grants: DeviceGrants, person: Person, sealed_grant = 'sealed'): Promise<string> {
  const { device_code, user_code } = await grants.begin(DEVICE);
  const grant = await grants.find(user_code);
  if (grant === undefined || !(await grants.approve(grant.id, { person, sealed_grant })))
    throw new Error('the sign-in could not be approved');
  return device_code;
}

/** Signs a person in. */
export async function signIn(grants: DeviceGrants, person: Person): Promise<OpenSession> {
  const polled = await grants.poll(await approveSignIn(grants, person));
  if (polled.outcome !== 'signed_in') throw new Error(`the sign-in ended as ${polled.outcome}`);
  return polled.session;
}
