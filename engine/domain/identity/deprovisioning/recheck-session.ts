import type { GatewayConfig } from '../../../base/contract/config.ts';
import { StageError } from '../../../base/contract/errors.ts';
import type { Telemetry } from '../../../base/contract/telemetry.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import type { Background } from '../background.ts';
import type { Identity } from '../identity.ts';
import type { Admission, Person } from '../provider/admit.ts';
import { type Identified, ProviderError, type ProviderGrant } from '../provider/provider.ts';
import { noteRefusal, type RefusedSignIn } from '../provider/refused-sign-ins.ts';
import type { TakenSession } from '../sessions/sessions.ts';
import { noteOwners } from '../tokens/service-tokens.ts';
import { endTokensTheyLost } from '../tokens/tokens.ts';
import { deprovision, IN_FORCE, reportOwnChange, verifiedDays } from './deprovision.ts';

export interface AccountCheckContext extends Omit<Background, 'every'> {
  readonly config: GatewayConfig;
  readonly identity: Identity;
  readonly telemetry: Pick<Telemetry, 'operation'>;
}

interface Occasion {
  readonly when: string;
  /** Absent for checks by the gateway itself. */
  readonly request?: Pick<RefusedSignIn, 'client_address' | 'request_id'>;
}

/**
 * Result of a check. `stays`: the session stays, still locked. Unlocked: `unreadable`: no key decrypts its grant; `other_provider`:
 * its grant is of a former identity provider; `unaskable`: it has no usable grant; `unavailable`: no usable response. Ended: `refused`
 * by the provider; `not_admitted` by the configuration: the person was deprovisioned; `other_identity`: it is another person now.
 */
export type Rechecked =
  | { readonly outcome: 'stays'; readonly person: Person; readonly sealed_grant: string }
  | { readonly outcome: 'unreadable' | 'other_provider' | 'other_identity' }
  | { readonly outcome: 'unavailable'; readonly error: ProviderError }
  | { readonly outcome: 'unaskable' | 'refused'; readonly error: ProviderError }
  | { readonly outcome: 'not_admitted'; readonly message: string };

/** Checks the person of a session. Raises store_unavailable, temporarily_unavailable. */
export async function recheckSession(
  context: AccountCheckContext,
  taken: TakenSession,
  occasion: Occasion,
): Promise<Rechecked> {
  const { tokens, provider, isVerified } = context.identity;
  try {
    const grant = (await tokens.open(taken.sealed_grant, 'provider-grant')) as ProviderGrant | undefined;
    // A grant of another provider is not sent to this one.
    if (grant !== undefined && isVerified(taken.person)) {
      return await decide(context, taken, occasion, await provider.recheck(grant));
    }
    await giveBack(context, taken);
    return { outcome: grant === undefined ? 'unreadable' : 'other_provider' };
  } catch (error) {
    if (error instanceof ProviderError && error.problem === 'refused') {
      await endAsRefused(context, taken, error);
      return { outcome: 'refused', error };
    }
    const replaced = error instanceof ProviderError ? error.grant : undefined;
    // The lock expires by itself; the caller gets the first error.
    await giveBack(context, taken, replaced).catch(() => {});
    if (!(error instanceof ProviderError)) throw error;
    return { outcome: error.problem === 'unaskable' ? 'unaskable' : 'unavailable', error };
  }
}

const NOT_RENEWED = 'The identity provider did not renew your sign-in; sign in again.';

/**
 * Ends what a failed recheck left of a session, whose person must sign in again. Returns a sentence for them. Raises
 * store_unavailable.
 */
export async function endUnrenewed(
  context: AccountCheckContext,
  taken: TakenSession,
  rechecked: Exclude<Rechecked, { outcome: 'stays' | 'unavailable' }>,
): Promise<string> {
  switch (rechecked.outcome) {
    case 'unreadable':
      // The session stays: the key may come back, for example when a failed update is undone.
      return 'The keys of the gateway were changed; sign in again.';
    case 'other_provider':
      await context.identity.sessions.end(taken.id, 'the identity provider was changed');
      return 'The identity provider of this gateway was changed; sign in again.';
    case 'other_identity':
      return 'The identity provider now reports another identity for you; sign in again.';
    case 'not_admitted':
      return rechecked.message;
    case 'refused': {
      // Unless another session still verifies the person.
      const checked = await checkAccount(context, taken.person.email);
      if (checked !== 'verified' && checked !== 'not_admitted') await suspendAsRefused(context, taken.person.email);
      return NOT_RENEWED;
    }
    case 'unaskable':
      await endAsRefused(context, taken, rechecked.error);
      return NOT_RENEWED;
  }
}

