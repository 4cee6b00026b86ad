import type { Clock, Log } from '../../contract/services.ts';
import { storable } from '../../kit/storable.ts';
import type { Database } from '../../store/database.ts';
import type { ClaimProblem } from '../sessions/bindings.ts';
import type { AdmissionProblem } from './claim-values.ts';

/** Somebody who was turned away, and why. It holds the groups that came and no other claim, and no token. */
export interface RefusedSignIn {
  readonly at: Date;
  /** Lower case; empty where the provider told none. */
  readonly email: string;
  readonly subject: string | null;
  readonly issuer: string | null;
  readonly client: string;
  readonly client_address: string;
  readonly request_id: string;
  readonly refused: AdmissionProblem | ClaimProblem;
  /** A sentence for an administrator. */
  readonly detail: string;
  /** Groups that came, the likeliest first. */
  readonly groups: readonly string[];
  /** Groups that are let in, where none of them came. */
  readonly expected: readonly string[];
}

/** How many are kept of one address, and of all. */
const KEPT_EACH = 10;
const KEPT_ALL = 5000;
const MAX_CHARS = 300;

const COLUMNS = 'at, email, subject, issuer, client, client_address, request_id, refused, detail, groups, expected';

interface Noting {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * Writes down that somebody was turned away, for "appscli sessions explain"; the oldest give way. Never rejects: trouble is
 * logged, for a refusal does not wait for a database that has no room for it.
 */
export async function noteRefusal(noting: Noting, refused: Omit<RefusedSignIn, 'at'>): Promise<void> {
  try {
    await insertRefusal(noting, refused);
  } catch (error) {
    noting.log.warn({ err: error }, 'a refused sign-in could not be written down');
  }
}

async function insertRefusal({ database, clock }: Noting, refused: Omit<RefusedSignIn, 'at'>): Promise<void> {
  const text = (value: string) => storable(value.slice(0, MAX_CHARS));
  const { subject, issuer, groups, expected } = refused;
  await database.query(
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
}

/** Who was turned away lately, the newest first. Raises store_unavailable. */
export function listRefusals(
  database: Pick<Database, 'query'>,
  only: { readonly user?: string | undefined } = {},
): Promise<RefusedSignIn[]> {
  return database.query<RefusedSignIn>(
    'refused_list',
    `select ${COLUMNS} from refused_sign_ins where $1::text is null or email = $1 order by id desc limit 1000`,
    [only.user === undefined ? null : storable(only.user.toLowerCase())],
  );
}
