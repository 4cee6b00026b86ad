import { hash } from 'node:crypto';
import { isIPv6 } from 'node:net';
import { LRUCache } from 'lru-cache';
import type { AuthConfig } from '../../../base/contract/config.ts';
import type { Clock } from '../../../base/contract/services.ts';
import { atMost } from '../../../base/kit/memory.ts';
import { storable } from '../../../base/kit/storable.ts';
import type { Background } from '../background.ts';
import { type PendingGrant, pendingGrant } from './device-grants.ts';
import { readUserCode } from './secrets.ts';

type AttemptKind = 'device_authorization' | 'code_submission';

const MAX_REFUSED = 20_000;
const MAX_REVOKED = 1000;
const WARNING =
  'rejected too many attempts from one address; see auth.limits, and server.trusted_proxies for the client address';

/** Creates rate limits of sign-in attempts in the database: fixed windows that begin with the first attempt. They raise store_unavailable. */
export function createAttemptLimits(options: Omit<Background, 'every'> & Pick<AuthConfig, 'limits'>) {
  const { database, clock, limits, log } = options;
  const most: Readonly<Record<AttemptKind, number>> = {
    device_authorization: limits.device_authorizations,
    code_submission: limits.code_submissions,
  };
  const { window_seconds } = limits;
  const window_ms = window_seconds * 1000;
  const requests = createRateLimit({ clock, most: limits.requests, window_seconds });
  const refusals = createRateLimit({ clock, most: limits.refused_credentials, window_seconds });
  /** End of the rejections by kind and address, on the monotonic clock. */
  const refused = new LRUCache<string, number>(atMost(MAX_REFUSED));
  const warned = new LRUCache<string, true>({ max: MAX_REVOKED, ttl: window_ms });
  const warn = (fields: { readonly client_address: string; readonly kind: string }) => {
    const key = `${fields.kind} ${fields.client_address}`;
    if (warned.has(key)) return;
    warned.set(key, true);
    log.warn(fields, WARNING);
  };

  /** The wait before the next attempt of an address; without one the request is counted. */
  const waitFirst = (kind: AttemptKind, address: string): Wait | undefined => {
    const left_ms = (refused.get(`${kind} ${countedAddress(address)}`) ?? 0) - clock.monotonic();
    return left_ms > 0 ? waitOf(left_ms) : request(address);
  };

  const reject = (kind: AttemptKind, client_address: string, count: number, began: Date): Wait => {
    if (count === most[kind] + 1) log.warn({ kind, client_address }, WARNING);
    const refused_ms = Math.min(began.getTime() + window_ms - clock.now(), window_ms);
    refused.set(`${kind} ${client_address}`, clock.monotonic() + refused_ms);
    return waitOf(refused_ms);
  };

  const request = (address: string): Wait | undefined => {
    const counted = countedAddress(address);
    const wait = requests.take(counted);
    if (wait !== undefined) warn({ kind: 'request', client_address: counted });
    return wait;
  };

  return {
    /** Counts a request in this process only, before a query. `count` does so by itself. */
    request,
    /** Counts an attempt over all replicas; a wait if it was too many. Until it is over no query is made. */
    async count(kind: AttemptKind, address: string): Promise<Wait | undefined> {
      const counted = countedAddress(address);
      const wait = waitFirst(kind, address);
      if (wait !== undefined) return wait;
      const now = clock.now();
      const [row] = await database.query<{ count: number; window_start: Date }>(
        'attempt_count',
        // Counting stops at two too many, and only the first is logged.
        `insert into attempts as a (kind, address, window_start, count) values ($1, $2, $3, 1)
         on conflict (kind, address) do update set
           count = case when a.window_start <= $4 then 1 else least(a.count, $5 + 1) + 1 end,
           window_start = case when a.window_start <= $4 then excluded.window_start else a.window_start end
         returning count, window_start`,
        [kind, counted, new Date(now), new Date(now - window_ms), most[kind]],
      );
      return row!.count <= most[kind] ? undefined : reject(kind, counted, row!.count, row!.window_start);
    },
    /** The grant of a user code; a wait after too many wrong ones. Many people may share an address. */
    async enterCode(
      address: string,
      typed: string | undefined,
    ): Promise<{ readonly grant: PendingGrant | undefined } | Wait> {
      const counted = countedAddress(address);
      const wait = waitFirst('code_submission', address);
      if (wait !== undefined) return wait;
      const now = clock.now();
      const code = typed === undefined ? undefined : readUserCode(typed);
      const [row] = await database.query<
        { failures: number; began: Date } & { [Key in keyof PendingGrant]: PendingGrant[Key] }
      >('code_enter', 'select * from try_user_code($1, $2, $3, $4, $5)', [
        counted,
        code ?? null,
        new Date(now),
        new Date(now - window_ms),
        most.code_submission,
      ]);
      const { failures, began, ...grant } = row!;
      if (grant.id !== null) return { grant: pendingGrant(grant) };
      return failures <= most.code_submission
        ? { grant: undefined }
        : reject('code_submission', counted, failures, began);
    },
    /** Takes back a counted attempt that succeeded. Attempts count first, so that concurrent ones count, too. */
    async forgive(kind: AttemptKind, address: string): Promise<void> {
      const counted = countedAddress(address);
      refused.delete(`${kind} ${counted}`);
      const text = 'update attempts set count = count - 1 where kind = $1 and address = $2 and count > 0';
      await database.query('attempt_forgive', text, [kind, counted]);
    },
    /** Looks a credential up, unless too many failed: ours by itself, others by address, in this process. */
    async lookUp<Found>(
      { text, address, is_ours }: { readonly text: string; readonly address: string; readonly is_ours: boolean },
      find: () => Promise<Found>,
      isGood: (found: Found) => boolean,
    ): Promise<{ readonly found: Found } | Wait> {
      const counted = countedAddress(address);
      const key = is_ours ? hash('sha256', text, 'base64') : counted;
      const refusal = refusals.take(key);
      if (refusal !== undefined) {
        warn({ kind: 'credential', client_address: counted });
        return refusal;
      }
      // Counted first and taken back, so that concurrent ones count.
      let is_refused = false;
      try {
        const wait = request(address);
        if (wait !== undefined) return wait;
        const found = await find();
        is_refused = !isGood(found);
        return { found };
      } finally {
        if (!is_refused) refusals.giveBack(key);
      }
    },
  };
}

