/** Stores of sign-in in memory, for tests of what is in front of them. */
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import type { AttemptLimits } from '../../../engine/identity/sessions/attempt-limits.ts';
import type { DeviceGrants, PendingGrant, PollResult } from '../../../engine/identity/sessions/device-grants.ts';
import type { RefreshBegun, Sessions } from '../../../engine/identity/sessions/sessions.ts';
import type { Backstage } from './support.ts';

/** Device grants with codes that a test can tell: device-code-0--...A, WDJB-MJHB and so on. */
export function memoryGrants(
  backstage: Backstage,
  check: () => void,
): DeviceGrants & { pendingOf(typed: string): PendingGrant | undefined } {
  type Entry = {
    grant: PendingGrant;
    code: string;
    state?: string;
    status: string;
    because?: string | undefined;
    heard?: boolean;
    redeemed_at?: number;
    approved?: Parameters<DeviceGrants['approve']>[1];
  };
  const entries: Entry[] = [];
  const now = () => backstage.clock.now();
  const pending = (entry: Entry | undefined) =>
    entry?.status === 'pending' && entry.grant.expires_at.getTime() > now() ? entry : undefined;
  const byId = (id: string) => pending(entries.find(({ grant }) => grant.id === id));
  const again = (entry: Entry): PollResult => {
    const n = entries.indexOf(entry);
    const id = `ses_${n}`;
    const found = backstage.sessions.get(id)!;
    const is_unused = found.open.refresh_token === refreshToken(n, 0);
    if (found.ended === undefined && is_unused && entry.redeemed_at! > now() - 30_000) {
      return { outcome: 'repeated', session: found.open };
    }
    const ended = found.ended === undefined;
    found.ended ??= 'its device code was used again';
    return { outcome: 'used', session_id: id, ended };
  };
  const letters = 'BCDFGHJKLMNPQRSTVWXZ';
  return {
    pendingOf(typed) {
      const plain = typed.replace(/[\s\p{Pd}]/gu, '').toUpperCase();
      return pending(entries.find(({ grant }) => grant.user_code.replace('-', '') === plain))?.grant;
    },
    async begin(device) {
      check();
      const n = entries.length;
      const user_code = `WDJB-MJH${letters[n % 20]}`;
      const code = `${`device-code-${n}`.padEnd(42, '-')}A`;
      const created_at = new Date(now());
      const expires_at = new Date(now() + 600_000);
      entries.push({
        grant: { ...device, id: `grant-${n}`, user_code, created_at, expires_at },
        code,
        status: 'pending',
      });
      return { device_code: code, user_code, expires_in_seconds: 600, interval_seconds: 5 };
    },
    async noteState(id, state) {
      check();
      const entry = byId(id);
      if (entry) entry.state = state;
      return entry !== undefined;
    },
    async takeState(state) {
      check();
      const entry = pending(entries.find((candidate) => candidate.state === state));
      if (entry) delete entry.state;
      return entry?.grant;
    },
    async approve(id, approved) {
      check();
      const entry = byId(id);
      if (entry) Object.assign(entry, { approved, status: 'approved' });
      return entry !== undefined;
    },
    async deny(id, because) {
      check();
      const entry = byId(id);
      if (entry) Object.assign(entry, { status: 'denied', because });
      return entry !== undefined;
    },
    async reopen(typed) {
      check();
      const plain = typed.replace(/[\s\p{Pd}]/gu, '').toUpperCase();
      const entry = entries.find(({ grant }) => grant.user_code.replace('-', '') === plain);
      if (entry?.status !== 'denied' || entry.because === undefined || entry.heard) return undefined;
      entry.status = 'pending';
      return entry.grant;
    },
    async poll(code) {
      check();
      const entry = entries.find((candidate) => candidate.code === code);
      if (entry === undefined) return { outcome: 'unknown' };
      if (entry.status === 'redeemed') return again(entry);
      if (entry.grant.expires_at.getTime() <= now()) return { outcome: 'expired' };
      if (entry.status === 'denied') {
        entry.heard = true;
        return { outcome: 'denied', because: entry.because, surface: entry.grant.surface };
      }
      if (entry.status !== 'approved') return { outcome: 'pending' };
      Object.assign(entry, { status: 'redeemed', redeemed_at: now() });
      const { person, sealed_grant } = entry.approved!;
      const n = entries.indexOf(entry);
      const open = { id: `ses_${n}`, person, refresh_token: refreshToken(n, 0) };
      backstage.sessions.set(open.id, { open, sealed_grant, busy: false });
      return { outcome: 'signed_in', session: open };
    },
  };
}

