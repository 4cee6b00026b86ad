import type { AuthConfig, GatewayConfig } from '../../../base/contract/config.ts';
import type { Clock } from '../../../base/contract/services.ts';
import type { Telemetry } from '../../../base/contract/telemetry.ts';
import { storable } from '../../../base/kit/storable.ts';
import type { Actor, AdminAction, Changing } from '../../audit/index.ts';

/** What to end, beside all sessions. `suspend`: personal tokens are rejected until the person is admitted again. */
interface Deprovisioning {
  readonly user: string;
  readonly actor: Actor;
  /** A reason for people, such as "the identity provider rejected the account"; never a secret. */
  readonly because: string;
  readonly tokens: 'none' | 'suspend' | 'self_service' | 'all';
}

/** Ends sessions, pending sign-ins and access tokens of a person; every gateway rejects them within a second. Raises store_unavailable. */
export async function deprovision(
  { database, clock }: Pick<Changing, 'database' | 'clock'>,
  { user, actor, because, tokens }: Deprovisioning,
) {
  const [ended] = await database.query<{ known: boolean; sessions: number; tokens: number }>(
    'deprovision',
    'select known, sessions, tokens from deprovision($1, $2, $3, $4, $5, $6)',
    [user.toLowerCase(), tokens, because, actor.kind, actor.name, new Date(clock.now())],
  );
  return ended!;
}

/** Ends one session, of `user` if given; every gateway rejects its tokens within a second. Returns whether it did. Raises store_unavailable. */
export async function endSession(
  { database, clock, actor }: Changing,
  which: { readonly id: string; readonly user?: string | undefined; readonly because: string },
): Promise<boolean> {
  const rows = await database.query<{ ended: boolean }>(
    'session_end_of',
    `select end_session(id, $1, $2, $3, $4) as ended from sessions
     where id = $5 and ($6::text is null or principal_id = $6)`,
    [
      which.because,
      actor.kind,
      actor.name,
      new Date(clock.now()),
      which.id,
      which.user === undefined ? null : `user:${which.user.toLowerCase()}`,
    ],
  );
  return rows[0]?.ended ?? false;
}

/** Ends the sessions of a person but the one with the id `but`, without that also pending sign-ins; counts them. Raises store_unavailable. */
export async function endSessionsOf(
  { database, clock, actor }: Changing,
  which: { readonly user: string; readonly but?: string | undefined; readonly because: string },
): Promise<number> {
  const { but = null, because } = which;
  const user = storable(which.user.toLowerCase());
  if (but === null) await database.query('sign_ins_deny', 'select deny_sign_ins($1)', [user]);
  const [row] = await database.query<{ ended: number }>(
    'sessions_end_all',
    'select end_sessions($1, $2, $3, $4, $5, $6) as ended',
    [`user:${user}`, but, because, actor.kind, actor.name, new Date(clock.now())],
  );
  return row!.ended;
}

const DAY_MS = 86_400_000;

/** Inputs of the suspension of a personal token. Tokens made by administrators are never suspended. */
export interface OwnerStatus {
  readonly verified_at: Date | null;
  readonly is_blocked: boolean;
  /** Grace period during an outage of the identity provider. */
  readonly put_off_until: Date | null;
}

/** The columns of an `OwnerStatus`, for a token `t` and its owner `p`. */
export const OWNER_STATUS = `case when t.self_service then coalesce(p.signed_in_at, t.created_at) end as verified_at,
  t.self_service and p.blocked_at is not null as is_blocked, p.suspension_put_off_until as put_off_until`;

/** SQL: whether an access token `t` is neither revoked nor expired at a time. */
export const IN_FORCE = (time: string) =>
  `t.revoked_at is null and (t.expires_at is null or t.expires_at > ${time}::timestamptz)`;

