import type { GatewayConfig } from '../config.ts';

const DAY_MS = 86_400_000;

/** What decides whether an access token rests; both are absent for what an administrator made. */
export interface OwnerStanding {
  /** When the identity provider last vouched for the owner, who made the token. */
  readonly vouched_at: Date | null;
  /** Whether the owner, who made the token, was not let in when last asked about. */
  readonly is_barred: boolean;
}

/** The columns of an `OwnerStanding`, for a token `t` and its owner `p`. */
export const OWNER_STANDING = `case when t.self_service then coalesce(p.signed_in_at, t.created_at) end as vouched_at,
  t.self_service and p.barred_at is not null as is_barred`;

/**
 * Whether nobody has vouched for an owner for too long.
 * @param now milliseconds since the epoch
 * @param vouched_days how long a word of the identity provider counts; `undefined`: without end
 */
export function isUnseen(
  { vouched_at }: Pick<OwnerStanding, 'vouched_at'>,
  now: number,
  vouched_days: number | undefined,
): boolean {
  return vouched_days !== undefined && vouched_at !== null && now >= vouched_at.getTime() + vouched_days * DAY_MS;
}

/**
 * How long what people made themselves goes on after the identity provider last vouched for them, in days; `undefined`
 * where nobody signs in: without end.
 */
export function vouchedDays({ auth }: Pick<GatewayConfig, 'auth'>): number | undefined {
  return auth?.oidc === undefined ? undefined : auth.session.refresh_days;
}
