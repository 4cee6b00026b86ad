import { StartError } from '../contract/start-error.ts';
import { printable } from '../kit/text/printable.ts';

/** Exit code of a command that the gateway, or the person at the browser, said no to. */
export const EXIT_REFUSED = 1;

const TEXT_LENGTH_MAX = 300;

/** A gateway that gives no answer at the moment: no connection, none in time, or an error of its own. */
export class Unreachable extends StartError {
  override readonly name = 'Unreachable';
}

/** A sign-in that is over: nothing but another one helps. */
export class SignInOver extends StartError {
  override readonly name = 'SignInOver';
}

/** The error of a sign-in that is over, with the reason in a few words. */
export function signInOver(base_url: string, because: string): SignInOver {
  return new SignInOver(
    `you are not signed in at ${base_url} any more: ${because.replace(/\.$/, '')}. Run: appscli login --base-url ${base_url}`,
    { exit_code: EXIT_REFUSED },
  );
}

/** The error of somebody who has not signed in at a gateway. */
export function notSignedIn(base_url: string): SignInOver {
  return new SignInOver(`you are not signed in at ${base_url}. Run: appscli login --base-url ${base_url}`, {
    exit_code: EXIT_REFUSED,
  });
}

/** What a gateway says, as one line that is safe to show on a terminal; `undefined` when it says nothing. */
export function sentence(text: unknown): string | undefined {
  if (typeof text !== 'string') return undefined;
  const line = printable(text.slice(0, TEXT_LENGTH_MAX).replace(/\s+/g, ' ').trim());
  return line === '' ? undefined : line;
}
