import type { IncomingHttpHeaders } from 'node:http';
import { BlockList, isIP } from 'node:net';
import type { GatewayConfig } from '../contract/config.ts';

/** Tells where requests come from, by the address of the peer and the headers it sent. */
export interface OriginReader {
  /** IP address of the client; empty when the connection is gone already. */
  address(peer: string | undefined, headers: IncomingHttpHeaders): string;
  /** Region of the client, in lower case. */
  region(peer: string | undefined, headers: IncomingHttpHeaders): string | undefined;
}

/** Most proxies a request can have come through; what X-Forwarded-For says beyond them is not looked at. */
const HOPS_MAX = 32;

const REGION = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** Makes the reader of a configuration. Only `server.trusted_proxies` can say that a request comes from somebody else. */
export function createOriginReader(
  server: Pick<GatewayConfig['server'], 'trusted_proxies' | 'region_header'>,
): OriginReader {
  const { trusted_proxies, region_header } = server;
  const trusted = new BlockList();
  for (const range of trusted_proxies) trustRange(trusted, range);
  return {
    address(peer, headers) {
      const address = peer === undefined ? '' : plain(peer);
      const forwarded = trusted_proxies.length === 0 ? undefined : headers['x-forwarded-for'];
      return typeof forwarded === 'string' ? firstUntrusted(trusted, address, forwarded) : address;
    },
    region(peer, headers) {
      const value = region_header === undefined ? undefined : headers[region_header];
      if (typeof value !== 'string' || peer === undefined || !isTrusted(trusted, plain(peer))) return undefined;
      const region = value.toLowerCase();
      return REGION.test(region) ? region : undefined;
    },
  };
}

function trustRange(trusted: BlockList, range: string): void {
  const [address = '', bits] = range.split('/');
  const family = isIP(address) === 6 ? 'ipv6' : 'ipv4';
  if (bits === undefined) trusted.addAddress(address, family);
  else trusted.addSubnet(address, Number(bits), family);
}

function isTrusted(trusted: BlockList, address: string): boolean {
  const family = isIP(address);
  return family !== 0 && trusted.check(address, family === 6 ? 'ipv6' : 'ipv4');
}

/** An IPv4 client of a socket for both families is an IPv4 client; the zone of an address means nothing elsewhere. */
function plain(address: string): string {
  if (address.startsWith('::ffff:') && address.includes('.')) return address.slice(7);
  const zone = address.indexOf('%');
  return zone < 0 ? address : address.slice(0, zone);
}

/** Each proxy appends whom it heard from, so the list is believed from its end and only as far as proxies are trusted. */
function firstUntrusted(trusted: BlockList, peer: string, forwarded: string): string {
  let address = peer;
  let end = forwarded.length;
  for (let hops = 0; hops < HOPS_MAX && end >= 0 && isTrusted(trusted, address); hops++) {
    const comma = forwarded.lastIndexOf(',', end - 1);
    const named = addressIn(forwarded.slice(comma + 1, end));
    if (named === undefined) break;
    address = named;
    end = comma;
  }
  return address;
}

/** The address in an entry such as `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]:4711`. */
function addressIn(entry: string): string | undefined {
  const text = entry.trim().toLowerCase();
  const inner = /^\[([0-9a-f:.]+)\](?::\d{1,5})?$/.exec(text)?.[1] ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
  return isIP(inner) === 0 || inner.includes('%') ? undefined : plain(inner);
}
