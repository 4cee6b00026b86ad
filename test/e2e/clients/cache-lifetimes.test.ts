/** How long a provider keeps prompts in its cache, as it is billed. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Nine, useNine } from '../support/nine.ts';
import { answered, completion, idOf, message, response, text } from '../support/odd.ts';
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
      test(`are billed apart, as a ${upstream} upstream reports them to a ${spoken} client`, async () => {
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

    test(`are reported as billed if the ${upstream} upstream's total is less than its parts`, async () => {
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
