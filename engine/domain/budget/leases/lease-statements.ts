import type { CounterName, LimitStatus } from '../../../base/contract/services.ts';
import type { Lane, SentStatement } from '../../../base/store/lanes.ts';
import { type LookedAtCounter, type PackedCounter, unpackCounter } from '../ledger/batch-answer.ts';
import { CounterList, reservationRows } from '../ledger/batch-request.ts';
import { databaseTime, type StatementOptions } from '../ledger/ledger-statements.ts';
import type { CounterNumbers } from '../limits/room.ts';
import type { Amounts, Granted, Placement, Return, Wish } from './leased-room.ts';

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

const valuesOf = (count: number) => Array.from({ length: count }, (_, i) => `$${i + 1}`).join(', ');
const PLACE = `call place_rows(${valuesOf(9)})`;
const PLACE_AGAIN = `call place_rows_again(${valuesOf(6)})`;
const KEEP = `call keep_leases(${valuesOf(17)}, null)`;

/** The statements about leases, and about reservations that were placed in them. Errors are the database's. */
export class LeaseStatements {
  readonly #options: StatementOptions;

  constructor(options: StatementOptions) {
    this.#options = options;
  }

  place(lane: Lane, rows: readonly LeasedRow[]): SentStatement {
    const { values, off } = this.#pack(rows);
    return lane.send('place_rows', PLACE, [
      ...values,
      off.map(({ amount }) => amount),
      off.map(({ most }) => most),
      off.map(({ requests }) => requests),
    ]);
  }

  /** Writes rows, all of the same leases, that may have been written before. */
  async placeAgain(rows: readonly LeasedRow[]): Promise<void> {
    await this.#options.database.query('place_rows_again', PLACE_AGAIN, this.#pack(rows).values);
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
    const answer = JSON.parse(row!.answer!) as (readonly [boolean, number, number | null, ...PackedCounter])[];
    return answer.map(([taken, id, ends_at, ...numbers]) => ({ taken, id, ends_at, numbers: unpackCounter(numbers) }));
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

  async recall(names: readonly CounterName[]): Promise<readonly LookedAt[]> {
    const { database, clock, time_zone } = this.#options;
    const [row] = await database.query<{ told: string }>(
      'recall_leases',
      'select l.told, recall_leases(l.ids) from look_at_counters($1, $2, $3, $4, $5, $6) as l',
      [databaseTime(clock), time_zone(), ...namesOf(names)],
    );
    const found = JSON.parse(row!.told) as LookedAtCounter[];
    return found.map(([spent, reserved, in_flight, most, set, granted, resets_at, , , , leased]) => {
      return { leased, numbers: unpackCounter([spent, reserved, in_flight, most, set, granted, resets_at]) };
    });
  }

  #pack(rows: readonly LeasedRow[]): { readonly values: readonly unknown[]; readonly off: readonly Amounts[] } {
    const { process_id, clock } = this.#options;
    const positions = new Map<number, number>();
    const off: Amounts[] = [];
    const place = ({ parts, leases }: Placement, of_money: boolean) =>
      parts.flatMap(({ name, amount, most, requests }, i) => {
        if ((name.unit === 'nano_usd') !== of_money) return [];
        const { id } = leases[i]!;
        let position = positions.get(id);
        if (position === undefined) {
          position = off.push({ amount: 0, most: 0, requests: 0 });
          positions.set(id, position);
        }
        const sum = off[position - 1]!;
        sum.amount += amount;
        sum.most += most;
        sum.requests += requests;
        return position;
      });
    const packed = rows.map(({ placement }) => {
      const money = place(placement, true);
      return { request: placement.request, money: money.length, counters: [...money, ...place(placement, false)] };
    });
    const [requests, at] = reservationRows(packed);
    const about = [process_id, rows[0]!.lease_id, databaseTime(clock)];
    return { values: [...about, requests, [...positions.keys()], at], off };
  }
}

function namesOf(names: readonly CounterName[]): CounterList['columns'] {
  const list = new CounterList();
  for (const name of names) list.position(name);
  return list.columns;
}

/** Whether a limit may have room by now that had none when it was decided. */
export function hasMoreRoom({ numbers }: LookedAt, decided: LimitStatus): boolean {
  return (
    numbers.spent + numbers.reserved < decided.spent + decided.reserved ||
    numbers.spent + numbers.most < decided.spent + decided.most ||
    numbers.in_flight < decided.in_flight
  );
}
