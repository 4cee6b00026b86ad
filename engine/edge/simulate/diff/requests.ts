import type { AuditRecord } from '../../../base/contract/services.ts';
import { counted } from '../../../base/kit/text/suggest.ts';
import { fieldOf, RECORDED_FACTS, recordedFacts, seenFacts } from '../../../domain/audit/recorded-facts.ts';
import type { FactPage } from '../../../domain/audit/request-records.ts';
import { configHash } from '../../../domain/telemetry/config-hash.ts';
import { ruleFacts } from '../../../pipeline/run/request-record.ts';
import type { Change, Usable } from './change.ts';
import { createClassifier, PastFacts, type Verdict } from './verdict.ts';

interface FactsToRead {
  readonly fields: readonly string[];
  /** Facts in the fields `seen` and `found`. */
  readonly seen: readonly string[];
}

type ReadFacts = (facts: FactsToRead) => AsyncIterable<FactPage>;

const ALWAYS = ['method', 'path', 'protocol', 'model', 'alias', 'user', 'principal', 'groups', 'token_group'] as const;
const OF_ROUTES = ['image_count', 'input_tokens_estimate', 'max_tokens', 'cache_requested_ttl'];

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

const NAMED_MAX = 5;
const PEOPLE_MAX = 10_000;
const CHANGES_MAX = 1000;

interface Counted {
  readonly difference: Difference;
  requests: number;
  readonly people: Map<string, number>;
}

class Tally {
  readonly #changes = new Map<string, Counted>();
  #requests = 0;
  #left_out = 0;
  #same = 0;
  #unknown = 0;

  leaveOut(): void {
    this.#left_out += 1;
  }

  count(found: readonly Difference[], person: string | null): void {
    this.#requests += 1;
    if (found.length === 0) this.#same += 1;
    if (found.some(({ is_unknown }) => is_unknown)) this.#unknown += 1;
    for (const difference of found) this.#add(difference, person ?? 'a person without an address');
  }

  #add(difference: Difference, person: string): void {
    const key = `${difference.subject}\n${difference.words}`;
    const known = this.#changes.get(key);
    if (known === undefined && this.#changes.size >= CHANGES_MAX) return;
    const one = known ?? { difference, requests: 0, people: new Map<string, number>() };
    this.#changes.set(key, one);
    one.requests += 1;
    if (one.people.has(person) || one.people.size < PEOPLE_MAX) {
      one.people.set(person, (one.people.get(person) ?? 0) + 1);
    }
  }

  /** @param period in words, such as `since 2027-01-31`. */
  result(period: string): RequestChanges {
    const all = [...this.#changes.values()].toSorted((a, b) => b.requests - a.requests);
    return {
      changes: all.filter(({ difference }) => !difference.is_unknown).map(asChange),
      notes: [...all.filter(({ difference }) => difference.is_unknown).map(asChange), this.#summary(period)],
    };
  }

  #summary(period: string): Change {
    const differ = this.#requests - this.#same - this.#unknown;
    const parts = [
      [differ, differ === 1 ? 'differs' : 'differ'],
      [this.#same, 'unchanged'],
      [this.#unknown, 'unknown'],
    ] as const;
    const words = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
    const early = `${this.#left_out} more from unknown callers`;
    return {
      section: 'requests',
      subject: `${counted(this.#requests, 'request')} ${period}`,
      change: words.join(', ') || 'no requests',
      details: [
        ...(this.#left_out === 0 ? [] : [early]),
        'limits and other stages were not evaluated; --ledger checks limits',
      ],
    };
  }
}

function asChange({ difference: { subject, words }, requests, people }: Counted): Change {
  const sorted = [...people].toSorted(([a, some], [b, others]) => others - some || (a < b ? -1 : 1));
  const named = sorted.slice(0, NAMED_MAX).map(([person, count]) => `${person} ${count}`);
  const more = sorted.length > NAMED_MAX ? ` and ${sorted.length - NAMED_MAX} more` : '';
  const whose = sorted.length === 1 ? sorted[0]![0] : counted(sorted.length, 'person', 'people');
  return {
    section: 'requests',
    subject,
    change: words
      .replace(/\{([\w ]+)\|([\w ]+)\}/g, requests === 1 ? '$2' : '$1')
      .replace('{requests}', () => `${counted(requests, 'request')} of ${whose}`),
    ...(sorted.length > 1 && { details: [`${named.join(', ')}${more}`] }),
    requests,
    people: sorted.map(([person, count]) => ({ person, requests: count })),
  };
}

interface Difference {
  readonly subject: string;
  /** A sentence about `{requests}`, as in `rejects 12 requests of 2 people`. */
  readonly words: string;
  readonly is_unknown?: true;
}

const about = (verdict: Verdict): string => (verdict.with === undefined ? '' : ` (${verdict.with})`);

const isSame = (a: Verdict, b: Verdict): boolean =>
  a.end === b.end && a.by === b.by && a.with === b.with && a.model === b.model;

function differences(before: Verdict, after: Verdict): Difference[] {
  if (after.end === 'unknown') return [unknown(after.by, after.with!)];
  if (before.end === 'unknown') return [unknown(before.by, before.with!)];
  // One configuration rejects before the body is read, the other one needs it.
  const unread = [before, after].find(({ end }) => end === 'unread');
  if (unread !== undefined && before.end !== after.end) {
    const words = 'unknown for {requests}: {their bodies were|its body was} not read';
    return [{ subject: `pipeline ${unread.by}`, words, is_unknown: true }];
  }
  return [...(isSame(before, after) ? [] : [change(before, after)]), ...shadowDifferences(before, after)];
}

const unknown = (subject: string, missing: string): Difference => ({
  subject,
  words: `unknown for {requests}: depends on ${missing}, recorded only while a rule uses it`,
  is_unknown: true,
});

function change(before: Verdict, after: Verdict): Difference {
  if (after.end === 'refused') {
    const also = before.end === 'refused' ? `, which ${before.by} rejected before` : '';
    if (before.end === 'refused' && before.by === after.by) {
      return { subject: after.by, words: `rejects {requests} with${about(after)} instead of${about(before)}` };
    }
    return { subject: after.by, words: `rejects {requests}${also}${about(after)}` };
  }
  const now = outcome(after);
  if (before.end === 'refused') return { subject: before.by, words: `no longer rejects {requests}, which ${now}` };
  if (before.end === 'served' && after.end === 'served') {
    const is_moved = before.by !== after.by;
    const model = before.model === after.model ? '' : ` as ${after.model}`;
    return {
      subject: before.model!,
      words: is_moved
        ? `{requests} {go|goes} to ${after.by}${model} instead of ${before.by}`
        : `{requests} {are|is} served by ${after.model} instead of ${before.model}`,
    };
  }
  return { subject: after.by, words: `{requests} ${now}; before {they|it} ${outcome(before)}` };
}

function outcome({ end, by, model }: Verdict): string {
  if (end === 'served') return `{go|goes} to ${by} as ${model}`;
  return end === 'answered' ? `{get|gets} the response of ${by}` : '{reach|reaches} no pipeline';
}

function shadowDifferences({ shadow: before }: Verdict, { shadow }: Verdict): Difference[] {
  const held = new Set(before.map(({ by, does }) => `${by} ${does}`));
  return shadow
    .filter(({ by, does }) => !held.has(`${by} ${does}`))
    .map(({ by, does, missing }) => {
      const subject = `${by}, in shadow mode`;
      return missing === undefined
        ? { subject, words: `would ${does.replace('{}', '{requests}')}` }
        : unknown(subject, missing);
    });
}
