import { MEMBERS, type Member, type MemberName } from './members.ts';
import { createRandom, type Random } from './random.ts';

/** A request of the week. */
export interface Ask {
  readonly kind: 'ask';
  readonly at: number;
  readonly who: MemberName | 'old laptop';
  readonly model: string;
  readonly stream: boolean;
  readonly session: string;
  /** Number of earlier turns of the session. */
  readonly turn: number;
  /** Words of the message; the response repeats them. */
  readonly words: number;
  /** A failure of the upstream that the message requests. */
  readonly fail?: '400' | 'cut';
}

/** A change by Alice, the administrator. */
export interface Deed {
  readonly kind: 'deed';
  readonly at: number;
  readonly deed: 'revoke-old-laptop' | 'limit-bob' | 'limit-gus' | 'rotate-dora' | 'drain' | 'resume' | 'grant-gus';
}

/** A failure of the upstream `demo`: time, kind and number. */
export interface Outage {
  readonly from: number;
  readonly to: number;
  readonly failure: '429' | '529';
}

/** The events of the week, in order. */
export interface Plan {
  readonly begins: number;
  readonly moments: readonly (Ask | Deed)[];
  readonly outages: readonly Outage[];
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const DAY = 24 * 60 * MINUTE;
const DAYS = 7;
const SEED = 20_270_131;

/** The week before a moment, in milliseconds since the epoch. Always the same week, shifted. */
export function planWeek(now: number): Plan {
  const random = createRandom(SEED);
  const dayAt = (days_ago: number, hour: number) => {
    const day = new Date(now);
    day.setDate(day.getDate() - days_ago);
    return day.setHours(hour, 0, 0, 0);
  };
  const names = Object.keys(MEMBERS) as MemberName[];
  const work = Array.from({ length: DAYS + 1 }, (_, days_ago) =>
    names.flatMap((who) => workingDay(random, who, dayAt(days_ago, 0))),
  ).flat();
  const incident = dayAt(2, 14);
  const night = dayAt(3, 20);
  const late = [
    session(random, 'alice', now - 80 * MINUTE),
    session(random, 'bob', now - 45 * MINUTE),
    session(random, 'bob', now - 20 * MINUTE),
  ].flat();
  // A program also works at weekends, so that no period of 24 hours is empty.
  const always = Array.from({ length: DAYS + 1 }, (_, days_ago) =>
    [6, 22].map((hour) => ask(random, 'gus', dayAt(days_ago, hour))),
  ).flat();
  const moments = [
    ...work,
    ...always,
    ...late,
    ...during(random, incident, 14, 80 * SECOND),
    ...during(random, dayAt(1, 10), 6, 20 * SECOND),
    ...nightlyReview(random, night),
    ...[dayAt(4, 9), dayAt(3, 11), dayAt(1, 16)].map((at) => ask(random, 'old laptop', at)),
    { kind: 'deed', at: dayAt(6, 10), deed: 'limit-bob' } as const,
    { kind: 'deed', at: dayAt(6, 10) + MINUTE, deed: 'limit-gus' } as const,
    { kind: 'deed', at: dayAt(5, 17), deed: 'revoke-old-laptop' } as const,
    { kind: 'deed', at: dayAt(4, 15), deed: 'rotate-dora' } as const,
    { kind: 'deed', at: incident + 9 * MINUTE, deed: 'drain' } as const,
    { kind: 'deed', at: incident + 26 * MINUTE, deed: 'resume' } as const,
    { kind: 'deed', at: night + 55 * MINUTE, deed: 'grant-gus' } as const,
  ];
  const begins = now - DAYS * DAY;
  return {
    begins,
    moments: moments.filter(({ at }) => at > begins + MINUTE && at < now - MINUTE).sort((a, b) => a.at - b.at),
    outages: [
      { from: incident, to: incident + 9 * MINUTE, failure: '529' },
      { from: dayAt(1, 10), to: dayAt(1, 10) + 2 * MINUTE, failure: '429' },
    ],
  };
}

/** Mornings and afternoons, with little work at weekends. */
function workingDay(random: Random, who: MemberName, midnight: number): Ask[] {
  const weekend = [0, 6].includes(new Date(midnight).getDay());
  const { sessions_a_day } = MEMBERS[who];
  const sessions = weekend ? (random.next() < 0.3 ? 1 : 0) : sessions_a_day + random.between(-1, 1);
  return Array.from({ length: Math.max(0, sessions) }, () =>
    session(random, who, midnight + random.between(8 * 60, 18 * 60) * MINUTE),
  ).flat();
}

/** The turns of one session. */
function session(random: Random, who: MemberName, at: number): Ask[] {
  const { models }: Member = MEMBERS[who];
  const model = random.one(models);
  const name = `${who}-${random.between(1_000_000, 9_999_999)}`;
  let time = at;
  return Array.from({ length: random.between(3, 9) }, (_, turn) => {
    time += random.between(25, 200) * SECOND;
    // An intern requests a model that interns do not have.
    const wished = who === 'bob' && random.next() < 0.06 ? 'demo-large' : model;
    const fail = failureOf(random.next());
    return { ...ask(random, who, time), model: wished, session: name, turn, ...(fail !== undefined && { fail }) };
  });
}

function failureOf(chance: number): Ask['fail'] {
  if (chance < 0.008) return '400';
  return chance > 0.995 ? 'cut' : undefined;
}

function ask(random: Random, who: Ask['who'], at: number): Ask {
  const stream = random.next() < 0.2;
  const session = `${who}-${random.between(1_000_000, 9_999_999)}`;
  return { kind: 'ask', at, who, model: 'demo-large', stream, session, turn: 0, words: random.between(6, 60) };
}

/** A program that retries during an incident of the upstream. */
function during(random: Random, from: number, times: number, every: number): Ask[] {
  return Array.from({ length: times }, (_, i) => ask(random, i % 2 === 0 ? 'erik' : 'fay', from + SECOND + i * every));
}

/** Long responses that exhaust the daily limit; after a grant the work continues. */
function nightlyReview(random: Random, from: number): Ask[] {
  const long = (at: number) => ({ ...ask(random, 'gus', at), words: random.between(330, 360), stream: false });
  const before = Array.from({ length: 26 }, (_, i) => long(from + i * 2 * MINUTE));
  const after = Array.from({ length: 8 }, (_, i) => long(from + 58 * MINUTE + i * 2 * MINUTE));
  return [...before, ...after];
}