function waitOf(milliseconds: number): Wait {
  return { retry_after_seconds: Math.max(1, Math.ceil(milliseconds / 1000)) };
}

/** A rejected request, with the time to retry. */
export interface Wait {
  readonly retry_after_seconds: number;
}

const MAX_KEYS = 20_000;

/** Creates a rate limit: a token bucket of size `most` per key, refilled within a window. An LRU of keys bounds its memory. */
export function createRateLimit(options: {
  readonly clock: Pick<Clock, 'monotonic'>;
  readonly most: number;
  readonly window_seconds: number;
}) {
  const { clock, most, window_seconds } = options;
  const buckets = new LRUCache<string, { left: number; at: number }>(atMost(MAX_KEYS));
  const per_ms = most / (window_seconds * 1000);
  return {
    take(key: string, cost = 1): Wait | undefined {
      const now = clock.monotonic();
      const bucket = buckets.get(key) ?? { left: most, at: now };
      bucket.left = Math.min(most, bucket.left + (now - bucket.at) * per_ms);
      bucket.at = now;
      buckets.set(key, bucket);
      if (bucket.left < cost) return waitOf((cost - bucket.left) / per_ms);
      bucket.left -= cost;
      return undefined;
    },
    /** Gives back a cost; a negative one is taken even beyond what is left. */
    giveBack(key: string, cost = 1): void {
      const bucket = buckets.get(key);
      if (bucket !== undefined) bucket.left = Math.min(most, bucket.left + cost);
    },
  };
}

const MAX_ADDRESS_CHARS = 64;

/** The key of an address: itself, or the /64 of an IPv6 address, which belongs to one subscriber. */
export function countedAddress(address: string): string {
  const [plain = ''] = address.split('%');
  if (!isIPv6(plain)) return storable(address.slice(0, MAX_ADDRESS_CHARS));
  // A URL normalizes all forms of an address (RFC 4291 section 2.2).
  const halves = new URL(`http://[${plain}]`).hostname.slice(1, -1).split('::');
  const [first = [], last = []] = halves.map((half) => half.split(':').filter((group) => group !== ''));
  const groups = [...first, ...Array<string>(8 - first.length - last.length).fill('0'), ...last];
  if (groups.slice(0, 6).join(':') !== '0:0:0:0:0:ffff') return `${groups.slice(0, 4).join(':')}::/64`;
  const mapped = groups.slice(6).map((group) => Number.parseInt(group, 16));
  return mapped.flatMap((group) => [group >> 8, group & 255]).join('.');
}
