/** What an audit record keeps of the facts of a request, by the column `record` of their table. @module */
import { FACTS, type FactPath } from '../../base/contract/facts.ts';
import type { AttemptRecord, AuditRecord } from '../../base/contract/services.ts';
import { nanoToUsd, usdToNano } from '../../base/kit/money.ts';

type Convert = (value: never) => unknown;

/** Longest model identifier that is kept: it is whatever the client sent, and records wait in memory while the store is away. */
const MODEL_LENGTH_MAX = 200;
const shortened: Convert = (name: string) => name.slice(0, MODEL_LENGTH_MAX);

/** Facts that a record writes in another way than they are; those in nano-USD it writes in USD. */
const WRITTEN: Readonly<Partial<Record<FactPath, Convert>>> = {
  'request.received_at': (ms: number) => new Date(ms).toISOString(),
  'request.model': shortened,
  'request.alias': shortened,
  'upstream.ttfb_ms': Math.round,
  'outcome.duration_ms': Math.round,
};

const isMoney = (path: string) => path.endsWith('_nano_usd');

interface Field {
  readonly name: string;
  readonly path: FactPath;
  /** Position of the fact. */
  readonly index: number;
  readonly convert: Convert | undefined;
}

const FIELDS: readonly Field[] = Object.entries(FACTS).flatMap(([text, { record: name }], index) => {
  const path = text as FactPath;
  const convert = isMoney(path) ? nanoToUsd : WRITTEN[path];
  return name === undefined ? [] : [{ name, path, index, convert }];
});

/** What every record has, known or not. */
const EMPTY = {
  ...{ user: null, principal: null, token_id: null, team: null, project: null, model: null, stream: null },
  ...{ upstream: null, route_rule: null, spend_rule: null, status: null, upstream_status: null },
  ...{ upstream_request_id: null, error: null, stage: null, client: null, client_version: null, session_id: null },
  ...{ duration_ms: 0 },
};

const FIRST = ['at', 'request_id', 'trace_id', ...Object.keys(EMPTY)];
const LAST = ['attempts', 'cache_downgraded', 'cache_effective_ttl', 'cost_from', 'clamped', 'usage'];
const NOTHING = Object.fromEntries([...FIRST, ...FIELDS.map(({ name }) => name), ...LAST].map((name) => [name, null]));

/**
 * The fields made of facts, all there from the start: V8 turns an object that grows by dozens of keys into a slow dictionary, but not a
 * copy of one from JSON.parse.
 */
const BLANK = JSON.parse(JSON.stringify(NOTHING)) as Record<string, unknown>;
for (const name of Object.keys(BLANK)) BLANK[name] = EMPTY[name as keyof typeof EMPTY];

/** A request that is over, as its record sees it. */
export interface EndedFacts {
  readonly attempts: readonly AttemptRecord[];
  readonly aborted: boolean;
  readonly trace: { readonly trace_id: string };
  peek(path: FactPath): unknown;
  /** The fact at a position. */
  factAt(index: number): unknown;
}

/**
 * What is kept of a request: who, what, by which decisions, with which result. No text of anybody's prompt.
 * @param now in milliseconds since the epoch
 */
export function recordOf(ctx: EndedFacts, now: number): Record<string, AuditRecord[string]> {
  const record: Record<string, unknown> = { ...BLANK };
  record.at = new Date(now).toISOString();
  record.trace_id = ctx.trace.trace_id;
  record.aborted = ctx.aborted;
  record.rewrites = [];
  for (const { name, index, convert } of FIELDS) {
    const value = ctx.factAt(index);
    if (value !== undefined) record[name] = convert === undefined ? value : convert(value as never);
  }
  record.spend_rule ??= ctx.peek('request.limit_rule') ?? null;
  // The other fields tell all about a single attempt that served.
  const { attempts } = ctx;
  if (attempts.length > 1 || (attempts.length === 1 && attempts[0]!.outcome !== 'answered')) record.attempts = attempts;
  if (ctx.peek('cache.downgraded') === true) {
    record.cache_downgraded = true;
    record.cache_effective_ttl = ctx.peek('cache.effective_ttl');
  }
  const provenance = ctx.peek('usage.provenance') as Readonly<Record<string, unknown>> | undefined;
  if (provenance !== undefined) {
    record.cost_from = provenance.cost;
    if (provenance.cost === 'clamped') record.clamped = true;
    if (provenance.input === 'unknown') record.usage = 'unknown';
  }
  return record as Record<string, AuditRecord[string]>;
}

/** The facts that a record is made of. */
export const FACTS_OF_RECORDS: readonly FactPath[] = [
  ...FIELDS.map(({ path }) => path),
  ...(['request.limit_rule', 'cache.downgraded', 'cache.effective_ttl', 'usage.provenance'] as const),
];

/** What is known before a route is chosen, which fields of a record tell exactly. */
const KNOWN_FIRST = /^(?:request|principal)\.|^cache\.requested_ttl$|^route\.(?:estimate|worst_case)_nano_usd$/;
/** Rules find these in the field `seen`. */
const SEEN: readonly FactPath[] = [
  ...(['request.other_models', 'request.service_tier', 'request.speed', 'request.inference_geo'] as const),
  'request.dropped_headers',
];

const TOLD = FIELDS.filter(({ path }) => KNOWN_FIRST.test(path) && !SEEN.includes(path));

/** The facts that fields of an audit record tell; rules that look at others find them in its field `seen`. */
export const RECORDED_FACTS: ReadonlySet<string> = new Set(TOLD.map(({ path }) => path));

/** The field of an audit record that keeps a fact; `undefined` where none does. */
export function fieldOf(path: string): string | undefined {
  return TOLD.find((field) => field.path === path)?.name;
}

/**
 * What a record tells of facts that have no field of their own: what rules looked at then, and what stages found out. Those about
 * the route are left out, as each configuration decides it anew.
 */
export function seenFacts({ seen, found }: AuditRecord): Readonly<Record<string, unknown>> {
  const looked_at = Object.entries(mapping(seen)).filter(([path]) => /^(?:request|principal)\./.test(path));
  const found_out = Object.entries(mapping(found)).flatMap(([stage, facts]) =>
    Object.entries(mapping(facts)).map(([fact, value]) => [`${stage}.${fact}`, value] as const),
  );
  return Object.fromEntries([...looked_at, ...found_out]);
}

const mapping = (value: unknown): object => (typeof value === 'object' && value !== null ? value : {});

/** The facts that fields of an audit record tell, by dotted path. */
export function recordedFacts(record: AuditRecord): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    TOLD.flatMap(({ name, path }) => {
      const value = record[name];
      if (value === null || value === undefined) return [];
      if (isMoney(path)) return [[path, usdToNano(value as number)]];
      return [[path, path === 'request.received_at' ? Date.parse(value as string) : value]];
    }),
  );
}
