import type { Outcome, Provenance, TokenCounts } from '../../../base/contract/services.ts';
import { newUsageReading, type UsageReading } from '../../protocols/index.ts';
import { NO_TOKENS } from '../prices/prices.ts';

/**
 * How well the bill of a forwarded request is known.
 * `known`: reported by the response. `refused`: the upstream rejected the request and bills nothing. `left`: incomplete,
 * because the client disconnected or the response could not be read. `failed`: incomplete or unknown, because the upstream
 * or the gateway failed.
 */
export type Ending = 'known' | 'refused' | 'left' | 'failed';

/** How a forwarded request ended, besides its reported usage. */
export interface EndingCircumstances {
  /** `undefined` without a response. */
  readonly status: number | undefined;
  /** Whether the client disconnected. */
  readonly aborted: boolean;
  /** Whether the response was read to its end anyway. */
  readonly drained: boolean;
  /** Code of the gateway's error, if the request ended with one. */
  readonly error: string | undefined;
  /** Whether a response document or an event arrived. */
  readonly heard: boolean;
  /** Whether the response could not be read: unknown or invalid compression, or too large. */
  readonly unread: boolean;
  readonly relayed_bytes: number;
}

/** Statuses from 500 that say the upstream did not process the request. */
const NOT_TAKEN: ReadonlySet<number> = new Set([501, 503, 529]);

/** Errors of the upstream; with these an earlier disconnect of the client does not matter. */
const BY_UPSTREAM: ReadonlySet<string> = new Set(['upstream_failed', 'upstream_unreachable', 'upstream_invalid']);

/** Classifies how well the bill of a forwarded request is known. */
export function endingOf(reading: UsageReading, circumstances: EndingCircumstances): Ending {
  const { status, aborted, drained, error, heard, unread, relayed_bytes } = circumstances;
  const has_left = aborted && !drained && !BY_UPSTREAM.has(error!);
  if (status === undefined) return has_left ? 'left' : 'failed';
  if (status >= 500 && !NOT_TAKEN.has(status)) return 'failed';
  if (status < 200 || status > 299) return 'refused';
  // An HTML page comes from a proxy, not from a model; an empty response proves nothing.
  if (error === 'upstream_invalid' && !heard) return relayed_bytes > 0 ? 'refused' : 'failed';
  if (reading.failed && !reading.seen && reading.deltas === 0) return 'refused';
  const is_whole = drained || (!aborted && error === undefined);
  // Chat completions report completion before usage.
  if (reading.complete && (reading.counted || is_whole)) return 'known';
  // Some upstreams report no usage in documents. A stream without an end event was cut off.
  if (heard && is_whole && !reading.streamed) return 'known';
  // The client has the whole response.
  if (unread && !heard && is_whole) return 'left';
  return has_left && !reading.failed ? 'left' : 'failed';
}

/** The charge of a request, and what the upstream may bill beyond it. */
export interface Settled {
  readonly cost_nano_usd: number;
  /** The part of the worst case that the upstream may or may not bill; 0 if the bill is known. */
  readonly possibly_billed_nano_usd: number;
  /** The source of the cost, if not the reported usage. */
  readonly by: Extract<Provenance, 'learned' | 'most' | 'possible'> | undefined;
}

/** Bounds on the cost of a request with an unknown bill, in nano-USD. */
export interface CostBounds {
  /** The cost of the reported and relayed usage. */
  readonly known: number;
  /** The worst case. */
  readonly most: number;
  /** The 95th percentile of similar requests; `undefined` with too few samples, or if no limit may be exceeded. */
  readonly usual: number | undefined;
  /** Whether what is possibly billed counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/**
 * Charges a request with an incomplete bill. After a disconnect it costs the typical amount, between the known cost and the
 * worst case. After a failure it costs the known amount; the rest is recorded as possibly billed.
 */
export function settleUnknown(ending: 'left' | 'failed', bounds: CostBounds): Settled {
  const { most, usual, counts_possible } = bounds;
  const known = Math.min(bounds.known, most);
  const likely = Math.max(known, Math.min(usual ?? most, most));
  if (ending === 'left') {
    const by = likely === known ? undefined : usual === undefined || usual >= most ? 'most' : 'learned';
    return { cost_nano_usd: likely, possibly_billed_nano_usd: 0, by };
  }
  const possibly_billed_nano_usd = likely - known;
  if (!counts_possible || possibly_billed_nano_usd === 0)
    return { cost_nano_usd: known, possibly_billed_nano_usd, by: undefined };
  return { cost_nano_usd: likely, possibly_billed_nano_usd, by: 'possible' };
}

/** A forwarded request that no stage metered. */
export interface Unmetered {
  /** The reserved amount. */
  readonly amount_nano_usd: number;
  readonly tokens: TokenCounts;
  readonly ended: Pick<EndingCircumstances, 'status' | 'aborted' | 'error' | 'relayed_bytes'>;
  /** Whether what is possibly billed counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/**
 * The bill of a forwarded request that no stage metered: the reserved amount. Rejected requests cost nothing; failed ones
 * cost nothing unless possibly billed amounts count.
 */
export function settleUnmetered(request: Unmetered): Outcome {
  const { amount_nano_usd, tokens, ended, counts_possible } = request;
  const { status, aborted } = ended;
  const ending = endingOf(newUsageReading(), { ...ended, drained: false, heard: true, unread: false });
  const is_charged = ending === 'known' || ending === 'left' || (ending === 'failed' && counts_possible);
  const from = aborted ? 'abort' : 'estimate';
  return {
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
  };
}
