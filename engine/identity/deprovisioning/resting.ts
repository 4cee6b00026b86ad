import type { GatewayConfig } from '../../contract/config.ts';

const DAY_MS = 86_400_000;

/** What decides whether an access token rests; both are absent for what an administrator made. */
export interface OwnerStanding {
  /** When the identity provider last vouched for the owner, who made the token. */
  readonly vouched_at: Date | null;
  /** Whether the owner, who made the token, was not let in when last asked about. */
  readonly is_barred: boolean;
  /** Until when the token goes on although nobody vouches for the owner, because the identity provider is away. */
  readonly put_off_until: Date | null;
}

/** The columns of an `OwnerStanding`, for a token `t` and its owner `p`. */
export const OWNER_STANDING = `case when t.self_service then coalesce(p.signed_in_at, t.created_at) end as vouched_at,
  t.self_service and p.barred_at is not null as is_barred, p.rest_put_off_until as put_off_until`;

type Vouching = Pick<OwnerStanding, 'vouched_at' | 'put_off_until'>;

/**
 * When what an owner made comes to rest unless somebody vouches for them; `undefined`: never.
 * @param vouched_days how long a word of the identity provider counts; `undefined`: without end
 */
export function restsAt({ vouched_at, put_off_until }: Vouching, vouched_days: number | undefined): Date | undefined {
  if (vouched_days === undefined || vouched_at === null) return undefined;
  return new Date(Math.max(vouched_at.getTime() + vouched_days * DAY_MS, put_off_until?.getTime() ?? 0));
}

/**
 * Whether nobody has vouched for an owner for too long.
 * @param now milliseconds since the epoch
 */
export function isUnseen(owner: Vouching, now: number, vouched_days: number | undefined): boolean {
  const at = restsAt(owner, vouched_days);
  return at !== undefined && now >= at.getTime();
}

/**
 * How long what people made themselves goes on after the identity provider last vouched for them, in days; `undefined`
 * where nobody signs in: without end.
 */
export function vouchedDays({ auth }: Pick<GatewayConfig, 'auth'>): number | undefined {
  if (auth?.oidc === undefined) return undefined;
  return auth.self_made_tokens.rest_after_days ?? auth.session.refresh_days;
}

/** What somebody made themselves, as far as they and administrators want to know. */
export interface OwnTokens {
  /** How many are in force, or would be if they did not rest. */
  readonly own_tokens: number;
  readonly own_tokens_rest: boolean;
  /** When they come to rest unless their owner is heard of before; `null`: never, there are none, or they rest already. */
  readonly own_tokens_rest_at: Date | null;
}

/** Columns for `ownTokens`, for a principal `p`; the statement's parameter is the time. */
export const OWN_TOKENS = (time: string) => `p.signed_in_at as vouched_at, p.rest_put_off_until as put_off_until,
  p.barred_at is not null as is_barred,
  (select count(*) from access_tokens t where t.principal_id = p.id and t.self_service and t.revoked_at is null
     and (t.expires_at is null or t.expires_at > ${time}))::integer as own_tokens`;

/**
 * What is known of the access tokens that somebody made.
 * @param now milliseconds since the epoch
 */
export function ownTokens(
  { own_tokens, ...owner }: OwnerStanding & Pick<OwnTokens, 'own_tokens'>,
  now: number,
  config: Pick<GatewayConfig, 'auth'>,
): OwnTokens {
  const at = restsAt(owner, vouchedDays(config));
  const own_tokens_rest = own_tokens > 0 && (owner.is_barred || (at !== undefined && now >= at.getTime()));
  const own_tokens_rest_at = own_tokens === 0 || own_tokens_rest || at === undefined ? null : at;
  return { own_tokens, own_tokens_rest, own_tokens_rest_at };
}
