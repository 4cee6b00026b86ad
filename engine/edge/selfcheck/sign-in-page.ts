import { failed, ok, skipped, warning } from '../../base/contract/checks.ts';
import type { Exchange } from '../../base/kit/net/exchange.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { CALLBACK_PATH, CONSOLE_SIGN_IN_PATH, DISCOVERY_PATH } from '../http/sign-in/paths.ts';
import { type Answer, cameLine, fieldsOf, nonApiResponse, readAnswer, shortText } from './answer.ts';
import type { SelfCheckOutcome } from './check.ts';

/** The public URL without a trailing slash, and a GET below it without a credential. */
export interface SignInSubject {
  readonly root_url: string;
  get(path: string): Promise<Exchange>;
}

/** More than any gateway needs: it redirects at most once to its public URL. */
const REDIRECTS_MAX = 3;

/**
 * Whether the sign-in page of the console redirects a browser to the identity provider. Follows only redirects to that page,
 * and sends nothing to the identity provider.
 */
export async function probeSignIn(subject: SignInSubject): Promise<SelfCheckOutcome> {
  const { root_url, get } = subject;
  const { status, json } = await readAnswer(await get(DISCOVERY_PATH));
  const { issuer } = fieldsOf(json);
  if (status !== 200 || typeof issuer !== 'string')
    return skipped(`sign-in is not enabled (GET ${DISCOVERY_PATH}: status ${status})`);
  if (issuer !== root_url) return skipped(`sign-in uses another address: check ${shortText(issuer)}`);
  let path = CONSOLE_SIGN_IN_PATH;
  for (const visited = new Set<string>(); ; ) {
    visited.add(path);
    const answer = await readAnswer(await get(path));
    const next = nextBelow(root_url, path, answer);
    if (next === undefined) return { ...evaluate(root_url, path, answer), ...travelled(path, answer) };
    if (visited.has(next) || visited.size > REDIRECTS_MAX) return { ...LOOP, ...travelled(path, answer) };
    path = next;
  }
}

const LOOP = failed(
  'the sign-in page of the console redirects to itself: sign-in is impossible',
  'upgrade the gateway; until then make the proxy forward the host with its port (nginx: proxy_set_header Host $http_host). If the proxy itself redirects, remove that redirect',
);

function travelled(path: string, answer: Answer): Pick<SelfCheckOutcome, 'sent' | 'came'> {
  return { sent: `GET ${shortText(path)}, without a token`, came: cameLine(answer) };
}

/** The target of a redirect; `undefined` for another response. */
function target(root_url: string, path: string, { status, headers }: Answer): URL | undefined {
  const { location } = headers;
  const base = `${root_url}${path}`;
  const is_redirect = status >= 300 && status < 400 && location !== undefined;
  return is_redirect && URL.canParse(location, base) ? new URL(location, base) : undefined;
}

/** The path below the public URL, if the sign-in page redirects to itself. */
function nextBelow(root_url: string, path: string, answer: Answer): string | undefined {
  const to = target(root_url, path, answer);
  const page = new URL(`${root_url}${CONSOLE_SIGN_IN_PATH}`);
  if (to === undefined || to.origin !== page.origin || to.pathname.replace(/\/$/, '') !== page.pathname)
    return undefined;
  return `${to.pathname.slice(page.pathname.length - CONSOLE_SIGN_IN_PATH.length)}${to.search}`;
}

function evaluate(root_url: string, path: string, answer: Answer): SelfCheckOutcome {
  const to = target(root_url, path, answer);
  if (to?.searchParams.has('client_id') === true) return evaluateRedirect(root_url, to);
  const foreign = nonApiResponse(answer);
  if (answer.status === 404 || foreign === undefined) return skipped(`no console (status ${answer.status})`);
  if (answer.headers[REQUEST_ID_HEADER] !== undefined && to === undefined) return evaluateErrorPage(answer);
  return failed(
    `expected a redirect to the identity provider, got ${foreign.found}`,
    `make the proxy forward ${CONSOLE_SIGN_IN_PATH} and ${CALLBACK_PATH} unchanged to the gateway, without its own redirect or sign-in`,
  );
}

function evaluateRedirect(root_url: string, to: URL): SelfCheckOutcome {
  const back = to.searchParams.get('redirect_uri');
  if (back === null || back === new URL(`${root_url}${CALLBACK_PATH}`).href)
    return ok(`redirects to the identity provider at ${shortText(to.origin)}`);
  return failed(
    `the redirect URI ${shortText(back)} is not below this address`,
    'correct server.public_url, or the target of the proxy',
  );
}

/** The outcome of the gateway's own error page. */
function evaluateErrorPage({ status, text }: Answer): SelfCheckOutcome {
  const title = /<h1>([^<]{1,200})/.exec(text)?.[1];
  const found = `the gateway returns ${status}${title === undefined ? '' : `: ${shortText(title)}`}`;
  if (status === 429) return skipped(found);
  if (status < 500) return failed(found, 'open that page in a browser for the remedy');
  return warning(found, 'run "appscli check --live" on the gateway host to check the identity provider');
}
