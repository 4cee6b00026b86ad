import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import type { Clock, Log } from '../../../base/contract/services.ts';
import type { Telemetry } from '../../../base/contract/telemetry.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Identity } from '../identity.ts';
import type { Admission, Person } from '../provider/admit.ts';
import { type Identified, ProviderError, type ProviderGrant } from '../provider/provider.ts';
import { noteRefusal, type RefusedSignIn } from '../provider/refused-sign-ins.ts';
import { noteOwners } from '../tokens/service-tokens.ts';
import { endTokensTheyLost } from '../tokens/tokens.ts';
import { deprovision, IN_FORCE, tellOwnChange, verifiedDays } from './deprovision.ts';

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
interface Occasion {
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

/**
 * What the identity provider says of somebody. `verified`: they may stay, which is written down. `not_admitted`: it knows them,
 * and the configuration does not let them in, so they are deprovisioned. `refused`: it says no. `unaskable`: there is nothing
 * to ask with. `busy`: a session is just being renewed, which tells. `unavailable`: it gave no usable answer.
 */
export type AskedAbout = 'verified' | 'not_admitted' | 'refused' | 'unaskable' | 'busy' | 'unavailable';

/** How long a session can't be renewed by its client at most when this process ends while it asks. */
const TAKEN_MS = 60_000;
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

const MINUTE_MS = 60_000;
/** Looking more often than asking: nobody is asked about much later than the interval says. */
const LOOKS_PER_INTERVAL = 4;
const AT_ONCE = 20;

const HAS_OWN_TOKENS = `(exists (select from access_tokens t where t.principal_id = p.id and t.self_service and ${IN_FORCE('$1')})
  or exists (select from service_tokens t where t.owner_id = p.id and t.revoked_at is null and t.expires_at > $1))`;

/**
 * Starts to ask about people whose access tokens outlive their use of the gateway: what they made is suspended when
 * the provider says no. Replicas share the work, and each person is asked about by one of them. While the provider is away
 * nothing changes for anybody, and tokens are not suspended because nobody could be verified.
 * @param options.signIn the configuration in force, and its sign-in; asked for each time.
 */
export function startAccountChecks(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly telemetry: Pick<Telemetry, 'operation'>;
  signIn(): { readonly config: GatewayConfig; readonly identity: Identity | undefined };
}) {
  const { database, clock, log, telemetry, signIn } = options;
  let closed = false;
  let checking: Promise<void> | undefined;

  const check = () => {
    checking ??= checkAll(() => closed)
      .catch((error) => log.debug({ err: error }, 'the identity provider was not asked about all people who were due'))
      .finally(() => {
        checking = undefined;
      });
    return checking;
  };

  async function checkAll(isOver: () => boolean): Promise<void> {
    const { config, identity } = signIn();
    const days = verifiedDays(config);
    if (identity === undefined || config.auth === undefined || days === undefined) return;
    const interval_ms = config.auth.personal_tokens.check_minutes * MINUTE_MS;
    const asking = { config, identity, database, clock, log, telemetry };
    let is_away = false;
    let asked = 0;
    while (!is_away) {
      const due = await takeDue(interval_ms);
      if (due.length === 0) break;
      while (due.length > 0 && !isOver() && !is_away) {
        // Whoever got no answer waits for an interval: one about whom there never is one must not keep the others waiting.
        const email = due.shift()!;
        const answer = await askAndTell(asking, email);
        asked++;
        is_away = answer === 'unavailable';
        if (answer === 'refused')
          await suspendPerson(asking, email, 'the identity provider refused to renew the sign-in');
      }
      if (due.length > 0) await putBack(due);
      if (isOver()) return;
    }
    await noteOwners({ database, clock, log }, { admin_groups: config.auth.admin_groups ?? [], days });
    await putOffSuspension(identity, { days, until: clock.now() + 2 * interval_ms, is_away });
    log.debug({ asked }, 'the identity provider was asked about people who were due');
  }

  async function askAndTell(asking: AskingAbout, email: string): Promise<AskedAbout> {
    const began_at = clock.now();
    const began = clock.monotonic();
    const answer = await askAbout(asking, email);
    const attributes = { 'gateway.account_check.outcome': answer };
    const duration_ms = clock.monotonic() - began;
    telemetry.operation({ name: 'gateway.account_check', attributes, began_at, duration_ms });
    return answer;
  }

  /** People who are due, so that no other replica asks about them. */
  async function takeDue(interval_ms: number): Promise<string[]> {
    const now = clock.now();
    const rows = await database.query<{ email: string }>(
      'people_due',
      `update principals set asked_at = $1 where id in (
         select p.id from principals p
         where p.blocked_at is null and p.signed_in_at <= $2 and (p.asked_at is null or p.asked_at <= $2)
           and ${HAS_OWN_TOKENS}
           and exists (select from sessions s where s.principal_id = p.id and s.revoked_at is null and s.expires_at > $1)
         order by p.signed_in_at limit ${AT_ONCE} for no key update skip locked
       ) returning email`,
      [new Date(now), new Date(now - interval_ms)],
    );
    return rows.map(({ email }) => email);
  }

  /** People who were not asked about after all are due again at the next look. */
  async function putBack(emails: readonly string[]): Promise<void> {
    await database.query('people_not_asked', 'update principals set asked_at = null where email = any($1)', [emails]);
  }

  /** Where the provider can't be asked: nobody's tokens are suspended until then because it verified nobody. */
  async function putOffSuspension(
    identity: Identity,
    { days, until, is_away }: { readonly days: number; readonly until: number; readonly is_away: boolean },
  ): Promise<void> {
    const soon = `from principals p where p.blocked_at is null and ${HAS_OWN_TOKENS}
      and greatest(p.signed_in_at + $3 * interval '1 day', p.suspension_put_off_until) > $1
      and greatest(p.signed_in_at + $3 * interval '1 day', p.suspension_put_off_until) <= $2`;
    const values = [new Date(clock.now()), new Date(until), days];
    const [row] = await database.query<{ some: boolean }>(
      'people_soon',
      `select exists (select ${soon}) as some`,
      values,
    );
    if (!row!.some || !(is_away || (await isAway(identity)))) return;
    await database.query(
      'people_put_off',
      `update principals set suspension_put_off_until = $2 where id in (select p.id ${soon})`,
      values,
    );
    log.warn({}, 'the identity provider gives no usable answer, so no access tokens are suspended for now');
  }

  let timer = clock.after(MINUTE_MS, tick);
  timer.unref();
  function tick(): void {
    const minutes = signIn().config.auth?.personal_tokens.check_minutes ?? LOOKS_PER_INTERVAL;
    timer = clock.after(Math.max(1000, (minutes * MINUTE_MS) / LOOKS_PER_INTERVAL), tick);
    timer.unref();
    if (checking === undefined) setImmediate(() => !closed && void check());
  }

  return {
    check,
    async close() {
      closed = true;
      timer.close();
      await checking;
    },
  };
}

async function isAway(identity: Identity): Promise<boolean> {
  try {
    await identity.provider.reach();
    return false;
  } catch (error) {
    if (error instanceof ProviderError) return true;
    throw error;
  }
}
