/** One conversation over models of providers that speak different protocols, each of which believes its own proofs alone. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PROTOCOLS, type Protocol } from '../../../engine/base/contract/protocol.ts';
import type { Asked, Model, Said } from '../../support/model-provider/model-provider.ts';
import { times } from '../../support/times.ts';
import { post, sameAt, useNine } from '../support/nine.ts';
import { type Thinking, talkingClient } from './talking-client.ts';

const { gateway, provider } = useNine();

/** One turn: the model, and what it does. */
interface Step {
  readonly upstream: Protocol;
  readonly stream: boolean;
  readonly thinks: boolean;
  readonly secret: boolean;
  readonly calls: number;
  readonly says: boolean;
}

const step: fc.Arbitrary<Step> = fc.record({
  upstream: fc.constantFrom(...PROTOCOLS),
  stream: fc.boolean(),
  thinks: fc.boolean(),
  secret: fc.boolean(),
  calls: fc.constantFrom(0, 1, 2),
  says: fc.boolean(),
});

const THINKING: readonly (Thinking | undefined)[] = [
  undefined,
  { type: 'adaptive' },
  { type: 'enabled', budget_tokens: 2000 },
];

/** A model's reasoning: with a budget it always reasons, and where that is forbidden it never does. */
function mayThink({ protocol, body }: Asked, thinks: boolean): boolean {
  if (protocol !== 'messages') return thinks;
  if (body.thinking?.type === 'enabled') return true;
  return body.thinking?.type === 'adaptive' && thinks;
}

/** Some servers of chat completions have identifiers that the Messages protocol rejects. */
function callId({ protocol }: Asked, turn: number, call: number): string {
  return protocol === 'chat' ? `functions.weather:${turn}|${call}` : `call_${turn}_${call}`;
}

function playing({ thinks, secret, calls, says }: Step, turn: number): Model {
  return (asked) => {
    const said: Said[] = [];
    const is_secret = secret && asked.protocol !== 'chat';
    if (mayThink(asked, thinks)) said.push({ kind: 'thought', text: is_secret ? '' : `Thought ${turn}.` });
    if (says || calls === 0) said.push({ kind: 'text', text: `Answer ${turn}.` });
    for (let call = 0; call < calls; call++) {
      said.push({ kind: 'call', name: 'weather', arguments: '{"city":"Bern"}', id: callId(asked, turn, call) });
    }
    return { said };
  };
}

async function talk(spoken: Protocol, steps: readonly Step[], thinking?: Thinking): Promise<void> {
  provider.reset();
  const client = talkingClient(spoken, thinking);
  for (const [turn, one] of steps.entries()) {
    provider.model = playing(one, turn);
    const body = client.ask(sameAt(one.upstream), one.stream, `Question ${turn}?`);
    const { status, text } = await post(gateway, spoken, body);
    assert.deepEqual(provider.refused, [], `turn ${turn}: ${body}`);
    assert.equal(status, 200, text);
    if (one.upstream === spoken && !body.includes('gw:')) {
      const { body: received } = provider.upstream.requests.at(-1)!;
      if (spoken !== 'chat') assert.equal(String(received), body);
    }
    client.take(text, one.stream);
  }
}

describe('a conversation that changes its model in every turn', () => {
  for (const spoken of PROTOCOLS) {
    for (const thinking of spoken === 'messages' ? THINKING : [undefined]) {
      it(`is never rejected for a ${spoken} client${thinking ? ` with ${thinking.type} thinking` : ''}`, async () => {
        await fc.assert(
          fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 8 }), (steps) => talk(spoken, steps, thinking)),
          { numRuns: times(6), endOnFailure: true },
        );
      });
    }
  }
});
