import { isTold } from './claims.ts';
import { type Claims, ProviderError, type ProviderGrant } from './provider.ts';

/** What of a token endpoint's answer it takes to ask again (RFC 6749 section 5.1). */
interface GivenTokens {
  readonly access_token: string;
  readonly refresh_token?: string | undefined;
  readonly expires_in?: number | undefined;
}

/**
 * What it takes to ask about a person again, out of what the token endpoint gave.
 * @param former the refresh token that was asked with, which stays good where no other one is given.
 * @param now in milliseconds since the epoch.
 */
export function grantOf(
  subject: string,
  tokens: GivenTokens,
  former: { readonly in_id_token: readonly string[]; readonly refresh_token?: string },
  now: number,
): ProviderGrant {
  const { in_id_token } = former;
  const refresh_token = tokens.refresh_token ?? former.refresh_token;
  const known = in_id_token.length === 0 ? {} : { in_id_token };
  if (refresh_token !== undefined) return { subject, refresh_token, ...known };
  const { access_token, expires_in } = tokens;
  const expiry = expires_in === undefined ? {} : { access_token_expires_at: now + expires_in * 1000 };
  return { subject, access_token, ...expiry, ...known };
}

/** What the provider tells at sign-in and keeps to itself afterwards is unknown, which is not the same as gone. Raises ProviderError. */
export function demandStillTold(claims: Claims, { in_id_token = [] }: ProviderGrant): void {
  const missing = in_id_token.filter((claim) => !isTold(claims, claim));
  if (missing.length === 0) return;
  const problem = `it tells ${missing.join(', ')} only in the ID token, so it can't be asked again without a new one`;
  throw new ProviderError('unaskable', `userinfo endpoint: ${problem}`);
}
