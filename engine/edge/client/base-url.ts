import { StartError } from '../../base/contract/start-error.ts';
import { isLoopbackUrl, urlProblem } from '../../base/kit/net/addresses.ts';

const EXIT_USAGE = 64;

/** Whether an address may be one of another machine over http, where everybody on the way can read what is sent. */
export type PlainHttp = 'refused' | 'taken';

/** The address of a gateway as everything here writes it: no trailing slash. Raises StartError that says where it came from. */
export function parseBaseUrl(text: string, origin = '--base-url', plain_http: PlainHttp = 'refused'): string {
  const wrong = (what: string) => {
    throw new StartError(`${origin} is no address of a gateway: ${what}; write https://gateway.example.com`, {
      exit_code: EXIT_USAGE,
    });
  };
  const problem = urlProblem(text, 'base');
  if (problem !== undefined) return wrong(problem);
  const { protocol, href } = new URL(text);
  if (protocol === 'http:' && plain_http === 'refused' && !isLoopbackUrl(href)) {
    return wrong('over http everybody on the way could read your token, so it is taken for this machine only');
  }
  return href.replace(/\/+$/, '');
}

/**
 * Which gateway is meant: the one given, else that of APPSCLI_BASE_URL, else the only one known. Raises StartError that
 * lists those there are.
 */
export function chooseBaseUrl(
  given: string | undefined,
  env: NodeJS.ProcessEnv,
  known: readonly string[],
  plain_http: PlainHttp = 'refused',
): string {
  if (given !== undefined) return parseBaseUrl(given, '--base-url', plain_http);
  const preset = env.APPSCLI_BASE_URL ?? '';
  if (preset !== '') return parseBaseUrl(preset, 'APPSCLI_BASE_URL', plain_http);
  if (known.length === 1) return known[0]!;
  throw new StartError(
    known.length === 0
      ? 'which gateway? You are signed in at none: name one with --base-url https://gateway.example.com, or sign in: appscli login --base-url https://gateway.example.com'
      : `which gateway? You are signed in at ${known.join(', ')}: name one with --base-url or APPSCLI_BASE_URL`,
    { exit_code: EXIT_USAGE },
  );
}

/** What somebody may have copied behind the address of a gateway: the form of other clients, or the path of an API. */
export const API_PATH = /\/v1(?:\/(?:messages(?:\/count_tokens)?|chat\/completions|responses|models))?$/;

/** The address of a gateway without the `/v1` or the path of an API that it was given with. */
export function withoutApiPath(base_url: string): string {
  return base_url.replace(API_PATH, '').replace(/\/+$/, '');
}

/** Whether two addresses are of one origin: same scheme, host and port. */
export function sameOrigin(a: string, b: string): boolean {
  return URL.canParse(a) && URL.canParse(b) && new URL(a).origin === new URL(b).origin;
}
