import { isIP } from 'node:net';

/** Host and port of `host:port` or `[ipv6]:port`; `undefined` when the text is neither. */
export function parseListenAddress(text: string): { readonly host: string; readonly port: number } | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})$/.exec(text);
  const host = match?.[1]?.replace(/^\[|\]$/g, '');
  const port = Number(match?.[2]);
  if (host === undefined || port > 65535) return undefined;
  if (match?.[1]?.startsWith('[') && isIP(host) !== 6) return undefined;
  // 300.1.1.1 is no host name either: a last label of digits makes it an address.
  if (/\.?\d+$/.test(host) && /^[\d.]+$/.test(host) && isIP(host) !== 4) return undefined;
  return { host, port };
}

/** Whether a text is an IP address or a range in CIDR notation. */
export function isAddressRange(text: string): boolean {
  const [address = '', bits, ...more] = text.split('/');
  const family = isIP(address);
  if (family === 0 || more.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (family === 4 ? 32 : 128));
}

/** Whether the IANA database knows a time zone. */
export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return /^[A-Za-z]/.test(name);
  } catch {
    return false;
  }
}

/** What is wrong with a URL, in words that never repeat it; `undefined` when nothing is. */
export function urlProblem(text: string, kind: unknown): string | undefined {
  if (/\s/.test(text)) return 'it holds a space';
  if (/^https?:\/\/[^/]*:\d+(?:[/?#]|$)/i.test(text) && !URL.canParse(text)) return 'its port is above 65535';
  if (!URL.canParse(text)) return 'it is not an absolute URL';
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'its scheme is neither http nor https';
  if (!/^https?:\/\/[^/]/i.test(text)) return 'it names no host';
  if (url.username !== '' || url.password !== '') return 'it holds credentials';
  if (text.includes('#')) return 'it has a fragment';
  if (kind === 'base' && text.includes('?')) return 'it has a query';
  return undefined;
}

/** Whether a URL leads to the machine it is used on. */
export function isLoopbackUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { hostname } = new URL(text);
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}
