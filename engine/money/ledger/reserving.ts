import type {
  CounterName,
  MoveDecision,
  ReservationDecision,
  ReservationRequest,
  Settlement,
} from '../../contract/services.ts';
import { type Ending, type Part, partsOf } from '../leases/lease-parts.ts';
import type { Leases } from '../leases/leases.ts';
import type { Batches } from './batches.ts';
import { isCount } from './reservation.ts';

/** A request with a reservation, as far as leases are concerned. */
interface Open {
  readonly parts: readonly Part[];
  /** Whether its row could be written, while that is not known. */
  readonly written: Promise<boolean> | undefined;
}

/** How reservations are made: in leases where that can be, and else in the database, where each is waited for. */
export class Reserving {
  readonly #batches: Pick<Batches, 'reserve'>;
  readonly #leases: Leases | undefined;
  /** By request. No Map: see the engine's `Bag`. */
  readonly #open: Record<string, Open> = Object.create(null);

  constructor(batches: Pick<Batches, 'reserve'>, leases: Leases | undefined) {
    this.#batches = batches;
    this.#leases = leases;
  }

  /** As `Batches.reserve`. */
  async reserve(request: ReservationRequest): Promise<ReservationDecision> {
    const leases = this.#leases;
    if (leases === undefined) return this.#batches.reserve(request);
    const parts = partsOf(request);
    const decision = (await this.#placeIn(leases, request, parts)) ?? (await this.#ask(leases, request, parts));
    leases.note(parts);
    return decision;
  }

  /** Decides on a move, and again where it was refused for room that is leased. */
  async move(decide: () => Promise<MoveDecision | undefined>): Promise<MoveDecision | undefined> {
    const first = await decide();
    if (this.#leases === undefined || first === undefined || first.exceeded.length === 0) return first;
    const again = async () => (await decide()) ?? GONE;
    const decision = await this.#leases.withoutLeases(first, again, true);
    return decision === GONE ? undefined : decision;
  }

  /** Whether the row of a request could be written, where that has to be waited for. */
  written(request_id: string): Promise<boolean> | undefined {
    return this.#open[request_id]?.written;
  }

  /** A request is over, with what it came to where it was forwarded; `ended` when that is written. */
  over(request_id: string, settlement?: Settlement): Ending | undefined {
    const open = this.#open[request_id];
    if (open === undefined) return undefined;
    delete this.#open[request_id];
    const spent = open.parts.map(({ name }) => (settlement === undefined ? 0 : spentOn(name, settlement)));
    return this.#leases!.over(open.parts, spent);
  }

  /** The end of a request is written, or never will be. */
  ended(ending: Ending | undefined): void {
    if (ending !== undefined) this.#leases!.ended(ending);
  }

  async #placeIn(
    leases: Leases,
    request: ReservationRequest,
    parts: readonly Part[],
  ): Promise<ReservationDecision | undefined> {
    const leased = await leases.place(request, parts);
    if (leased === undefined) return undefined;
    const { written, statuses } = leased;
    const open: Open = { parts, written };
    this.#open[request.request_id] = open;
    // A row that could not be written stays known as such.
    void written.then((is_written) => {
      if (is_written && this.#open[request.request_id] === open)
        this.#open[request.request_id] = { parts, written: undefined };
    });
    return { exceeded: [], shadows: [], statuses, unreserved: false };
  }

  async #ask(leases: Leases, request: ReservationRequest, parts: readonly Part[]): Promise<ReservationDecision> {
    const ask = () => this.#batches.reserve(request);
    const first = await ask();
    const decision = first.exceeded.length === 0 ? first : await leases.withoutLeases(first, ask, false);
    if (decision.exceeded.length > 0) return decision;
    this.#open[request.request_id] = { parts, written: undefined };
    return { ...decision, statuses: leases.learn(decision.statuses) };
  }
}

/** What is told of a move of something that is not there any more. */
const GONE: MoveDecision = { exceeded: [], shadows: [], statuses: [] };

function spentOn({ unit, window }: CounterName, { cost_nano_usd, tokens }: Settlement): number {
  if (window === 'open') return 0;
  if (unit === 'nano_usd') return isCount(cost_nano_usd) ? cost_nano_usd : 0;
  if (unit === 'requests') return 1;
  return tokens.input + tokens.output + tokens.cache_read + tokens.cache_write_5m + tokens.cache_write_1h;
}
