/** Long conversations in the shapes of real coding clients, on every combination of protocols, at a provider that is strict. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { TestGateway } from '../../support/gateway.ts';
import type { Answer, Asked, ModelProvider } from '../../support/model-provider/model-provider.ts';
import { eventsIn, textIn } from '../streams/streams.ts';
import { COMBINATIONS, modelVia, post, sameAt, useNine } from '../support/nine.ts';
import { PDF, PIXEL } from './agent-model.ts';
import { recordedBody, roundsOf, SYSTEM, toolsOf } from './recorded-conversation.ts';

let provider: ModelProvider;
let gateway: TestGateway;

useNine((nine) => {
  ({ provider, gateway } = nine);
});

/** Every text of the conversation with who said it. */
function textsOf(spoken: Protocol, upstream: Protocol): [role: string, text: string][] {
  const rounds = roundsOf(spoken);
  // Only Messages has a flag for failures; elsewhere the text says it.
  const failure = spoken === 'messages' && upstream === 'messages' ? '' : 'Error: ';
  return rounds.flatMap(({ ask, say, calls, failed }, index): [string, string][] => [
    ['user', ask],
    ['assistant', say],
    ...calls.map(({ result }, at): [string, string] => ['tool', failed && at === 1 ? failure + result : result]),
    ...(index === rounds.length - 1 ? [] : [['assistant', `Done with step ${index}.`] satisfies [string, string]]),
  ]);
}

function checkNames(names: readonly string[], expected: readonly string[], upstream: Protocol): void {
  assert.equal(names.length, expected.length);
  for (const [index, name] of expected.entries()) {
    if (name.length <= 64 || upstream === 'messages') assert.equal(names[index], name);
    else assert.ok(names[index]!.length <= 64);
  }
}

function checkSeen({ seen }: Asked, spoken: Protocol, upstream: Protocol): void {
  const rounds = roundsOf(spoken);
  const calls = rounds.flatMap((round) => round.calls);
  assert.deepEqual(seen.system, SYSTEM);
  assert.deepEqual(seen.texts, textsOf(spoken, upstream));
  checkNames(
    seen.tools,
    toolsOf(spoken).map(({ name }) => name),
    upstream,
  );
  checkNames(
    seen.calls.map(([name]) => name),
    calls.map(({ name }) => name),
    upstream,
  );
  assert.equal(new Set(seen.tools).size, 40);
  assert.ok(
    seen.calls.every(([name]) => seen.tools.includes(name)),
    'a call has the name of a tool',
  );
  assert.deepEqual(
    seen.calls.map(([, id, input]) => ({ id, input })),
    calls.map(({ id, input }) => ({ id, input })),
  );
  assert.deepEqual(
    seen.results,
    calls.map(({ id }) => id),
  );
  assert.deepEqual(seen.images, Array(rounds.filter(({ image }) => image).length).fill(PIXEL));
  assert.deepEqual(seen.documents, Array(rounds.filter(({ document }) => document).length).fill(PDF));
  // Chat completions has no proof of a thought, and the others believe none without; nor does it take what others proved.
  const kept = spoken === 'messages' || spoken === upstream || (spoken === 'responses' && upstream === 'messages');
  assert.deepEqual(seen.thoughts, kept ? rounds.map(({ thought }) => thought) : []);
}

for (const [spoken, upstream] of COMBINATIONS) {
  test(`a long conversation of a ${spoken} client is accepted whole by a ${upstream} upstream`, async () => {
    const { name } = toolsOf(spoken)[9]!;
    const answer: Answer = {
      said: [
        { kind: 'thought', text: 'Now.' },
        { kind: 'text', text: 'Sehr gut — 値.' },
      ],
      mixed: true,
      pings: true,
    };
    provider.model = (asked) => {
      const called = { kind: 'call' as const, name: asked.seen.tools[9]!, arguments: '{"path":"/ü"}' };
      return { ...answer, said: [...answer.said, called, { ...called, arguments: '{}' }] };
    };
    const body = recordedBody(spoken, upstream, modelVia(upstream));
    assert.ok(JSON.stringify(body).length > 100_000);
    const got = await post(gateway, spoken, body);
    assert.deepEqual(provider.refused, []);
    assert.equal(got.status, 200, got.text.slice(0, 500));
    checkSeen(provider.only(), spoken, upstream);
    assert.equal(textIn(spoken, eventsIn(got.text)), 'Sehr gut — 値.');
    assert.ok(got.text.includes(JSON.stringify(name)), 'calls have the names that the client gave its tools');
  });
}

for (const protocol of PROTOCOLS) {
  test(`a long conversation of a ${protocol} client reaches a ${protocol} upstream byte for byte, and so does the answer`, async () => {
    const body = JSON.stringify(recordedBody(protocol, protocol, sameAt(protocol)), null, 1);
    const got = await post(gateway, protocol, body);
    const received = provider.upstream.only();
    assert.equal(received.sha256, createHash('sha256').update(body).digest('hex'));
    assert.equal(got.status, 200);
    assert.deepEqual(provider.refused, []);
  });
}
