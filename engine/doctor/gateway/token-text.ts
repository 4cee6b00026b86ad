import type { CheckOutcome } from '../../contract/checks.ts';

/** What is wrong with the text of a token, whoever it is for; never repeats it. `undefined` where it can be sent. */
export function tokenTextProblem(token: string): CheckOutcome | undefined {
  const problem = PROBLEMS.find(([is]) => is.test(token));
  if (problem === undefined) return undefined;
  const [, found, remedy] = problem;
  return { verdict: 'failed', found, remedy };
}

const AS_IT_IS = 'put in the token as it was given to you, and nothing else';

const PROBLEMS: readonly (readonly [RegExp, string, string])[] = [
  [/^$/, 'the token is empty', AS_IT_IS],
  [/^\s|\s$/, 'the token has a space or line break at its beginning or end', AS_IT_IS],
  [/^bearer\s/i, 'the token begins with "Bearer", which clients write themselves', AS_IT_IS],
  [/^(["']).*\1$/s, 'the token is in quotes, which are sent with it', AS_IT_IS],
  [
    /^<.*>$|^\$\{?\w+\}?$|^%\w+%$|^(?:your|my)[-_ ]?(?:api[-_ ]?)?(?:key|token)/i,
    'there is a placeholder in place of the token',
    'put in a real token: appscli login, or ask whoever runs the gateway',
  ],
  [/[^\x21-\x7e]/, 'the token holds a character that no HTTP header can carry', AS_IT_IS],
];

/** When a session token ends, by what it says of itself, in milliseconds since the epoch; `undefined` for other tokens. Nothing is verified. */
export function sessionEnd(token: string): number | undefined {
  const [, claims = ''] = /^[\w-]+\.([\w-]{2,8192})\.[\w-]+$/.exec(token) ?? [];
  try {
    const { exp } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8'));
    return typeof exp === 'number' && exp > 0 && exp < 1e11 ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}
