import { BlockList, isIP } from 'node:net';

/** Host and port of `host:port` or `[ipv6]:port`; `undefined` for other texts. */
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

/** Whether the IANA database knows a time zone. */
export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return /^[A-Za-z]/.test(name);
  } catch {
    return false;
  }
}

/** Why a URL cannot be used, without repeating it; `undefined` if it can. */
export function urlProblem(text: string, kind: unknown): string | undefined {
  if (/\s/.test(text)) return 'it contains a space';
  if (/^https?:\/\/[^/]*:\d+(?:[/?#]|$)/i.test(text) && !URL.canParse(text)) return 'its port is above 65535';
  if (!URL.canParse(text)) return 'it is not an absolute URL';
  const url = new URL(text);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return 'its scheme is neither http nor https';
  if (!/^https?:\/\/[^/]/i.test(text)) return 'it has no host';
  if (url.username !== '' || url.password !== '') return 'it contains credentials';
  if (text.includes('#')) return 'it has a fragment';
  if (kind === 'base' && text.includes('?')) return 'it has a query';
  if (isMetadataHost(url.hostname))
    return 'its host is a cloud metadata service, which returns the credentials of this machine';
  return undefined;
}

/** Why a text is no web origin as browsers send it (RFC 6454 section 6.2), and the origin that was meant; `undefined` if it is one. */
export function originProblem(text: string): { readonly problem: string; readonly meant?: string } | undefined {
  if (text === '*') return { problem: 'a wildcard is not supported; list each origin' };
  if (text === 'null')
    return {
      problem:
        '`null` is the opaque origin of every file, sandboxed frame and redirect; serve the page from an https address, and list its origin',
    };
  if (text.includes('*'))
    return { problem: 'a wildcard is not supported, because origins are compared exactly; list each origin' };
  const [, scheme, host, rest] = /^([a-z][a-z\d+.-]*):\/\/([^\s/?#@\\]+)(.*)$/is.exec(text) ?? [];
  if (scheme === undefined || host === undefined) return { problem: 'it is not scheme://host[:port]' };
  const is_web = /^https?$/i.test(scheme);
  const written = `${scheme}://${host}`;
  if (is_web && !URL.canParse(written)) return { problem: 'it is not scheme://host[:port]' };
  // Pages of browser extensions and desktop applications have other schemes.
  const meant = is_web ? new URL(written).origin : written.replace(scheme, scheme.toLowerCase());
  if (rest !== '') return { problem: 'it has more than scheme, host and port', meant };
  return meant === text ? undefined : { problem: 'browsers send it in another form', meant };
}

/** Addresses of cloud metadata services, which hand out credentials: link-local, of single providers, behind NAT64. */
const METADATA_ADDRESSES = new BlockList();
METADATA_ADDRESSES.addSubnet('169.254.0.0', 16, 'ipv4');
METADATA_ADDRESSES.addAddress('100.100.100.200', 'ipv4');
METADATA_ADDRESSES.addAddress('168.63.129.16', 'ipv4');
METADATA_ADDRESSES.addAddress('192.0.0.192', 'ipv4');
METADATA_ADDRESSES.addSubnet('fe80::', 10, 'ipv6');
METADATA_ADDRESSES.addSubnet('fd00:ec2::', 32, 'ipv6');
METADATA_ADDRESSES.addSubnet('fd20:ce::', 32, 'ipv6');
METADATA_ADDRESSES.addSubnet('64:ff9b::169.254.0.0', 112, 'ipv6');

const METADATA_NAME =
  /^(?:metadata|instance-data|metadata\.goog|metadata\.tencentyun\.com|(?:.+\.)?(?:metadata|instance-data)\.[a-z0-9.]*internal)$/;

/** Whether the host of a parsed URL (with normalised addresses) is a metadata service. */
function isMetadataHost(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  const family = isIP(host);
  if (family === 0) return METADATA_NAME.test(host);
  return METADATA_ADDRESSES.check(host, family === 6 ? 'ipv6' : 'ipv4');
}

/** Whether the host of a URL is `localhost` or a loopback address. */
export function isLoopbackUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { hostname } = new URL(text);
  return hostname === 'localhost' || hostname === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(hostname);
}
