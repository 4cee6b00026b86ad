/** A process that uses the ledger as a gateway does: reserves, and settles when the upstream would have answered. */
import { randomUUID } from 'node:crypto';
import type { LimitDemand, Outcome, Reservation, ReservationRequest } from '../../../engine/api.ts';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { DatabaseLedger } from '../../../engine/money/ledger/ledger.ts';
import { openDatabase } from '../../../engine/store/database.ts';
import { serveParent } from './parent.ts';

/** Who asks, and what limits them: the defaults of most files, or every kind of limit there is. */
export interface Population {
  readonly users: number;
  readonly teams: number;
  readonly limits: 'defaults' | 'all kinds';
}

/** One after the other by each of some callers, for a time. */
export interface ClosedJob extends Population {
  readonly callers: number;
  readonly duration_ms: number;
}

/** So many per second, whether the ones before are done or not, at random moments. */
export interface OpenJob extends Population {
  readonly per_second: number;
  readonly duration_ms: number;
}

/** What came of a job. */
export interface LedgerResult {
  readonly requests: number;
  readonly failed: number;
  /** Until the last one was settled. */
  readonly seconds: number;
  /** Of this process, settlements included, in microseconds. */
  readonly cpu_us: number;
  /** How long each reservation took, in milliseconds; in an open job from when it was due, to the millisecond. */
  readonly latencies_ms: readonly number[];
}

/** Time between a reservation and its settlement in an open job: that of a fast upstream. */
const UPSTREAM_MS = 100;
const NEVER_REACHED = 5_000_000_000_000_000;
const RESERVED_NANO_USD = 21_000_000;
const COST_NANO_USD = 6_500_000;

const silent = { debug: () => {}, info: () => {}, warn: console.error, error: console.error };
const config = { database: { postgres: { url_env: 'BENCH_DATABASE_URL', pool_max: 10 } } } as GatewayConfig;
const database = await openDatabase({ config, env: process.env, log: silent, wait: 'until-ready' });
const leases = { lanes: database.lanes, listen: database.listen, is_on: () => process.env.BENCH_LEASE !== 'off' };
const ledger = new DatabaseLedger({ database, clock: systemClock, log: silent, leases });
await ledger.beat();

function demandsOf(user: string, team: string, limits: Population['limits']): LimitDemand[] {
  const money = { unit: 'nano_usd', limit: NEVER_REACHED } as const;
  const defaults: LimitDemand[] = [
    { scope: 'user', key: user, window: 'day', ...money, rule: 'defaults.user_daily_usd' },
    { scope: 'team', key: team, window: 'month', ...money, rule: 'defaults.team_monthly_usd' },
  ];
  if (limits === 'defaults') return defaults;
  const few = { unit: 'requests', limit: 1_000_000 } as const;
  return [
    ...defaults,
    { scope: 'user', key: user, window: 'month', ...money, rule: 'defaults.user_monthly_usd' },
    { scope: 'model', key: 'coder-1', window: 'day', ...money, rule: 'model' },
    { scope: 'user+model', key: JSON.stringify([user, 'coder-1']), window: 'week', ...money, rule: 'combined' },
    { scope: 'user', key: user, window: 'open', ...few, rule: 'at-once' },
    { scope: 'user', key: user, window: 'minute', ...few, rule: 'per-minute' },
    { scope: 'user', key: user, window: 'minute', unit: 'tokens', limit: 1_000_000_000, rule: 'tokens' },
  ];
}

function requestOf({ users, teams, limits }: Population): ReservationRequest {
  const user = `user-${Math.floor(Math.random() * users)}@example.com`;
  const team = `team-${Math.floor(Math.random() * teams)}`;
  return {
    request_id: randomUUID(),
    protocol: 'messages',
    principal_id: `user:${user}`,
    user,
    team,
    project: null,
    token_id: 'tok_bench',
    model: 'coder-1',
    upstream: 'main',
    upstream_model: 'coder-1',
    amount_nano_usd: RESERVED_NANO_USD,
    most_nano_usd: RESERVED_NANO_USD,
    tokens: 1800,
    demands: demandsOf(user, team, limits),
    on_store_error: 'deny',
  };
}

const OUTCOME: Outcome = {
  status: 200,
  aborted: false,
  tokens: { input: 1200, output: 180, cache_read: 9000, cache_write_5m: 0, cache_write_1h: 300 },
  cost_nano_usd: COST_NANO_USD,
  provenance: { input: 'upstream', output: 'upstream', cost: 'upstream' },
};

/** Counts what is under way and measures the whole. */
function createRun() {
  const latencies_ms: number[] = [];
  const settling = new Set<Promise<void>>();
  let failed = 0;
  const started = performance.now();
  const cpu = process.cpuUsage();
  return {
    started,
    /** Resolves with the reservation, if there was room. */
    async reserve(request: ReservationRequest, due = performance.now()): Promise<Reservation | undefined> {
      try {
        const { reservation } = await ledger.reserve(request);
        latencies_ms.push(performance.now() - due);
        if (reservation === undefined) failed++;
        return reservation;
      } catch {
        failed++;
        return undefined;
      }
    },
    settle(reservation: Reservation): void {
      const settled = reservation.settle(OUTCOME).finally(() => settling.delete(settled));
      settling.add(settled);
    },
    async end(): Promise<LedgerResult> {
      while (settling.size > 0) await Promise.all(settling);
      const { user, system } = process.cpuUsage(cpu);
      const seconds = (performance.now() - started) / 1000;
      return { requests: latencies_ms.length, failed, seconds, cpu_us: user + system, latencies_ms };
    },
  };
}

async function closed(job: ClosedJob): Promise<LedgerResult> {
  const run = createRun();
  const deadline = run.started + job.duration_ms;
  const persist = async () => {
    while (performance.now() < deadline) {
      const reservation = await run.reserve(requestOf(job));
      if (reservation !== undefined) run.settle(reservation);
    }
  };
  await Promise.all(Array.from({ length: job.callers }, persist));
  return run.end();
}

/** Time to the next of some events that happen at random, in milliseconds. */
const gap = (per_second: number): number => (-Math.log(1 - Math.random()) * 1000) / per_second;

function open(job: OpenJob): Promise<LedgerResult> {
  const run = createRun();
  const deadline = run.started + job.duration_ms;
  const answers: { readonly at: number; readonly reservation: Reservation }[] = [];
  let due = run.started + gap(job.per_second);
  let under_way = 0;
  /** A process that is too busy to begin in time makes its callers wait; the timer's own millisecond is nobody's fault. */
  let expected = run.started;
  return new Promise((resolve, reject) => {
    const begin = async (at: number) => {
      under_way++;
      const reservation = await run.reserve(requestOf(job), at);
      if (reservation !== undefined) answers.push({ at: performance.now() + UPSTREAM_MS, reservation });
      under_way--;
    };
    const tick = () => {
      const now = performance.now();
      for (; due <= now && due < deadline; due += gap(job.per_second)) void begin(Math.max(due, expected));
      while (answers.length > 0 && answers[0]!.at <= now) run.settle(answers.shift()!.reservation);
      if (now >= deadline && under_way === 0 && answers.length === 0) {
        run.end().then(resolve, reject);
        return;
      }
      expected = performance.now() + 1;
      setTimeout(tick, 1);
    };
    tick();
  });
}

const answers = {
  closed: (job: unknown) => closed(job as ClosedJob),
  open: (job: unknown) => open(job as OpenJob),
};
serveParent({}, answers, async () => {
  await ledger.close();
  await database.close();
});
