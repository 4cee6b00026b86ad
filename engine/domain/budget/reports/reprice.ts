import type { GatewayConfig } from '../../../base/contract/config.ts';
import type { Billed, Clock, TokenCounts, Usage } from '../../../base/contract/services.ts';
import { matchesGlob } from '../../../base/kit/glob.ts';
import type { Database } from '../../../base/store/database.ts';
import type { Actor } from '../../audit/index.ts';
import { databaseTime } from '../ledger/ledger-statements.ts';
import { type AnsweringModel, answeringModels, modelFinder } from '../prices/known-models.ts';
import { costOf, costOfParts, createPriceBook, type PriceBook, servedOf } from '../prices/prices.ts';
import { joinSql, momentSql, readForLong, type SqlPart } from './long-report.ts';

/** Filter of the requests to reprice. */
export interface RepriceRequest {
  /** Settled at or after; a date is midnight UTC, as prices change then. */
  readonly since: Date | string;
  readonly until?: Date | string | undefined;
  readonly model?: string | undefined;
  readonly upstream?: string | undefined;
  readonly estimates?: boolean | undefined;
}

/** Requests of a day, model and upstream with a changed cost. */
export interface RepricedGroup {
  readonly day: string;
  readonly model: string;
  readonly upstream: string;
  readonly requests: number;
  readonly was_nano_usd: bigint;
  readonly cost_nano_usd: bigint;
}

/** Progress: number of requests read, all settled before `until`. */
export interface RepriceProgress {
  readonly requests: number;
  readonly until: Date;
}

/** A request of the ledger; `cost` includes earlier adjustments. */
interface PricedRow extends TokenCounts {
  readonly request_id: string;
  readonly model: string;
  readonly upstream: string;
  readonly server_tools: Readonly<Record<string, number>> | null;
  readonly billed: Billed | null;
  readonly source: string | null;
  readonly at: number;
  readonly day: string;
  readonly cost: number;
}

interface Adjustment {
  readonly request_id: string;
  readonly was: number;
  readonly cost: number;
}

/** Rows per page: fit into memory, and are read within seconds. */
const SLICE_MS = 600_000;
const PAGE = 20_000;
/** Rows per batch: gateways wait for the locks on its counters. */
const BATCH = 200;
/** Longest time from arrival, which decides the price, to forwarding. */
const ARRIVAL_MS = 10_000;

/**
 * Reprices requests with gateway.yaml. With an `actor` it adds an adjusting row for each difference; rows are never edited, gateways
 * keep running, and a second run changes nothing. Raises store_unavailable and errors of pg; rows written until then stay, and
 * counters agree with them.
 */
export async function repriceLedger(
  options: {
    readonly database: Pick<Database, 'query' | 'knex'>;
    readonly clock: Clock;
    readonly config: GatewayConfig;
    readonly onProgress?: (progress: RepriceProgress) => void;
  },
  request: RepriceRequest,
  actor?: Actor,
) {
  const { database, clock, config, onProgress } = options;
  const tally = createTally(config, request);
  const writer = actor && createWriter(database, clock, actor, subjectOf(request));
  let read = 0;
  for (const from of await slicesOf(database, request)) {
    let after: string | undefined = '';
    while (after !== undefined) {
      const rows = await readPage(database, request, from, after);
      after = rows.length < PAGE ? undefined : rows.at(-1)!.request_id;
      read += rows.length;
      const adjustments = rows.map(tally.compare).filter((adjustment) => adjustment !== undefined);
      await writer?.write(from, adjustments);
    }
    onProgress?.({ requests: read, until: sliceEnd(from) });
  }
  return { ...tally.result(), written: writer?.written() };
}

/** Result of repricing. */
export type Repricing = Awaited<ReturnType<typeof repriceLedger>>;

