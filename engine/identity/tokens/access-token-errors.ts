import { StageError } from '../../contract/errors.ts';
import type { Principal } from '../../contract/services.ts';
import { isUnseen, type OwnerStatus } from '../deprovisioning/suspension.ts';

/** What decides whether an access token works. Times in milliseconds since the epoch. */
export interface KnownAccessToken extends OwnerStatus {
  readonly principal: Principal;
  readonly expires_at: number;
  readonly revoked_at: number | undefined;
}

/** Raises credential_revoked or credential_expired for an access token that does not work any more, or not for now. */
export function demandInForce(
  { expires_at, revoked_at, verified_at, put_off_until, is_blocked, principal }: KnownAccessToken,
  now: number,
  {
    verified_days,
    how_to_sign_in,
  }: { readonly verified_days: () => number | undefined; readonly how_to_sign_in: () => string },
): void {
  const { name, id } = principal.token;
  if (revoked_at !== undefined) {
    throw new StageError(
      'credential_revoked',
      `The access token "${name}" (${id}) was revoked on ${new Date(revoked_at).toISOString()}. Ask your administrator for a new one.`,
    );
  }
  if (now >= expires_at) {
    throw new StageError(
      'credential_expired',
      `The access token "${name}" (${id}) expired on ${new Date(expires_at).toISOString()}. Ask your administrator for a new one.`,
    );
  }
  if (is_blocked) {
    throw new StageError(
      'credential_revoked',
      `The access token "${name}" (${id}) is one you made yourself, and you may not use this gateway at the moment: your identity provider did not renew your sign-in, or the gateway does not let you in. Sign in again ("${how_to_sign_in()}"); once you can, the token works again.`,
    );
  }
  const days = verified_days();
  if (isUnseen({ verified_at, put_off_until }, now, days)) {
    throw new StageError(
      'credential_expired',
      `The access token "${name}" (${id}) is one you made yourself, and you have not signed in for ${days} days. Sign in again ("${how_to_sign_in()}"), and it works again.`,
    );
  }
}

/** The error for a text that is no access token. */
export function malformedToken(): StageError {
  return new StageError(
    'credential_invalid',
    'The access token is malformed: it starts with "gw_" and has 52 characters, the last 6 of which check the others. Copy it again as a whole.',
  );
}

/** The error for an access token that nobody has. */
export function unknownToken(): StageError {
  return new StageError(
    'credential_invalid',
    'This gateway does not know the access token. Check that it was made for this gateway, or ask your administrator for a new one.',
  );
}

/** The error while nobody can tell. */
export function storeAway(cause?: unknown): StageError {
  return new StageError(
    'store_unavailable',
    'The gateway cannot check access tokens at the moment. Try again shortly.',
    {
      cause,
    },
  );
}
