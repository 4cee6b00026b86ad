import { everyInBackground } from '../../../base/kit/clock.ts';
import { waitAtMost } from '../../../base/kit/wait-at-most.ts';
import { isUnavailable } from '../../../base/store/store-errors.ts';
import type { Background } from '../background.ts';

const INTERVAL_MS = 600_000;
const CLOSE_TIMEOUT_MS = 500;
const BATCH = 1000;
const MAX_BATCHES = 100;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** SQL: deletes a batch of old rows, without those locked by another replica. */
const aged = (table: string, column: string, and = '') => `delete from ${table} where ctid in (
  select r.ctid from ${table} r where r.${column} < $1 ${and} limit ${BATCH} for update skip locked
) returning 1`;

/** Before their sessions: a session may have more than a statement can delete in time. */
const REFRESH_TOKENS = `delete from refresh_tokens where ctid in (
  select t.ctid from refresh_tokens t join sessions s on s.id = t.session_id
  where s.expires_at < $1 limit ${BATCH} for update of t skip locked
) returning 1`;
const WITHOUT_TOKENS = 'and not exists (select from refresh_tokens t where t.session_id = r.id)';

const DUE = [
  // Late polls get "expired", not "unknown".
  { table: 'device_grants', remove: aged('device_grants', 'expires_at'), kept_ms: HOUR_MS },
  // The longest window of attempts.
  { table: 'attempts', remove: aged('attempts', 'window_start'), kept_ms: DAY_MS },
  // History for administrators.
  { table: 'refresh_tokens', remove: REFRESH_TOKENS, kept_ms: 30 * DAY_MS },
  { table: 'console_sessions', remove: aged('console_sessions', 'expires_at'), kept_ms: 30 * DAY_MS },
  { table: 'console_links', remove: aged('console_links', 'expires_at'), kept_ms: HOUR_MS },
  { table: 'sessions', remove: aged('sessions', 'expires_at', WITHOUT_TOKENS), kept_ms: 30 * DAY_MS },
  // Of people with another session at all times.
  { table: 'ended_grants', remove: aged('ended_grants', 'ended_at'), kept_ms: 30 * DAY_MS },
  // History for "sessions explain".
  { table: 'refused_sign_ins', remove: aged('refused_sign_ins', 'at'), kept_ms: 14 * DAY_MS },
] as const;

/** Starts the deletion of expired sign-ins, attempts and sessions, in batches every ten minutes. */
export function startHousekeeping({ database, clock, log, every = everyInBackground }: Background) {
  let sweeping: Promise<void> | undefined;
  let closed = false;

  const removeFrom = async ({ table, remove, kept_ms }: (typeof DUE)[number]) => {
    for (let batch = 0; batch < MAX_BATCHES && !closed; batch++) {
      const removed = await database.query(`sweep_${table}`, remove, [new Date(clock.now() - kept_ms)]);
      if (removed.length < BATCH) return;
    }
  };
  const sweepAll = async () => {
    for (const due of DUE) {
      try {
        await removeFrom(due);
      } catch (error) {
        const level = isUnavailable(error) ? 'debug' : 'warn';
        log[level]({ err: error, table: due.table }, 'could not delete expired rows of a table');
      }
    }
  };
  const sweep = () => {
    sweeping ??= sweepAll().finally(() => {
      sweeping = undefined;
    });
    return sweeping;
  };
  const stop = every(INTERVAL_MS, sweep);

  return {
    sweep,
    async close() {
      stop();
      closed = true;
      if (sweeping !== undefined) await waitAtMost(CLOSE_TIMEOUT_MS, sweeping);
    },
  };
}
