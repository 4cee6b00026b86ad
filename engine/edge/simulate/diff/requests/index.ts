import type { AuditRecord } from '../../../../base/contract/services.ts';
import { fieldOf, RECORDED_FACTS, recordedFacts, seenFacts } from '../../../../domain/audit/recorded-facts.ts';
import type { FactPage } from '../../../../domain/audit/request-records.ts';
import { configHash } from '../../../../domain/telemetry/config-hash.ts';
import { ruleFacts } from '../../../../pipeline/run/request-record.ts';
import type { Change, Usable } from '../change.ts';
import { differences, Tally } from './tally.ts';
import { createClassifier, PastFacts } from './verdict.ts';

/** Parts of a record to read. */
export interface FactsToRead {
  /** Fields of the record. */
  readonly fields: readonly string[];
  /** Facts in the fields `seen` and `found`. */
  readonly seen: readonly string[];
}

/** Reads records page by page. */
export type ReadFacts = (facts: FactsToRead) => AsyncIterable<FactPage>;

/** Fields that every verdict needs. */
const ALWAYS = ['method', 'path', 'protocol', 'model', 'alias', 'user', 'principal', 'groups', 'token_group'] as const;
/** Fields for the choice among the upstreams of a route. */
const OF_ROUTES = ['image_count', 'input_tokens_estimate', 'max_tokens', 'cache_requested_ttl'];

/** Cache size of verdicts for equal records. */
const KEPT_MAX = 20_000;

/** Effects of a configuration on past requests. */
export interface RequestChanges {
  readonly changes: readonly Change[];
  /** Undecidable requests, and a summary. */
  readonly notes: readonly Change[];
}

function factsOf({ config, pipelines }: Usable): string[] {
  return pipelines.flatMap((pipeline) => ruleFacts(pipeline, config));
}

function hasChoice({ config: { routing } }: Usable): boolean {
  return [routing.default_upstreams, ...routing.rules.map(({ upstreams }) => upstreams)].some(
    (upstreams) => upstreams.length > 1,
  );
}

/** Replays past requests under both configurations, from recorded facts. */
export async function diffRequests(
  before: Usable,
  after: Usable,
  { read, period }: { readonly read: ReadFacts; readonly period: string },
): Promise<RequestChanges> {
  const paths = [...new Set([...factsOf(before), ...factsOf(after)])];
  const fields = paths.flatMap((path) => fieldOf(path) ?? []);
  const seen = paths.filter((path) => !RECORDED_FACTS.has(path) && !/^(?:route|model)\./.test(path));
  const choices = [before, after].some(hasChoice) ? OF_ROUTES : [];
  const to_read = {
    fields: [...new Set([...ALWAYS, ...fields, ...choices, ...(seen.length > 0 ? ['config'] : [])])],
    seen,
  };
  const [classifyBefore, classifyAfter] = [createClassifier(before), createClassifier(after)];
  const unset = new Map([before, after].map((usable) => [configHash(usable.config), new Set<string>(factsOf(usable))]));
  const tally = new Tally();
  const kept = new Map<string, ReturnType<typeof differences>>();
  const compare = (text: string) => {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const record = JSON.parse(text) as AuditRecord;
    const facts = { ...seenFacts(record), ...recordedFacts(record) };
    const not_set = unset.get(String(record.config)) ?? new Set<string>();
    const found = differences(
      classifyBefore(new PastFacts(facts, not_set)),
      classifyAfter(new PastFacts(facts, not_set)),
    );
    if (kept.size >= KEPT_MAX) kept.clear();
    kept.set(text, found);
    return found;
  };
  for await (const page of read(to_read)) {
    for (const { facts, person, is_known } of page.rows) {
      if (!is_known) tally.leaveOut();
      else tally.count(compare(facts), person);
    }
  }
  return tally.result(period);
}
