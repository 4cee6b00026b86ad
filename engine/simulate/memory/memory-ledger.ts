import { StageError } from '../../contract/errors.ts';
import type {
  Clock,
  CounterName,
  CounterStatus,
  Ledger,
  LimitDemand,
  LimitStatus,
  ReservationRequest,
  Settlement,
} from '../../contract/services.ts';
import { isCount } from '../../money/ledger/ledger-statements.ts';
import { assertReservable } from '../../money/ledger/reservable.ts';
import { alwaysCounted } from '../../money/limits/limit-demands.ts';
import { byLatestReset, type Hold, lacksRoom, reservedIn } from '../../money/limits/room.ts';
import { type Counter, openCounters, type RunTimeLimits, stateOf } from './memory-counters.ts';

/** What counts against a limit before a test begins; numbers in the unit of the counter. */
export interface Balance extends CounterName {
  readonly spent: number;
  readonly reserved: number;
  /** The most that what is reserved can come to; as much as is reserved where absent. */
  readonly most?: number;
  /** How many requests hold it; where absent one, or as many as are counted. */
  readonly in_flight?: number;
}

/** What a ledger counts, and the limits that were set and granted at run time; amounts in the unit of their counter. */
export interface Counted {
  readonly balances: readonly Balance[];
  readonly settings?: readonly (CounterName & { readonly amount: number })[];
  /** `expires_at` in milliseconds since the epoch. */
  readonly grants?: readonly (CounterName & { readonly amount: number; readonly expires_at: number })[];
}

/** A row of the ledger, by the names of its columns. */
export type LedgerRow = Readonly<Record<string, unknown>>;

/** A limit as a reservation found it. */
export interface DemandStatus extends LimitDemand {
  /** The limit in force, where the demand has one: that of the demand or one set in its place, and what is granted on top. */
  readonly in_force: number | null;
  readonly spent: number;
  readonly reserved: number;
  /** What the request would hold of it. */
  readonly needed: number;
  /** Whether there is room for it; always where nothing limits it. */
  readonly room: boolean;
}

/** An attempt to hold money: what was asked, the state of every limit before, and the limits that refused it. */
export interface Attempt {
  readonly request: ReservationRequest;
  readonly statuses: readonly DemandStatus[];
  readonly exceeded: readonly LimitStatus[];
}

/** A ledger that lives as long as its process and follows the same rules as the one in the database. */
export interface MemoryLedger extends Ledger, RunTimeLimits {
  /** Every reservation that was tried, oldest first. */
  readonly attempts: readonly Attempt[];
  /** Rows, oldest first. */
  readonly rows: readonly LedgerRow[];
  /** What all open reservations hold, in nano-USD. */
  reserved(): number;
  /** What is counted in the current window. */
  balance(name: CounterName): Pick<LimitStatus, 'spent' | 'reserved' | 'most' | 'in_flight'>;
  /** Puts something on a counter. */
  put(balance: Balance): void;
  /** Takes over what another ledger counts. */
  count(counted: Counted): void;
  /** How the limits of demands would stand for a request; nothing is reserved. */
  look(demands: readonly LimitDemand[], hold: Hold): DemandStatus[];
  /** Says what requests of a caller to a model usually cost, in nano-USD. */
  teach(user: string, model: string, nano_usd: number): void;
}

interface Open {
  readonly request: ReservationRequest;
  readonly counters: readonly Counter[];
  amount_nano_usd: number;
  /** Whether it went out without a reservation, because the ledger was away. */
  readonly unreserved: boolean;
}

