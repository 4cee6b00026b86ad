import { isIPv6 } from 'node:net';
import { storable } from '../../kit/storable.ts';

/** Longer than any address. */
const MAX_ADDRESS_CHARS = 64;

/** What attempts of an address are counted under: itself, or the /64 of an IPv6 address, which one subscriber has whole. */
export function countedAddress(address: string): string {
  const [plain = ''] = address.split('%');
  if (!isIPv6(plain)) return storable(address.slice(0, MAX_ADDRESS_CHARS));
  const groups = groupsOf(plain);
  const is_mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff;
  if (is_mapped)
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 255])
      .join('.');
  return `${groups
    .slice(0, 4)
    .map((group) => group.toString(16))
    .join(':')}::/64`;
}

/** The eight numbers of an IPv6 address (RFC 4291 section 2.2). */
function groupsOf(address: string): number[] {
  // A URL writes every form of an address in one way, without dots.
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const numbers = (text = '') => (text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16)));
  const [first, last] = [numbers(head), numbers(tail)];
  return [...first, ...Array<number>(8 - first.length - last.length).fill(0), ...last];
}
