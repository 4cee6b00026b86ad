import type { GatewayConfig } from '../../contract/config.ts';

const DAY_MS = 86_400_000;

/** What decides whether an access token is suspended; of one that an administrator made, nothing does. */
export interface OwnerStatus {
  /** When the identity provider last verified the owner, who made the token. */
  readonly verified_at: Date | null;
  /** Whether the owner, who made the token, was not let in when last asked about. */
  readonly is_blocked: boolean;
  /** Until when the token works although the owner is not verified, because the identity provider is away. */
  readonly put_off_until: Date | null;
}

/** The columns of an `OwnerStatus`, for a token `t` and its owner `p`. */
export const OWNER_STATUS = `case when t.self_service then coalesce(p.signed_in_at, t.created_at) end as verified_at,
  t.self_service and p.blocked_at is not null as is_blocked, p.suspension_put_off_until as put_off_until`;

type VerifiedOwner = Pick<OwnerStatus, 'verified_at' | 'put_off_until'>;

/**
 * When what an owner made is suspended unless they are verified before; `undefined`: never.
 * @param verified_days how long a verification counts; `undefined`: without end
 */
export function suspendsAt(
  { verified_at, put_off_until }: VerifiedOwner,
  verified_days: number | undefined,
): Date | undefined {
  if (verified_days === undefined || verified_at === null) return undefined;
  return new Date(Math.max(verified_at.getTime() + verified_days * DAY_MS, put_off_until?.getTime() ?? 0));
}

/**
 * Whether the identity provider has not verified an owner for too long.
 * @param now milliseconds since the epoch
 */
export function isUnseen(owner: VerifiedOwner, now: number, verified_days: number | undefined): boolean {
  const at = suspendsAt(owner, verified_days);
  return at !== undefined && now >= at.getTime();
}

/**
 * How long what people made themselves goes on after the identity provider last verified them, in days; `undefined`
 * where nobody signs in: without end.
 */
export function verifiedDays({ auth }: Pick<GatewayConfig, 'auth'>): number | undefined {
  if (auth?.oidc === undefined) return undefined;
  return auth.self_made_tokens.suspend_after_days ?? auth.session.refresh_days;
}

/** What somebody made themselves, as far as they and administrators want to know. */
export interface OwnTokens {
  /** How many are in force or suspended. */
  readonly own_tokens: number;
  readonly own_tokens_suspended: boolean;
  /** When they are suspended unless their owner is verified before; `null`: never, there are none, or they are suspended already. */
  readonly own_tokens_suspend_at: Date | null;
}

/** Columns for `ownTokens`, for a principal `p`; the statement's parameter is the time. */
export const OWN_TOKENS = (time: string) => `p.signed_in_at as verified_at, p.suspension_put_off_until as put_off_until,
  p.blocked_at is not null as is_blocked,
  (select count(*) from access_tokens t where t.principal_id = p.id and t.self_service and t.revoked_at is null
     and (t.expires_at is null or t.expires_at > ${time}))::integer as own_tokens`;

/**
 * What is known of the access tokens that somebody made.
 * @param now milliseconds since the epoch
 */
export function ownTokens(
  { own_tokens, ...owner }: OwnerStatus & Pick<OwnTokens, 'own_tokens'>,
  now: number,
  config: Pick<GatewayConfig, 'auth'>,
): OwnTokens {
  const at = suspendsAt(owner, verifiedDays(config));
  const own_tokens_suspended = own_tokens > 0 && (owner.is_blocked || (at !== undefined && now >= at.getTime()));
  const own_tokens_suspend_at = own_tokens === 0 || own_tokens_suspended || at === undefined ? null : at;
  return { own_tokens, own_tokens_suspended, own_tokens_suspend_at };
}
