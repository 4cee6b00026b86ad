import { BlockList, isIP, SocketAddress } from 'node:net';

/** An IPv4 or IPv6 address, or a range of them in CIDR notation: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.7`. */
interface Range {
  readonly address: string;
  readonly family: 'ipv4' | 'ipv6';
  readonly bits: number;
}

const familyOf = (address: string): 'ipv4' | 'ipv6' => (isIP(address) === 4 ? 'ipv4' : 'ipv6');

/** Why a text is no range, as the end of a sentence; `undefined` if it is one. */
export function rangeProblem(text: string): string | undefined {
  const [address = '', bits, ...more] = text.split('/');
  if (isIP(address) === 0 || address.includes('%') || more.length > 0) return 'is no IP address';
  const most = familyOf(address) === 'ipv4' ? 32 : 128;
  if (bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= most)) return undefined;
  return `has no number from 0 to ${most} after the slash`;
}

function parseRange(text: string): Range {
  const [address = '', bits] = text.split('/');
  const family = familyOf(address);
  return { address, family, bits: bits === undefined ? (family === 'ipv4' ? 32 : 128) : Number(bits) };
}

/** Compiles a test whether an address lies in valid ranges. `::ffff:10.0.0.1` counts as IPv4. */
export function compileRanges(ranges: readonly string[]): (address: string) => boolean {
  const parsed = ranges.map(parseRange);
  const list = new BlockList();
  for (const { address, family, bits } of parsed) list.addSubnet(address, bits, family);
  // `BlockList.check` takes a third of a microsecond, too slow for hundreds of rules.
  const quick = parsed.every(({ family }) => family === 'ipv4') ? parsed.map(ipv4Range) : undefined;
  return (text) => {
    const address = parseAddress(text);
    if (address === undefined) return false;
    if (quick === undefined || address.ipv4 === undefined) return list.check(address.socket_address);
    for (const { mask, network } of quick) if ((address.ipv4 & mask) === network) return true;
    return false;
  };
}

function ipv4Bits(address: string): number {
  return address.split('.').reduce((bits, byte) => (bits << 8) | Number(byte), 0);
}

function ipv4Range({ address, bits }: Range): { readonly mask: number; readonly network: number } {
  // JavaScript shifts by 32 like by 0.
  const mask = bits === 0 ? 0 : -1 << (32 - bits);
  return { mask, network: ipv4Bits(address) & mask };
}

interface Address {
  readonly socket_address: SocketAddress;
  readonly ipv4: number | undefined;
}

let text_parsed = '';
let address_parsed: Address | undefined;

/** Caches the last address: all rules of a request test the same one, and parsing is slower than the test. */
function parseAddress(text: string): Address | undefined {
  if (text === text_parsed) return address_parsed;
  // A link-local address may carry the name of an interface.
  const [address = ''] = text.split('%');
  const family = familyOf(address);
  address_parsed =
    isIP(address) === 0
      ? undefined
      : {
          socket_address: new SocketAddress({ address, family }),
          ipv4: family === 'ipv4' ? ipv4Bits(address) : undefined,
        };
  text_parsed = text;
  return address_parsed;
}
