/** How long a provider keeps prompts in its cache: asked for, translated and billed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { askBody, modelVia, type Nine, post, useNine } from '../support/nine.ts';
import { answered, completion, idOf, lossesOf, message, refusal, response, text } from '../support/odd.ts';
import { ledgerRow } from '../support/state.ts';

let nine: Nine;
useNine((started) => {
  nine = started;
});

describe('tokens written to a cache for half a day or half an hour', () => {
  const split = { cached_tokens: 5, cache_write_tokens: 50 };
  const details = { ...split, cache_write_tokens_details: { ttl_12h_tokens: 40, ttl_30m_tokens: 10 } };
  const DOCUMENTS = {
    responses: response([message('msg_1', text('Hi'))], { input_tokens_details: details }),
    chat: completion({ content: 'Hi' }, { prompt_tokens_details: details }),
  };
  for (const upstream of ['responses', 'chat'] as const) {
    for (const spoken of [upstream, 'messages'] as const) {
      test(`are billed apart, as a ${upstream} upstream tells them to a ${spoken} client`, async () => {
        const answer = await answered(nine, spoken, upstream, DOCUMENTS[upstream]);
        const row = await ledgerRow(nine.gateway.database, idOf(answer));
        assert.deepEqual(
          [row.input_tokens, row.cache_read_tokens, row.cache_write_5m_tokens, row.cache_write_1h_tokens],
          [45, 5, 10, 40],
        );
        if (spoken !== 'messages') return;
        const { cache_creation_input_tokens, cache_creation } = answer.json().usage;
        assert.equal(cache_creation_input_tokens, 50);
        assert.deepEqual(cache_creation, { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 40 });
      });
    }

    test(`are told as they are billed where the ${upstream} upstream's total is less than its parts`, async () => {
      const written = JSON.parse(
        JSON.stringify(DOCUMENTS[upstream]).replace('"cache_write_tokens":50', '"cache_write_tokens":0'),
      );
      const answer = await answered(nine, 'messages', upstream, written);
      const row = await ledgerRow(nine.gateway.database, idOf(answer));
      const { input_tokens, cache_creation_input_tokens } = answer.json().usage;
      assert.deepEqual([row.input_tokens, row.cache_write_5m_tokens, row.cache_write_1h_tokens], [45, 10, 40]);
      assert.deepEqual([input_tokens, cache_creation_input_tokens], [45, 50]);
    });
  }
});

test('a prompt that is to be kept for half a day is kept for an hour by a Messages upstream, and where it is not to be kept, not', async () => {
  const marked = async (spoken: Protocol, prompt_cache_options: object) => {
    nine.provider.reset();
    const body = askBody(spoken, modelVia('messages'), 'Hi', { prompt_cache_options });
    const answer = await post(nine.gateway, spoken, body);
    assert.equal(answer.status, 200, answer.text);
    assert.ok((await lossesOf(nine, answer)).includes('prompt_cache_options'));
    return nine.provider.only().body.messages[0].content[0].cache_control;
  };
  for (const spoken of ['chat', 'responses'] as const) {
    assert.deepEqual(await marked(spoken, { ttl: '12h' }), { type: 'ephemeral', ttl: '1h' });
    assert.deepEqual(await marked(spoken, { ttl: '30m', mode: 'implicit' }), { type: 'ephemeral' });
    assert.equal(await marked(spoken, { ttl: '12h', mode: 'explicit' }), undefined);
  }
});

test('marks without a lifetime get that of the request, and none is kept for longer than one before it', async () => {
  const marked = async (spoken: Protocol, ttls: readonly (string | undefined)[], ttl?: string) => {
    nine.provider.reset();
    const type = spoken === 'chat' ? 'text' : 'input_text';
    const content = ttls.map((one) => ({ type, text: 'x', prompt_cache_breakpoint: { mode: 'explicit', ttl: one } }));
    const said = [{ role: 'user', content }];
    const more = { prompt_cache_options: { mode: 'explicit', ttl } };
    const body = {
      ...askBody(spoken, modelVia('messages'), '', more),
      [spoken === 'chat' ? 'messages' : 'input']: said,
    };
    const answer = await post(nine.gateway, spoken, body);
    assert.equal(answer.status, 200, answer.text);
    const blocks: readonly { cache_control?: { ttl?: string } }[] = nine.provider.only().body.messages[0].content;
    return blocks.map(({ cache_control }) => cache_control?.ttl ?? '5m');
  };
  for (const spoken of ['chat', 'responses'] as const) {
    assert.deepEqual(await marked(spoken, [undefined, undefined], '12h'), ['1h', '1h']);
    assert.deepEqual(await marked(spoken, [undefined, undefined], '30m'), ['5m', '5m']);
    // A Messages upstream refuses a longer lifetime after a shorter one.
    assert.deepEqual(await marked(spoken, [undefined, '12h', '30m']), ['1h', '1h', '5m']);
  }
});

test('a request that only prepares the cache of a provider does not become one for an answer', async () => {
  for (const upstream of ['messages', 'chat'] as const) {
    for (const asked of [{ prompt_cache_options: { prewarm: true } }, { generate: false }]) {
      const said = await refusal(nine, 'responses', modelVia(upstream), asked);
      assert.match(said, /^(?:prompt_cache_options\.prewarm|generate): the upstream would write an answer/);
    }
  }
  const ordinary = askBody('responses', modelVia('chat'), 'Hi', { prompt_cache_options: { prewarm: false } });
  assert.equal((await post(nine.gateway, 'responses', ordinary)).status, 200);
});
