import { BlockList, isIP } from 'node:net';

/**
 * The HTTP proxy that HTTPS_PROXY, HTTP_PROXY and NO_PROXY name for an address, in small letters first; `undefined` where it
 * is reached without one. Raises an Error with a code for what is no address.
 */
export function proxyFor(url: URL, env: Readonly<Record<string, string | undefined>>): URL | undefined {
  const name = url.protocol === 'https:' ? 'https_proxy' : 'http_proxy';
  const text = env[name] || env[name.toUpperCase()] || '';
  if (!/^https?:\/\//i.test(text) || isException(url, env.no_proxy || env.NO_PROXY || '') === 'yes') return undefined;
  if (URL.canParse(text)) return new URL(text);
  // The text may hold a password.
  throw Object.assign(new Error('no address of a proxy'), { code: 'ERR_PROXY_INVALID_CONFIG' });
}

/** Whether NO_PROXY names an address: for all clients, for some (they read names without a dot and ranges differently), or for none. */
export function isException(url: URL, no_proxy: string): 'yes' | 'some' | 'no' {
  const host = url.hostname.replace(/^\[|\]$/g, '').toLowerCase();
  const port = url.port || (url.protocol === 'https:' ? '443' : '80');
  const verdicts = no_proxy
    .split(/[,\s]+/)
    .filter((entry) => entry !== '')
    .slice(0, 1000)
    .map((entry) => matches(entry.toLowerCase(), host, port));
  return verdicts.includes('yes') ? 'yes' : verdicts.includes('some') ? 'some' : 'no';
}

function matches(entry: string, host: string, port: string): 'yes' | 'some' | 'no' {
  if (entry === '*') return 'yes';
  const [, name = entry, wanted_port] = /^(.*[^:]):(\d{1,5})$/.exec(entry) ?? [];
  if (isIP(entry.replace(/^\[|\]$/g, '')) === 6) return entry.replace(/^\[|\]$/g, '') === host ? 'yes' : 'no';
  if (wanted_port !== undefined && wanted_port !== port) return 'no';
  if (name === host) return 'yes';
  if (name.includes('/')) return inRange(name, host) ? 'some' : 'no';
  const suffix = name.replace(/^\*?\./, '');
  if (isIP(host) !== 0 || !host.endsWith(`.${suffix}`)) return 'no';
  // A name alone means its subdomains to some clients, and only itself to others.
  return name.startsWith('.') || name.startsWith('*.') ? 'yes' : 'some';
}

function inRange(range: string, host: string): boolean {
  const [address = '', bits = ''] = range.split('/');
  const family = isIP(address);
  if (family === 0 || family !== isIP(host) || !/^\d{1,3}$/.test(bits) || Number(bits) > (family === 4 ? 32 : 128))
    return false;
  const list = new BlockList();
  list.addSubnet(address, Number(bits), family === 4 ? 'ipv4' : 'ipv6');
  return list.check(host, family === 4 ? 'ipv4' : 'ipv6');
}
