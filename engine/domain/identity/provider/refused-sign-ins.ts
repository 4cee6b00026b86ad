import { storable } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Background } from '../background.ts';
import type { ClaimProblem } from '../sessions/people.ts';
import type { AdmissionProblem } from './claims.ts';

/** A rejected sign-in. Of the claims it contains the groups only, and no token. */
export interface RefusedSignIn {
  readonly at: Date;
  /** Lower case; empty if the provider sent none. */
  readonly email: string;
  readonly subject: string | null;
  readonly issuer: string | null;
  readonly client: string;
  readonly client_address: string;
  readonly request_id: string;
  readonly refused: AdmissionProblem | ClaimProblem;
  readonly detail: string;
  readonly groups: readonly string[];
  readonly expected: readonly string[];
}

const KEPT_EACH = 10;
const KEPT_ALL = 5000;
const MAX_CHARS = 300;

const COLUMNS = 'at, email, subject, issuer, client, client_address, request_id, refused, detail, groups, expected';

/** Records a rejected sign-in for "appscli sessions explain"; the oldest are deleted. Errors are only logged. */
export async function noteRefusal(
  { database, clock, log }: Omit<Background, 'every'>,
  refused: Omit<RefusedSignIn, 'at'>,
): Promise<void> {
  const text = (value: string) => storable(value.slice(0, MAX_CHARS));
  const { subject, issuer, groups, expected } = refused;
  const noted = database.query(
    'refused_note',
    `with added as (
       insert into refused_sign_ins (${COLUMNS}) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) returning id
     )
     delete from refused_sign_ins r using added
     where r.id <= added.id - ${KEPT_ALL}
       or r.id in (select o.id from refused_sign_ins o where o.email = $2 order by o.id desc offset ${KEPT_EACH - 1})`,
    [
      new Date(clock.now()),
      text(refused.email.toLowerCase()),
      subject === null ? null : text(subject),
      issuer === null ? null : text(issuer),
      text(refused.client),
      text(refused.client_address),
      refused.request_id,
      refused.refused,
      storable(refused.detail.slice(0, 4 * MAX_CHARS)),
      groups.map(text),
      expected.map(text),
    ],
  );
  await noted.catch((error) => log.warn({ err: error }, 'could not record a rejected sign-in'));
}

/** Filter of rejections; every field that is present must match. */
export interface RefusalFilter {
  readonly user?: string | undefined;
  readonly since?: Date | undefined;
  readonly until?: Date | undefined;
}

const IS_MEANT = `($1::text is null or email = $1) and ($2::timestamptz is null or at >= $2)
  and ($3::timestamptz is null or at < $3)`;

function valuesOf({ user, since, until }: RefusalFilter): unknown[] {
  return [user === undefined ? null : storable(user.toLowerCase()), since ?? null, until ?? null];
}

/** Lists rejections, the newest first; `before`: id of a rejection, to list older ones. */
export function listRefusals(
  database: Pick<Database, 'query'>,
  filter: RefusalFilter = {},
  page: { readonly before?: number | undefined; readonly limit: number } = { limit: KEPT_ALL },
): Promise<(RefusedSignIn & { readonly id: number })[]> {
  return database.query(
    'refused_list',
    `select id, ${COLUMNS} from refused_sign_ins where ${IS_MEANT} and ($4::bigint is null or id < $4)
     order by id desc limit $5`,
    [...valuesOf(filter), page.before ?? null, page.limit],
  );
}

/** Counts the matching rejections. Raises store_unavailable. */
export async function countRefusals(database: Pick<Database, 'query'>, filter: RefusalFilter): Promise<number> {
  const [row] = await database.query<{ count: number }>(
    'refused_count',
    `select count(*) from refused_sign_ins where ${IS_MEANT}`,
    valuesOf(filter),
  );
  return row!.count;
}
