import type { GatewayConfig } from '../../contract/config.ts';
import type { Clock, Log } from '../../contract/services.ts';
import type { Telemetry } from '../../contract/telemetry.ts';
import type { Database } from '../../store/database.ts';
import type { Identity } from '../index.ts';
import { ProviderError } from '../provider/provider.ts';
import { noteOwners } from '../tokens/service-tokens.ts';
import { type AskedAbout, askAbout, suspendPerson } from './ask-about.ts';
import type { AskingAbout } from './recheck-session.ts';
import { verifiedDays } from './suspension.ts';

const MINUTE_MS = 60_000;
/** Looking more often than asking: nobody is asked about much later than the interval says. */
const LOOKS_PER_INTERVAL = 4;
const AT_ONCE = 20;

const HAS_OWN_TOKENS = `(exists (select from access_tokens t where t.principal_id = p.id and t.self_service
  and t.revoked_at is null and (t.expires_at is null or t.expires_at > $1))
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
    const interval_ms = config.auth.self_made_tokens.check_minutes * MINUTE_MS;
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
      if (due.length > 0) await giveBack(due);
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
  async function giveBack(emails: readonly string[]): Promise<void> {
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
    const minutes = signIn().config.auth?.self_made_tokens.check_minutes ?? LOOKS_PER_INTERVAL;
    timer = clock.after(Math.max(1000, (minutes * MINUTE_MS) / LOOKS_PER_INTERVAL), tick);
    timer.unref();
    if (checking === undefined) setImmediate(() => !closed && void check());
  }

  return {
    /** Asks about everybody who is due. A timer calls it; so may a test. Never rejects. */
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
