import { readSessionTurns, readTraffic, type TrafficCount } from '../money/reports/traffic.ts';
import { FAILOVER_TABLE, type FailoverRow } from '../upstreams/failover-table.ts';
import { listTroubles } from '../upstreams/states/kept-troubles.ts';
import type { AdminOptions, Asked } from './asked.ts';
import { notInList, pageOf } from './input.ts';

const MINUTE_MS = 60_000;
/** Of which times traffic is shown, and in how many parts: five minutes, an hour. */
const WINDOWS = {
  hour: { ms: 60 * MINUTE_MS, parts: 12 },
  day: { ms: 24 * 60 * MINUTE_MS, parts: 24 },
} as const;

/** What went to upstreams and came of it, and what kept requests from them. For administrators. */
export function upstreamTrafficOperations({ database, clock }: AdminOptions) {
  return {
    async getUpstreamTraffic(_: Asked, { window = 'hour' }: { readonly window?: keyof typeof WINDOWS }) {
      const { ms, parts } = WINDOWS[window];
      const part_ms = ms / parts;
      // The part that has begun is the last: the same question has the same parts for as long as that lasts.
      const end = (Math.floor(clock.now() / part_ms) + 1) * part_ms;
      const span = { since: new Date(end - ms), until: new Date(end) };
      const [{ counts, times }, turns] = await Promise.all([
        readTraffic(database, span, parts),
        readSessionTurns(database, span),
      ]);
      const all = sum(counts);
      const timesOf = (upstream: string, model: string | null) => {
        const found = times.find((each) => each.upstream === upstream && each.upstream_model === model);
        return { p50_ms: found?.p50_ms ?? null, p95_ms: found?.p95_ms ?? null };
      };
      const by_upstream = Map.groupBy(counts, ({ upstream }) => upstream);
      const upstreams = [...by_upstream].map(([upstream, of_it]) => {
        const models = [...Map.groupBy(of_it, ({ upstream_model }) => upstream_model)].map(
          ([upstream_model, of_model]) => ({
            upstream_model,
            ...describe(of_model),
            ...timesOf(upstream, upstream_model),
          }),
        );
        const session = turns.find((each) => each.upstream === upstream);
        return {
          upstream,
          ...describe(of_it),
          ...timesOf(upstream, null),
          share: sum(of_it) / all,
          turns: session?.turns ?? 0,
          turns_stayed: session?.stayed ?? 0,
          parts: inParts(of_it, parts),
          models: models.toSorted(mostFirst),
        };
      });
      return { window, ...span, part_seconds: part_ms / 1000, attempts: all, upstreams: upstreams.toSorted(mostFirst) };
    },

    async listUpstreamTroubles(_: Asked, given: { upstream?: string; after?: string; limit: number }) {
      const { upstream, after, limit } = given;
      const before = after === undefined ? undefined : Number(after);
      if (before !== undefined && !Number.isSafeInteger(before)) throw notInList();
      const only = {
        limit: limit + 1,
        ...(upstream !== undefined && { upstream }),
        ...(before !== undefined && { before }),
      };
      const page = pageOf(await listTroubles(database, only), limit);
      return { troubles: page.entries, next: page.next === null ? null : String(page.next) };
    },
  };
}

function mostFirst(a: { readonly attempts: number }, b: { readonly attempts: number }): number {
  return b.attempts - a.attempts;
}

function sum(counts: readonly TrafficCount[]): number {
  return counts.reduce((all, { attempts }) => all + attempts, 0);
}

type Kind = 'served' | 'limited' | 'failed' | 'other';

/** What an outcome says of the upstream: `other` is a fault of the request, or of nobody. */
function kindOf(outcome: string): Kind {
  const effect = rowOf(outcome)?.effect;
  if (outcome === 'answered') return 'served';
  if (effect === 'limited') return 'limited';
  return effect === 'success' || effect === 'neutral' ? 'other' : 'failed';
}

function rowOf(outcome: string): FailoverRow | undefined {
  return Object.hasOwn(FAILOVER_TABLE, outcome) ? FAILOVER_TABLE[outcome as keyof typeof FAILOVER_TABLE] : undefined;
}

function describe(counts: readonly TrafficCount[]) {
  const of_kind = (kind: Kind) => sum(counts.filter(({ outcome }) => kindOf(outcome) === kind));
  const outcomes = [...Map.groupBy(counts, ({ outcome }) => outcome)]
    .filter(([outcome]) => outcome !== 'answered')
    .map(([outcome, of_it]) => ({ outcome, means: rowOf(outcome)?.when ?? outcome, attempts: sum(of_it) }));
  return {
    attempts: sum(counts),
    served: of_kind('served'),
    limited: of_kind('limited'),
    failed: of_kind('failed'),
    outcomes: outcomes.toSorted((a, b) => mostFirst(a, b) || (a.outcome < b.outcome ? -1 : 1)),
  };
}

function inParts(counts: readonly TrafficCount[], parts: number) {
  const by_part = Map.groupBy(counts, ({ part }) => part);
  return Array.from({ length: parts }, (_, part) => {
    const { attempts, limited, failed } = describe(by_part.get(part) ?? []);
    return { attempts, limited, failed };
  });
}
