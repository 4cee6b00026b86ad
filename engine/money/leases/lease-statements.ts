import type { Clock, CounterName, LimitStatus } from '../../contract/services.ts';
import { storable } from '../../kit/storable.ts';
import type { Lane, SentStatement } from '../../store/lanes.ts';
import { CounterList } from '../ledger/batch-request.ts';
import { databaseTime, type LedgerStore } from '../ledger/ledger-statements.ts';
import type { CounterNumbers } from '../limits/room.ts';
import type { Amounts } from './counter-use.ts';
import type { Granted, Placement, Return, Wish } from './lease-parts.ts';

/** A placed request, and which leases it was placed in. */
export interface LeasedRow {
  readonly lease_id: string;
  readonly placement: Placement;
}

/** A counter that had no room. */
export interface LookedAt {
  /** Whether a process that lives has leases on it. */
  readonly leased: boolean;
  readonly numbers: CounterNumbers;
}

type PackedNumbers = readonly [
  spent: number,
  reserved: number,
  in_flight: number,
  most: number,
  set: number | null,
  granted: number | null,
  resets_at: number | null,
];

interface StatementOptions {
  readonly database: LedgerStore;
  readonly clock: Clock;
  readonly time_zone: () => string;
  readonly process_id: string;
}

const ROW_VALUES = Array.from({ length: 18 }, (_, i) => `$${i + 1}`).join(', ');
const PLACE = `call place_rows(${ROW_VALUES}, $19, $20, $21, $22)`;
const PLACE_AGAIN = `call place_rows_again(${ROW_VALUES})`;
const KEEP = `call keep_leases(${Array.from({ length: 17 }, (_, i) => `$${i + 1}`).join(', ')}, null)`;

/** The statements about leases, and about reservations that were placed in them. Errors are the database's. */
export class LeaseStatements {
  readonly #options: StatementOptions;

  constructor(options: StatementOptions) {
    this.#options = options;
  }

  /** Sends rows, all of the same leases. */
  place(lane: Lane, rows: readonly LeasedRow[]): SentStatement {
    const off = new Map<number, Amounts>();
    for (const { placement } of rows) {
      const { parts, leases } = placement;
      for (let i = 0; i < parts.length; i++) {
        const { amount, most, requests } = parts[i]!;
        const sum = off.get(leases[i]!.id);
        if (sum === undefined) off.set(leases[i]!.id, { amount, most, requests });
        else {
          sum.amount += amount;
          sum.most += most;
          sum.requests += requests;
        }
      }
    }
    const amounts = [...off.values()];
    return lane.send('place_rows', PLACE, [
      ...this.#rowValues(rows),
      [...off.keys()],
      amounts.map(({ amount }) => amount),
      amounts.map(({ most }) => most),
      amounts.map(({ requests }) => requests),
    ]);
  }

  /** Writes rows, all of the same leases, that may have been written before. */
  async placeAgain(rows: readonly LeasedRow[]): Promise<void> {
    await this.#options.database.query('place_rows_again', PLACE_AGAIN, this.#rowValues(rows));
  }

  /**
   * Gives back, then takes, where `share` times as much is left.
   * @returns what became of each wish.
   */
  async keep(
    lease_id: string,
    returns: readonly Return[],
    wishes: readonly Wish[],
    share: number,
  ): Promise<readonly Granted[]> {
    const { database, process_id, clock, time_zone } = this.#options;
    const back = <Value>(of: (each: Return) => Value) => returns.map(of);
    const wish = <Value>(of: (each: Wish) => Value) => wishes.map(of);
    const [row] = await database.query<{ answer: string | null }>('keep_leases', KEEP, [
      ...[process_id, lease_id, databaseTime(clock), time_zone()],
      ...[
        back(({ id }) => id),
        back(({ amount }) => amount),
        back(({ most }) => most),
        back(({ requests }) => requests),
      ],
      ...namesOf(wish(({ name }) => name)),
      wish(({ limit }) => (Number.isFinite(limit) ? limit : null)),
      ...[wish(({ amount }) => amount), wish(({ most }) => most), wish(({ requests }) => requests), share],
    ]);
    if (wishes.length === 0) return [];
    const answer = JSON.parse(row!.answer!) as (readonly [boolean, number, number | null, ...PackedNumbers])[];
    return answer.map(([taken, id, ends_at, ...numbers]) => ({ taken, id, ends_at, numbers: unpack(numbers) }));
  }

