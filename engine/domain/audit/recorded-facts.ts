/** The fields of an audit record that are facts of its request (column `record` of `FACTS`). @module */
import { FACTS, type FactPath } from '../../base/contract/facts.ts';
import type { AttemptRecord, AuditRecord } from '../../base/contract/services.ts';
import { fieldsOf } from '../../base/kit/json/fields.ts';
import { isNanoUsd, nanoToUsd, usdToNano } from '../../base/kit/money.ts';

type Convert = (value: never) => unknown;

/** Longest model identifier in a record: clients choose it, and records wait in memory during a database outage. */
const MODEL_LENGTH_MAX = 200;
const shortened: Convert = (name: string) => name.slice(0, MODEL_LENGTH_MAX);

/** Facts that a record converts, beside nano-USD, which it writes in USD. */
const WRITTEN: Readonly<Partial<Record<FactPath, Convert>>> = {
  'request.received_at': (ms: number) => new Date(ms).toISOString(),
  'request.model': shortened,
  'request.alias': shortened,
  'upstream.ttfb_ms': Math.round,
  'outcome.duration_ms': Math.round,
};

const FIELDS = Object.entries(FACTS).flatMap(([text, { record: name }], index) => {
  const path = text as FactPath;
  const convert: Convert | undefined = isNanoUsd(path) ? nanoToUsd : WRITTEN[path];
  return name === undefined ? [] : [{ name, path, index, convert }];
});

const EMPTY = {
  ...{ user: null, principal: null, token_id: null, team: null, project: null, model: null, stream: null },
  ...{ upstream: null, route_rule: null, spend_rule: null, status: null, upstream_status: null },
  ...{ upstream_request_id: null, error: null, stage: null, client: null, client_version: null, session_id: null },
  ...{ duration_ms: 0 },
};

const FIRST = ['at', 'request_id', 'trace_id', ...Object.keys(EMPTY)];
const LAST = ['attempts', 'cache_downgraded', 'cache_effective_ttl', 'cost_from', 'clamped', 'usage'];
const NOTHING = Object.fromEntries([...FIRST, ...FIELDS.map(({ name }) => name), ...LAST].map((name) => [name, null]));

/** V8 turns an object that grows by dozens of keys into a slow dictionary, but not a copy of one from JSON.parse. */
const BLANK = JSON.parse(JSON.stringify(NOTHING)) as Record<string, unknown>;
for (const name of Object.keys(BLANK)) BLANK[name] = EMPTY[name as keyof typeof EMPTY];

/** An ended request. */
export interface EndedFacts {
  readonly attempts: readonly AttemptRecord[];
  readonly aborted: boolean;
  readonly trace: { readonly trace_id: string };
  peek(path: FactPath): unknown;
  factAt(index: number): unknown;
}

/** The audit record of a request, at a time in milliseconds. It never contains text of a prompt. */
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
  // For a single attempt that served, the other fields suffice.
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

/** The facts that a record reads. */
export const FACTS_OF_RECORDS: readonly FactPath[] = [
  ...FIELDS.map(({ path }) => path),
  ...(['request.limit_rule', 'cache.downgraded', 'cache.effective_ttl', 'usage.provenance'] as const),
];

/** Facts from before the choice of a route that a record keeps exactly. */
const KNOWN_FIRST = /^(?:request|principal)\.|^cache\.requested_ttl$|^route\.(?:estimate|worst_case)_nano_usd$/;
/** Rules find these in the field `seen`. */
const SEEN: readonly FactPath[] = [
  ...(['request.other_models', 'request.service_tier', 'request.speed', 'request.inference_geo'] as const),
  'request.dropped_headers',
];

const KEPT = FIELDS.filter(({ path }) => KNOWN_FIRST.test(path) && !SEEN.includes(path));

/** The facts that a record has as fields; others that a rule read are in its field `seen`. */
export const RECORDED_FACTS: ReadonlySet<string> = new Set(KEPT.map(({ path }) => path));

/** The field of an audit record for a fact; `undefined` without one. */
export function fieldOf(path: string): string | undefined {
  return KEPT.find((field) => field.path === path)?.name;
}

/** Facts of a record without a field of their own. Those about the route are left out: it is decided anew. */
export function seenFacts({ seen, found }: AuditRecord): Readonly<Record<string, unknown>> {
  const looked_at = Object.entries(fieldsOf(seen)).filter(([path]) => /^(?:request|principal)\./.test(path));
  const found_out = Object.entries(fieldsOf(found)).flatMap(([stage, facts]) =>
    Object.entries(fieldsOf(facts)).map(([fact, value]) => [`${stage}.${fact}`, value] as const),
  );
  return Object.fromEntries([...looked_at, ...found_out]);
}

/** The facts in the fields of an audit record, by dotted path. */
export function recordedFacts(record: AuditRecord): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    KEPT.flatMap(({ name, path }) => {
      const value = record[name];
      if (value === null || value === undefined) return [];
      if (isNanoUsd(path)) return [[path, usdToNano(value as number)]];
      return [[path, path === 'request.received_at' ? Date.parse(value as string) : value]];
    }),
  );
}