/** Opens an empty ledger. While `isAway()` says so, it is out of reach like a database that does not answer. */
export function openMemoryLedger(options: {
  readonly clock: Clock;
  readonly time_zone?: string;
  readonly isAway?: () => boolean;
}): MemoryLedger {
  const { clock, time_zone = 'UTC', isAway = () => false } = options;
  const counters = openCounters(() => clock.now(), time_zone);
  const reservations = new Map<string, Open>();
  const typical = new Map<string, number>();
  const attempts: Attempt[] = [];
  const rows: LedgerRow[] = [];

  const away = () => new StageError('store_unavailable', 'The test says that the database is away.');

  /** Counter by counter, those of money first, as the database looks at them. */
  function byCounter(demands: readonly LimitDemand[]): (readonly LimitDemand[])[] {
    return [...Map.groupBy(moneyFirst(demands), (demand) => counters.at(demand)).values()];
  }

  /** How the limits of demands stand that can refuse. A limit set at run time can, also where the configuration only has one in shadow mode. */
  function inForce(demands: readonly LimitDemand[]): CounterStatus[] {
    return byCounter(demands).flatMap((on_counter) => {
      const in_shadow = on_counter.every(({ shadow = false }) => shadow);
      return counters.inForce(in_shadow ? [{ ...on_counter[0]!, limit: null, shadow: false }] : on_counter);
    });
  }

  function inShadow(demands: readonly LimitDemand[]): CounterStatus[] {
    const shadows = demands.filter(({ shadow = false }) => shadow);
    return shadows.map((demand) => ({ ...stateOf(counters.at(demand)), rule: demand.rule, limit: demand.limit }));
  }

  function withoutRoom(statuses: readonly CounterStatus[], request: ReservationRequest): LimitStatus[] {
    return statuses
      .filter(isLimit)
      .filter((limit_status) => lacksRoom(limit_status, request))
      .toSorted(byLatestReset);
  }

  function found(demand: LimitDemand, request: Hold): DemandStatus {
    const counter = counters.at(demand);
    const { shadow = false, unit, limit } = demand;
    const in_force = shadow ? limit : counters.inForce([demand])[0]!.limit;
    const room = in_force === null || !lacksRoom({ ...stateOf(counter), limit: in_force }, request);
    const { spent, reserved } = counter;
    return { ...demand, in_force, spent, reserved, needed: reservedIn(unit, request).amount, room };
  }

  function hold(request: ReservationRequest, unreserved: boolean): void {
    const touched = [...new Set(request.demands.map((demand) => counters.at(demand)))];
    const open = { request, counters: touched, amount_nano_usd: request.amount_nano_usd, unreserved };
    if (!unreserved) move(open, 1);
    reservations.set(request.request_id, open);
  }

  /** Puts what a reservation holds on its counters, or takes it off again. */
  function move({ request, counters: touched, amount_nano_usd }: Open, sign: 1 | -1): void {
    for (const counter of touched) {
      const { amount, most } = reservedIn(counter.name.unit, { ...request, amount_nano_usd });
      counter.reserved += sign * amount;
      counter.most += sign * most;
      counter.in_flight += sign;
    }
  }

  function end(request_id: string): Open | undefined {
    const open = reservations.get(request_id);
    if (open === undefined) return undefined;
    reservations.delete(request_id);
    if (!open.unreserved) move(open, -1);
    return open;
  }

  function put({ spent, reserved, most = reserved, in_flight, ...name }: Balance): void {
    const counter = counters.at(name);
    counter.spent += spent;
    counter.reserved += reserved;
    counter.most += most;
    counter.in_flight += in_flight ?? (name.unit === 'requests' ? reserved : Number(reserved > 0));
  }

  const look = (demands: readonly LimitDemand[], hold: Hold) => demands.map((demand) => found(demand, hold));

  return {
    attempts,
    rows,
    set: counters.set,
    unset: counters.unset,
    grant: counters.grant,
    reserved: () =>
      [...reservations.values()].reduce((sum, open) => sum + (open.unreserved ? 0 : open.amount_nano_usd), 0),
    balance(name) {
      const { spent, reserved, most, in_flight } = counters.at(name);
      return { spent, reserved, most, in_flight };
    },
    put,
    count({ balances, settings = [], grants = [] }) {
      for (const balance of balances) put(balance);
      for (const { amount, ...name } of settings) counters.set(name, amount);
      for (const { amount, expires_at, ...name } of grants) counters.grant(name, amount, expires_at);
    },
    look,
    teach: (user, model, nano_usd) => void typical.set(JSON.stringify([user, model]), nano_usd),
    typicalCost: (user, model) => typical.get(JSON.stringify([user, model])),
    async reserve(request) {
      assertReservable(request);
      if (isAway()) {
        if (request.on_store_error !== 'allow') throw away();
        hold(request, true);
        return { exceeded: [], shadows: [], statuses: [], unreserved: true };
      }
      const exceeded = withoutRoom(inForce(request.demands), request);
      attempts.push({ request, statuses: look(request.demands, request), exceeded });
      if (exceeded.length > 0) {
        return { exceeded, shadows: [], statuses: [], unreserved: false, decided_at: clock.now() };
      }
      const shadows = withoutRoom(inShadow(byCounter(request.demands).flat()), request);
      hold(request, false);
      const statuses = counters.inForce(inMoney(request.demands)).filter(isLimit);
      return { exceeded, shadows, statuses, unreserved: false };
    },
    topUp(request_id, amount_nano_usd) {
      const open = reservations.get(request_id);
      if (open === undefined || open.unreserved) return;
      const raised = Math.min(amount_nano_usd, open.request.most_nano_usd);
      if (!(raised > open.amount_nano_usd)) return;
      move(open, -1);
      open.amount_nano_usd = raised;
      move(open, 1);
    },
    async settle(settlement) {
      const { request_id, reserved } = settlement;
      const open = end(request_id);
      if (open === undefined && (reserved || rows.some((row) => row.request_id === request_id))) return;
      const row = rowOf(settlement, open);
      rows.push(row);
      for (const counter of open?.counters ?? alwaysCounted(settlement).map((name) => counters.at(name))) {
        counter.spent += spentOf(counter, row);
      }
    },
    async release(request_id) {
      end(request_id);
    },
    async statuses(demands) {
      if (isAway()) throw away();
      return counters.inForce(inMoney(demands)).map((limit_status) => counters.withSpentByDay(limit_status));
    },
  };
}

