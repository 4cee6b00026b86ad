import { StageError } from '../../../base/contract/errors.ts';
import type {
  ChargedAttempt,
  LedgerIdentity,
  Log,
  MoveDecision,
  Outcome,
  Reservation,
  ReservationRequest,
  Settlement,
} from '../../../base/contract/services.ts';
import type { StageContext } from '../../../base/contract/stage.ts';
import { isStorable } from '../../../base/kit/storable.ts';

/** Operations of a ledger on reservations, by request id. */
export interface Books {
  topUp(request_id: string, amount_nano_usd: number): void;
  move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<MoveDecision>;
  settle(settlement: Settlement): Promise<void>;
  release(request_id: string): Promise<void>;
}

/**
 * The error of a request whose reservation was recovered as an orphan, because its process was silent for too long. Its cost
 * is recorded, and nothing can be reserved under its id.
 */
export function nothingReserved(): StageError {
  const message =
    'The reservation expired: the gateway was paused or lost its database for too long. Send the request again.';
  return new StageError('store_unavailable', message);
}

/** The decision on a move without a reservation. */
export const MOVED: MoveDecision = { exceeded: [], shadows: [], statuses: [] };

/** A handle on the reservation of one request; adds the request's identity to the settlement. */
export class BookedReservation implements Reservation {
  readonly #books: Books;
  #identity: LedgerIdentity;
  readonly #reserved: boolean;

  constructor(books: Books, identity: LedgerIdentity, reserved: boolean) {
    this.#books = books;
    this.#identity = identity;
    this.#reserved = reserved;
  }

  topUp(amount_nano_usd: number): void {
    if (this.#reserved) this.#books.topUp(this.#identity.request_id, amount_nano_usd);
  }

  async move(request: ReservationRequest, held: readonly ChargedAttempt[] = []): Promise<MoveDecision> {
    const decision = this.#reserved ? await this.#books.move(request, held) : MOVED;
    if (decision.exceeded.length === 0) this.#identity = ledgerIdentity(request);
    return decision;
  }

  settle(outcome: Outcome): Promise<void> {
    const { upstream, upstream_model } = outcome.attempts?.at(-1) ?? this.#identity;
    const identity = { ...ledgerIdentity(this.#identity), upstream, upstream_model };
    return this.#books.settle({ ...outcome, ...identity, reserved: this.#reserved });
  }

  async release(): Promise<void> {
    if (this.#reserved) await this.#books.release(this.#identity.request_id);
  }
}

/** Facts of a request's identity in the ledger. */
export const IDENTITY_FACTS = {
  reads: [
    'request.id',
    'request.protocol',
    'request.model',
    'principal.id',
    'principal.email',
    'principal.token.id',
    'route.upstream',
    'route.upstream_model',
  ],
  reads_if_set: ['principal.team', 'principal.project'],
} as const;

type IdentityContext = StageContext<
  (typeof IDENTITY_FACTS)['reads'][number],
  (typeof IDENTITY_FACTS)['reads_if_set'][number]
>;

/** The identity of a request in the ledger, from its facts. */
export function requestIdentity(ctx: Pick<IdentityContext, 'get'>): LedgerIdentity {
  return {
    request_id: ctx.get('request.id'),
    protocol: ctx.get('request.protocol'),
    principal_id: ctx.get('principal.id'),
    user: ctx.get('principal.email'),
    team: ctx.get('principal.team') ?? null,
    project: ctx.get('principal.project') ?? null,
    token_id: ctx.get('principal.token.id'),
    model: ctx.get('request.model'),
    upstream: ctx.get('route.upstream'),
    upstream_model: ctx.get('route.upstream_model'),
  };
}

/** Settles in the background: the ledger retries what it cannot write yet. */
export function settleLater(
  ctx: Pick<StageContext<'request.id', never, never>, 'get' | 'trace'>,
  reservation: Reservation,
  outcome: Outcome,
  log: Log,
): void {
  const fields = { request_id: ctx.get('request.id'), trace_id: ctx.trace.trace_id };
  const settled = reservation.settle(outcome);
  settled.catch((err: unknown) => log.error({ err, ...fields }, 'a request could not be settled'));
}

/** The identity fields of an object that has more. */
export function ledgerIdentity(of: LedgerIdentity): LedgerIdentity {
  const { request_id, protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model } = of;
  return { request_id, protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model };
}

/** Whether a number can be an amount or a count in the ledger: whole, not negative, below 2^53. */
export function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

/** Validates a reservation request, because an invalid one would fail its whole batch. Raises TypeError or RangeError. */
export function assertReservable(request: ReservationRequest): void {
  const { request_id, amount_nano_usd, most_nano_usd, tokens, overshoot_percent = 0, demands } = request;
  if (!isStorable(request_id)) throw new TypeError('a request id cannot contain NUL or half a surrogate pair');
  for (const amount of [amount_nano_usd, most_nano_usd]) {
    if (!isCount(amount)) throw new RangeError(`an amount in nano-USD cannot be ${amount}`);
  }
  if (amount_nano_usd > most_nano_usd)
    throw new RangeError('a reservation cannot be more than the most a request can cost');
  if (!isCount(tokens)) throw new RangeError(`a count of tokens cannot be ${tokens}`);
  if (!(overshoot_percent >= 0 && overshoot_percent <= 100)) {
    throw new RangeError(`a limit cannot be passed by ${overshoot_percent} percent`);
  }
  for (const { limit } of demands) {
    if (limit !== null && !isCount(limit)) throw new RangeError(`a limit cannot be ${limit}`);
  }
}
