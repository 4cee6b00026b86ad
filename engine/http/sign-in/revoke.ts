import { isRefreshToken } from '../../identity/sessions/opaque.ts';
import { readForm } from './form.ts';
import { OAuthError, tooManyRequests } from './oauth-error.ts';
import { REVOCATION_PATH } from './paths.ts';
import { logged, type Route, type SignIn } from './routes.ts';

/** Session tokens carry everything that is known of a person, so that they may be long. */
const MAX_BYTES = 65_536;

/** Ends the session of a session token or refresh token (RFC 7009); a token that means nothing is as good as revoked. */
export function revoke({ identity, form, log, addressOf }: SignIn): Route {
  const { tokens, sessions, attempts } = identity;
  /** Ends the session of a token; no session token that another key signed gets as far as the database. */
  const end = async (text: string, address: string) => {
    const signed = text.includes('.') ? await tokens.sessionOf(text) : undefined;
    if (signed === undefined && !isRefreshToken(text)) return undefined;
    return attempts.ask(
      { text, address, is_ours: signed !== undefined || tokens.marks.fit(text) },
      async () => {
        const session = signed ?? (await sessions.sessionOf(text));
        return session !== undefined && (await sessions.end(session, 'signed out', 'person')) ? session : undefined;
      },
      (session) => session !== undefined,
    );
  };
  return {
    path: REVOCATION_PATH,
    speaks: 'json',
    told_as: 'gateway.session',
    async post(visit) {
      const { req } = visit;
      const token = (await readForm(req, { ...form, max_bytes: MAX_BYTES })).need('token');
      if (token.startsWith('gw_')) {
        const problem =
          'An access token is not signed out here: revoke it with "appscli tokens revoke" or ask your administrator.';
        throw new OAuthError('unsupported_token_type', problem);
      }
      const asked = await end(token, addressOf(req));
      if (asked !== undefined && 'retry_after_seconds' in asked) {
        const problem = 'Too many requests came to nothing; sign out again later.';
        throw tooManyRequests(problem, asked.retry_after_seconds, 'temporarily_unavailable');
      }
      if (asked?.answer === undefined) return { status: 200, json: {} };
      log.info({ session: asked.answer, ...logged(visit) }, 'somebody signed out');
      return { status: 200, json: {}, told: { outcome: 'ended' } };
    },
  };
}
