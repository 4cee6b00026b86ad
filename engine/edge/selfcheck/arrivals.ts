import type { Arrival } from '../../base/kit/net/exchange.ts';
import { counted } from '../../base/kit/text/suggest.ts';

/** How the events of a stream arrived. `unclear`: too short or too fast to decide. */
type Arriving = 'one_by_one' | 'at_once' | 'in_blocks' | 'unclear';

interface ArrivedStream {
  readonly body: Buffer;
  readonly arrivals: readonly Arrival[];
  readonly total_ms: number;
  readonly made_every_ms?: number;
}

/** Fewest events for a classification; fewer suffice at a known pace. */
const EVENTS_MIN = 12;
const EVENTS_MIN_AT_KNOWN_PACE = 5;
/** Shortest stream that can count as `at_once` at an unknown pace. */
const TOTAL_MS_MIN = 500;
const EVENTS_PER_MS_AT_ONCE = 2;
/** As fast as the fastest models: blocks in such a stream prove nothing. */
const EVENTS_PER_MS_FAST = 0.4;
/** TCP and busy machines cause small groups; a larger group means buffering. */
const EVENTS_OF_A_BLOCK = 8;
/** Events made within this time may arrive together, at a known pace; within twice this time at the start. */
const BLOCK_MS = 125;

/** Detects buffering on the way. At an unknown pace `at_once` may also be a sender that completes before it sends. */
export function classifyArrivals(stream: ArrivedStream): Arriving {
  const { total_ms, made_every_ms } = stream;
  const times = eventTimes(stream);
  if (times.length < (made_every_ms === undefined ? EVENTS_MIN : EVENTS_MIN_AT_KNOWN_PACE)) return 'unclear';
  // The middle 80 %: the first and last events often have another pace.
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

export function describeArrivals(stream: ArrivedStream): string[] {
  const times = eventTimes(stream);
  const total = `${Math.round(stream.total_ms)} ms`;
  if (times.length === 0) return [`no event in ${total}`];
  const groups = groupsOf(times, stream.made_every_ms);
  const shown = groups.slice(0, 5).map(({ at_ms, events }) => `${Math.round(at_ms)} ms: ${counted(events, 'event')}`);
  const left = groups.length - shown.length;
  return [
    `${counted(times.length, 'event')}: the first after ${Math.round(times[0]!)} ms, the last after ${Math.round(times.at(-1)!)} ms, the end after ${total}`,
    ...shown,
    ...(left > 0 ? [`and ${left} more`] : []),
  ];
}

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

/** Without comments and `ping` events, which gateways send while they buffer. Line ends as in WHATWG HTML 9.2.5. */
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
