import type { Door, SignIn } from './doors.ts';
import { readForm } from './form.ts';
import { OAuthError } from './oauth-error.ts';
import { REVOCATION_PATH } from './paths.ts';

/** Session tokens carry everything that is known of a person, so that they may be long. */
const MAX_BYTES = 65_536;

/** Ends the session of a session token or refresh token (RFC 7009); a token that means nothing is as good as revoked. */
export function revoke({ identity, form, log }: SignIn): Door {
  const { tokens, sessions } = identity;
  return {
    path: REVOCATION_PATH,
    speaks: 'json',
    async post({ req }) {
      const token = (await readForm(req, { ...form, max_bytes: MAX_BYTES })).need('token');
      if (token.startsWith('gw_')) {
        const problem =
          'An access token is not signed out here: revoke it with "appscli tokens revoke" or ask your administrator.';
        throw new OAuthError('unsupported_token_type', problem);
      }
      // Only a signed token has dots.
      const session = token.includes('.') ? await tokens.sessionOf(token) : await sessions.sessionOf(token);
      if (session !== undefined && (await sessions.end(session, 'signed out', 'person'))) {
        log.info({ session }, 'somebody signed out');
      }
      return { status: 200, json: {} };
    },
  };
}
