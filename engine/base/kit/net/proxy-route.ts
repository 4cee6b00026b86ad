import { isIP } from 'node:net';
import { secretPlace } from '../secret-names.ts';
import { compileRanges, rangeProblem } from './address-range.ts';
import { isLoopbackUrl } from './addresses.ts';

type Env = Readonly<Record<string, string | undefined>>;

export interface Way {
  /** The HTTP proxy; `undefined` for a direct connection. It may contain a credential: never show it. */
  readonly proxy: URL | undefined;
  readonly by: string;
}

/** A direct connection by default. */
export const DIRECT: Way = { proxy: undefined, by: '' };

/** A variable or key with an unusable proxy address. Its message never repeats the value, which may contain a password. */
export class UnusableProxy extends Error {
  override readonly name = 'UnusableProxy';
  readonly code = 'ERR_PROXY_INVALID_CONFIG';
  readonly by: string;

  constructor(by: string, problem: string) {
    super(`${by} ${problem}`);
    this.by = by;
  }
}

/** The proxy variables for a scheme, in order of priority; lower case first, as in curl. */
export function proxyVariables(protocol: string): readonly string[] {
  return [protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY', 'ALL_PROXY'].flatMap((name) => [
    name.toLowerCase(),
    name,
  ]);
}

const firstSet = (names: readonly string[], env: Env) => names.find((name) => (env[name] ?? '').trim() !== '');

/** The variable that decides the route to a URL, in either case; `undefined` without one, and for loopback addresses. */
export function decidingVariable(
  url: URL,
  env: Env,
): { readonly name: string; readonly is_proxy: boolean } | undefined {
  const name = firstSet(proxyVariables(url.protocol), env);
  if (name === undefined || isLoopbackUrl(url.href)) return undefined;
  const exceptions = firstSet(['no_proxy', 'NO_PROXY'], env);
  const is_exception = exceptions !== undefined && isException(url, env[exceptions]!);
  return is_exception ? { name: exceptions, is_proxy: false } : { name, is_proxy: true };
}

/** The route to a URL by environment variables. Raises UnusableProxy. */
export function proxyRouteTo(url: URL, env: Env): Way {
  const variable = decidingVariable(url, env);
  if (variable === undefined) return DIRECT;
  const { name: by, is_proxy } = variable;
  return { proxy: is_proxy ? parseProxy(env[by]!, by) : undefined, by };
}

/** Value of a key `proxy`: `none`, the address of a proxy, or the name of the secret with it. */
type ProxySetting = string | { readonly url_env: string };

/** The route by a key `proxy`; direct without one. Raises UnusableProxy. */
export function configuredProxyRoute(proxy: ProxySetting | undefined, secret: (variable: string) => string): Way {
  if (proxy === undefined) return DIRECT;
  if (typeof proxy === 'object') {
    const by = secretPlace(proxy.url_env);
    return { proxy: parseProxy(secret(proxy.url_env), by), by };
  }
  const by = 'upstreams[].proxy';
  return { proxy: proxy === 'none' ? undefined : parseProxy(proxy, by), by };
}

/** A route in words, without credentials: `directly`, `through the proxy proxy.example.com:3128 (HTTPS_PROXY)`. */
export function describeProxyRoute({ proxy, by }: Way): string {
  const way = proxy === undefined ? 'directly' : `through the proxy ${proxyHost(proxy)}`;
  return by === '' ? way : `${way} (${by})`;
}

export function proxyHost({ hostname, port, protocol }: URL): string {
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`;
}

/** The address of a proxy, of HTTP without a scheme. @param by the variable or key with it. Raises UnusableProxy. */
export function parseProxy(text: string, by: string): URL {
  const problem = proxyProblem(text);
  if (problem !== undefined) throw new UnusableProxy(by, problem);
  return new URL(withScheme(text));
}

const ENCODE = 'write @ : / ? # in a password as %40 %3A %2F %3F %23';

/** Why a proxy address cannot be used, as the end of a sentence; never repeats the address. */
export function proxyProblem(text: string): string | undefined {
  const full = withScheme(text);
  if (/\s/.test(text.trim())) return 'contains a space';
  if (/^socks/i.test(full)) return 'names a SOCKS proxy, which the gateway does not support: name an HTTP proxy';
  // A raw / ? or # in a password usually breaks the URL.
  if (!URL.canParse(full) && /[/?#].*@/.test(full.replace(/^.*?:\/\//, '')))
    return `has a password with characters that must be percent-encoded: ${ENCODE}`;
  if (!URL.canParse(full)) return 'is not the address of a proxy, such as http://proxy.example.com:3128';
  const { protocol, hostname, pathname, search, hash } = new URL(full);
  if (protocol !== 'http:' && protocol !== 'https:') return 'has a scheme that is neither http nor https';
  if (hostname === '') return 'has no host';
  if (pathname !== '/' || search !== '' || hash !== '') return `has more than host and port: ${ENCODE}`;
  return undefined;
}

const withScheme = (text: string) => (text.includes('://') ? text.trim() : `http://${text.trim()}`);

const ENTRIES_MAX = 1000;

/** Whether NO_PROXY lists a URL, as the most generous programs read it: bare names include subdomains. */
function isException(url: URL, no_proxy: string): boolean {
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  return no_proxy
    .split(/[,\s]+/)
    .filter((entry) => entry !== '')
    .slice(0, ENTRIES_MAX)
    .some((entry) => matches(entry.toLowerCase(), host.toLowerCase(), port));
}

/** An entry is `*`, a name, `.name` or `*.name` for subdomains, an address, or a range. Names and addresses may have a port. */
function matches(entry: string, host: string, port: string): boolean {
  if (entry === '*') return true;
  if (entry.includes('/')) return rangeProblem(entry) === undefined && compileRanges([entry])(host);
  const [, name = entry, wanted_port] = isIP(entry) === 6 ? [] : (/^(\[[^\]]+\]|[^[\]]*):(\d{1,5})$/.exec(entry) ?? []);
  if (wanted_port !== undefined && wanted_port !== port) return false;
  const wanted = canonical(name);
  const suffix = wanted.replace(/^\*?\./, '');
  return suffix === host || (isIP(host) === 0 && host.endsWith(`.${suffix}`));
}

/** Normalises IPv6 addresses and internationalised names as URLs do. */
function canonical(name: string): string {
  const address = name.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  const prefix = /^\*?\./.exec(address)?.[0] ?? '';
  const url = `http://${isIP(address) === 6 ? `[${address}]` : address.slice(prefix.length)}`;
  return URL.canParse(url) ? prefix + new URL(url).hostname.replace(/^\[|\]$/g, '') : address;
}
