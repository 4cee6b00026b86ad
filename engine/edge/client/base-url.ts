import { COUNT_PATH, PROTOCOL_PATHS } from '../../base/contract/protocol.ts';
import { StartError } from '../../base/contract/start-error.ts';
import { isLoopbackUrl, urlProblem } from '../../base/kit/net/addresses.ts';

const EXIT_USAGE = 64;

/** Whether http is allowed for another machine, where the network can read the traffic. */
type PlainHttp = 'rejected' | 'allowed';

/** Parses and normalises a gateway's address (no trailing slash). Raises StartError that names its origin. */
export function parseBaseUrl(text: string, origin = '--base-url', plain_http: PlainHttp = 'rejected'): string {
  const wrong = (what: string) => {
    throw new StartError(
      `${origin} is not a gateway address: ${what}; expected an address such as https://gateway.example.com`,
      {
        exit_code: EXIT_USAGE,
      },
    );
  };
  const problem = urlProblem(text, 'base');
  if (problem !== undefined) return wrong(problem);
  const { protocol, href } = new URL(text);
  if (protocol === 'http:' && plain_http === 'rejected' && !isLoopbackUrl(href)) {
    return wrong('http exposes your token to the network, so it is allowed only for this machine');
  }
  return href.replace(/\/+$/, '');
}

/** Chooses `base_url`, else APPSCLI_BASE_URL, else the only known gateway. Raises StartError that lists those. */
export function chooseBaseUrl(
  base_url: string | undefined,
  env: NodeJS.ProcessEnv,
  known: readonly string[],
  plain_http: PlainHttp = 'rejected',
): string {
  if (base_url !== undefined) return parseBaseUrl(base_url, '--base-url', plain_http);
  const preset = env.APPSCLI_BASE_URL ?? '';
  if (preset !== '') return parseBaseUrl(preset, 'APPSCLI_BASE_URL', plain_http);
  if (known.length === 1) return known[0]!;
  throw new StartError(
    known.length === 0
      ? 'no gateway: name one with --base-url https://gateway.example.com, or sign in: appscli login --base-url https://gateway.example.com'
      : `several gateways: choose one of ${known.join(', ')} with --base-url or APPSCLI_BASE_URL`,
    { exit_code: EXIT_USAGE },
  );
}

/** An API path that people may copy along with a gateway's address. */
export const API_PATH = new RegExp(
  `(?:/v1|${[...Object.values(PROTOCOL_PATHS), COUNT_PATH, '/v1/models'].join('|')})$`,
);

/** A gateway's address without `/v1` or an API path. */
export function withoutApiPath(base_url: string): string {
  return base_url.replace(API_PATH, '').replace(/\/+$/, '');
}

export function sameOrigin(a: string, b: string): boolean {
  return URL.canParse(a) && URL.canParse(b) && new URL(a).origin === new URL(b).origin;
}
