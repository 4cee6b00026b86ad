import type { GatewayConfig } from '../../contract/config.ts';
import { StageError } from '../../contract/errors.ts';
import type { Clock, Log } from '../../contract/services.ts';
import { storable, storableJson } from '../../kit/storable.ts';
import type { Database } from '../../store/database.ts';
import type { Identity } from '../index.ts';
import type { Admission, Person } from '../provider/admit.ts';
import { ProviderError, type ProviderGrant } from '../provider/provider.ts';
import { noteRefusal, type RefusedSignIn } from '../provider/refused-sign-ins.ts';
import { endTokensTheyLost } from '../tokens/self-made-tokens.ts';
import { deprovision } from './deprovision.ts';

/** What asking about people takes. */
export interface AskingAbout {
  readonly config: GatewayConfig;
  readonly identity: Identity;
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * What the identity provider says of somebody. `verified`: they may stay, which is written down. `not_admitted`: it knows them,
 * and the configuration does not let them in, so they are deprovisioned. `refused`: it says no. `unaskable`: there is nothing
 * to ask with. `busy`: a session is just being renewed, which tells. `unavailable`: it gave no usable answer.
 */
export type AskedAbout = 'verified' | 'not_admitted' | 'refused' | 'unaskable' | 'busy' | 'unavailable';

/** How long a session can't be renewed by its client at most when this process ends while it asks. */
const TAKEN_MS = 60_000;
/** Which answer counts where sessions of one person give several. */
const RANK: readonly AskedAbout[] = ['unaskable', 'refused', 'busy', 'unavailable'];

const ASKED = 'when the identity provider was asked about them';

interface Kept {
  readonly id: string;
  readonly person: Person;
  readonly sealed_grant: string;
}

/**
 * Asks the identity provider about a person with what their sessions keep, one after the other until it verifies them.
 * A session that it refuses to renew ends. Raises store_unavailable.
 */
export async function askAbout(asking: AskingAbout, email: string): Promise<AskedAbout> {
  const { database, clock } = asking;
  const sessions = await database.query<{ id: string }>(
    'sessions_to_ask_with',
    `select id from sessions where principal_id = $1 and revoked_at is null and expires_at > $2
     order by checked_at desc, id`,
    [`user:${storable(email)}`, new Date(clock.now())],
  );
  let said: AskedAbout = 'unaskable';
  for (const { id } of sessions) {
    const kept = await claim(asking, id);
    const answer = kept === undefined ? 'busy' : await askWith(asking, kept).catch(busyElsewhere);
    if (answer === 'verified' || answer === 'not_admitted') return answer;
    if (RANK.indexOf(answer) > RANK.indexOf(said)) said = answer;
  }
  return said;
}

/** Takes a session so that nobody else uses what it keeps: most providers take a second use for theft. */
async function claim({ database, clock }: AskingAbout, id: string): Promise<Kept | undefined> {
  const now = clock.now();
  const [kept] = await database.query<Kept>(
    'session_claim',
    `update sessions set refreshing_until = $2
     where id = $1 and revoked_at is null and (refreshing_until is null or refreshing_until <= $3)
     returning id, person, sealed_grant`,
    [id, new Date(now + TAKEN_MS), new Date(now)],
  );
  return kept;
}

/** Another replica can ask: it has the key that this one does not have yet. */
function busyElsewhere(error: unknown): 'busy' {
  if (error instanceof StageError && error.code === 'temporarily_unavailable') return 'busy';
  throw error;
}

async function askWith(asking: AskingAbout, { id, person, sealed_grant }: Kept): Promise<AskedAbout> {
  const { identity, log } = asking;
  const grant = (await identity.tokens.open(sealed_grant, 'provider-grant').catch(async (error) => {
    await identity.sessions.abandonRefresh(id);
    throw error;
  })) as ProviderGrant | undefined;
  if (grant === undefined || !identity.isVerified(person)) {
    await identity.sessions.abandonRefresh(id);
    return 'unaskable';
  }
  try {
    const { claims, grant: next } = await identity.provider.recheck(grant);
    const sealed = await identity.tokens.seal(next, 'provider-grant');
    return await noteAnswer(asking, { id, person, sealed_grant: sealed }, claims);
  } catch (error) {
    if (!(error instanceof ProviderError)) throw error;
    const fields = { email: person.email, session: id, reason: error.message };
    if (error.problem === 'refused') {
      await identity.sessions.end(id, 'the identity provider refused to renew it');
      log.info(fields, 'the identity provider refused to renew a session, so it was ended');
      return 'refused';
    }
    const replaced = error.grant && (await identity.tokens.seal(error.grant, 'provider-grant'));
    await identity.sessions.abandonRefresh(id, replaced);
    if (error.problem === 'unaskable') return 'unaskable';
    log.warn(fields, 'the identity provider gave no usable answer about somebody: nothing changes for them');
    return 'unavailable';
  }
}

type Claims = Parameters<Identity['admit']>[0];

async function noteAnswer(
  asking: AskingAbout,
  { id, person: former, sealed_grant }: Kept,
  claims: Claims,
): Promise<AskedAbout> {
  const { identity, database, clock, log } = asking;
  const admission = identity.admit(claims);
  if ('refused' in admission) {
    const { refused, detail } = admission;
    await deprovisionAsRefused(asking, { session: { id, person: former }, admission, when: ASKED });
    log.info({ email: former.email, session: id, refused, detail }, 'somebody may not use the gateway any more');
    return 'not_admitted';
  }
  const { person } = admission;
  const is_same = person.subject === former.subject && person.issuer === former.issuer && person.email === former.email;
  const [row] = is_same
    ? await database.query<{ noted: boolean }>('session_checked', 'select note_checked($1, $2, $3, $4) as noted', [
        id,
        storableJson(person),
        sealed_grant,
        new Date(clock.now()),
      ])
    : [];
  if (row?.noted !== true) {
    await identity.sessions.end(id, 'it belongs to another identity now');
    return 'unaskable';
  }
  await endTokensTheyLost(asking, person);
  return 'verified';
}

/** Somebody who was let in, and is not any more. */
interface NotAdmitted {
  readonly session: Pick<Kept, 'id' | 'person'>;
  readonly admission: Exclude<Admission, { person: Person }>;
  /** At what it was found out, for administrators. */
  readonly when: string;
  /** Absent where nobody asked but the gateway itself. */
  readonly request?: Pick<RefusedSignIn, 'client_address' | 'request_id'>;
}

/**
 * Ends all sessions of somebody who is not admitted any more, suspends what they made themselves, and notes why. Raises
 * store_unavailable.
 */
export async function deprovisionAsRefused(
  asking: Pick<AskingAbout, 'database' | 'clock' | 'identity' | 'log'>,
  not_admitted: NotAdmitted,
): Promise<{ readonly sessions: number }> {
  const { session, admission } = not_admitted;
  const actor = { kind: 'gateway', name: 'sign-in' } as const;
  const because = `no longer admitted (${admission.refused})`;
  const { email } = session.person;
  const { sessions } = await deprovision(asking, { user: email, actor, because, tokens: 'suspend' });
  await asking.identity.catchUp();
  await note(asking, not_admitted);
  return { sessions };
}

/** For "appscli sessions explain". What was decided does not depend on it. */
async function note(
  { database, clock, log }: Pick<AskingAbout, 'database' | 'clock' | 'log'>,
  { session: { id, person }, admission, when, request }: NotAdmitted,
): Promise<void> {
  try {
    const [row] = await database.query<{ client: string; client_address: string }>(
      'session_client',
      'select client, client_address from sessions where id = $1',
      [id],
    );
    const { refused, detail, misses } = admission;
    await noteRefusal(
      { database, clock },
      {
        email: person.email,
        subject: person.subject,
        issuer: person.issuer,
        client: row?.client ?? '',
        client_address: request?.client_address ?? row?.client_address ?? '',
        request_id: request?.request_id ?? '',
        refused,
        detail: `${when}: ${detail}`,
        groups: misses?.came ?? [],
        expected: misses?.expected ?? [],
      },
    );
  } catch (error) {
    log.warn({ err: error }, 'why somebody is not admitted any more could not be written down');
  }
}

/**
 * Suspends what somebody made themselves, on every replica within a second, until they are let in again. Raises
 * store_unavailable.
 * @returns whether it was not suspended before.
 */
export async function suspendPerson(
  { database, clock, identity, log }: Pick<AskingAbout, 'database' | 'clock' | 'identity' | 'log'>,
  email: string,
  because: string,
): Promise<boolean> {
  const [row] = await database.query<{ suspended: boolean }>(
    'person_suspend',
    'select suspend_person($1, $2, $3) as suspended',
    [storable(email), because, new Date(clock.now())],
  );
  if (!row!.suspended) return false;
  await identity.catchUp();
  log.info({ email, because }, 'the access tokens that somebody made are suspended until they sign in again');
  return true;
}
