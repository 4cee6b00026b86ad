import type { GatewayConfig, OidcConfig } from '../../../base/contract/config.ts';
import { storable, storableJson } from '../../../base/kit/storable.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Changing } from '../../audit/index.ts';
import {
  IN_FORCE,
  OWN_TOKENS,
  type OwnerStatus,
  type OwnTokens,
  withOwnTokens,
} from '../deprovisioning/deprovision.ts';
import { isVerified, type Person } from '../provider/admit.ts';

/** Who has the address of an account: another one, or tokens that administrators made before its first sign-in. */
export type ClaimProblem = 'other_account' | 'other_provider' | 'administrator_made';

/** Checks whether an account may have its address; `undefined` if so. Raises store_unavailable. */
export async function claimProblem(
  database: Pick<Database, 'query'>,
  person: Person,
): Promise<ClaimProblem | undefined> {
  const [row] = await database.query<{ problem: ClaimProblem | null }>(
    'person_claim',
    'select account_problem($1) as problem',
    [storableJson(person)],
  );
  return row!.problem ?? undefined;
}

/** A known person, and the account of the identity provider bound to their address. */
export interface KnownPerson extends OwnTokens {
  readonly email: string;
  readonly name: string | null;
  readonly groups: readonly string[];
  readonly issuer: string | null;
  /** The provider's identifier of the account; `null` before the first sign-in. */
  readonly subject: string | null;
  readonly signed_in_at: Date | null;
  /** Whether the next account that signs in with the address is bound to it. */
  readonly open_to_sign_in: boolean;
  readonly has_given_tokens: boolean;
  readonly tokens: number;
  readonly client_sessions: number;
  readonly console_sessions: number;
  readonly refused_at: Date | null;
}

export interface PeopleFilter {
  readonly user?: string | undefined;
  /** Part of an address or a name, any case. */
  readonly search?: string | undefined;
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

/** Lists people by address. Raises store_unavailable. */
export async function listPeople(
  { database, clock, config }: Pick<Changing, 'database' | 'clock'> & { readonly config: Pick<GatewayConfig, 'auth'> },
  only: PeopleFilter = {},
): Promise<KnownPerson[]> {
  const now = clock.now();
  const rows = await database.query<Omit<KnownPerson, keyof OwnTokens> & OwnerStatus & { own_tokens: number }>(
    'people_list',
    `select p.email, p.name, p.groups, p.issuer, p.subject, p.signed_in_at, p.open_to_sign_in,
       exists (select from access_tokens t where t.principal_id = p.id and not t.self_service) as has_given_tokens,
       (select count(*) from access_tokens t where t.principal_id = p.id and ${IN_FORCE('$2')})::integer as tokens,
       coalesce(s.client_sessions, 0) as client_sessions, coalesce(s.console_sessions, 0) as console_sessions,
       (select max(r.at) from refused_sign_ins r where r.email = p.email) as refused_at,
       ${OWN_TOKENS('$2')}
     from principals p left join lateral (
       select (count(*) filter (where s.kind = 'client'))::integer as client_sessions,
         (count(*) filter (where s.kind = 'console'))::integer as console_sessions
       from sessions s where s.principal_id = p.id and s.revoked_at is null and s.expires_at > $2
     ) s on true
     where ($1::text is null or p.email = $1)
       and ($3::text is null or strpos(p.email, $3) > 0 or strpos(lower(p.name), $3) > 0)
       and ($4::text is null or p.email > $4)
     order by p.email limit $5`,
    [textOf(only.user), new Date(now), textOf(only.search), textOf(only.after), only.limit ?? null],
  );
  return rows.map((row) => withOwnTokens(row, now, config));
}

function textOf(value: string | undefined): string | null {
  return value === undefined ? null : storable(value.toLowerCase());
}

/** The account to bind to an address, and what to do with its access tokens. */
export interface RebindRequest {
  /** Identifier of the account at the configured identity provider; absent: the next one to sign in with the address. */
  readonly subject?: string | undefined;
  /** Absent: revoked if another account of the same provider had the address, since it may be another person's now. */
  readonly tokens?: 'keep' | 'revoke' | undefined;
}

/** Binds an address to another account of the provider; its sessions end within a second. Returns what was ended. Raises store_unavailable. */
export async function rebindAs(
  { database, clock, actor }: Pick<Changing, 'database' | 'clock' | 'actor'>,
  { email: user, issuer, subject: former }: Pick<KnownPerson, 'email' | 'issuer' | 'subject'>,
  { subject, tokens }: RebindRequest,
  oidc: Pick<OidcConfig, 'issuer_url'> | undefined,
): Promise<{ readonly user: string; readonly sessions: number; readonly tokens: number }> {
  const account =
    subject === undefined || oidc === undefined ? undefined : { issuer: new URL(oidc.issuer_url).href, subject };
  const may_be_another_person =
    issuer !== null && (oidc === undefined || isVerified({ issuer }, oidc)) && former !== subject;
  const with_tokens = tokens === undefined ? may_be_another_person : tokens === 'revoke';
  const [ended] = await database.query<{ sessions: number; tokens: number }>(
    'person_rebind',
    'select sessions, tokens from rebind_person($1, $2, $3, $4, $5, $6, $7)',
    [
      storable(user.toLowerCase()),
      account?.issuer ?? null,
      account === undefined ? null : storable(account.subject),
      with_tokens,
      actor.kind,
      actor.name,
      new Date(clock.now()),
    ],
  );
  return { user, ...ended! };
}
