import type { Change } from '../change.ts';
import type { Difference } from './difference.ts';
import type { RequestChanges } from './index.ts';

/** How many people are named in a line. */
const NAMED_MAX = 5;
/** Most people that are counted one by one for one change. */
const PEOPLE_MAX = 10_000;
/** Most changes that are told apart. */
const CHANGES_MAX = 1000;

interface Counted {
  readonly difference: Difference;
  requests: number;
  readonly people: Map<string, number>;
}

const counted = (many: number, one: string, several = `${one}s`) => `${many} ${many === 1 ? one : several}`;

/** Counts what is different, by person. What it keeps does not grow with the number of requests. */
export class Tally {
  readonly #changes = new Map<string, Counted>();
  #requests = 0;
  #left_out = 0;
  #same = 0;
  #untold = 0;

  /** A request of nobody known: no rule was asked about it. */
  leaveOut(): void {
    this.#left_out += 1;
  }

  count(found: readonly Difference[], person: string | null): void {
    this.#requests += 1;
    if (found.length === 0) this.#same += 1;
    if (found.some(({ untold }) => untold)) this.#untold += 1;
    for (const difference of found) this.#add(difference, person ?? 'somebody without an address');
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

  /** @param period of which requests they are, as `since 2027-01-31`. */
  result(period: string): RequestChanges {
    const all = [...this.#changes.values()].toSorted((a, b) => b.requests - a.requests);
    return {
      changes: all.filter(({ difference }) => !difference.untold).map(asChange),
      notes: [...all.filter(({ difference }) => difference.untold).map(asChange), this.#summary(period)],
    };
  }

  #summary(period: string): Change {
    const differ = this.#requests - this.#same - this.#untold;
    const parts = [
      [differ, differ === 1 ? 'differs' : 'differ'],
      [this.#same, this.#same === 1 ? 'is as before' : 'are as before'],
      [this.#untold, 'cannot be told'],
    ] as const;
    const told = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
    const early = `${this.#left_out} more ${this.#left_out === 1 ? 'was' : 'were'} of callers who were not known`;
    return {
      section: 'requests',
      subject: `${counted(this.#requests, 'request')} ${period}`,
      change: told.join(', ') || 'nothing to tell',
      details: [
        ...(this.#left_out === 0 ? [] : [early]),
        'limits, and what other stages do, were not looked at; --ledger tells who is over a limit',
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
