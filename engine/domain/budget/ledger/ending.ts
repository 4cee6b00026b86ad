import type { Outcome, Provenance, TokenCounts } from '../../../base/contract/services.ts';
import { newUsageReading, type UsageReading } from '../../protocols/index.ts';
import { NO_TOKENS } from '../prices/prices.ts';

/**
 * How well a forwarded request's bill is known. `known`: by the answer. `refused`: there is none, by the upstream's word.
 * `left`: not in full, because its caller went away, or has a whole answer that could not be read. `failed`: not in full or
 * not at all, by a failure of the upstream or the gateway.
 */
export type Ending = 'known' | 'refused' | 'left' | 'failed';

/** What is known of how a forwarded request ended, beside what the answer said of its usage. */
export interface EndingCircumstances {
  /** `undefined`: the upstream never answered. */
  readonly status: number | undefined;
  /** Whether the caller went away. */
  readonly aborted: boolean;
  /** Whether the answer was read to its end all the same. */
  readonly drained: boolean;
  /** Code of the gateway's own error, if the request ended with one. */
  readonly error: string | undefined;
  /** Whether any event of an answer came, or a document. */
  readonly heard: boolean;
  /** Whether nobody here could read the answer: compressed in an unknown way or wrongly, or too large. */
  readonly unread: boolean;
  readonly relayed_bytes: number;
}

/** Statuses of 500 and above with which an upstream says that it did not take the request. */
const NOT_TAKEN: ReadonlySet<number> = new Set([501, 503, 529]);

/** Errors by which the upstream ended a request: that its caller went away before has no part in that. */
const BY_UPSTREAM: ReadonlySet<string> = new Set(['upstream_failed', 'upstream_unreachable', 'upstream_invalid']);

/** Says how well the bill of a forwarded request is known. */
export function endingOf(reading: UsageReading, circumstances: EndingCircumstances): Ending {
  const { status, aborted, drained, error, heard, unread, relayed_bytes } = circumstances;
  const has_left = aborted && !drained && !BY_UPSTREAM.has(error!);
  if (status === undefined) return has_left ? 'left' : 'failed';
  if (status >= 500 && !NOT_TAKEN.has(status)) return 'failed';
  if (status < 200 || status > 299) return 'refused';
  // A page says that no model was asked; nothing at all says nothing.
  if (error === 'upstream_invalid' && !heard) return relayed_bytes > 0 ? 'refused' : 'failed';
  if (reading.failed && !reading.seen && reading.deltas === 0) return 'refused';
  const is_whole = drained || (!aborted && error === undefined);
  // Chat completions tell that they are complete before they tell what they used.
  if (reading.complete && (reading.counted || is_whole)) return 'known';
  // Some upstreams do not say what a whole document used; a stream that does not say that it is complete broke off.
  if (heard && is_whole && !reading.streamed) return 'known';
  // The caller has it all.
  if (unread && !heard && is_whole) return 'left';
  return has_left && !reading.failed ? 'left' : 'failed';
}

/** What a request is charged, and what the upstream may charge beyond that. */
export interface Settled {
  readonly cost_nano_usd: number;
  /** What a request cost at most of which nobody knows whether the upstream bills it; 0 where that is known. */
  readonly possibly_billed_nano_usd: number;
  /** Where the cost comes from, when not from the usage. */
  readonly by: Extract<Provenance, 'learned' | 'most' | 'possible'> | undefined;
}

/** What is known of the cost of a request whose bill is not. */
export interface CostBounds {
  /** By what was reported and relayed. */
  readonly known: number;
  /** The most it can cost. */
  readonly most: number;
  /** What 95 of 100 such requests cost at most; `undefined` while too little is known, and where no limit may be passed. */
  readonly usual: number | undefined;
  /** Whether what is possibly billed counts against limits: `reserve: worst_case`. */
  readonly counts_possible: boolean;
}

/**
 * What a request costs whose bill is not known in full. Who leaves early pays what such requests cost, at least what is known
 * and at most the most. What fails costs what is known; the rest is kept apart, as possibly billed.
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

/** A request that left and that nobody metered. */
export interface Unmetered {
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
