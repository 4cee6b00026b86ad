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

/** What a ledger does with requests that it knows by their ids. */
export interface Books {
  topUp(request_id: string, amount_nano_usd: number): void;
  move(request: ReservationRequest, held: readonly ChargedAttempt[]): Promise<MoveDecision>;
  settle(settlement: Settlement): Promise<void>;
  release(request_id: string): Promise<void>;
}

/**
 * A reservation is not there any more: its process was away for so long that it was taken for dead, and what it was to cost is
 * spent. Nothing can be reserved elsewhere under its id.
 */
export function nothingReserved(): StageError {
  const message = 'Nothing is reserved for this request any more: the gateway was away for too long. Send it again.';
  return new StageError('store_unavailable', message);
}

/** What is told of a move that needs nothing in the database. */
export const MOVED: MoveDecision = { exceeded: [], shadows: [], statuses: [] };

/** The reservation of one request on the books of a ledger; says who asked whom for what in its row. */
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

/** The facts that say who asks whom for what, for a stage that reserves or settles. */
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

/** Who asks whom for what, by the facts of a request. */
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

/** Hands a ledger row over. It is not waited for: the ledger keeps and retries what it cannot write yet. */
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

/** Who asked whom for what, of something that says more. */
export function ledgerIdentity(of: LedgerIdentity): LedgerIdentity {
  const { request_id, protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model } = of;
  return { request_id, protocol, principal_id, user, team, project, token_id, model, upstream, upstream_model };
}

/** Whether a number can be an amount or a count in the ledger: whole, not negative, below 2^53. */
export function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 0;
}

/** Raises TypeError or RangeError for a request that no caller can mean, before it could spoil a batch. */
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