async function endAsRefused(
  { identity, log }: AccountCheckContext,
  { id, person }: TakenSession,
  { message }: ProviderError,
): Promise<void> {
  await identity.sessions.end(id, 'the identity provider did not renew it');
  const fields = { email: person.email, session: id, reason: message };
  log.info(fields, 'ended a session that the identity provider did not renew');
}

async function decide(
  context: AccountCheckContext,
  { id, person: former }: TakenSession,
  occasion: Occasion,
  { claims, grant, scopes }: Identified,
): Promise<Rechecked> {
  const { identity } = context;
  const sealed_grant = await identity.tokens.seal(grant, 'provider-grant');
  const admission = identity.admit(claims, scopes);
  if ('person' in admission) {
    const { person } = admission;
    const { subject, issuer, email } = person;
    const is_same = subject === former.subject && issuer === former.issuer && email === former.email;
    if (is_same) return { outcome: 'stays', person, sealed_grant };
  }
  // Stores the newest grant, so that this one is revoked.
  await identity.sessions.abandonRefresh(id, sealed_grant);
  if ('person' in admission) {
    await identity.sessions.end(id, 'it belongs to another identity now');
    return { outcome: 'other_identity' };
  }
  await deprovisionAsRefused(context, { id, person: former }, admission, occasion);
  return { outcome: 'not_admitted', message: admission.message };
}

async function giveBack({ identity }: AccountCheckContext, { id }: TakenSession, grant?: ProviderGrant): Promise<void> {
  await identity.sessions.abandonRefresh(id, grant && (await identity.tokens.seal(grant, 'provider-grant')));
}

