import type { LedgerIdentity, Settlement, TokenCounts } from '../../contract/services.ts';
import { newUsageReading } from '../../protocols/usage/reading.ts';
import { NO_TOKENS } from '../prices/prices.ts';
import { type EndingCircumstances, endingOf } from './ending.ts';
import { ledgerIdentity } from './ledger-identity.ts';

/** A request that left and that nobody metered. */
export interface Unmetered {
  readonly identity: LedgerIdentity;
  /** What was reserved. */
  readonly amount_nano_usd: number;
  readonly tokens: TokenCounts;
  readonly ended: Pick<EndingCircumstances, 'status' | 'aborted' | 'error' | 'relayed_bytes'>;
  /** Whether what is possibly billed counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/**
 * The bill of a request that left and that nobody metered: what was reserved. What the upstream refused costs nothing; what
 * failed there costs nothing either, unless what may be billed counts.
 */
export function settleUnmetered(request: Unmetered): Settlement {
  const { identity, amount_nano_usd, tokens, ended, counts_possible } = request;
  const { status, aborted } = ended;
  const ending = endingOf(newUsageReading(), { ...ended, drained: false, heard: true, unread: false });
  const is_charged = ending === 'known' || ending === 'left' || (ending === 'failed' && counts_possible);
  const from = aborted ? 'abort' : 'estimate';
  return {
    ...ledgerIdentity(identity),
    status: status ?? null,
    aborted,
    tokens: is_charged ? tokens : NO_TOKENS,
    cost_nano_usd: is_charged ? amount_nano_usd : 0,
    provenance: {
      input: from,
      output: from,
      cache_read: from,
      cache_write_5m: from,
      cache_write_1h: from,
      cost: is_charged && ending === 'failed' ? 'possible' : from,
    },
    ...(ending === 'failed' && amount_nano_usd > 0 && { possibly_billed_nano_usd: amount_nano_usd }),
    reserved: true,
  };
}
