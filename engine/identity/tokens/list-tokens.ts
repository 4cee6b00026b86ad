import type { Database } from '../../store/database.ts';
import type { ShownState } from './shown-token.ts';
import { type KnownToken, SUMMARY } from './tokens.ts';

/** Which tokens are listed; every field that is present must match. */
export interface TokenFilter {
  /** E-mail address, any case. */
  readonly user?: string | undefined;
  readonly group?: string | undefined;
  /** `in_force`: those that have not ended, suspended ones among them. */
  readonly state?: ShownState | 'in_force' | undefined;
  /** Part of the name, the id, the first characters or the owner's address, any case. */
  readonly search?: string | undefined;
  /** Id of a token: only those after it. */
  readonly after?: string | undefined;
  readonly order?: 'oldest' | 'newest' | undefined;
  readonly limit?: number | undefined;
}

/** What states depend on. */
export interface StatesBy {
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** How long people count as verified, in days; `undefined`: without end. */
  readonly verified_days: number | undefined;
}

/** SQL: the state of a token `t` of an owner `p` as `showToken` tells it. */
const STATE = (now: string, verified_days: string) => `case
  when t.revoked_at is not null then 'revoked'
  when t.expires_at <= ${now} then 'expired'
  when t.self_service and (p.blocked_at is not null or (${verified_days}::integer is not null and ${now} >= greatest(
    coalesce(p.signed_in_at, t.created_at) + make_interval(hours => 24 * ${verified_days}::integer),
    p.suspension_put_off_until))) then 'suspended'
  when t.replaced_by is null then 'active'
  else 'replaced'
end`;

/** Tokens, the oldest first unless told otherwise. Raises store_unavailable. */
export function listTokens(
  database: Pick<Database, 'query'>,
  only: TokenFilter = {},
  states: StatesBy = { now: Date.now(), verified_days: undefined },
): Promise<KnownToken[]> {
  const newest_first = only.order === 'newest';
  const [after, direction] = newest_first ? ['<', 'desc'] : ['>', 'asc'];
  return database.query<KnownToken>(
    newest_first ? 'token_list_newest' : 'token_list',
    `select ${SUMMARY} from access_tokens t join principals p on p.id = t.principal_id
     where ($1::text is null or p.email = $1)
       and ($2::text is null or (t.created_at, t.id) ${after} (select created_at, id from access_tokens where id = $2))
       and ($4::text is null or t.token_group = $4)
       and ($5::text is null or position($5 in lower(concat_ws(chr(10), t.name, t.id, t.prefix, p.email))) > 0)
       and ($6::text is null
         or case when $6 = 'in_force' then ${IN_FORCE('$7')} else ${STATE('$7::timestamptz', '$8')} = $6 end)
     order by t.created_at ${direction}, t.id ${direction} limit $3`,
    [
      only.user?.toLowerCase() ?? null,
      only.after ?? null,
      only.limit ?? null,
      only.group ?? null,
      only.search?.toLowerCase() ?? null,
      only.state ?? null,
      new Date(states.now),
      states.verified_days ?? null,
    ],
  );
}

const IN_FORCE = (now: string) =>
  `t.revoked_at is null and (t.expires_at is null or t.expires_at > ${now}::timestamptz)`;

/** The tokens of one token group that have not ended. */
export interface GroupCount {
  readonly group: string;
  readonly in_force: number;
  /** Of these, refused until their owner is verified again. */
  readonly suspended: number;
  readonly last_used_at: Date | null;
}

/** Tokens that have not ended by token group, of one person where one is named. Raises store_unavailable. */
export function countByGroup(
  database: Pick<Database, 'query'>,
  { user }: Pick<TokenFilter, 'user'>,
  { now, verified_days }: StatesBy,
): Promise<GroupCount[]> {
  return database.query<GroupCount>(
    'token_groups_count',
    `select t.token_group as "group", count(*)::integer as in_force,
       (count(*) filter (where ${STATE('$2::timestamptz', '$3')} = 'suspended'))::integer as suspended,
       max(t.last_used_at) as last_used_at
     from access_tokens t join principals p on p.id = t.principal_id
     where ($1::text is null or p.email = $1) and ${IN_FORCE('$2')}
     group by 1 order by 1`,
    [user?.toLowerCase() ?? null, new Date(now), verified_days ?? null],
  );
}
