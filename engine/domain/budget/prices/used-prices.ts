import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { Database } from '../../../base/store/database.ts';
import { readForLong } from '../reports/long-report.ts';
import { CATALOGUE_DATE, lookUp } from './catalogue.ts';
import { modelFinder } from './known-models.ts';
import { createPriceBook, KINDS, midnightOf } from './prices.ts';

/** A model at an upstream that the ledger has requests of, and a tool where it is about one. */
export interface UsedPrice {
  readonly model: string;
  readonly upstream: string;
  /** `null`: the model itself. */
  readonly tool: string | null;
  readonly requests: number;
  readonly uses: number;
  readonly cost_nano_usd: bigint;
  readonly last_at: Date;
}

/** What is wrong with a model or tool that was used. */
export interface UsedPriceFinding extends UsedPrice {
  /**
   * `gone`: gateway.yaml no longer has the model; `unknown_model`: it has no price but that of unknown models; `no_price`:
   * not even that; `tool`: the price names no fee for the tool.
   */
  readonly problem: 'gone' | 'unknown_model' | 'no_price' | 'tool';
}

const USED = `
with used as materialized (
  select model, upstream, server_tools, cost_nano_usd, forwarded_at
  from ledger where kind = 'request' and protocol <> 'count_tokens' and forwarded_at >= ?
)
select model, upstream, null as tool, count(*)::float8 as requests, 0::float8 as uses, sum(cost_nano_usd)::text as cost_nano_usd,
       max(forwarded_at) as last_at
from used group by model, upstream
union all
select model, upstream, t.key, count(*)::float8, sum(t.value::bigint)::float8, '0', max(forwarded_at)
from used cross join lateral jsonb_each_text(server_tools) t where server_tools is not null
group by model, upstream, t.key
order by tool nulls first, cost_nano_usd desc, model, upstream`;

/** What the ledger has requests of since a moment; counted tokens, which cost nothing, left out. Errors are pg's own. */
export function readUsedPrices(database: Pick<Database, 'knex'>, since: Date): Promise<UsedPrice[]> {
  return readForLong(database, async (read) => {
    const rows = await read<Omit<UsedPrice, 'cost_nano_usd'> & { readonly cost_nano_usd: string }>(USED, [since]);
    return rows.map((row) => ({ ...row, cost_nano_usd: BigInt(row.cost_nano_usd) }));
  });
}

/** Compares the prices of a configuration with what was used. */
export function findPriceProblems(config: GatewayConfig, used: readonly UsedPrice[]) {
  const prices = createPriceBook(config);
  const find = config.from_model_lists && modelFinder(config);
  const ids = new Set(config.models.map(({ id }) => id));
  const isKnown = (id: string) => (find ? find(id) !== undefined : ids.has(id));
  const problemOf = ({ model, upstream, tool, last_at }: UsedPrice): UsedPriceFinding['problem'] | undefined => {
    const price = prices.of(model, { upstream, at: last_at.getTime() });
    if (tool !== null) return price === undefined || tool in price.server_tools_pico ? undefined : 'tool';
    if (price === undefined) return isKnown(model) ? 'no_price' : 'gone';
    if (price.source !== 'prices.unknown_model') return undefined;
    return isKnown(model) ? 'unknown_model' : 'gone';
  };
  const whole = used.filter(({ tool }) => tool === null);
  return {
    models: new Set(whole.map(({ model }) => model)).size,
    requests: whole.reduce((sum, { requests }) => sum + requests, 0),
    used: used.flatMap((each): UsedPriceFinding[] => {
      const problem = problemOf(each);
      return problem === undefined ? [] : [{ ...each, problem }];
    }),
  };
}

/** What `appscli prices check` looks at, and what it complains about. */
export type PriceFindings = ReturnType<typeof findPriceProblems>;

const DAY_MS = 86_400_000;

/** Age in days from which a catalogue is reported as outdated: providers change prices a few times a year. */
export const CATALOGUE_DAYS_MAX = 180;

interface OtherPrice {
  readonly model: string;
  /** The first upstream at which the catalogue knows the model. */
  readonly upstream: string;
  readonly kind: (typeof KINDS)[number];
  readonly pointer: string;
  readonly written: number;
  readonly catalogue: number;
}

/** Days since the day of the catalogue, at a moment in milliseconds since the epoch. */
export function catalogueDays(now: number): number {
  return Math.max(0, Math.floor((now - midnightOf(CATALOGUE_DATE)!) / DAY_MS));
}

/** Whether prices of the catalogue are in force. */
export function usesCatalogue({ models, from_model_lists }: GatewayConfig): boolean {
  return from_model_lists === true || models.some(({ catalogue }) => catalogue !== undefined);
}

/** The prices under `models[].pricing` that the catalogue has differently, at a moment in milliseconds since the epoch. */
export function otherPrices({ models, upstreams }: GatewayConfig, now: number): OtherPrice[] {
  return models.flatMap(({ id, pricing, upstream_ids }, index) => {
    for (const { name, base_url } of pricing === undefined ? [] : upstreams) {
      const dated = lookUp(upstream_ids[name] ?? id, base_url)?.prices ?? [];
      const listed = dated.findLast(({ from }) => from === undefined || midnightOf(from)! <= now)?.pricing;
      if (listed === undefined) continue;
      return KINDS.flatMap((kind) => {
        const [written, catalogue] = [pricing![kind], listed[kind]];
        if (written === undefined || catalogue === undefined || written === catalogue) return [];
        return [{ model: id, upstream: name, kind, pointer: `/models/${index}/pricing/${kind}`, written, catalogue }];
      });
    }
    return [];
  });
}
