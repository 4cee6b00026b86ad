import type { AuditRecord } from '../../../../base/contract/services.ts';
import { fieldOf, RECORDED_FACTS, recordedFacts, seenFacts } from '../../../../domain/audit/recorded-facts.ts';
import type { FactPage } from '../../../../domain/audit/request-records.ts';
import { configHash } from '../../../../domain/telemetry/config-hash.ts';
import { ruleFacts } from '../../../../pipeline/run/decisions.ts';
import type { Change, Usable } from '../change.ts';
import { createJudge, PastFacts } from './judge.ts';
import { differences, Tally } from './tally.ts';

/** What is read of each record. */
export interface FactsToRead {
  /** Fields of the record. */
  readonly fields: readonly string[];
  /** Facts in its field `seen`, and in `found`. */
  readonly seen: readonly string[];
}

/** Reads records page by page. */
export type ReadFacts = (wish: FactsToRead) => AsyncIterable<FactPage>;

/** Without these nothing can be judged. */
const ALWAYS = ['method', 'path', 'protocol', 'model', 'alias', 'user', 'principal', 'groups', 'token_group'] as const;
/** What chooses among the upstreams of a route. */
const OF_ROUTES = ['image_count', 'input_tokens_estimate', 'max_tokens', 'cache_requested_ttl'];

/** Most verdicts that are kept for requests that look alike. */
const KEPT_MAX = 20_000;

/** What past requests would have met, and what could not be told of them. */
export interface RequestChanges {
  readonly changes: readonly Change[];
  /** Of requests that nothing certain is known of, and how many were looked at. */
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

/** What requests of the past would have met under a new configuration compared with the old one, by recorded facts. */
export async function diffRequests(
  before: Usable,
  after: Usable,
  { read, period }: { readonly read: ReadFacts; readonly period: string },
): Promise<RequestChanges> {
  const asked = [...new Set([...factsOf(before), ...factsOf(after)])];
  const fields = asked.flatMap((path) => fieldOf(path) ?? []);
  const seen = asked.filter((path) => !RECORDED_FACTS.has(path) && !/^(?:route|model)\./.test(path));
  const choices = [before, after].some(hasChoice) ? OF_ROUTES : [];
  const wish = {
    fields: [...new Set([...ALWAYS, ...fields, ...choices, ...(seen.length > 0 ? ['config'] : [])])],
    seen,
  };
  const [judgeBefore, judgeAfter] = [createJudge(before), createJudge(after)];
  const unset = new Map([before, after].map((usable) => [configHash(usable.config), new Set<string>(factsOf(usable))]));
  const tally = new Tally();
  const kept = new Map<string, ReturnType<typeof differences>>();
  const judge = (text: string) => {
    const known = kept.get(text);
    if (known !== undefined) return known;
    const record = JSON.parse(text) as AuditRecord;
    const facts = { ...seenFacts(record), ...recordedFacts(record) };
    const not_set = unset.get(String(record.config)) ?? new Set<string>();
    const found = differences(judgeBefore(new PastFacts(facts, not_set)), judgeAfter(new PastFacts(facts, not_set)));
    if (kept.size >= KEPT_MAX) kept.clear();
    kept.set(text, found);
    return found;
  };
  for await (const page of read(wish)) {
    for (const { facts, person, is_known } of page.rows) {
      if (!is_known) tally.leaveOut();
      else tally.count(judge(facts), person);
    }
  }
  return tally.result(period);
}
