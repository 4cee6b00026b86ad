import { StageError } from '../../contract/errors.ts';
import { storable, storableJson } from '../../kit/storable.ts';
import { endTokensTheyLost } from '../tokens/self-made-tokens.ts';
import { type AskingAbout, recheckSession, type TakenSession } from './recheck-session.ts';
import { tellOwnChange } from './tell-change.ts';

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
    const taken = await takeSession(asking, id);
    const answer = taken === undefined ? 'busy' : await askWith(asking, taken).catch(busyElsewhere);
    if (answer === 'verified' || answer === 'not_admitted') return answer;
    if (RANK.indexOf(answer) > RANK.indexOf(said)) said = answer;
  }
  return said;
}

/** Takes a session, which is given back when the provider was asked; `undefined` while another has it. Raises store_unavailable. */
export async function takeSession({ database, clock }: AskingAbout, id: string): Promise<TakenSession | undefined> {
  const now = clock.now();
  const [taken] = await database.query<TakenSession>(
    'session_claim',
    `update sessions set refreshing_until = $2
     where id = $1 and revoked_at is null and (refreshing_until is null or refreshing_until <= $3)
     returning id, person, sealed_grant`,
    [id, new Date(now + TAKEN_MS), new Date(now)],
  );
  return taken;
}

/** Another replica can ask: it has the key that this one does not have yet. */
function busyElsewhere(error: unknown): 'busy' {
  if (error instanceof StageError && error.code === 'temporarily_unavailable') return 'busy';
  throw error;
}

async function askWith(asking: AskingAbout, taken: TakenSession): Promise<AskedAbout> {
  const rechecked = await recheckSession(asking, taken, { when: 'when the identity provider was asked about them' });
  switch (rechecked.outcome) {
    case 'stays':
      return noteVerified(asking, { id: taken.id, ...rechecked });
    case 'unavailable': {
      const fields = { email: taken.person.email, session: taken.id, reason: rechecked.error.message };
      asking.log.warn(fields, 'the identity provider gave no usable answer about somebody: nothing changes for them');
      return 'unavailable';
    }
    case 'refused':
    case 'not_admitted':
      return rechecked.outcome;
    default:
      return 'unaskable';
  }
}

/** Writes down that the provider verified somebody: `unaskable` where the session or the address is not theirs any more. */
export async function noteVerified(
  asking: AskingAbout,
  { id, person, sealed_grant }: TakenSession,
): Promise<AskedAbout> {
  const { identity, database, clock } = asking;
  const values = [id, storableJson(person), sealed_grant, new Date(clock.now())];
  const text = 'select note_checked($1, $2, $3, $4) as noted';
  const [row] = await database.query<{ noted: boolean }>('session_checked', text, values);
  if (!row!.noted) {
    await identity.sessions.end(id, 'it belongs to another identity now');
    return 'unaskable';
  }
  await endTokensTheyLost(asking, person);
  return 'verified';
}

/**
 * Suspends what somebody made themselves, on every replica within a second, until they are let in again. Raises
 * store_unavailable.
 */
export async function suspendPerson(
  asking: Omit<AskingAbout, 'config'>,
  email: string,
  because: string,
): Promise<void> {
  const { database, clock, identity, log } = asking;
  const [row] = await database.query<{ suspended: boolean }>(
    'person_suspend',
    'select suspend_person($1, $2, $3) as suspended',
    [storable(email), because, new Date(clock.now())],
  );
  if (!row!.suspended) return;
  tellOwnChange(asking, 'person.suspend');
  await identity.catchUp();
  log.info({ email, because }, 'the access tokens that somebody made are suspended until they sign in again');
}