function slicesOf(database: Pick<Database, 'knex'>, request: RepriceRequest): Promise<readonly Date[]> {
  const { text, values } = settledWithin(request);
  return readForLong(database, async (read) => {
    const rows = await read<{ slice: Date }>(
      `select distinct date_bin('10 minutes', settled_at, '2000-01-01 00:00:00Z') as slice
       from ledger l where kind = 'request' and ${text} order by 1`,
      values,
    );
    return rows.map(({ slice }) => slice);
  });
}

function settledWithin({ since, until, upstream }: RepriceRequest): SqlPart {
  return joinSql(
    [
      { text: 'l.settled_at >=', values: [] },
      momentSql(since, 'UTC'),
      ...(until === undefined ? [] : [{ text: 'and l.settled_at <', values: [] }, momentSql(until, 'UTC')]),
      ...(upstream === undefined ? [] : [{ text: 'and l.upstream = ?', values: [upstream] }]),
    ],
    ' ',
  );
}

/**
 * Requests of ten minutes by id, with earlier adjustments included. Those are looked up by index: without statistics on new rows a
 * join took hours.
 */
function readPage(
  database: Pick<Database, 'knex'>,
  request: RepriceRequest,
  from: Date,
  after: string,
): Promise<readonly PricedRow[]> {
  const within = settledWithin(request);
  const to = sliceEnd(from);
  return readForLong(database, (read) =>
    read<PricedRow>(
      `select l.request_id, l.model, l.upstream, l.input_tokens as input, l.output_tokens as output,
         l.cache_read_tokens as cache_read, l.cache_write_5m_tokens as cache_write_5m,
         l.cache_write_1h_tokens as cache_write_1h, l.server_tools, l.billed, l.provenance ->> 'cost' as source,
         to_char(l.settled_at at time zone 'UTC', 'YYYY-MM-DD') as day,
         cast(extract(epoch from l.forwarded_at) * 1000 as double precision) as at,
         cast(l.cost_nano_usd + coalesce((
           select sum(a.cost_nano_usd) from ledger a
           where a.request_id = l.request_id and a.kind = 'adjustment' and a.settled_at >= ? and a.settled_at < ?
         ), 0) as bigint) as cost
       from ledger l
       where l.kind = 'request' and l.settled_at >= ? and l.settled_at < ? and l.request_id > ? and ${within.text}
       order by l.request_id limit ${PAGE}`,
      [from, to, from, to, after, ...within.values],
    ),
  );
}

function sliceEnd(from: Date): Date {
  return new Date(from.getTime() + SLICE_MS);
}

function createTally(config: GatewayConfig, { model: glob, estimates = false }: RepriceRequest) {
  const book = createPriceBook(config);
  const answering = answeringModels(config, config.from_model_lists && modelFinder(config));
  const upstreams = new Set(config.upstreams.map(({ name }) => name));
  const groups = new Map<string, { -readonly [Key in keyof RepricedGroup]: RepricedGroup[Key] }>();
  const skipped = {
    /** Without tokens: rejected by the upstream, or recorded at the reserved amount after a crash. */
    no_tokens: 0,
    estimates: 0,
    /** By model: gateway.yaml has no price for it. */
    no_price: new Map<string, number>(),
    /** By upstream: gateway.yaml does not have it, so its contract is not known. */
    no_upstream: new Map<string, number>(),
  };
  let compared = 0;

  function note({ day, model, upstream, cost: was }: PricedRow, cost: number): void {
    const name = JSON.stringify([day, model, upstream]);
    const group = groups.get(name) ?? { day, model, upstream, requests: 0, was_nano_usd: 0n, cost_nano_usd: 0n };
    group.requests++;
    group.was_nano_usd += BigInt(was);
    group.cost_nano_usd += BigInt(cost);
    groups.set(name, group);
  }

  function compare(row: PricedRow): Adjustment | undefined {
    const { request_id, model, upstream, at, cost: was } = row;
    if (glob !== undefined && !matchesGlob(glob, model)) return undefined;
    if (!usedAnything(row)) return void skipped.no_tokens++;
    if (row.source !== 'upstream' && (!estimates || !isByTokens(row.source))) return void skipped.estimates++;
    if (!upstreams.has(upstream)) return countOne(skipped.no_upstream, upstream);
    const priceAt = (time: number) => costAgain(row, { book, answering, at: time });
    const cost = priceAt(at);
    if (cost === undefined) return countOne(skipped.no_price, model);
    compared++;
    if (cost === was || priceAt(at - ARRIVAL_MS) === was) return undefined;
    note(row, cost);
    return { request_id, was, cost };
  }
  return {
    compare,
    result: () => {
      const sorted = [...groups].sort(([a], [b]) => (a < b ? -1 : 1));
      const changes: readonly RepricedGroup[] = sorted.map(([, group]) => group);
      return { compared, changes, skipped };
    },
  };
}