/** The token that a session of a sign-in has after so many renewals. */
const refreshToken = (n: number, times: number) => `gwr_${`refresh-${n}-${times}`.padEnd(42, '-')}A`;

/** Sessions that a test can look into; strictness about reuse is the database's business. */
export function memorySessions(backstage: Backstage, check: () => void): Sessions {
  const byToken = (token: string) => [...backstage.sessions.values()].find(({ open }) => open.refresh_token === token);
  return {
    async beginRefresh({ refresh_token: token }) {
      check();
      if (backstage.refresh_outcome !== undefined)
        return {
          outcome: backstage.refresh_outcome,
          session: { id: 'ses_0', person: { email: 'anna' } },
        } as RefreshBegun;
      const found = byToken(token);
      if (found === undefined) return { outcome: 'unknown' };
      if (found.ended !== undefined) return { outcome: 'revoked' };
      if (found.busy) return { outcome: 'busy' };
      found.busy = true;
      const { id, person } = found.open;
      return { outcome: 'ready', session: { id, person, sealed_grant: found.sealed_grant } };
    },
    async finishRefresh(id, { person, sealed_grant }) {
      check();
      const found = backstage.sessions.get(id)!;
      if (found.ended !== undefined) return undefined;
      const [, n, times] = /(\d+)-(\d+)/.exec(found.open.refresh_token)!;
      found.open = { id, person, refresh_token: refreshToken(Number(n), Number(times) + 1) };
      Object.assign(found, { sealed_grant, busy: false });
      return found.open;
    },
    async abandonRefresh(id, sealed_grant) {
      check();
      Object.assign(backstage.sessions.get(id)!, { busy: false, ...(sealed_grant && { sealed_grant }) });
    },
    async sessionOf(token) {
      check();
      return byToken(token)?.open.id;
    },
    async end(id, because) {
      check();
      const found = backstage.sessions.get(id);
      if (found === undefined || found.ended !== undefined) return false;
      found.ended = because;
      return true;
    },
    list: async () => [],
  };
}

/** Counts attempts per address, without a window. */
export function memoryAttempts(
  config: GatewayConfig,
  backstage: Backstage,
  check: () => void,
  grants: Pick<ReturnType<typeof memoryGrants>, 'pendingOf'>,
): AttemptLimits {
  const { limits } = config.auth!;
  return {
    async count(kind, address) {
      check();
      const key = `${kind} ${address}`;
      const count = (backstage.counted.get(key) ?? 0) + 1;
      backstage.counted.set(key, count);
      const max = kind === 'code_submission' ? limits.code_submissions : limits.device_authorizations;
      return count > max ? { retry_after_seconds: 42 } : undefined;
    },
    async enterCode(address, typed) {
      check();
      const key = `code_submission ${address}`;
      const failures = backstage.counted.get(key) ?? 0;
      if (failures >= limits.code_submissions) return { retry_after_seconds: 420 };
      const grant = typed === undefined ? undefined : grants.pendingOf(typed);
      if (grant === undefined) backstage.counted.set(key, failures + 1);
      return { grant };
    },
    async forgive(kind, address) {
      const key = `${kind} ${address}`;
      backstage.counted.set(key, backstage.counted.get(key)! - 1);
    },
    request: () => undefined,
    ask: async (_credential, ask) => ({ answer: await ask() }),
  };
}
