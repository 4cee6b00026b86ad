import { EXIT_UNAVAILABLE, StartError } from '../contract/start-error.ts';
import { unexpected } from './answers.ts';
import type { Credentials } from './credentials-text.ts';
import { discover } from './discovery.ts';
import type { Ask } from './http.ts';

/**
 * Ends a sign-in at the gateway (RFC 7009): the refresh token, and with it the session, then the access token. Raises
 * StartError when the gateway can't be reached, or can't do it.
 */
export async function revokeCredentials(ask: Ask, base_url: string, held: Credentials): Promise<void> {
  const { revocation } = await discover(ask, base_url);
  if (revocation === undefined) {
    throw new StartError(`${base_url} has no way to end a sign-in from here`, { exit_code: EXIT_UNAVAILABLE });
  }
  const tokens: [string, string][] = [['access_token', held.access_token]];
  if (held.refresh_token !== undefined) tokens.unshift(['refresh_token', held.refresh_token]);
  for (const [token_type_hint, token] of tokens) {
    const answer = await ask('POST', revocation, { form: { token, token_type_hint } });
    if (answer.status !== 200) throw unexpected(`ending the sign-in at ${base_url}`, answer);
  }
}
