import { deviceOf } from './caller.ts';
import { readForm } from './form.ts';
import { OAuthError, tooManyRequests } from './oauth-error.ts';
import { DEVICE_AUTHORIZATION_PATH, DEVICE_PATH } from './paths.ts';
import type { Route, SignIn } from './routes.ts';
import { isUnseen } from './same-origin.ts';

/** Begins a sign-in: gives a program a code to wait with, and one for the person to confirm (RFC 8628 section 3.1). */
export function deviceAuthorization(sign_in: SignIn): Route {
  const { config, identity, issuer, form, addressOf } = sign_in;
  const { device_grants, attempts } = identity;
  const login_notice = config.auth?.login_notice;
  return {
    path: DEVICE_AUTHORIZATION_PATH,
    speaks: 'json',
    told_as: 'gateway.sign_in',
    async post({ req }) {
      // No other parameter means anything here, but a form that is none is a client's mistake that it should hear of.
      const surface = (await readForm(req, form)).get('surface');
      if (isUnseen(req.headers)) {
        throw new OAuthError('invalid_request', 'Programs sign in here, not pages of other sites.', { status: 403 });
      }
      const address = addressOf(req);
      const limit = await attempts.count('device_authorization', address);
      if (limit !== undefined) {
        const problem = 'Too many sign-ins that nobody finished were begun from your address.';
        throw tooManyRequests(problem, limit.retry_after_seconds);
      }
      const begun = await device_grants.begin(deviceOf(req.headers, address, surface));
      const verification_uri = `${issuer}${DEVICE_PATH}`;
      const json = {
        device_code: begun.device_code,
        user_code: begun.user_code,
        verification_uri,
        verification_uri_complete: `${verification_uri}?user_code=${encodeURIComponent(begun.user_code)}`,
        expires_in: begun.expires_in_seconds,
        interval: begun.interval_seconds,
        login_notice,
      };
      return { status: 200, json, told: { outcome: 'begun' } };
    },
  };
}