/** Ends the sessions of a person who is no longer admitted, and suspends their personal tokens until they are admitted again. */
async function deprovisionAsRefused(
  context: AccountCheckContext,
  { id, person: { email, subject, issuer } }: Pick<TakenSession, 'id' | 'person'>,
  { refused, detail, misses }: Exclude<Admission, { person: Person }>,
  { when, request }: Occasion,
): Promise<void> {
  const { database, identity, log } = context;
  const actor = { kind: 'gateway', name: 'sign-in' } as const;
  const because = `no longer admitted (${refused})`;
  const { sessions } = await deprovision(context, { user: email, actor, because, tokens: 'suspend' });
  reportOwnChange(context, 'person.deprovision');
  await identity.catchUp();
  const groups = misses?.came ?? [];
  log.info(
    { email, session: id, refused, detail, groups, sessions },
    'deprovisioned a person who is no longer admitted',
  );
  const [row] = await database
    .query<{ client: string; client_address: string }>(
      'session_client',
      'select client, client_address from sessions where id = $1',
      [id],
    )
    .catch(() => []);
  await noteRefusal(context, {
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
 * Result of a check of a person. `verified`: recorded. `not_admitted` by the configuration: deprovisioned. `refused` by the
 * provider. `unaskable`: no usable grant. `busy`: a renewal is in progress, which checks as well. `unavailable`: no usable response.
 */
export type AccountCheck = 'verified' | 'not_admitted' | 'refused' | 'unaskable' | 'busy' | 'unavailable';

/** Longest lock on a session if this process ends during a check. */
const TAKEN_MS = 60_000;
const RANK: readonly AccountCheck[] = ['unaskable', 'refused', 'busy', 'unavailable'];

/** Checks a person with the grants of their sessions until one verifies them. A rejected session ends. Raises store_unavailable. */
export async function checkAccount(context: AccountCheckContext, email: string): Promise<AccountCheck> {
  const { database, clock } = context;
  const sessions = await database.query<{ id: string }>(
    'sessions_to_ask_with',
    `select id from sessions where principal_id = $1 and revoked_at is null and expires_at > $2
     order by checked_at desc, id`,
    [`user:${storable(email)}`, new Date(clock.now())],
  );
  let result: AccountCheck = 'unaskable';
  for (const { id } of sessions) {
    const taken = await takeSession(context, id);
    const answer = taken === undefined ? 'busy' : await checkWithSession(context, taken).catch(busyElsewhere);
    if (answer === 'verified' || answer === 'not_admitted') return answer;
    if (RANK.indexOf(answer) > RANK.indexOf(result)) result = answer;
  }
  return result;
}

/** Locks a session for a check; `undefined` if it is locked already. Raises store_unavailable. */
export async function takeSession(
  { database, clock }: AccountCheckContext,
  id: string,
): Promise<TakenSession | undefined> {
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

/** Another replica has the key that this one lacks. */
function busyElsewhere(error: unknown): 'busy' {
  if (error instanceof StageError && error.code === 'temporarily_unavailable') return 'busy';
  throw error;
}

async function checkWithSession(context: AccountCheckContext, taken: TakenSession): Promise<AccountCheck> {
  const rechecked = await recheckSession(context, taken, { when: 'when the identity provider was queried about them' });
  const { outcome } = rechecked;
  if (outcome === 'stays') return noteVerified(context, { id: taken.id, ...rechecked });
  if (outcome === 'unavailable') {
    const fields = { email: taken.person.email, session: taken.id, reason: rechecked.error.message };
    context.log.warn(fields, 'the identity provider returned no usable response about a person; nothing was changed');
  }
  return outcome === 'unavailable' || outcome === 'refused' || outcome === 'not_admitted' ? outcome : 'unaskable';
}

/** Records a verification; `unaskable` if the session or address is no longer the person's. */
export async function noteVerified(
  context: AccountCheckContext,
  { id, person, sealed_grant }: TakenSession,
): Promise<AccountCheck> {
  const { identity, database, clock } = context;
  const values = [id, storableJson(person), sealed_grant, new Date(clock.now())];
  const text = 'select note_checked($1, $2, $3, $4) as noted';
  const [row] = await database.query<{ noted: boolean }>('session_checked', text, values);
  if (!row!.noted) {
    await identity.sessions.end(id, 'it belongs to another identity now');
    return 'unaskable';
  }
  await endTokensTheyLost(context, person);
  return 'verified';
}

/** Suspends the personal tokens of a person, on every replica within a second, until they are admitted again. Raises store_unavailable. */
async function suspendAsRefused(context: AccountCheckContext, email: string): Promise<void> {
  const { database, clock, identity, log } = context;
  const because = 'the identity provider did not renew the sign-in';
  const [row] = await database.query<{ suspended: boolean }>(
    'person_suspend',
    'select suspend_person($1, $2, $3) as suspended',
    [storable(email), because, new Date(clock.now())],
  );
  if (!row!.suspended) return;
  reportOwnChange(context, 'person.suspend');
  await identity.catchUp();
  log.info({ email, because }, 'suspended the personal access tokens of a person until they sign in again');
}

const MINUTE_MS = 60_000;
/** Polls per check interval, so that checks are hardly late. */
const LOOKS_PER_INTERVAL = 4;
const AT_ONCE = 20;

const HAS_OWN_TOKENS = `(exists (select from access_tokens t where t.principal_id = p.id and t.self_service and ${IN_FORCE('$1')})
  or exists (select from service_tokens t where t.owner_id = p.id and t.revoked_at is null and t.expires_at > $1))`;

/** Checks people with personal tokens; replicas share the work. An outage of the provider changes nothing. */
export function startAccountChecks(
  options: Omit<AccountCheckContext, 'config' | 'identity'> & {
    signIn(): Pick<AccountCheckContext, 'config'> & { readonly identity: Identity | undefined };
  },
) {
  const { database, clock, log, telemetry, signIn } = options;
  let closed = false;
  let checking: Promise<void> | undefined;

  const check = () => {
    checking ??= checkAll(() => closed)
      .catch((error) => log.debug({ err: error }, 'could not check all people due'))
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
    const context = { config, identity, database, clock, log, telemetry };
    let is_away = false;
    let checked = 0;
    while (!is_away) {
      const due = await takeDue(interval_ms);
      if (due.length === 0) break;
      while (due.length > 0 && !isOver() && !is_away) {
        // A person without a response waits for an interval, so that a person who never gets one does not delay others.
        const email = due.shift()!;
        const answer = await checkAndReport(context, email);
        checked++;
        is_away = answer === 'unavailable';
        if (answer === 'refused') await suspendAsRefused(context, email);
      }
      if (due.length > 0) await putBack(due);
      if (isOver()) return;
    }
    await noteOwners({ database, clock, log }, { admin_groups: config.auth.admin_groups ?? [], days });
    await putOffSuspension(identity, { days, until: clock.now() + 2 * interval_ms, is_away });
    log.debug({ checked }, 'checked people who were due');
  }

  async function checkAndReport(context: AccountCheckContext, email: string): Promise<AccountCheck> {
    const began_at = clock.now();
    const began = clock.monotonic();
    const answer = await checkAccount(context, email);
    const attributes = { 'gateway.account_check.outcome': answer };
    const duration_ms = clock.monotonic() - began;
    telemetry.operation({ name: 'gateway.account_check', attributes, began_at, duration_ms });
    return answer;
  }

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

  async function putBack(emails: readonly string[]): Promise<void> {
    await database.query('people_not_asked', 'update principals set asked_at = null where email = any($1)', [emails]);
  }

  /** During an outage of the provider: postpones suspensions for a missing verification. */
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
    log.warn({}, 'the identity provider returns no usable response: suspensions of access tokens are postponed');
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
