import type { ReservationRequest } from '../../contract/services.ts';
import { isStorable } from '../../kit/storable.ts';
import { isCount } from './ledger-statements.ts';

/** Raises TypeError or RangeError for a request that no caller can mean, before it could spoil a batch. */
export function assertReservable(request: ReservationRequest): void {
  const { request_id, amount_nano_usd, most_nano_usd, tokens, overshoot_percent = 0, demands } = request;
  if (!isStorable(request_id)) throw new TypeError('a request id cannot hold NUL or half a surrogate pair');
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
