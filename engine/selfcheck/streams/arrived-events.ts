import type { Arrival } from '../../kit/net/exchange.ts';

/** An event of a stream, with when its last byte arrived. */
export interface ArrivedEvent {
  readonly at_ms: number;
  /** Offset behind its blank line. */
  readonly end: number;
}

/** What arrived together, with a pause before it. */
export interface ArrivalGroup {
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
export function arrivedEvents(body: Buffer, arrivals: readonly Arrival[]): ArrivedEvent[] {
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
export function groupArrivals(
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
