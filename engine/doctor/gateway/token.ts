import type { CheckOutcome } from '../../contract/checks.ts';
import { type Answer, errorText, fieldsOf } from '../../selfcheck/answer.ts';
import { sessionEnd } from './token-text.ts';

/** Who holds a token, and where. */
export interface TokenUse {
  readonly token: string;
  readonly root_url: string;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Why a gateway refuses a token, by its own words and by those of the token. */
export function refusedToken(answer: Answer, { token, root_url, now }: TokenUse): CheckOutcome {
  const said = errorText(answer.json);
  const details = [`the gateway says: ${said ?? 'nothing'}`];
  const { code } = fieldsOf(fieldsOf(answer.json).error);
  const login = `sign in again: appscli login --base-url ${root_url}`;
  const ends = sessionEnd(token);
  const is_session = ends !== undefined;
  if (code === 'credential_missing') {
    return {
      verdict: 'failed',
      found: 'the token was sent and did not arrive: something on the way takes the header authorization off',
      remedy:
        'let the proxy in front of the gateway pass authorization on; a sign-in of its own must not take its place',
      details,
    };
  }
  if (code === 'credential_revoked') {
    const remedy = is_session ? login : 'ask whoever runs the gateway for a new token; this one was taken back';
    return { verdict: 'failed', found: 'the token was revoked', remedy, details };
  }
  if (code === 'credential_expired' || (is_session && ends <= now)) {
    const since = is_session && ends <= now ? `, on ${new Date(ends).toISOString()}` : '';
    const remedy = is_session ? login : 'make a new token, or ask whoever runs the gateway for one';
    return {
      verdict: 'failed',
      found: `${is_session ? 'the sign-in' : 'the token'} has expired${since}`,
      remedy,
      details,
    };
  }
  if (answer.status === 403) {
    const found = 'the gateway knows the token and does not allow it to list models';
    return { verdict: 'failed', found, remedy: 'ask whoever runs the gateway what the token may be used for', details };
  }
  return {
    verdict: 'failed',
    found: `the gateway does not know the token (status ${answer.status})`,
    remedy: `is it one of this gateway, whole, and not of the provider of a model? ${is_session ? login : 'Else make a new one, or ask for one'}`,
    details,
  };
}
