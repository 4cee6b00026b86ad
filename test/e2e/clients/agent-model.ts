/** A scripted model that works like an agent: it thinks, calls tools at once, and sums up their results. */
import assert from 'node:assert/strict';
import type { Answer, Asked, Model } from '../../support/model-provider/model-provider.ts';

export const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
export const PDF = Buffer.from('%PDF-1.4 a document').toString('base64');

export const CITIES = {
  type: 'object' as const,
  properties: { city: { type: 'string' as const } },
  required: ['city'] as const,
  additionalProperties: false as const,
};

/** Its first response: a thought, a text and two tool calls at once. */
export const CALLS: Answer = {
  said: [
    { kind: 'thought', text: 'Two cities, so two calls.' },
    { kind: 'text', text: 'Let me look.' },
    { kind: 'call', name: 'weather', arguments: '{"city": "Zürich"}' },
    { kind: 'call', name: 'weather', arguments: '{"city": "São Paulo \\"SP\\""}' },
  ],
  mixed: true,
};

/** The results as the model saw them, each with its city. */
function resultsSeen({ seen }: Asked): string[] {
  const texts = seen.texts.filter(([role]) => role === 'tool').map(([, text]) => text);
  return seen.results.map((id, index) => {
    const call = seen.calls.find(([, called]) => called === id);
    assert.ok(call, `no call has the identifier ${id}`);
    return `${(call[2] as { city: string }).city}: ${texts[index]}`;
  });
}

/** Calls tools in the first turn, and repeats their results in the second. */
export const agent: Model = (asked) =>
  asked.seen.results.length === 0 ? CALLS : { said: [{ kind: 'text', text: resultsSeen(asked).join('; ') }] };

/** The final text of the agent, when the tool returns `weatherIn`. */
export const SUMMARY = 'Zürich: 12 degrees in Zürich; São Paulo "SP": 12 degrees in São Paulo "SP"';

/** The result of the tool. */
export const weatherIn = ({ city }: { readonly city: string }): string => `12 degrees in ${city}`;

/** The model's view of a complete request: system texts, three turns with files, and two tools. */
export function assertAllSeen({ system, texts, images, documents, tools }: Asked['seen']): void {
  assert.deepEqual(system, ['You are terse.', 'Be kind.']);
  assert.deepEqual(texts, [
    ['user', 'Look:'],
    ['assistant', 'I see.'],
    ['user', 'And now?'],
  ]);
  assert.deepEqual(images, [PIXEL, 'https://images.test/a.png']);
  assert.deepEqual(documents, [PDF]);
  assert.deepEqual(tools, ['weather', 'nothing']);
}
