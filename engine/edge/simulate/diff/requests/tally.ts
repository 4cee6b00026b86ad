import type { Change } from '../change.ts';
import type { RequestChanges } from './index.ts';
import type { Verdict } from './verdict.ts';

/** People named per change. */
const NAMED_MAX = 5;
/** Most people counted per change. */
const PEOPLE_MAX = 10_000;
/** Most distinct changes. */
const CHANGES_MAX = 1000;

interface Counted {
  readonly difference: Difference;
  requests: number;
  readonly people: Map<string, number>;
}

const counted = (many: number, one: string, several = `${one}s`) => `${many} ${many === 1 ? one : several}`;

/** Counts differences by person, in bounded memory. */
export class Tally {
  readonly #changes = new Map<string, Counted>();
  #requests = 0;
  #left_out = 0;
  #same = 0;
  #unknown = 0;

  /** Counts a request of an unknown caller, which no rule evaluated. */
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

/** A changed outcome, in words for any number of requests. */
interface Difference {
  /** Subject: `access rule no-preview`. */
  readonly subject: string;
  /** A sentence about `{requests}`, as in `refuses 12 requests of 2 people`. */
  readonly words: string;
  /** Whether the outcome is unknown. */
  readonly is_unknown?: true;
}

const about = (verdict: Verdict): string => (verdict.with === undefined ? '' : ` (${verdict.with})`);

const isSame = (a: Verdict, b: Verdict): boolean =>
  a.end === b.end && a.by === b.by && a.with === b.with && a.model === b.model;

/** Differences of a request between two configurations. */
export function differences(before: Verdict, after: Verdict): Difference[] {
  if (after.end === 'unknown') return [unknown(after.by, after.with!)];
  if (before.end === 'unknown') return [unknown(before.by, before.with!)];
  // One configuration refuses before the body, the other one needs it.
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
    const also = before.end === 'refused' ? `, which ${before.by} refused before` : '';
    if (before.end === 'refused' && before.by === after.by) {
      return { subject: after.by, words: `refuses {requests} with${about(after)} instead of${about(before)}` };
    }
    return { subject: after.by, words: `refuses {requests}${also}${about(after)}` };
  }
  const now = outcome(after);
  if (before.end === 'refused') return { subject: before.by, words: `no longer refuses {requests}, which ${now}` };
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
  return end === 'answered' ? `{are|is} answered by ${by}` : '{reach|reaches} no pipeline';
}

/** Shadow rules that start to match, or may. */
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
