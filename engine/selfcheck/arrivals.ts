import type { Arrival } from '../kit/net/exchange.ts';

/** How the events of a stream came. `unclear` is one that says nothing about it, such as a very short one. */
export type Arriving = 'one_by_one' | 'at_once' | 'in_blocks' | 'unclear';

/** A stream as it arrived, without compression. */
export interface ArrivedStream {
  readonly body: Buffer;
  readonly arrivals: readonly Arrival[];
  readonly total_ms: number;
  /** Between one event and the next where they were made, if that is known. */
  readonly made_every_ms?: number;
}

/** Events below which a stream says nothing about how it was passed on; fewer are enough where their pace is known. */
const EVENTS_MIN = 12;
const EVENTS_MIN_AT_KNOWN_PACE = 5;

/** Nothing is said of streams that took less, where it is not known how fast they were made. */
const TOTAL_MS_MIN = 500;

/** No model makes so many events in a millisecond: they were made before. */
const EVENTS_PER_MS_AT_ONCE = 2;

/** Some models are nearly as fast; what makes blocks of such a stream can't be told. */
const EVENTS_PER_MS_FAST = 0.4;

/** A pause that a person takes for a stop, between blocks of events. */
const LONG_PAUSE_MS = 1000;

const EVENTS_OF_A_BLOCK = 4;

/**
 * Tells a stream that something on the way held back from one whose sender was slow. Where the pace is known, a second of
 * events is enough. Else `at_once` may also be a sender that makes its whole answer before it sends any of it.
 */
export function judgeArrivals(given: ArrivedStream): Arriving {
  const events = arrivedEvents(given.body, given.arrivals);
  if (events.length < (given.made_every_ms === undefined ? EVENTS_MIN : EVENTS_MIN_AT_KNOWN_PACE)) return 'unclear';
  const most_ms = timeOfMost(events);
  const groups = groupsOf(given, events);
  if (given.made_every_ms !== undefined) return judgeKnownPace(events, groups, given.made_every_ms);

  const per_ms = (events.length * 0.8) / Math.max(most_ms, 1);
  const is_late = given.total_ms >= TOTAL_MS_MIN && most_ms <= given.total_ms / 10;
  if (is_late && per_ms >= EVENTS_PER_MS_AT_ONCE) return 'at_once';
  if (per_ms > EVENTS_PER_MS_FAST) return 'unclear';
  if (cutsEvents(groups) || groupsWithLongPauses(groups)) return 'in_blocks';
  return groups.length >= 4 ? 'one_by_one' : 'unclear';
}

/** When the events came that `judgeArrivals` looked at, in lines for people. */
export function tellArrivals(given: ArrivedStream): string[] {
  const events = arrivedEvents(given.body, given.arrivals);
  if (events.length === 0) return [`no event in ${Math.round(given.total_ms)} ms`];
  const groups = groupsOf(given, events).filter(({ events }) => events > 0);
  const shown = groups.slice(0, 5).map(({ at_ms, bytes, events, cuts }) => {
    const cut = cuts ? ', the last one cut' : '';
    return `${Math.round(at_ms)} ms: ${count(events, 'event')} in ${count(bytes, 'byte')}${cut}`;
  });
  const left = groups.length - shown.length;
  return [
    `${count(events.length, 'event')}: the first after ${Math.round(events[0]!.at_ms)} ms, the last after ` +
      `${Math.round(events.at(-1)!.at_ms)} ms, the end after ${Math.round(given.total_ms)} ms`,
    ...shown,
    ...(left > 0 ? [`and ${left} more`] : []),
  ];
}

function count(number: number, word: string): string {
  return `${number} ${word}${number === 1 ? '' : 's'}`;
}

/** From the first tenth of the events to the last: what comes before and behind is often made at another pace. */
function timeOfMost(events: readonly ArrivedEvent[]): number {
  const at = (share: number) => events[Math.floor((events.length - 1) * share)]!.at_ms;
  return at(0.9) - at(0.1);
}

function groupsOf(given: ArrivedStream, events: readonly ArrivedEvent[]): ArrivalGroup[] {
  const spread_ms = events.length < 2 ? 0 : events.at(-1)!.at_ms - events[0]!.at_ms;
  const usual_ms = spread_ms / 4 / Math.max(events.length - 1, 1);
  const pause_ms =
    given.made_every_ms === undefined ? Math.min(Math.max(usual_ms, 1), 20) : Math.max(given.made_every_ms / 2, 1);
  return groupArrivals(given, events, pause_ms);
}

