import { chooseBaseUrl, withoutApiPath } from '../../client/base-url.ts';
import { openCredentials } from '../../client/credentials.ts';
import { freshCredentials } from '../../client/fresh-credentials.ts';
import { createAsk } from '../../client/http.ts';
import { systemClock } from '../../kit/clock.ts';
import { parseListenAddress } from '../../kit/net/addresses.ts';
import { didYouMean } from '../../kit/text/suggest.ts';
import type { SelfCheck } from '../../selfcheck/check.ts';
import type { EchoPlace } from '../../selfcheck/echo/echo.ts';
import type { CommandContext } from '../context.ts';
import { usageError } from '../exit-codes.ts';
import { type Surroundings, warner } from '../surroundings.ts';
import { tokenIn } from '../token-variable.ts';

const ECHO_PLACE: EchoPlace = { host: '127.0.0.1', port: 4010 };

/** The gateway that is meant, as it was given and without `/v1`. Raises StartError. */
export function gatewayOf(
  given: string | undefined,
  { terminal, env }: CommandContext,
): { readonly root_url: string; readonly given_url: string } {
  const preset = given ?? (env.APPSCLI_BASE_URL === '' ? undefined : env.APPSCLI_BASE_URL);
  const signed_in = preset === undefined ? [...openCredentials(env, warner(terminal)).read().keys()] : [];
  const given_url = chooseBaseUrl(given, env, signed_in, 'taken');
  return { root_url: withoutApiPath(given_url), given_url };
}

/** The token in the variable that was named, else that of the person's sign-in. Raises StartError. */
export async function tokenOf(
  variable: string | undefined,
  root_url: string,
  { terminal, env }: CommandContext,
  { fetch, clock = systemClock }: Surroundings,
): Promise<string> {
  if (variable !== undefined) return tokenIn(variable, '--token-env', env);
  const credentials = openCredentials(env, warner(terminal));
  if (!credentials.read().has(root_url)) {
    throw usageError(
      `which token? Name the environment variable that holds it with --token-env, or sign in: appscli login --base-url ${root_url}`,
    );
  }
  return (await freshCredentials({ credentials, ask: createAsk({ fetch }), clock, base_url: root_url })).access_token;
}

/** Where the echo upstream listens; `undefined` where there is to be none. Raises StartError. */
export function echoPlaceOf(given: true | string | undefined): EchoPlace | undefined {
  if (given === undefined) return undefined;
  if (given === true) return ECHO_PLACE;
  const text = /^\d{1,5}$/.test(given) ? `${ECHO_PLACE.host}:${given}` : given;
  const place = parseListenAddress(text);
  if (place !== undefined) return place;
  throw usageError('--echo takes a host and a port of this machine, such as 127.0.0.1:4010');
}

/** The checks whose ids, or the beginnings of whose ids, were named; all where none was. Raises StartError for unknown ones. */
export function checksNamed(checks: readonly SelfCheck[], only: readonly string[] | undefined): readonly SelfCheck[] {
  if (only === undefined) return checks;
  const isNamed = (id: string, name: string) => id === name || id.startsWith(`${name}.`);
  for (const name of only) {
    if (checks.some(({ id }) => isNamed(id, name))) continue;
    const ids = checks.map(({ id }) => id);
    const groups = ids.map((id) => id.split('.', 1)[0]!);
    throw usageError(
      `--only: there is no check ${name}; ${didYouMean(name, [...ids, ...groups], 'appscli selfcheck --list shows them')}`,
    );
  }
  return checks.filter(({ id }) => only.some((name) => isNamed(id, name)));
}
