import type { Actor, Changing } from '../../audit/admin-changes.ts';
import type { GatewayConfig, OidcConfig } from '../../contract/config.ts';
import { storable, storableJson } from '../../kit/storable.ts';
import type { Database } from '../../store/database.ts';
import { OWN_TOKENS, type OwnerStatus, type OwnTokens, ownTokens } from '../deprovisioning/suspension.ts';
import { isVerified, type Person } from '../provider/admit.ts';

/**
 * Why an account of the identity provider is not the person whose address it tells: another account of this provider is,
 * or one of another provider; or administrators made access tokens for the address before anybody signed in with it.
 */
export type ClaimProblem = 'other_account' | 'other_provider' | 'administrator_made';

/** Whether an account may have the address it tells; `undefined` when it may. Raises store_unavailable. */
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

/** Somebody the gateway knows, and the account of the identity provider the address is bound to. */
export interface KnownPerson extends OwnTokens {
  readonly email: string;
  readonly issuer: string | null;
  /** The provider's identifier of the account; `null` where none signed in yet. */
  readonly subject: string | null;
  /** When the identity provider last verified them. */
  readonly signed_in_at: Date | null;
  /** Whether the next account that signs in with the address becomes theirs. */
  readonly open_to_sign_in: boolean;
  /** Whether administrators made access tokens for the address. */
  readonly has_given_tokens: boolean;
}

/** People by address. Raises store_unavailable. */
export async function listPeople(
  { database, clock, config }: Pick<Changing, 'database' | 'clock'> & { readonly config: Pick<GatewayConfig, 'auth'> },
  only: { readonly user?: string | undefined; readonly issuer?: string | undefined } = {},
): Promise<KnownPerson[]> {
  const now = clock.now();
  const rows = await database.query<Omit<KnownPerson, keyof OwnTokens> & OwnerStatus & { own_tokens: number }>(
    'people_list',
    `select p.email, p.issuer, p.subject, p.signed_in_at, p.open_to_sign_in,
       exists (select from access_tokens t where t.principal_id = p.id and not t.self_service) as has_given_tokens,
       ${OWN_TOKENS('$3')}
     from principals p
     where ($1::text is null or p.email = $1) and ($2::text is null or rtrim(p.issuer, '/') = rtrim($2, '/'))
     order by p.email`,
    [only.user === undefined ? null : storable(only.user.toLowerCase()), only.issuer ?? null, new Date(now)],
  );
  return rows.map(({ own_tokens, verified_at, put_off_until, is_blocked, ...person }) => ({
    ...person,
    ...ownTokens({ own_tokens, verified_at, put_off_until, is_blocked }, now, config),
  }));
}

/** Which account an address goes to, and whether what was made for it stays. */
export interface Rebinding {
  /** E-mail address, any case. */
  readonly user: string;
  /** Absent: the next account that signs in with the address. */
  readonly account?: { readonly issuer: string; readonly subject: string } | undefined;
  /** Whether all access tokens end, as when the address is somebody else's now. */
  readonly with_tokens: boolean;
  readonly actor: Actor;
}

/**
 * Lets an address go to another account; its sessions end within a second. Raises store_unavailable.
 * @returns how much was ended, and whether the gateway knows the address at all.
 */
export async function rebindPerson(
  { database, clock }: Pick<Changing, 'database' | 'clock'>,
  { user, account, with_tokens, actor }: Rebinding,
): Promise<{ readonly known: boolean; readonly sessions: number; readonly tokens: number }> {
  const [row] = await database.query<{ known: boolean; sessions: number; tokens: number }>(
    'person_rebind',
    'select known, sessions, tokens from rebind_person($1, $2, $3, $4, $5, $6, $7)',
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
  return row!;
}

/** How an address is to be bound anew. */
export interface RebindWish {
  /** Identifier of the account at the configured identity provider; absent: the next that signs in with the address. */
  readonly subject?: string | undefined;
  /** What becomes of the access tokens; absent: revoked where another account of the same provider had the address. */
  readonly tokens?: 'keep' | 'revoke' | undefined;
}

/**
 * Lets an address go to another account of the configured identity provider. Raises store_unavailable.
 * @param oidc absent where there is no identity provider: then no subject can be named.
 */
export async function rebindAs(
  { database, clock, actor }: Pick<Changing, 'database' | 'clock' | 'actor'>,
  { email: user, issuer, subject: former }: KnownPerson,
  { subject, tokens }: RebindWish,
  oidc: Pick<OidcConfig, 'issuer_url'> | undefined,
): Promise<{ readonly user: string; readonly sessions: number; readonly tokens: number }> {
  const account =
    subject === undefined || oidc === undefined ? undefined : { issuer: new URL(oidc.issuer_url).href, subject };
  const may_be_another_person =
    issuer !== null && (oidc === undefined || isVerified({ issuer }, oidc)) && former !== subject;
  const with_tokens = tokens === undefined ? may_be_another_person : tokens === 'revoke';
  const ended = await rebindPerson({ database, clock }, { user, account, with_tokens, actor });
  return { user, sessions: ended.sessions, tokens: ended.tokens };
}
