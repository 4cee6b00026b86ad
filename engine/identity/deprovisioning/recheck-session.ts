import type { GatewayConfig } from '../../contract/config.ts';
import type { Clock, Log } from '../../contract/services.ts';
import type { Telemetry } from '../../contract/telemetry.ts';
import type { Database } from '../../store/database.ts';
import type { Identity } from '../index.ts';
import type { Admission, Person } from '../provider/admit.ts';
import { type Identified, ProviderError, type ProviderGrant } from '../provider/provider.ts';
import { noteRefusal, type RefusedSignIn } from '../provider/refused-sign-ins.ts';
import { deprovision } from './deprovision.ts';
import { tellOwnChange } from './tell-change.ts';

/** What asking about people takes. */
export interface AskingAbout {
  readonly config: GatewayConfig;
  readonly identity: Identity;
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly telemetry: Pick<Telemetry, 'operation'>;
}

/** A session that was taken, so that nobody else uses what it keeps: most providers take a second use for theft. */
export interface TakenSession {
  readonly id: string;
  readonly person: Person;
  readonly sealed_grant: string;
}

/** At what a session is looked at, for administrators. */
export interface Occasion {
  readonly when: string;
  /** Absent where nobody asked but the gateway itself. */
  readonly request?: Pick<RefusedSignIn, 'client_address' | 'request_id'>;
}

/**
 * What became of a session. `stays`: as this person, still taken. It was given back: `unreadable`: no key opens what it keeps;
 * `other_provider`: it comes from another one than the configuration has; `unaskable`: there is nothing to ask with;
 * `unavailable`: no usable answer came. It was ended: `refused`: the provider says no; `not_admitted`: the configuration does
 * not let the person in, who was deprovisioned; `other_identity`: it describes another person.
 */
export type Rechecked =
  | { readonly outcome: 'stays'; readonly person: Person; readonly sealed_grant: string }
  | { readonly outcome: 'unreadable' | 'other_provider' | 'other_identity' }
  | { readonly outcome: 'unaskable' | 'unavailable' | 'refused'; readonly error: ProviderError }
  | { readonly outcome: 'not_admitted'; readonly message: string };

/** Asks the identity provider about the person of a session. Raises store_unavailable, temporarily_unavailable. */
export async function recheckSession(asking: AskingAbout, taken: TakenSession, occasion: Occasion): Promise<Rechecked> {
  const { tokens, provider, isVerified } = asking.identity;
  try {
    const grant = (await tokens.open(taken.sealed_grant, 'provider-grant')) as ProviderGrant | undefined;
    // What one provider gave is not shown to another.
    if (grant !== undefined && isVerified(taken.person)) {
      return await decide(asking, taken, occasion, await provider.recheck(grant));
    }
    await giveBack(asking, taken);
    return { outcome: grant === undefined ? 'unreadable' : 'other_provider' };
  } catch (error) {
    if (error instanceof ProviderError && error.problem === 'refused') {
      await endAsRefused(asking, taken, error);
      return { outcome: 'refused', error };
    }
    const replaced = error instanceof ProviderError ? error.grant : undefined;
    // The claim on it runs out by itself, and what went wrong first is what the caller is told.
    await giveBack(asking, taken, replaced).catch(() => {});
    if (!(error instanceof ProviderError)) throw error;
    return { outcome: error.problem === 'unaskable' ? 'unaskable' : 'unavailable', error };
  }
}

/** Ends a session that the identity provider did not renew. Raises store_unavailable. */
export async function endAsRefused(
  { identity, log }: Pick<AskingAbout, 'identity' | 'log'>,
  { id, person }: TakenSession,
  { message }: ProviderError,
): Promise<void> {
  await identity.sessions.end(id, 'the identity provider refused to renew it');
  const fields = { email: person.email, session: id, reason: message };
  log.info(fields, 'the identity provider refused to renew a session, so it was ended');
}

async function decide(
  asking: AskingAbout,
  { id, person: former }: TakenSession,
  occasion: Occasion,
  { claims, grant, scopes }: Identified,
): Promise<Rechecked> {
  const { identity } = asking;
  const sealed_grant = await identity.tokens.seal(grant, 'provider-grant');
  const admission = identity.admit(claims, scopes);
  if ('person' in admission) {
    const { person } = admission;
    const { subject, issuer, email } = person;
    const is_same = subject === former.subject && issuer === former.issuer && email === former.email;
    if (is_same) return { outcome: 'stays', person, sealed_grant };
  }
  // It ends with what the provider gave last, so that this is given back and not what it replaced.
  await identity.sessions.abandonRefresh(id, sealed_grant);
  if ('person' in admission) {
    await identity.sessions.end(id, 'it belongs to another identity now');
    return { outcome: 'other_identity' };
  }
  await deprovisionAsRefused(asking, { id, person: former }, admission, occasion);
  return { outcome: 'not_admitted', message: admission.message };
}

async function giveBack({ identity }: AskingAbout, { id }: TakenSession, grant?: ProviderGrant): Promise<void> {
  await identity.sessions.abandonRefresh(id, grant && (await identity.tokens.seal(grant, 'provider-grant')));
}

/** Who is not admitted any more loses all sessions at once, and the use of self-made access tokens until admitted again. */
async function deprovisionAsRefused(
  asking: AskingAbout,
  { id, person: { email, subject, issuer } }: Pick<TakenSession, 'id' | 'person'>,
  { refused, detail, misses }: Exclude<Admission, { person: Person }>,
  { when, request }: Occasion,
): Promise<void> {
  const { database, identity, log } = asking;
  const actor = { kind: 'gateway', name: 'sign-in' } as const;
  const because = `no longer admitted (${refused})`;
  const { sessions } = await deprovision(asking, { user: email, actor, because, tokens: 'suspend' });
  tellOwnChange(asking, 'person.deprovision');
  await identity.catchUp();
  const groups = misses?.came ?? [];
  log.info({ email, session: id, refused, detail, groups, sessions }, 'somebody may not use the gateway any more');
  const [row] = await database
    .query<{ client: string; client_address: string }>(
      'session_client',
      'select client, client_address from sessions where id = $1',
      [id],
    )
    .catch(() => []);
  await noteRefusal(asking, {
    email,
    subject,
    issuer,
    client: row?.client ?? '',
    client_address: request?.client_address ?? row?.client_address ?? '',
    request_id: request?.request_id ?? '',
    refused,
    detail: `${when}: ${detail}`,
    groups,
    expected: misses?.expected ?? [],
  });
}
