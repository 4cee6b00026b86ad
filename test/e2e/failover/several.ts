/**
 * A gateway in front of several upstreams with the names a, b, c..., each a server of its own that can be stopped, for tests of
 * effects of one request on the next.
 * @module
 */
import { beforeEach } from 'node:test';
import type { AttemptRecord } from '../../../engine/base/contract/forwarding.ts';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { verifyLedger } from '../../../engine/domain/budget/reports/verify-ledger.ts';
import { bootGateway, type ConfigSections, type TestGateway } from '../../support/gateway.ts';
import { type FaultServer, startFaultServer } from '../../support/model-provider/fault-server.ts';
import { use } from '../../support/use.ts';
import { eventsIn } from '../streams/streams.ts';
import { bearer, messagesBody, type Response, send } from '../support/client.ts';
import { type MovableClock, movableClock } from '../support/movable-clock.ts';
import { PRICING } from '../support/nine.ts';

/** The gateway and its upstreams. */
export interface Several {
  readonly gateway: TestGateway;
  readonly faults: readonly FaultServer[];
  /** A Messages request of a session. */
  ask(session: string, more?: object, headers?: readonly string[]): Promise<Response>;
  /** How many requests reached each upstream since `forget`. */
  counts(): number[];
  forget(): void;
  /** All attempts in the ledger of a request, or of all. */
  attempts(request_id?: string): Promise<LedgerAttempt[]>;
  /** Moves the time of the gateway on. */
  advance(seconds: number): void;
  close(): Promise<void>;
}

/** A row of the view `ledger_attempts`. */
export interface LedgerAttempt extends Omit<AttemptRecord, 'upstream_model' | 'ms' | 'upstream_request_id'> {
  readonly request_id: string;
  readonly ms: number | null;
  readonly upstream_request_id: string | null;
}

/** The upstream with this place has this name. */
export const nameOf = (index: number): string => 'abcdefgh'[index]!;

/** Boots them. */
export async function openSeveral(options: {
  readonly count: number;
  /** Sections of gateway.yaml for all upstreams, and for one by its name. */
  readonly upstreams?: object;
  readonly each?: Readonly<Record<string, object>>;
  /** The route; absent: in order. */
  readonly route?: readonly (string | object)[];
  readonly config?: ConfigSections;
  /** A stopped clock for tests that must not depend on speed. */
  readonly clock?: MovableClock;
}): Promise<Several> {
  const { count, upstreams = {}, each = {}, config = {}, clock = movableClock() } = options;
  const faults = await Promise.all(Array.from({ length: count }, startFaultServer));
  const names = faults.map((_, index) => nameOf(index));
  const closeFaults = () => Promise.all(faults.map((server) => server.close()));
  const gateway = await bootGateway({
    upstream_url: faults[0]!.url('a'),
    clock,
    config: {
      upstreams: names.map((name, index) => ({
        name,
        type: 'vendor',
        base_url: faults[index]!.url(name),
        api_key_env: 'TEST_UPSTREAM_KEY',
        ...upstreams,
        ...each[name],
      })),
      models: ['coder-1', 'other-1'].map((id) => ({
        id,
        context_window: 200_000,
        max_output_tokens: 64_000,
        pricing: PRICING,
      })),
      token_groups: [{ name: 'all', models: ['*'] }],
      routing: { default_upstreams: options.route ?? names },
      spend_limits: { defaults: { user_daily_usd: 1_000_000 }, on_exceeded: 'deny' },
      ...config,
    },
  }).catch(async (error) => {
    await closeFaults();
    throw error;
  });
  return {
    gateway,
    faults,
    ask: (session, more = {}, headers = []) =>
      send(gateway.url, {
        headers: bearer(gateway.token, ['x-claude-code-session-id', session, ...headers]),
        body: messagesBody(more),
      }),
    counts: () => faults.map((server) => server.total()),
    forget: () => {
      for (const server of faults) {
        server.forget();
        server.plays.clear();
      }
    },
    attempts: (request_id) =>
      gateway.database
        .knex('ledger_attempts')
        .where(request_id === undefined ? {} : { request_id })
        .orderBy(['settled_at', 'request_id', 'n']),
    advance: (seconds) => clock.advance(seconds * 1000),
    async close() {
      await gateway.close();
      await closeFaults();
    },
  };
}

/** Errors in a stream; Responses reports one in two events. */
export function errorsIn(text: string): number {
  return eventsIn(text).filter(
    ({ name, data }) => name === 'error' || data.type === 'error' || (name === undefined && data.error),
  ).length;
}

/** Boots them for the tests of a describe block, each of which begins without plays and counts. */
export function useSeveral(options: Parameters<typeof openSeveral>[0]): Several {
  const opened = use(() => openSeveral(options));
  beforeEach(() => opened.forget());
  return opened;
}

/** The findings of `ledger verify`. */
export async function faultsInBooks({ gateway }: Pick<Several, 'gateway'>): Promise<object> {
  const { differences, repeated, uncounted, attempts, left } = await verifyLedger({
    database: gateway.database,
    clock: systemClock,
  });
  return Object.fromEntries(
    Object.entries({ differences, repeated, uncounted, attempts, left }).filter(([, found]) => found.total > 0),
  );
}
