import { StageError } from '../../../base/contract/errors.ts';
import { everyInBackground } from '../../../base/kit/clock.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import type { Background } from '../background.ts';
import type { Identity } from '../identity.ts';
import { ProviderError, type ProviderGrant } from '../provider/provider.ts';
import type { Revocations } from '../sessions/sessions.ts';

const INTERVAL_MS = 600_000;
const CLOSE_TIMEOUT_MS = 500;
const MAX_REVOKED = 200;
/** After a retry, a grant is left to expire at the provider. */
const MAX_ATTEMPTS = 2;

interface Due {
  readonly session_id: string;
  readonly issuer: string;
  readonly sealed_grant: string;
  readonly attempts: number;
}

/*
 * Does not revoke while the account has another session: some providers then end all grants of the account for this client, or of
 * the browser.
 */
const TAKE = `
update ended_grants set attempts = attempts + 1, due_at = $2
where session_id = (
  select g.session_id from ended_grants g
  where g.due_at <= $1
    and not exists (
      select from sessions s
      where s.revoked_at is null and s.expires_at > $1
        and (s.principal_id = g.principal_id
          or s.principal_id in (select p.id from principals p where p.issuer = g.issuer and p.subject = g.subject)))
    and not exists (
      select from device_grants d
      where d.status = 'approved' and d.expires_at > $1
        and d.person ->> 'issuer' = g.issuer and d.person ->> 'subject' = g.subject)
  order by g.due_at limit 1 for update skip locked
)
returning session_id, issuer, sealed_grant, attempts`;

const EXPIRE = `
update sessions set sealed_grant = '' where ctid in (
  select ctid from sessions where expires_at <= $1 and revoked_at is null and sealed_grant <> '' limit 1000
  for update skip locked)`;

/** Starts the revocation of grants of ended sessions at the identity provider (RFC 7009): at once, with a retry after ten minutes. */
export function startEndedGrants(options: Background & { readonly revocations: Pick<Revocations, 'onRevoked'> }) {
  const { database, revocations, clock, log, every = everyInBackground } = options;
  let identity: Pick<Identity, 'provider' | 'tokens' | 'isVerified'> | undefined;
  let revoking: Promise<void> | undefined;
  let again = false;
  let closed = false;

  const take = async (): Promise<Due | undefined> => {
    const now = clock.now();
    const [due] = await database.query<Due>('ended_grant_take', TAKE, [new Date(now), new Date(now + INTERVAL_MS)]);
    return due;
  };

  const revoke = async ({ session_id, issuer, sealed_grant, attempts }: Due): Promise<boolean> => {
    // A grant of another provider is not sent to this one.
    if (identity === undefined || !identity.isVerified({ issuer })) return true;
    try {
      const grant = (await identity.tokens.open(sealed_grant, 'provider-grant')) as ProviderGrant | undefined;
      if (grant === undefined) return true;
      const revoked = await identity.provider.revoke(grant);
      if (revoked) log.debug({ session: session_id }, 'revoked the grant of an ended session at the identity provider');
      return true;
    } catch (error) {
      if (error instanceof StageError && error.code === 'temporarily_unavailable') {
        // A replica with the key still has both attempts.
        const untried = 'update ended_grants set attempts = attempts - 1 where session_id = $1';
        await database.query('ended_grant_untried', untried, [session_id]);
        return false;
      }
      if (!(error instanceof ProviderError)) throw error;
      const last = attempts >= MAX_ATTEMPTS;
      const fields = { session: session_id, reason: error.message };
      log.warn(fields, `could not revoke the grant of an ended session${last ? '' : '; will retry'}`);
      return last;
    }
  };

  const revokeAll = async () => {
    try {
      for (let revoked = 0; revoked < MAX_REVOKED && !closed; revoked++) {
        const due = await take();
        if (due === undefined) return;
        if (await revoke(due)) {
          await database.query('ended_grant_done', 'delete from ended_grants where session_id = $1', [due.session_id]);
        }
      }
    } catch (error) {
      log.debug({ err: error }, 'could not revoke grants of ended sessions at the identity provider');
    }
  };
  const begin = (): Promise<void> => {
    again = true;
    revoking ??= (async () => {
      // A session may have ended during the run.
      while (again && !closed) {
        again = false;
        await revokeAll();
      }
    })().finally(() => {
      revoking = undefined;
    });
    return revoking;
  };
  const sweep = async () => {
    try {
      await database.query('sessions_expire', EXPIRE, [new Date(clock.now())]);
    } catch (error) {
      log.debug({ err: error }, 'could not erase the grants of expired sessions');
    }
    await begin();
  };
  const stop = every(INTERVAL_MS, sweep);
  const forget = revocations.onRevoked(() => void begin());

  return {
    use(next: typeof identity) {
      identity = next;
    },
    sweep,
    async close() {
      stop();
      forget();
      closed = true;
      if (revoking !== undefined) await waitAtMost(CLOSE_TIMEOUT_MS, revoking);
    },
  };
}
