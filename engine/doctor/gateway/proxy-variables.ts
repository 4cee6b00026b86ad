import type { CheckOutcome } from '../../contract/checks.ts';
import { isLoopbackUrl } from '../../kit/net/addresses.ts';
import { isException, proxyVariables } from '../../kit/net/way.ts';
import { printableLine } from '../../kit/text/printable.ts';

/** How requests to an address leave this machine, by its variables. */
export interface WayOut {
  /** The proxy that clients send them to; `undefined` where they go there directly. Holds its credentials, so it is never shown. */
  readonly proxy: URL | undefined;
  /** Which variable says so. */
  readonly variable: string | undefined;
  /** What is worth saying about the variables; nothing where none is set. */
  readonly outcome: CheckOutcome | undefined;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** Reads HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY, in small letters too, as clients do. */
export function wayOut(root_url: string, env: Environment): WayOut {
  const url = new URL(root_url);
  const set = proxyVariables(url.protocol).filter((name) => (env[name] ?? '') !== '');
  const variable = set[0];
  if (variable === undefined) return { proxy: undefined, variable: undefined, outcome: undefined };
  const exceptions = env.no_proxy || env.NO_PROXY || '';
  const bypassed = isException(url, exceptions);
  if (bypassed === 'yes') {
    const found = `NO_PROXY says that ${url.host} is reached without ${variable}`;
    return { proxy: undefined, variable, outcome: { verdict: 'ok', found } };
  }
  const proxy = readProxy(env[variable]!);
  if (typeof proxy === 'string') {
    const outcome: CheckOutcome = {
      verdict: 'failed',
      found: `${variable} ${proxy}, so clients reach nothing, or pass by the proxy`,
      remedy: `write it as in ${variable}=http://proxy.example.com:3128, or take it away`,
    };
    return { proxy: undefined, variable, outcome };
  }
  return { proxy, variable, outcome: judge({ url, proxy, variable, env, exceptions, bypassed }) };
}

function judge(given: {
  readonly url: URL;
  readonly proxy: URL;
  readonly variable: string;
  readonly env: Environment;
  readonly exceptions: string;
  readonly bypassed: 'some' | 'no';
}): CheckOutcome {
  const { url, proxy, variable, env, exceptions, bypassed } = given;
  const { hostname } = url;
  const by = `${variable} sends requests to ${url.host} through the proxy ${proxy.host}`;
  const add = `add ${hostname} to NO_PROXY (NO_PROXY=${[printableLine(exceptions.slice(0, 200)), hostname].filter((each) => each !== '').join(',')})`;
  if (isLoopbackUrl(url.href)) {
    return { verdict: 'failed', found: `${by}, and this address is this machine itself`, remedy: add };
  }
  if (bypassed === 'some') {
    const found = `${by} for some clients and not for others: they read NO_PROXY in different ways`;
    return { verdict: 'warning', found, remedy: `write the whole name: ${add}` };
  }
  const [small, large] = [env[variable.toLowerCase()], env[variable.toUpperCase()]];
  if (small && large && small !== large) {
    const found = `${variable.toUpperCase()} and ${variable.toLowerCase()} name different proxies, and clients differ in which they read`;
    return { verdict: 'warning', found, remedy: 'give both the same value, or take one of them away' };
  }
  if (variable.toUpperCase() === 'ALL_PROXY') {
    const found = `${by} for clients that read it; others go there directly`;
    const remedy = `set ${url.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY'}, which all of them read`;
    return { verdict: 'warning', found, remedy };
  }
  if (!/^https?:$/.test(proxy.protocol)) {
    const found = `${variable} names a proxy that speaks ${printableLine(proxy.protocol.replace(':', ''))}, which not all clients do`;
    return { verdict: 'warning', found, remedy: 'name a proxy with http:// where there is one' };
  }
  return { verdict: 'ok', found: by };
}

/** The address of a proxy, or what is wrong with the text, which may hold a password. */
function readProxy(text: string): URL | string {
  const full = text.includes('://') ? text : `http://${text}`;
  if (/\s/.test(text)) return 'holds a space';
  if (!URL.canParse(full)) return 'is no address of a proxy';
  const url = new URL(full);
  if (url.hostname === '') return 'names no host';
  if (!/^(?:https?|socks[45][ah]?|socks):$/.test(url.protocol)) return 'names no kind of proxy that there is';
  return url;
}
