import { failed, ok, skipped, warning } from '../../base/contract/checks.ts';
import type { Exchange } from '../../base/kit/net/exchange.ts';
import { REQUEST_ID_HEADER } from '../../pipeline/run/headers.ts';
import { CALLBACK_PATH, CONSOLE_SIGN_IN_PATH, DISCOVERY_PATH } from '../http/sign-in/paths.ts';
import { type Answer, cameLine, fieldsOf, foreignAnswer, readAnswer, shortText } from './answer.ts';
import type { SelfCheckOutcome } from './check.ts';

/** The public URL without a slash at its end, and a GET below it without a credential. */
export interface SignInSubject {
  readonly root_url: string;
  get(path: string): Promise<Exchange>;
}

/** A gateway redirects once to its public URL at most. */
const REDIRECTS_MAX = 3;

/**
 * Whether the sign-in page of the console leads a browser from the public URL to the identity provider. Follows redirects to
 * that page alone, and asks the identity provider nothing.
 */
export async function probeSignIn(subject: SignInSubject): Promise<SelfCheckOutcome> {
  const { root_url, get } = subject;
  const { status, json } = await readAnswer(await get(DISCOVERY_PATH));
  const { issuer } = fieldsOf(json);
  if (status !== 200 || typeof issuer !== 'string')
    return skipped(`nobody signs in here (GET ${DISCOVERY_PATH}: status ${status})`);
  if (issuer !== root_url) return skipped(`people sign in at another address: ask at ${shortText(issuer)}`);
  let path = CONSOLE_SIGN_IN_PATH;
  for (const asked = new Set<string>(); ; ) {
    asked.add(path);
    const answer = await readAnswer(await get(path));
    const next = nextBelow(root_url, path, answer);
    if (next === undefined) return { ...judge(root_url, path, answer), ...travelled(path, answer) };
    if (asked.has(next) || asked.size > REDIRECTS_MAX) return { ...LOOP, ...travelled(path, answer) };
    path = next;
  }
}

const LOOP = failed(
  'the sign-in page of the console redirects to itself: no browser gets in',
  'upgrade the gateway; until then let the proxy pass the host with its port on (nginx: proxy_set_header Host $http_host). Where the proxy makes the redirect itself, remove it there',
);

function travelled(path: string, answer: Answer): Pick<SelfCheckOutcome, 'sent' | 'came'> {
  return { sent: `GET ${shortText(path)}, without a token`, came: cameLine(answer) };
}

/** The URL that a redirect leads to; `undefined` for what is none. */
function target(root_url: string, path: string, { status, headers }: Answer): URL | undefined {
  const { location } = headers;
  const base = `${root_url}${path}`;
  const is_redirect = status >= 300 && status < 400 && location !== undefined;
  return is_redirect && URL.canParse(location, base) ? new URL(location, base) : undefined;
}

/** The path, below the public URL, of a redirect from the sign-in page to that page. */
function nextBelow(root_url: string, path: string, answer: Answer): string | undefined {
  const to = target(root_url, path, answer);
  const page = new URL(`${root_url}${CONSOLE_SIGN_IN_PATH}`);
  if (to === undefined || to.origin !== page.origin || to.pathname.replace(/\/$/, '') !== page.pathname)
    return undefined;
  return `${to.pathname.slice(page.pathname.length - CONSOLE_SIGN_IN_PATH.length)}${to.search}`;
}

function judge(root_url: string, path: string, answer: Answer): SelfCheckOutcome {
  const to = target(root_url, path, answer);
  if (to?.searchParams.has('client_id') === true) return judgeProvider(root_url, to);
  const foreign = foreignAnswer(answer);
  if (answer.status === 404 || foreign === undefined)
    return skipped(`there is no console here (status ${answer.status})`);
  if (answer.headers[REQUEST_ID_HEADER] !== undefined && to === undefined) return judgeOwnPage(answer);
  return failed(
    `in place of the way to the identity provider comes ${foreign.found}`,
    `let the proxy pass ${CONSOLE_SIGN_IN_PATH} and ${CALLBACK_PATH} on to the gateway as they are, without a redirect or sign-in of its own`,
  );
}

function judgeProvider(root_url: string, to: URL): SelfCheckOutcome {
  const back = to.searchParams.get('redirect_uri');
  if (back === null || back === new URL(`${root_url}${CALLBACK_PATH}`).href)
    return ok(`it leads to the identity provider at ${shortText(to.origin)}`);
  return failed(
    `the identity provider would send people back to ${shortText(back)}, which is not below this address`,
    'correct server.public_url, or where the proxy forwards to',
  );
}

/** A page on which the gateway says why nobody can sign in now. */
function judgeOwnPage({ status, text }: Answer): SelfCheckOutcome {
  const title = /<h1>([^<]{1,200})/.exec(text)?.[1];
  const found = `the gateway answers ${status}${title === undefined ? '' : `: ${shortText(title)}`}`;
  if (status === 429) return skipped(found);
  if (status < 500) return failed(found, 'open that page in a browser: it says what to do');
  return warning(found, 'is the identity provider reachable from the gateway? "appscli check --live" there asks it');
}
