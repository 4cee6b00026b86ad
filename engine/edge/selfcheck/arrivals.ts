import type { Arrival } from '../../base/kit/net/exchange.ts';

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
/** Small groups come from TCP and busy machines; larger ones waited for each other. */
const EVENTS_OF_A_BLOCK = 8;
/** What is made in less time than this may well come together, where the pace is known; and at the beginning, in less than twice that. */
const BLOCK_MS = 125;

/**
 * Tells a stream that something on the way held back from one whose sender was slow. Where the pace is known, a second of
 * events is enough. Else `at_once` may also be a sender that makes its whole answer before it sends any of it.
 */
export function judgeArrivals(given: ArrivedStream): Arriving {
  const { total_ms, made_every_ms } = given;
  const times = eventTimes(given);
  if (times.length < (made_every_ms === undefined ? EVENTS_MIN : EVENTS_MIN_AT_KNOWN_PACE)) return 'unclear';
  // From the first tenth of the events to the last: what comes before and behind is often made at another pace.
  const at = (share: number) => times[Math.floor((times.length - 1) * share)]!;
  const most_ms = at(0.9) - at(0.1);
  const groups = groupsOf(times, made_every_ms);
  const isBlock = ({ events }: Group, times = 1) =>
    made_every_ms === undefined
      ? events >= EVENTS_OF_A_BLOCK
      : events >= (times * EVENTS_OF_A_BLOCK) / 2 && events * made_every_ms >= times * BLOCK_MS;
  if (made_every_ms === undefined) {
    const per_ms = (times.length * 0.8) / Math.max(most_ms, 1);
    const is_late = total_ms >= TOTAL_MS_MIN && most_ms <= total_ms / 10;
    if (is_late && per_ms >= EVENTS_PER_MS_AT_ONCE) return 'at_once';
    if (per_ms > EVENTS_PER_MS_FAST) return 'unclear';
  } else {
    if (most_ms <= ((times.length - 1) * made_every_ms) / 10) return 'at_once';
    if (isBlock(groups[0]!, 2)) return 'in_blocks';
  }
  const in_blocks = groups.filter((group) => isBlock(group)).reduce((sum, { events }) => sum + events, 0);
  if (in_blocks > times.length / 2) return 'in_blocks';
  const enough = made_every_ms === undefined ? 4 : times.length / EVENTS_OF_A_BLOCK;
  return groups.length >= enough ? 'one_by_one' : 'unclear';
}

/** When the events came that `judgeArrivals` looked at, in lines for people. */
export function tellArrivals(given: ArrivedStream): string[] {
  const times = eventTimes(given);
  const total = `${Math.round(given.total_ms)} ms`;
  if (times.length === 0) return [`no event in ${total}`];
  const groups = groupsOf(times, given.made_every_ms);
  const shown = groups.slice(0, 5).map(({ at_ms, events }) => `${Math.round(at_ms)} ms: ${counted(events)}`);
  const left = groups.length - shown.length;
  return [
    `${counted(times.length)}: the first after ${Math.round(times[0]!)} ms, the last after ${Math.round(times.at(-1)!)} ms, the end after ${total}`,
    ...shown,
    ...(left > 0 ? [`and ${left} more`] : []),
  ];
}

const counted = (events: number) => `${events} event${events === 1 ? '' : 's'}`;

/** Events that came together, with a pause before them. */
interface Group {
  readonly at_ms: number;
  readonly events: number;
}

function groupsOf(times: readonly number[], made_every_ms: number | undefined): Group[] {
  const usual_ms = (times.at(-1)! - times[0]!) / 4 / Math.max(times.length - 1, 1);
  const pause_ms = made_every_ms === undefined ? Math.min(Math.max(usual_ms, 1), 20) : Math.max(made_every_ms / 2, 1);
  const starts = times.flatMap((at_ms, index) => (index === 0 || at_ms - times[index - 1]! >= pause_ms ? [index] : []));
  return starts.map((start, index) => ({ at_ms: times[start]!, events: (starts[index + 1] ?? times.length) - start }));
}

/**
 * When each event arrived as a whole that says something: no comment and no `ping`, which gateways make while they hold back
 * the rest. Line ends are those of server-sent events (WHATWG HTML, 9.2.5).
 */
function eventTimes({ body, arrivals }: ArrivedStream): number[] {
  let [next, end, arrived] = [0, 0, arrivals[0]?.bytes ?? 0];
  return body
    .toString('latin1')
    .split(/(?<=\r\n\r\n|\n\n|\r\r)/)
    .flatMap((text) => {
      end += text.length;
      while (end > arrived && next < arrivals.length - 1) arrived += arrivals[++next]!.bytes;
      return /[\r\n]{2}$/.test(text) && saysSomething(text) ? [arrivals[next]?.at_ms ?? 0] : [];
    });
}

function saysSomething(text: string): boolean {
  return /^data:/m.test(text) && !/^event: ?ping\s*$/m.test(text) && !/^data: ?\{"type": ?"ping"\}/m.test(text);
}
