import { StageError } from '../../contract/errors.ts';
import type { Clock } from '../../contract/services.ts';
import { createGroupCommit } from '../../kit/group-commit.ts';
import type { Database } from '../../store/database.ts';
import { SERVICE_TOKEN_COLUMNS, SERVICE_TOKENS_FROM, type ServiceToken, showServiceToken } from './service-tokens.ts';
import { hashToken, isWellFormedServiceToken } from './token-format.ts';

/**
 * Finds the service token behind a credential; its use is written down. Raises credential_invalid, credential_expired,
 * credential_revoked, store_unavailable.
 */
export type VerifyServiceToken = (text: string) => Promise<ServiceToken>;

const MAX_BATCH = 100;

/** Verification that asks the database each time, by two statements at once at most: made-up tokens keep nobody else waiting. */
export function createServiceTokenVerifier({
  database,
  clock,
}: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Pick<Clock, 'now'>;
}): VerifyServiceToken {
  const lookups = createGroupCommit<string, ServiceToken | undefined>({
    lanes: 2,
    max_items: MAX_BATCH,
    isolates: () => false,
    async execute(hashes) {
      const rows = await database.query<ServiceToken & { readonly hash: string }>(
        'service_token_lookup',
        // What another replica is just noting needs no second note, nor a wait for it.
        `with asked as (select array(select decode(h, 'base64') from unnest($1::text[]) h) as hashes), used as (
           update service_tokens set last_used_at = $2 where id in (
             select s.id from service_tokens s, asked where s.hash = any (asked.hashes)
               and (s.last_used_at is null or s.last_used_at < $2::timestamptz - interval '1 minute')
             for no key update of s skip locked
           )
         )
         select encode(t.hash, 'base64') as hash, ${SERVICE_TOKEN_COLUMNS} from ${SERVICE_TOKENS_FROM}, asked
         where t.hash = any (asked.hashes)`,
        [hashes, new Date(clock.now())],
      );
      const by_hash = new Map(rows.map(({ hash, ...token }) => [hash, token]));
      return hashes.map((hash) => by_hash.get(hash));
    },
  });
  return async (text) => {
    if (!isWellFormedServiceToken(text)) {
      throw new StageError('credential_invalid', 'The service token is malformed. Copy it again as a whole.');
    }
    const token = await lookups.run(hashToken(text));
    if (token === undefined)
      throw new StageError('credential_invalid', 'This gateway does not know the service token.');
    demandInForce(token, clock.now());
    return token;
  };
}

function demandInForce(token: ServiceToken, now: number): void {
  const { name, id, owner } = token;
  const called = `The service token "${name}" (${id})`;
  switch (showServiceToken(token, now).state) {
    case 'revoked':
      throw new StageError('credential_revoked', `${called} was revoked on ${token.revoked_at?.toISOString()}.`);
    case 'expired':
      throw new StageError('credential_expired', `${called} expired on ${token.expires_at.toISOString()}.`);
    case 'suspended':
      throw new StageError(
        'credential_revoked',
        `${called} is suspended: ${owner}, who answered for it, is no administrator any more. An administrator takes it over with "appscli service-tokens rotate ${id}".`,
      );
    default:
  }
}