  /** Takes a reservation back; false where it is not there any more and is in the ledger. */
  async takeBack(request_id: string): Promise<boolean> {
    const text = 'select take_row_back($1) as was_there';
    const [row] = await this.#options.database.query<{ was_there: boolean }>('take_row_back', text, [request_id]);
    return row!.was_there;
  }

  /** Gives back all leases of this process, but for those of an id. */
  async returnAll(but: string | null): Promise<void> {
    const { database, process_id } = this.#options;
    await database.query('return_all_leases', 'select return_all_leases(array[$1::uuid], $2)', [process_id, but]);
  }

  /** Looks whether somebody has leases on some counters, and asks for them. */
  async recall(names: readonly CounterName[]): Promise<readonly LookedAt[]> {
    const { database, clock, time_zone } = this.#options;
    const [row] = await database.query<{ told: string }>(
      'recall_leases',
      'select l.told, recall_leases(l.ids) from look_for_leases($1, $2, $3, $4, $5, $6) as l',
      [databaseTime(clock), time_zone(), ...namesOf(names)],
    );
    const found = JSON.parse(row!.told) as (readonly [boolean, ...PackedNumbers])[];
    return found.map(([leased, ...numbers]) => ({ leased, numbers: unpack(numbers) }));
  }

  #rowValues(rows: readonly LeasedRow[]): unknown[] {
    const { process_id, clock } = this.#options;
    const column = <Value>(of: (placement: Placement) => Value) => rows.map(({ placement }) => of(placement));
    return [
      ...[process_id, rows[0]!.lease_id, databaseTime(clock)],
      column(({ request }) => request.request_id),
      column(({ request }) => request.amount_nano_usd),
      column(({ request }) => request.most_nano_usd),
      column(({ request }) => request.tokens),
      column((placement) => idsOf(placement, true)),
      column((placement) => idsOf(placement, false)),
      column(({ request }) => storable(request.protocol)),
      column(({ request }) => storable(request.principal_id)),
      column(({ request }) => storable(request.user)),
      column(({ request }) => request.team && storable(request.team)),
      column(({ request }) => request.project && storable(request.project)),
      column(({ request }) => request.token_id && storable(request.token_id)),
      column(({ request }) => storable(request.model)),
      column(({ request }) => storable(request.upstream)),
      column(({ request }) => storable(request.upstream_model)),
    ];
  }
}

/** Counters of money, which the ledger row will name, or the others. */
function idsOf({ parts, leases }: Placement, of_money: boolean): string {
  const ids = leases.filter((_, i) => (parts[i]!.name.unit === 'nano_usd') === of_money).map(({ id }) => id);
  return `{${ids.join(',')}}`;
}

function namesOf(names: readonly CounterName[]): CounterList['columns'] {
  const list = new CounterList();
  for (const name of names) list.position(name);
  return list.columns;
}

function unpack([spent, reserved, in_flight, most, set, granted, resets_at]: PackedNumbers): CounterNumbers {
  return { spent, reserved, in_flight, most, set, granted: granted ?? 0, resets_at };
}

/** Whether a limit may have room by now that had none when it was decided. */
export function hasMoreRoom({ numbers }: LookedAt, decided: LimitStatus): boolean {
  return (
    numbers.spent + numbers.reserved < decided.spent + decided.reserved ||
    numbers.spent + numbers.most < decided.spent + decided.most ||
    numbers.in_flight < decided.in_flight
  );
}
