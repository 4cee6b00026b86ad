import type { IncomingHttpHeaders } from 'node:http';
import { isIP } from 'node:net';
import type { GatewayConfig } from '../contract/config.ts';
import { compileRanges } from '../kit/net/address-range.ts';

/** Most proxies a request can have come through; what X-Forwarded-For says beyond them is not looked at. */
const HOPS_MAX = 32;

const REGION = /^[a-z0-9][a-z0-9._-]{0,63}$/;

/** Makes what tells where requests come from, by the address of the peer and the headers it sent. Only `server.trusted_proxies` can say that a request comes from somebody else. */
export function createOriginReader(server: Pick<GatewayConfig['server'], 'trusted_proxies' | 'region_header'>) {
  const { trusted_proxies, region_header } = server;
  const isTrusted = compileRanges(trusted_proxies);
  return {
    /** IP address of the client; empty when the connection is gone already. */
    address(peer = '', headers: IncomingHttpHeaders): string {
      const forwarded = trusted_proxies.length === 0 ? undefined : headers['x-forwarded-for'];
      let address = plain(peer);
      if (typeof forwarded !== 'string') return address;
      // Each proxy appends whom it heard from, so the list is believed from its end and only as far as proxies are trusted.
      for (const entry of forwarded.split(',').slice(-HOPS_MAX).reverse()) {
        const named = isTrusted(address) ? addressIn(entry) : undefined;
        if (named === undefined) break;
        address = named;
      }
      return address;
    },
    /** Region of the client, in lower case. */
    region(peer = '', headers: IncomingHttpHeaders): string | undefined {
      const value = region_header === undefined ? undefined : headers[region_header];
      if (typeof value !== 'string' || !isTrusted(peer)) return undefined;
      const region = value.toLowerCase();
      return REGION.test(region) ? region : undefined;
    },
  };
}

/** An IPv4 client of a socket for both families is an IPv4 client; the zone of an address means nothing elsewhere. */
function plain(address: string): string {
  if (address.startsWith('::ffff:') && address.includes('.')) return address.slice(7);
  return address.split('%', 1)[0]!;
}

/** The address in an entry such as `192.0.2.1`, `192.0.2.1:4711`, `2001:db8::1`, `[2001:db8::1]:4711`. */
function addressIn(entry: string): string | undefined {
  const text = entry.trim().toLowerCase();
  const inner = /^\[([0-9a-f:.]+)\](?::\d{1,5})?$/.exec(text)?.[1] ?? /^([\d.]+):\d{1,5}$/.exec(text)?.[1] ?? text;
  return isIP(inner) === 0 || inner.includes('%') ? undefined : plain(inner);
}
