import type { CheckOutcome } from '../../contract/checks.ts';
import { isLoopbackUrl } from '../../kit/net/addresses.ts';
import { printableWord } from '../../kit/text/printable.ts';
import { isKeyAnywhere } from './credential-text.ts';

/** What is wrong with an address that has to end in `/v1`. */
export interface V1Address extends CheckOutcome {
  /** What to write instead, where that is certain. */
  readonly better?: string;
  /** The gateway that is meant, without `/v1`; `undefined` where it can't be told. */
  readonly root_url: string | undefined;
}

/** Paths behind `/v1` that clients of this kind add themselves. */
const OF_THE_CLIENT = /\/(?:chat\/completions|completions|responses|messages|models)$/;

const EXAMPLE = 'write it as https://gateway.example.com/v1';

/** Looks at the `base_url` of a client of chat completions or Responses. */
export function judgeV1Address(given: unknown): V1Address {
  if (typeof given !== 'string' || given.trim() === '') {
    return { verdict: 'failed', found: 'base_url is no address', remedy: EXAMPLE, root_url: undefined };
  }
  const text = given.trim();
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.host === '') {
    const found = `base_url is ${shown(text)}, which does not begin with https:// or http://`;
    return { verdict: 'failed', found, remedy: EXAMPLE, root_url: undefined };
  }
  if (url.username !== '' || url.password !== '') {
    const found = 'base_url holds a user name or password';
    return { verdict: 'failed', found, remedy: `take it out; ${EXAMPLE}`, root_url: undefined };
  }
  if (url.search !== '' || url.hash !== '') {
    const found = 'base_url has a question mark or # in it, and the client writes its own path behind that';
    return { verdict: 'failed', found, remedy: `take that part away; ${EXAMPLE}`, root_url: undefined };
  }
  return judgePath(given, url);
}

function judgePath(given: string, url: URL): V1Address {
  const path = url.pathname.replace(/\/+$/, '');
  const parent = path.replace(OF_THE_CLIENT, '');
  const meant = /\/v1$/.test(parent) ? parent.replace(/(?:\/v1)+$/, '/v1') : path === '' ? '/v1' : undefined;
  if (meant === undefined) return otherPath(url);
  const better = url.origin + meant;
  const root_url = better.slice(0, -'/v1'.length);
  if (meant === path && given === given.trim()) return judgeScheme(url, root_url);
  const why =
    path === ''
      ? `the client asks ${url.origin}/chat/completions or /responses, where a gateway has nothing`
      : 'the client adds the rest of the path itself';
  const found = `base_url is ${shown(given)}, which has to end in /v1: ${why}`;
  return { verdict: 'failed', found, remedy: `write base_url = "${better}"`, better, root_url };
}

/** A path that is not ours: servers of others need not have `/v1`. */
function otherPath(url: URL): V1Address {
  return {
    verdict: 'warning',
    found: `base_url is ${shown(url.href)}, which does not end in /v1`,
    remedy: `a gateway of ours is at ${url.origin}/v1, unless a proxy puts it elsewhere`,
    root_url: undefined,
  };
}

function judgeScheme(url: URL, root_url: string): V1Address {
  if (url.protocol === 'https:' || isLoopbackUrl(url.href)) {
    return { verdict: 'ok', found: `requests go to ${shown(url.href)}`, root_url };
  }
  return {
    verdict: 'warning',
    found: `base_url is ${shown(url.href)}: everybody on the way can read the key and all texts`,
    remedy: 'use the https:// address of the gateway',
    root_url,
  };
}

function shown(text: string): string {
  if (isKeyAnywhere(text)) return 'a key';
  return printableWord(text.length > 200 ? `${text.slice(0, 200)}...` : text);
}