/** Whether personal tokens are suspended, and otherwise when they will be without a verification; `null`: never. */
export function suspension(
  { verified_at, put_off_until, is_blocked }: OwnerStatus,
  now: number,
  verified_days: number | undefined,
): { readonly suspended: boolean; readonly suspends_at: Date | null } {
  const at =
    verified_days === undefined || verified_at === null
      ? Number.POSITIVE_INFINITY
      : Math.max(verified_at.getTime() + verified_days * DAY_MS, put_off_until?.getTime() ?? 0);
  const suspended = is_blocked || now >= at;
  return { suspended, suspends_at: suspended || at === Number.POSITIVE_INFINITY ? null : new Date(at) };
}

/** Days that personal tokens work after the last verification of their owner; `undefined` without sign-in: forever. */
export function verifiedDays({ auth }: Pick<GatewayConfig, 'auth'>): number | undefined {
  if (auth?.oidc === undefined) return undefined;
  return auth.personal_tokens.suspend_after_days ?? auth.session.refresh_days;
}

/** Summary of the personal tokens of a person. */
export interface OwnTokens {
  /** Number in force or suspended. */
  readonly own_tokens: number;
  readonly own_tokens_suspended: boolean;
  /** When they are suspended without a verification; `null`: never, none, or suspended already. */
  readonly own_tokens_suspend_at: Date | null;
}

/** Columns for `withOwnTokens`, for a principal `p`; the statement's parameter is the time. */
export const OWN_TOKENS = (time: string) => `p.signed_in_at as verified_at, p.suspension_put_off_until as put_off_until,
  p.blocked_at is not null as is_blocked,
  (select count(*) from access_tokens t where t.principal_id = p.id and t.self_service and ${IN_FORCE(time)})::integer
    as own_tokens`;

/** Replaces the columns of `OWN_TOKENS` in a row by the summary. */
export function withOwnTokens<Row extends OwnerStatus & Pick<OwnTokens, 'own_tokens'>>(
  { verified_at, put_off_until, is_blocked, ...row }: Row,
  now: number,
  config: Pick<GatewayConfig, 'auth'>,
): Omit<Row, keyof OwnerStatus> & OwnTokens {
  const { suspended, suspends_at } = suspension({ verified_at, put_off_until, is_blocked }, now, verifiedDays(config));
  const has_some = row.own_tokens > 0;
  return { ...row, own_tokens_suspended: has_some && suspended, own_tokens_suspend_at: has_some ? suspends_at : null };
}

/** Reports to telemetry a change that the gateway made by itself, after a response of the identity provider. */
export function reportOwnChange(
  { telemetry, clock }: { readonly telemetry: Pick<Telemetry, 'operation'>; readonly clock: Pick<Clock, 'now'> },
  action: AdminAction,
): void {
  const attributes = { 'gateway.admin.action': action, 'gateway.admin.actor_kind': 'gateway' };
  telemetry.operation({ name: 'gateway.admin_change', attributes, began_at: clock.now(), duration_ms: 0 });
}

const IMPLICIT_GROUP = 'all';

/** Roles of a person by their groups: `admin`, or none. */
export function rolesOf(auth: Pick<AuthConfig, 'admin_groups'>, groups: readonly string[]): readonly string[] {
  return intersects(auth.admin_groups, groups) ? ['admin'] : [];
}

type Groups = Pick<GatewayConfig, 'token_groups' | 'auth'>;

/** The token group of a signed-in person; `undefined` if the configuration has none for them. */
export function tokenGroupOf(config: Groups, groups: readonly string[]): string | undefined {
  return config.token_groups.find(({ members }) => intersects(members, groups))?.name ?? commonTokenGroup(config);
}

/** The token group of signed-in people without membership; `undefined` if the configuration has none. */
export function commonTokenGroup({ token_groups, auth }: Groups): string | undefined {
  if (auth?.session.token_group !== undefined) return auth.session.token_group;
  if (token_groups.length === 0) return IMPLICIT_GROUP;
  const [only, ...others] = token_groups;
  return others.length === 0 && only?.members === undefined ? only?.name : undefined;
}

function intersects(some: readonly string[] | undefined, others: readonly string[]): boolean {
  return some?.some((each) => others.includes(each)) ?? false;
}
