import type { Arrival } from '../../../engine/kit/net/exchange.ts';

/** An event as a sender makes it. */
export interface MadeEvent {
  readonly at_ms: number;
  readonly text: string;
}

/** Events of a Messages stream with a piece of text each, made at a steady pace after a time of thinking. */
export function madeEvents(given: {
  readonly pieces: number;
  readonly every_ms: number;
  readonly thinking_ms?: number;
  readonly text_chars?: number;
}): MadeEvent[] {
  const { pieces, every_ms, thinking_ms = 0, text_chars = 20 } = given;
  return Array.from({ length: pieces }, (_, index) => {
    // Lengths differ as those of real words do.
    const text = 'x'.repeat(1 + ((index * 7) % (2 * text_chars)));
    const data = { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } };
    return {
      at_ms: thinking_ms + index * every_ms,
      text: `event: content_block_delta\ndata: ${JSON.stringify(data)}\n\n`,
    };
  });
}

interface Arrived {
  readonly body: Buffer;
  readonly arrivals: readonly Arrival[];
  readonly total_ms: number;
}

/** As it reaches a client when nothing holds it back. */
export function asMade(events: readonly MadeEvent[]): Arrived {
  return {
    body: Buffer.from(events.map(({ text }) => text).join('')),
    arrivals: events.map(({ at_ms, text }) => ({ at_ms, bytes: Buffer.byteLength(text) })),
    total_ms: events.at(-1)?.at_ms ?? 0,
  };
}

/** Through a buffer that is passed on when it is full, and at the end. */
export function throughBuffer(stream: Arrived, size_bytes: number): Arrived {
  const arrivals: Arrival[] = [];
  let held = 0;
  for (const { at_ms, bytes } of stream.arrivals)
    for (held += bytes; held >= size_bytes; held -= size_bytes) arrivals.push({ at_ms, bytes: size_bytes });
  if (held > 0) arrivals.push({ at_ms: stream.total_ms, bytes: held });
  return { ...stream, arrivals };
}

/** In the pieces that a network makes of what is sent: several at once after a pause, or one as two that come together. */
export function throughNetwork(stream: Arrived, delays_ms: readonly number[]): Arrived {
  const arrivals: Arrival[] = [];
  let last_ms = 0;
  stream.arrivals.forEach(({ at_ms, bytes }, index) => {
    last_ms = Math.max(last_ms, at_ms + (delays_ms[index % delays_ms.length] ?? 0));
    const first = Math.floor(bytes / 3);
    arrivals.push({ at_ms: last_ms, bytes: first }, { at_ms: last_ms, bytes: bytes - first });
  });
  return { ...stream, arrivals, total_ms: Math.max(stream.total_ms, last_ms) };
}
