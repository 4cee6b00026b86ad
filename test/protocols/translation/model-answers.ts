/** Answers of the scripted model provider as arbitraries, and what carries them through a translator. */
import fc from 'fast-check';
import type { ResponseConverter } from '../../../engine/api.ts';
import type { Protocol } from '../../../engine/contract/protocol.ts';
import { createTranslator } from '../../../engine/protocols/translation/translate.ts';
import { type Answer, eventsOf, type Said } from '../../support/model-provider/model-provider.ts';
import { argumentTexts, names, texts } from './conversation-arbitraries.ts';
import { headOf, translate } from './translating.ts';

const thoughts = fc.option(
  texts.map((text): Said => ({ kind: 'thought', text })),
  { nil: undefined },
);
const words = fc.option(
  texts.map((text): Said => ({ kind: 'text', text })),
  { nil: undefined },
);
const calls = fc.array(fc.tuple(names, argumentTexts), { maxLength: 3 });
const refusals = texts.map((text): Said[] => [{ kind: 'refusal', text }]);

/** What a model says: perhaps a thought, perhaps a text, calls; or a refusal. */
const said: fc.Arbitrary<readonly Said[]> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc
      .tuple(thoughts, words, calls)
      .map(([thought, text, made]): Said[] => [
        ...(thought ? [thought] : []),
        ...(text ? [text] : []),
        ...made.map(([name, args]): Said => ({ kind: 'call', name, arguments: args })),
      ]),
  },
  { weight: 1, arbitrary: refusals },
);

/** Answers that each protocol can say whole. */
export const modelAnswers: fc.Arbitrary<Answer> = fc
  .record({
    said,
    cut_short: fc.boolean(),
    piece: fc.integer({ min: 1, max: 9 }),
    mixed: fc.boolean(),
    pings: fc.boolean(),
    input: fc.nat(9999),
    cache_read: fc.nat(9999),
    output: fc.integer({ min: 100, max: 9999 }),
    reasoning: fc.nat(100),
  })
  .map(({ said: all, cut_short, piece, mixed, pings, ...used }) => {
    const only_text = all.length > 0 && all.every(({ kind }) => kind === 'text');
    return { said: all, piece, mixed, pings, used, ...(cut_short && only_text && { stop: 'length' as const }) };
  });

/** What turns an upstream's answer into a client's. */
export function translatorFor(
  from: Protocol,
  to: Protocol,
  stream: boolean,
  type: 'stream' | 'document',
): ResponseConverter {
  return createTranslator(
    translate(from, to, stream),
    headOf(type === 'stream' ? 'text/event-stream' : 'application/json'),
  );
}

/** The client's bytes for these bytes of the upstream. */
export function convertAll(converter: ResponseConverter, chunks: readonly Buffer[]): string {
  return chunks.map((chunk) => String(converter.write(chunk))).join('') + String(converter.end());
}

/** The bytes of the upstream's stream. */
export const streamOf = (protocol: Protocol, answer: Answer): Buffer =>
  Buffer.from(eventsOf(protocol, answer).join(''));

/** Bytes cut at these places. */
export function cutAt(bytes: Buffer, places: readonly number[]): Buffer[] {
  const cuts = [
    0,
    ...[...new Set(places.map((place) => place % (bytes.length + 1)))].sort((a, b) => a - b),
    bytes.length,
  ];
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}