function judgeKnownPace(
  events: readonly ArrivedEvent[],
  groups: readonly ArrivalGroup[],
  made_every_ms: number,
): Arriving {
  const made_in_ms = (events.length - 1) * made_every_ms;
  if (timeOfMost(events) <= made_in_ms / 10) return 'at_once';
  if (cutsEvents(groups)) return 'in_blocks';
  const with_events = groups.filter((group) => group.events > 0);
  // Small groups come from TCP and busy machines; larger ones waited for each other, as did a large beginning.
  const is_large = (group: ArrivalGroup) => group.events >= 8 && group.events * made_every_ms >= LONG_PAUSE_MS / 4;
  if (is_large(with_events[0]!)) return 'in_blocks';
  const in_large = with_events.filter(is_large).reduce((sum, group) => sum + group.events, 0);
  if (in_large > events.length / 2) return 'in_blocks';
  return with_events.length >= events.length / EVENTS_OF_A_BLOCK / 2 ? 'one_by_one' : 'unclear';
}

/** A buffer of so many bytes ends where it is full, and that is nearly never between two events. */
function cutsEvents(groups: readonly ArrivalGroup[]): boolean {
  const before_last = groups.slice(0, -1);
  const cut = before_last.filter(({ cuts }) => cuts);
  const events = cut.reduce((sum, group) => sum + group.events, 0);
  if (cut.length === 0 || events / cut.length < EVENTS_OF_A_BLOCK) return false;
  return cut.length > 1 ? cut.length >= before_last.length / 2 : isOfABuffer(cut[0]!) || before_last.length === 1;
}

function isOfABuffer({ bytes }: ArrivalGroup): boolean {
  return bytes >= 1024 && bytes % 1024 === 0;
}

function groupsWithLongPauses(groups: readonly ArrivalGroup[]): boolean {
  const large = groups.filter(({ events }) => events >= 2 * EVENTS_OF_A_BLOCK);
  const pauses = large.slice(1).map((group, index) => group.at_ms - large[index]!.at_ms);
  return large.length >= 2 && large.length >= groups.length / 2 && pauses.every((ms) => ms >= LONG_PAUSE_MS);
}

/** An event of a stream, with when its last byte arrived. */
interface ArrivedEvent {
  readonly at_ms: number;
  /** Offset behind its blank line. */
  readonly end: number;
}

/** What arrived together, with a pause before it. */
interface ArrivalGroup {
  readonly at_ms: number;
  readonly bytes: number;
  /** Events that were whole with it. */
  readonly events: number;
  /** Whether it ends within an event. */
  readonly cuts: boolean;
}

const LF = 0x0a;
const CR = 0x0d;

/**
 * The events of a stream that say something: no comments and no `ping`, which gateways make while they hold back the rest.
 * Line ends are those of server-sent events (WHATWG HTML, 9.2.5).
 */
function arrivedEvents(body: Buffer, arrivals: readonly Arrival[]): ArrivedEvent[] {
  const events: ArrivedEvent[] = [];
  let next = 0;
  let arrived = arrivals[0]?.bytes ?? 0;
  for (const { text, end } of eventTexts(body)) {
    while (end > arrived && next < arrivals.length - 1) arrived += arrivals[++next]!.bytes;
    if (saysSomething(text)) events.push({ at_ms: arrivals[next]?.at_ms ?? 0, end });
  }
  return events;
}

function saysSomething(text: string): boolean {
  return /^data:/m.test(text) && !/^event: ?ping\s*$/m.test(text) && !/^data: ?\{"type": ?"ping"\}/m.test(text);
}

function* eventTexts(body: Buffer): Generator<{ text: string; end: number }> {
  let start = 0;
  let is_line_empty = true;
  for (let at = 0; at < body.length; at++) {
    const byte = body[at];
    if (byte !== LF && byte !== CR) {
      is_line_empty = false;
      continue;
    }
    if (byte === CR && body[at + 1] === LF) at++;
    if (is_line_empty) {
      if (at + 1 - start > 2) yield { text: body.toString('utf8', start, at + 1).replaceAll('\r', '\n'), end: at + 1 };
      start = at + 1;
    }
    is_line_empty = true;
  }
}

/** Where every event of a stream ends, also those that say nothing. */
function eventEnds(body: Buffer): Set<number> {
  return new Set([...eventTexts(body)].map(({ end }) => end));
}

/** Arrivals with less than `pause_ms` between them, together. */
function groupArrivals(
  { body, arrivals }: { readonly body: Buffer; readonly arrivals: readonly Arrival[] },
  events: readonly ArrivedEvent[],
  pause_ms: number,
): ArrivalGroup[] {
  const ends = eventEnds(body);
  const groups: ArrivalGroup[] = [];
  let offset = 0;
  let next_event = 0;
  for (let index = 0; index < arrivals.length; ) {
    const start = offset;
    const first = arrivals[index]!;
    let last = first;
    do {
      last = arrivals[index++]!;
      offset += last.bytes;
    } while (index < arrivals.length && arrivals[index]!.at_ms - last.at_ms < pause_ms);
    const before = next_event;
    while (next_event < events.length && events[next_event]!.end <= offset) next_event++;
    groups.push({
      at_ms: first.at_ms,
      bytes: offset - start,
      events: next_event - before,
      cuts: offset < body.length && !ends.has(offset),
    });
  }
  return groups;
}