/** The cost of a request as billed: each run by its model, at the more expensive of the requested and the responding model. */
function costAgain(
  row: PricedRow,
  by: { readonly book: PriceBook; readonly answering: AnsweringModel; readonly at: number },
): number | undefined {
  const { upstream, billed } = row;
  const how = { served: servedOf(billed ?? {}), ...(billed?.audio && { audio: billed.audio }) };
  const priceOf = (model: string) => by.book.of(model, { upstream, at: by.at });
  const costFor = (model: string, usage: Usage) => costOf(priceOf(model)!, { ...usage, ...how });
  const tokens = tokensOf(row);
  const answered = billed?.model === undefined ? undefined : by.answering(billed.model, upstream, row.model)?.id;
  const all = billed?.parts?.map((part) => ({ model: part.model, tokens: tokensOf(part) }));
  const models = [row.model, ...(all?.map(({ model }) => model) ?? [])];
  if (models.some((model) => priceOf(model) === undefined)) return undefined;
  const is_more_expensive =
    answered !== undefined && priceOf(answered) && costFor(answered, tokens) > costFor(row.model, tokens);
  const parts = all ?? [{ model: is_more_expensive ? answered : row.model, tokens }];
  return costOfParts(row.model, parts, row.server_tools ?? undefined, costFor);
}

function tokensOf({ input, output, cache_read, cache_write_5m, cache_write_1h }: TokenCounts): TokenCounts {
  return { input, output, cache_read, cache_write_5m, cache_write_1h };
}

function usedAnything(row: PricedRow): boolean {
  const uses = [...Object.values(tokensOf(row)), ...Object.values(row.server_tools ?? {})];
  return uses.some((count) => count > 0);
}

function countOne(counts: Map<string, number>, name: string): undefined {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function createWriter(database: Pick<Database, 'query'>, clock: Clock, actor: Actor, subject: string) {
  let change: number | null = null;
  let requests = 0;
  let difference_nano_usd = 0n;
  return {
    written: () => ({ requests, difference_nano_usd }),
    async write(from: Date, adjustments: readonly Adjustment[]): Promise<void> {
      for (let i = 0; i < adjustments.length; i += BATCH) {
        const batch = JSON.stringify(adjustments.slice(i, i + BATCH));
        const [row] = await database.query<{ change: number | null; adjusted: number; difference: string }>(
          'reprice_batch',
          'select change, adjusted, difference from reprice_batch($1, $2, $3, $4, $5, $6, $7, $8)',
          [from, sliceEnd(from), batch, change, actor.kind, actor.name, subject, databaseTime(clock)],
        );
        change = row!.change;
        requests += row!.adjusted;
        difference_nano_usd += BigInt(row!.difference);
      }
    },
  };
}

/** Whether a cost follows from the tokens of the row, not from a price per request or an upper bound. */
function isByTokens(source: string | null): boolean {
  return source !== 'learned' && source !== 'most' && source !== 'possible';
}

function subjectOf({ since, until, model = '*', upstream = '*', estimates }: RepriceRequest): string {
  const day = (moment: Date | string) => (typeof moment === 'string' ? moment : moment.toISOString());
  const to = until === undefined ? '' : day(until);
  return `${day(since)}..${to} ${model} at ${upstream}${estimates ? ', estimates' : ''}`;
}
