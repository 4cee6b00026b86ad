import { isJson, mediaType } from '../kit/media-type.ts';
import { shortText } from './answer-lines.ts';
import { type Maker, makerOf } from './products.ts';
import type { Answer } from './read-answer.ts';

/** An answer that is none of an API, and whose it is as far as that can be told. */
export interface ForeignAnswer {
  readonly kind: 'redirect' | 'login' | 'page' | 'text' | 'empty' | 'truncated' | 'unreadable';
  /** As a noun, without a full stop: `the login page "Sign in" (status 200)`. */
  readonly what: string;
  /** What to do about it, as far as it was recognised. */
  readonly remedy: string;
}

/** What came in place of JSON. `undefined` for whole JSON that is no redirect, whatever is in it. */
export function foreignAnswer(answer: Answer): ForeignAnswer | undefined {
  if (isRedirect(answer)) return redirect(answer);
  if (answer.fault !== undefined) return unreadable(answer, answer.fault);
  if (answer.json !== undefined) return undefined;
  if (answer.text.trim() === '') return empty(answer);
  return isHtml(answer) ? page(answer) : text(answer);
}

/** Whether an answer is a web page, whatever its headers say. */
function isHtml({ headers, text }: Pick<Answer, 'headers' | 'text'>): boolean {
  return /^\s*<(!doctype html|html|head|body|meta|title|!--|h1|script|\?xml)/i.test(text) || isHtmlType(headers, text);
}

