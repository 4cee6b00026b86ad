import { isLoopbackUrl, urlProblem } from '../load/addresses.ts';
import { StartError } from '../services/start-error.ts';

const EXIT_USAGE = 64;

/** The address of a gateway as everything here writes it: no trailing slash. Raises StartError that says where it came from. */
export function parseBaseUrl(text: string, origin = '--base-url'): string {
  const wrong = (what: string) => {
    throw new StartError(`${origin} is no address of a gateway: ${what}; write https://gateway.example.com`, {
      exit_code: EXIT_USAGE,
    });
  };
  const problem = urlProblem(text, 'base');
  if (problem !== undefined) return wrong(problem);
  const { protocol, href } = new URL(text);
  if (protocol === 'http:' && !isLoopbackUrl(href)) {
    return wrong('over http everybody on the way could read your token, so it is taken for this machine only');
  }
  return href.replace(/\/+$/, '');
}

/**
 * Which gateway is meant: the one given, else that of APPSCLI_BASE_URL, else the only one known. Raises StartError that
 * lists those there are.
 */
export function chooseBaseUrl(given: string | undefined, env: NodeJS.ProcessEnv, known: readonly string[]): string {
  if (given !== undefined) return parseBaseUrl(given);
  const preset = env.APPSCLI_BASE_URL ?? '';
  if (preset !== '') return parseBaseUrl(preset, 'APPSCLI_BASE_URL');
  if (known.length === 1) return known[0]!;
  throw new StartError(
    known.length === 0
      ? 'which gateway? You are signed in at none: appscli login --base-url https://gateway.example.com'
      : `which gateway? You are signed in at ${known.join(', ')}: name one with --base-url or APPSCLI_BASE_URL`,
    { exit_code: EXIT_USAGE },
  );
}

/** Whether two addresses are of one origin: same scheme, host and port. */
export function sameOrigin(a: string, b: string): boolean {
  return URL.canParse(a) && URL.canParse(b) && new URL(a).origin === new URL(b).origin;
}
