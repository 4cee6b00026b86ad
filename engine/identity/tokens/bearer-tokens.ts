import { StageError } from '../../contract/errors.ts';
import type { BearerTokens } from '../../contract/services.ts';
import { isRefreshToken } from '../sessions/opaque.ts';
import type { SessionTokens } from '../sessions/session-tokens.ts';
import { isServiceToken } from './token-format.ts';

/** How a signed token begins: a JSON object in base64url. Access tokens begin otherwise. */
const SIGNED = /^ey[\w-]*\./;

/** Verification of both kinds of bearer credential. `sessions` is absent where nobody signs in. */
export function createBearerTokens(access: BearerTokens, sessions: SessionTokens | undefined): BearerTokens {
  return {
    verify(token) {
      if (isRefreshToken(token)) throw refreshToken();
      if (isServiceToken(token)) throw serviceToken();
      if (!SIGNED.test(token)) return access.verify(token);
      if (sessions !== undefined) return sessions.verify(token);
      throw new StageError(
        'credential_invalid',
        'This looks like a session token, but nobody signs in at this gateway: it takes access tokens, which begin with "gw_".',
      );
    },
  };
}

function refreshToken(): StageError {
  return new StageError(
    'credential_invalid',
    'This is a refresh token, which only gets new session tokens from /oauth/token. Send the session token that came with it ("access_token").',
  );
}

function serviceToken(): StageError {
  return new StageError(
    'credential_invalid',
    'This is a service token, which opens the admin API alone. For models make an access token ("appscli tokens create").',
  );
}
