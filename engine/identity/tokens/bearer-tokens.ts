import { StageError } from '../../contract/errors.ts';
import type { BearerTokens } from '../../contract/services.ts';
import { isRefreshToken } from '../sessions/opaque.ts';
import type { SessionTokens } from '../sessions/session-tokens.ts';
import { isServiceToken } from './token-format.ts';

/** How a signed token begins: a JSON object in base64url. Access tokens begin otherwise. */
const SIGNED = /^ey[\w-]*\./;

const REFRESH_TOKEN =
  'This is a refresh token, which only gets new session tokens from /oauth/token. Send the session token that came with it ("access_token").';
const SERVICE_TOKEN =
  'This is a service token, which opens the admin API alone. For models make an access token ("appscli tokens create").';
const NO_SIGN_IN =
  'This looks like a session token, but nobody signs in at this gateway: it takes access tokens, which begin with "gw_".';

/** Verification of both kinds of bearer credential. `sessions` is absent where nobody signs in. */
export function createBearerTokens(access: BearerTokens, sessions: SessionTokens | undefined): BearerTokens {
  return {
    verify(token) {
      if (isRefreshToken(token)) throw new StageError('credential_invalid', REFRESH_TOKEN);
      if (isServiceToken(token)) throw new StageError('credential_invalid', SERVICE_TOKEN);
      if (!SIGNED.test(token)) return access.verify(token);
      if (sessions !== undefined) return sessions.verify(token);
      throw new StageError('credential_invalid', NO_SIGN_IN);
    },
  };
}
