import type { Admission, Person } from '../../identity/provider/admit.ts';
import type { Claims } from '../../identity/provider/provider.ts';
import { noteRefusal } from '../../identity/provider/refused-sign-ins.ts';
import type { ClaimProblem } from '../../identity/sessions/bindings.ts';
import type { PendingGrant } from '../../identity/sessions/device-grants.ts';
import { shownText } from './caller.ts';
import { deniedPage } from './pages/pages.ts';
import { type Answer, logged, type SignIn, type Visit } from './routes.ts';

const LOGGED_CHARS = 200;

/** A sign-in that somebody may be turned away from. */
export interface Entrance {
  /** What signs in, as people know it. */
  readonly client: string;
  readonly client_address: string;
  /** Ends the sign-in, and says so. */
  refuse(refusal: Refusal): Promise<Answer>;
}

/** Why somebody is turned away. */
export interface Refusal {
  readonly message: string;
  readonly advice?: string;
  /** In one word, for telemetry. */
  readonly reason: string;
}

/** That of a device which shows a code. */
export function deviceEntrance(sign_in: SignIn, visit: Visit, grant: PendingGrant): Entrance {
  const { client, client_address } = grant;
  return { client, client_address, refuse: (refusal) => endRefused(sign_in, visit, grant, refusal) };
}

/** Turns away somebody whom the configuration does not let in. */
export async function refusePerson(
  sign_in: SignIn,
  visit: Visit,
  entrance: Entrance,
  given: { readonly claims: Claims; readonly admission: Exclude<Admission, { person: Person }> },
): Promise<Answer> {
  const { claims, admission } = given;
  const { refused, detail, message, misses } = admission;
  const textAt = (claim: string) => {
    const value = claims[claim];
    return typeof value === 'string' ? shownText(value, LOGGED_CHARS) : undefined;
  };
  const [email, subject, issuer] = [textAt('email'), textAt('sub'), textAt('iss')];
  const groups = misses?.came ?? [];
  const expected = misses?.expected ?? [];
  const { request_id } = visit.reference;
  const fields = { subject, email, client: entrance.client, refused, detail, groups, expected, ...logged(visit) };
  sign_in.log.info(fields, 'somebody who may not use the gateway tried to sign in');
  const who = { email: email ?? '', subject: subject ?? null, issuer: issuer ?? null };
  const { client, client_address } = entrance;
  await noteRefusal(sign_in, { ...who, client, client_address, request_id, refused, detail, groups, expected });
  return entrance.refuse({ message, reason: refused });
}

const CLAIM_REASON: Readonly<Record<ClaimProblem, (email: string) => string>> = {
  other_account: (email) =>
    `You are signed in as ${email}, and at this gateway that address belongs to another account of the identity provider.`,
  other_provider: (email) =>
    `You are signed in as ${email}, and at this gateway that address belongs to an account of the identity provider that was used before.`,
  administrator_made: (email) =>
    `You are signed in as ${email}, and administrators made access tokens for that address, which signing in does not take over.`,
};

/** An address goes to whom it is bound to, whoever claims it: nothing of theirs ends, and an administrator decides. */
export async function refuseAddress(
  sign_in: SignIn,
  visit: Visit,
  entrance: Entrance,
  { person, problem }: { readonly person: Person; readonly problem: ClaimProblem },
): Promise<Answer> {
  const { email, subject, issuer } = person;
  const detail = `the address is bound to another account, or to access tokens; "appscli people rebind" changes that`;
  const { request_id } = visit.reference;
  sign_in.log.warn(
    { email, subject, issuer, client: entrance.client, problem, ...logged(visit) },
    `a sign-in was refused: ${detail}`,
  );
  const noted = { email, subject, issuer, refused: problem, detail, groups: [], expected: [] };
  const { client, client_address } = entrance;
  await noteRefusal(sign_in, { ...noted, client, client_address, request_id });
  const advice = 'If the address is yours, ask your administrator to let your account have it, then sign in again.';
  return entrance.refuse({ message: CLAIM_REASON[problem](email), advice, reason: problem });
}

/** Ends a sign-in that came to nothing, in the terminal and in the browser, where somebody else may take it on. */
export async function endRefused(
  { identity }: SignIn,
  { reference }: Visit,
  grant: PendingGrant,
  { message, advice, reason }: Refusal,
): Promise<Answer> {
  await identity.device_grants.deny(grant.id, message);
  const page = deniedPage({ reason: message, advice, reference, user_code: grant.user_code });
  return { status: 403, page, told: { outcome: 'refused', error_type: reason } };
}