function isHtmlType(headers: Answer['headers'], text: string): boolean {
  return /^(text\/html|application\/xhtml\+xml)$/.test(mediaType(headers['content-type'])) && !/^\s*[{[]/.test(text);
}

/**
 * The same for an answer that had to be an error: what answers with pages of its own may do so only in place of errors of
 * the gateway, which then says nothing about whether it reaches that.
 */
export function foreignError(answer: Answer): ForeignAnswer | undefined {
  const foreign = foreignAnswer(answer);
  if (foreign?.kind !== 'page' || answer.status < 400 || asksForPassword(answer)) return foreign;
  const { kind, what, remedy } = foreign;
  const intercepts =
    'where other answers come through, a proxy puts pages of its own in place of errors: switch that off (nginx: proxy_intercept_errors off)';
  return { kind, what, remedy: `${intercepts}; else: ${remedy}` };
}

const SIGN_IN_ADDRESS =
  /(^|[./_-])(log[-_]?in|sign[-_]?in|sso|saml2?|oauth2?|openid(-connect)?|authorize|accounts?|idp|okta|auth0|cloudflareaccess|cdn-cgi\/access)([./_?-]|$)/i;

const SIGN_IN_PAGE =
  /<input[^>]{0,300}type=["']?password|SAMLRequest|<(title|h1)[^>]{0,100}>[^<]{0,80}(sign[ -]?in|log[ -]?in|single sign|anmeld|authenticat)/i;

const BROWSER_CHECK =
  /<title>(Just a moment|Attention Required)|cf-challenge|challenge-platform|enable JavaScript and cookies/i;

const LET_THROUGH = 'let /v1/ through to the gateway without it: clients bring a token of their own';

function isRedirect({ status }: Answer): boolean {
  return status >= 300 && status < 400 && status !== 304;
}

function redirect({ status, headers }: Answer): ForeignAnswer {
  const { location } = headers;
  if (location === undefined)
    return {
      kind: 'redirect',
      what: `a redirect (status ${status}) that does not say where to`,
      remedy: 'clients follow no redirects: have whatever answered pass /v1/ on to the gateway',
    };
  const address = withoutQuery(location);
  const what = `a redirect (status ${status}) to ${shortText(address, 120)}`;
  if (SIGN_IN_ADDRESS.test(address))
    return {
      kind: 'login',
      what: `${what}, where people sign in`,
      remedy: `a proxy in front of the gateway asks for a sign-in: ${LET_THROUGH}`,
    };
  return {
    kind: 'redirect',
    what,
    remedy: /^https?:/.test(address)
      ? 'clients follow no redirects: where that is the address of the gateway, give it to them; else let /v1/ through'
      : 'clients follow no redirects: have whatever answered pass /v1/ on to the gateway as it is',
  };
}

/** A query may hold what nobody else should see, and so may a user's name. */
function withoutQuery(location: string): string {
  const address = location.replace(/[?#].*$/s, '');
  return address.replace(/^(\w+:)?\/\/[^/]*@/, '$1//');
}

const UNREADABLE: Readonly<Record<NonNullable<Answer['fault']>, { what: string; remedy: string }>> = {
  cut: {
    what: 'an answer that broke off',
    remedy:
      'something closed the connection: look into the logs of the gateway and of proxies, and at their time limits',
  },
  too_late: {
    what: 'an answer that did not end in time',
    remedy: 'look into the logs of the gateway: does its upstream answer, and is something on the way holding it back?',
  },
  too_large: {
    what: 'an answer that is larger than any of this API',
    remedy: 'is the address that of the gateway?',
  },
  encoding: {
    what: 'an answer whose compression can not be taken off',
    remedy: 'something on the way changed the body or its content-encoding: it has to pass both as they are',
  },
};

function unreadable({ status }: Answer, fault: NonNullable<Answer['fault']>): ForeignAnswer {
  const { what, remedy } = UNREADABLE[fault];
  return { kind: 'unreadable', what: `${what} (status ${status})`, remedy };
}

function empty(answer: Answer): ForeignAnswer {
  const maker = makerOf(answer);
  return {
    kind: 'empty',
    what: `an empty answer (status ${answer.status})${by(maker)}`,
    remedy: remedyFor(answer, maker),
  };
}

function page(answer: Answer): ForeignAnswer {
  const maker = makerOf(answer);
  const head = answer.text.slice(0, 100_000);
  const title = shortText(
    /<title[^>]{0,200}>([^<]{1,400})/i.exec(head)?.[1] ?? /<h1[^>]{0,200}>([^<]{1,400})/i.exec(head)?.[1] ?? '',
    80,
  );
  const name = `${title === '' ? 'a web page' : `the web page "${title}"`} (status ${answer.status})`;
  const what = `${name}${by(maker)}`;
  if (BROWSER_CHECK.test(head))
    return {
      kind: 'login',
      what: `${what}, which checks browsers`,
      remedy: 'switch that check off for /v1/: coding clients are no browsers',
    };
  if (SIGN_IN_PAGE.test(head) && (answer.status < 400 || answer.status === 401 || answer.status === 403))
    return {
      kind: 'login',
      what: `${what}, where people sign in`,
      remedy: `a proxy in front of the gateway asks for a sign-in: ${LET_THROUGH}`,
    };
  return { kind: 'page', what, remedy: remedyFor(answer, maker) };
}

function text(answer: Answer): ForeignAnswer {
  const { status, headers } = answer;
  if (/^\s*[{[]/.test(answer.text) && (isJson(headers['content-type']) || /"\s*:/.test(answer.text)))
    return {
      kind: 'truncated',
      what: `JSON that can not be read (status ${status}): ${shortText(answer.text, 60)}`,
      remedy: 'something on the way cut or changed the body: look at limits and filters of proxies',
    };
  const maker = makerOf(answer);
  return {
    kind: 'text',
    what: `text that is no JSON (status ${status})${by(maker)}: ${shortText(answer.text, 80)}`,
    remedy: remedyFor(answer, maker),
  };
}

function by(maker: Maker | undefined): string {
  if (maker === undefined) return '';
  return maker.is_own ? ` of ${maker.name}` : ` by way of ${maker.name}`;
}

/** Whether a proxy wants to know people by a way of its own, which no API has. */
function asksForPassword({ status, headers }: Pick<Answer, 'status' | 'headers'>): boolean {
  return status === 401 && /^\s*(basic|negotiate|ntlm|digest)\b/i.test(headers['www-authenticate'] ?? '');
}

function remedyFor({ status, headers }: Answer, maker: Maker | undefined): string {
  const is_known = maker?.is_own === true;
  const proxy = is_known ? maker.name : 'a proxy in front';
  if (asksForPassword({ status, headers })) return `${proxy} asks for a password of its own: ${LET_THROUGH}`;
  switch (status) {
    case 401:
    case 403:
      return is_known
        ? `${proxy} refused the request, not the gateway: have it let /v1/ through`
        : 'if a proxy or firewall in front refused it, have it let /v1/ through; a gateway has to refuse in JSON';
    case 404:
    case 405:
      return 'nothing is served there: is the address that of the gateway, and does a proxy in front pass all of /v1/ on?';
    case 407:
      return 'a proxy on the way out wants a password: give it with HTTPS_PROXY, or name the gateway in NO_PROXY';
    case 408:
    case 504:
      return `${proxy} did not wait for the answer: have it wait ten minutes (nginx: proxy_read_timeout 600s)`;
    case 413:
      return `${proxy} refuses large requests: have it pass 32 MB (nginx: client_max_body_size 32m)`;
    case 500:
      return 'look into the logs of the gateway: an error has to be told as JSON';
    case 503:
      return maker?.is_own && maker.name === 'nginx'
        ? 'nginx refuses by itself: by a limit of requests or connections (limit_req, limit_conn), or for maintenance'
        : `${proxy} has nothing behind it that it may ask: is the gateway running, and does its health check pass?`;
    case 502:
      return `${proxy} gets no answer from the gateway: is that running, and at the address that the proxy forwards to?`;
    default:
      return status < 300
        ? 'does something in front, or a web application, answer in place of the gateway? Is the address right, and is /v1/ passed on?'
        : 'a gateway answers in JSON: does something in front answer in its place?';
  }
}
