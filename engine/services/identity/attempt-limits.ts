import { isIPv6 } from 'node:net';
import type { Clock, Log } from '../../api.ts';
import type { AuthConfig } from '../../config.ts';
import type { Database } from '../database.ts';
import { storable } from '../storable.ts';

/** What is counted per client address. */
export type AttemptKind = 'device_authorization' | 'code_submission';

/** Counts attempts per client address over all replicas. Raises store_unavailable. */
export interface AttemptLimits {
  /** Counts one attempt and says how long to wait when it was one too many. */
  count(kind: AttemptKind, address: string): Promise<{ readonly retry_after_seconds: number } | undefined>;
  /** Takes one counted attempt back: it turned out to be no guess. Counting first leaves no gap for guesses made at once. */
  forgive(kind: AttemptKind, address: string): Promise<void>;
}

/** Longer than any address. */
const MAX_ADDRESS_CHARS = 64;

/** Creates the limits of a database: so many attempts in a span of time that begins with the first of them. */
export function createAttemptLimits(options: {
  readonly database: Pick<Database, 'query'>;
  readonly clock: Clock;
  readonly limits: AuthConfig['limits'];
  readonly log: Log;
}): AttemptLimits {
  const { database, clock, limits, log } = options;
  const most: Readonly<Record<AttemptKind, number>> = {
    device_authorization: limits.device_authorizations,
    code_submission: limits.code_submissions,
  };
  const window_ms = limits.window_seconds * 1000;
  return {
    async count(kind, address) {
      const now = clock.now();
      const [row] = await database.query<{ count: number; window_start: Date }>(
        'attempt_count',
        // Counting stops at two too many, of which the first is logged: who goes on gains nothing, and fills no log.
        `insert into attempts as a (kind, address, window_start, count) values ($1, $2, $3, 1)
         on conflict (kind, address) do update set
           count = case when a.window_start <= $4 then 1 else least(a.count, $5 + 1) + 1 end,
           window_start = case when a.window_start <= $4 then excluded.window_start else a.window_start end
         returning count, window_start`,
        [kind, countedAddress(address), new Date(now), new Date(now - window_ms), most[kind]],
      );
      if (row!.count <= most[kind]) return undefined;
      if (row!.count === most[kind] + 1) {
        log.warn({ kind, client_address: countedAddress(address) }, 'too many attempts from one address are refused');
      }
      const left_ms = Math.min(row!.window_start.getTime() + window_ms - now, window_ms);
      return { retry_after_seconds: Math.max(1, Math.ceil(left_ms / 1000)) };
    },
    async forgive(kind, address) {
      const text = 'update attempts set count = count - 1 where kind = $1 and address = $2 and count > 0';
      await database.query('attempt_forgive', text, [kind, countedAddress(address)]);
    },
  };
}

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