function inMoney(demands: readonly LimitDemand[]): LimitDemand[] {
  return demands.filter(({ unit }) => unit === 'nano_usd');
}

function moneyFirst(demands: readonly LimitDemand[]): LimitDemand[] {
  return [...inMoney(demands), ...demands.filter(({ unit }) => unit !== 'nano_usd')];
}

function isLimit(limit_status: CounterStatus): limit_status is LimitStatus {
  return limit_status.limit !== null;
}

const TOKEN_COLUMNS = [
  'input_tokens',
  'output_tokens',
  'cache_read_tokens',
  'cache_write_5m_tokens',
  'cache_write_1h_tokens',
];

/** What a request that is over adds to a counter; nothing where only what is under way counts. */
function spentOf({ name: { unit, window } }: Counter, row: LedgerRow): number {
  if (window === 'open') return 0;
  if (unit === 'requests') return 1;
  if (unit === 'tokens') return TOKEN_COLUMNS.reduce((sum, column) => sum + (row[column] as number), 0);
  return row.cost_nano_usd as number;
}

/** Who asked for what is known from the reservation; what is no count becomes 0, and such a cost what was reserved. */
function rowOf(settlement: Settlement, open: Open | undefined): LedgerRow {
  const { tokens, status, aborted, cost_nano_usd, provenance, server_tools, billed } = settlement;
  const identity = open?.request ?? settlement;
  const count = (value: number) => (isCount(value) ? value : 0);
  const priced = isCount(cost_nano_usd);
  return {
    request_id: identity.request_id,
    protocol: identity.protocol,
    principal_id: identity.principal_id,
    user_email: identity.user,
    team: identity.team,
    project: identity.project,
    token_id: identity.token_id,
    model: identity.model,
    upstream: identity.upstream,
    upstream_model: identity.upstream_model,
    status: Number.isInteger(status) ? status : null,
    aborted,
    input_tokens: count(tokens.input),
    output_tokens: count(tokens.output),
    cache_read_tokens: count(tokens.cache_read),
    cache_write_5m_tokens: count(tokens.cache_write_5m),
    cache_write_1h_tokens: count(tokens.cache_write_1h),
    cost_nano_usd: priced ? cost_nano_usd : (open?.amount_nano_usd ?? 0),
    server_tools: server_tools ?? null,
    billed: billed ?? null,
    kind: 'request',
    provenance: priced ? provenance : { ...provenance, cost: 'estimate' },
  };
}
