import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { StageError } from '../../engine/base/contract/errors.ts';
import { definitionOf } from '../../engine/domain/protocols/definitions.ts';
import { readEnd, responseEndIn, saysReason } from '../../engine/domain/protocols/stop-reasons.ts';
import { Notes } from '../../engine/domain/protocols/translation/rules.ts';

const REQUEST = { request_id: '0b5c1f6e-5f0a-4c55-9a6d-2f4f0e6f1c11', model: 'coder-1', created_at: 1_800_000_000 };
const ERROR = new StageError('upstream_failed', 'The upstream "main" dropped\nthe connection.', {
  details: { upstream: 'main' },
});

const eventsOf = (text: string) =>
  text
    .split('\n\n')
    .slice(0, -1)
    .map((block) => {
      const [, name, data = ''] = /^(?:event: (\S+)\n)?data: (.*)$/.exec(block) ?? [];
      return { name, data: JSON.parse(data) };
    });

/** An SDK's settings for a server that streams this text. */
const answering = (text: string) => ({
  apiKey: 'key',
  maxRetries: 0,
  fetch: async () => new Response(text, { headers: { 'content-type': 'text/event-stream' } }),
});

describe('the end of a broken stream', () => {
  for (const protocol of ['messages', 'chat', 'responses', 'none']) {
    test(`at protocol ${protocol} is whole events, each with a single line of JSON`, () => {
      const text = definitionOf(protocol).errors.breakOff(ERROR, REQUEST);
      assert.ok(text.endsWith('\n\n'));
      for (const { name, data } of eventsOf(text)) {
        assert.equal(name, protocol === 'chat' ? undefined : data.type);
        assert.match(JSON.stringify(data), /dropped/);
      }
    });
  }

  const openai = (protocol: 'chat' | 'responses') =>
    new OpenAI(answering(definitionOf(protocol).errors.breakOff(ERROR, REQUEST)));
  const SDKS: Readonly<Record<string, () => PromiseLike<AsyncIterable<unknown>>>> = {
    messages() {
      const text = definitionOf('messages').errors.breakOff(ERROR, REQUEST);
      const client = new Anthropic(answering(`event: ping\ndata: {"type":"ping"}\n\n${text}`));
      return client.messages.create({ model: 'm', max_tokens: 1, messages: [], stream: true });
    },
    chat: () => openai('chat').chat.completions.create({ model: 'm', messages: [], stream: true }),
    responses: () => openai('responses').responses.create({ model: 'm', input: 'x', stream: true }),
  };
  for (const [protocol, asked] of Object.entries(SDKS)) {
    test(`is an error that the official client throws: ${protocol}`, async () => {
      const refused = { name: /Error/, message: /dropped(?:\n|\\n)the connection/ };
      const read = async () => {
        for await (const _event of await asked());
      };
      await assert.rejects(read, refused);
    });
  }

  test('for Responses shows clients that skip errors that the response has failed', () => {
    const at = { ...REQUEST, said: `data: {"sequence_number":40}` };
    const [error, failed] = eventsOf(definitionOf('responses').errors.breakOff(ERROR, at));
    const { code, message, param, sequence_number } = error!.data;
    assert.deepEqual([code, message, param, sequence_number], ['server_error', ERROR.message, null, 41]);
    assert.equal(failed!.name, 'response.failed');
    assert.equal(failed!.data.sequence_number, 42);
    const { id, status, model, created_at, error: reason } = failed!.data.response;
    assert.equal(id, 'resp_0b5c1f6e5f0a4c559a6d2f4f0e6f1c11');
    assert.deepEqual([model, created_at], ['coder-1', 1_800_000_000]);
    assert.deepEqual([status, reason], ['failed', { code: 'server_error', message: ERROR.message }]);
  });
});

/** What servers call the end of an answer, by what it means: the words of their documentation and sources. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  finished: [
    ...['end_turn', 'stop', 'FINISH_REASON_STOP', 'COMPLETE', 'FINISHED'], // the protocols; Gemini, Cohere, Bedrock
    ...['eos_token', 'eos', 'eosFound', 'REASON_STOP'], // Hugging Face, Together, LM Studio, xAI
    ...['ALTERNATIVE_STATUS_FINAL', 'normal', 'load'], // Yandex, ERNIE, Ollama
  ],
  max_tokens: [
    ...['max_tokens', 'length', 'max_output_tokens', 'FinishReason.MAX_TOKENS'], // the protocols; Gemini
    ...['limit', 'maxPredictedTokensReached', 'token_limit', 'time_limit'], // llama.cpp, LM Studio, watsonx
    ...['REASON_MAX_LEN', 'ALTERNATIVE_STATUS_TRUNCATED_FINAL'], // xAI, Yandex
  ],
  stop_sequence: ['stop_sequence', 'word'], // Messages, Cohere; llama.cpp
  paused: ['pause_turn', 'compaction', 'steered'], // Messages, Responses
  refusal: ['refusal'],
  context_window: [
    ...['model_context_window_exceeded', 'ERROR_LIMIT', 'model_length'], // Messages, Cohere, Mistral
    ...['contextLengthReached', 'REASON_MAX_CONTEXT'], // LM Studio, xAI
  ],
  content_filter: [
    ...['content_filter', 'content-filter', 'sensitive', 'ERROR_TOXIC'], // chat, Responses; Vercel, Zhipu, Cohere
    ...['SAFETY', 'RECITATION', 'BLOCKLIST', 'PROHIBITED_CONTENT', 'SPII', 'IMAGE_SAFETY', 'content_filter: SAFETY'], // Gemini
    ...['guardrail_intervened', 'content_filtered', 'ALTERNATIVE_STATUS_CONTENT_FILTER'], // Bedrock, Yandex
  ],
  broken_off: [
    ...['insufficient_system_resource', 'network_error', 'error', 'abort'], // DeepSeek, Zhipu, Mistral, vLLM
    ...['USER_CANCEL', 'TIMEOUT', 'cancelled'], // Cohere, watsonx
  ],
  unusable: [
    ...['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL'], // Gemini
    ...['function_call_filter: MALFORMED_FUNCTION_CALL', 'malformed_model_output'], // Gemini, Bedrock
  ],
};

function meaning(word: unknown, has_calls = false, notes = new Notes()): string {
  const end = readEnd(word, { has_calls }, notes);
  if ('reason' in end) return end.reason;
  assert.equal(end.problem.status, 502);
  return end.problem.message.startsWith('The upstream broke off') ? 'broken_off' : 'unusable';
}

describe('the reason for stopping', () => {
  for (const [expected, words] of Object.entries(WORDS)) {
    test(`is ${expected} in the words of servers, in whatever case`, () => {
      for (const spelled of words.flatMap((word) => [word, word.toUpperCase(), word.toLowerCase()])) {
        const notes = new Notes();
        assert.equal(meaning(spelled, false, notes), expected, spelled);
        assert.deepEqual(notes.names, [], spelled);
      }
    });
  }

  test('calls tools where there are calls, and only there', () => {
    const words = ['tool_use', 'tool_calls', 'TOOL_CALL', 'function_call', 'tool-calls', 'end_turn', 'STOP', null];
    for (const word of words) {
      assert.equal(meaning(word, true), 'tool_calls', String(word));
      assert.equal(meaning(word, false), 'finished', String(word));
    }
    assert.equal(meaning('MAX_TOKENS', true), 'max_tokens');
  });

  test('if unknown is a cut one, or its likely meaning, and is noted', () => {
    for (const [word, expected, noted] of [
      ['brand_new', 'max_tokens', 'unknown_stop_reason:brand_new'],
      ['OTHER', 'max_tokens', 'unknown_stop_reason:OTHER'],
      ['image_policy_v2', 'content_filter', 'unknown_stop_reason:image_policy_v2'],
      ['gpu_crashed', 'broken_off', 'unknown_stop_reason:gpu_crashed'],
      ['</b> a text of somebody else', 'max_tokens', 'unknown_stop_reason'],
      ['x'.repeat(10_000), 'max_tokens', 'unknown_stop_reason'],
      ['__proto__', 'max_tokens', 'unknown_stop_reason'],
      ['constructor', 'max_tokens', 'unknown_stop_reason:constructor'],
    ] as const) {
      const notes = new Notes();
      assert.equal(meaning(word, false, notes), expected, word);
      assert.deepEqual(notes.names, [noted]);
    }
    assert.equal(meaning('brand_new', true), 'tool_calls');
    const cut = readEnd('brand_new', { has_calls: true, is_cut: true }, new Notes());
    assert.deepEqual(cut, { reason: 'max_tokens' });
  });

  test('is not derived from a placeholder', () => {
    for (const nothing of [null, undefined, '', 'null', 'NULL', 'none', 'not_finished', 0, 1, {}, [], false]) {
      assert.equal(saysReason(nothing), false, JSON.stringify(nothing));
    }
  });
});

describe('the end of a response', () => {
  test("is found in the events of every protocol, and not in the model's text", () => {
    const chat = (finish_reason: string | null, content = '') =>
      JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason }] });
    const quoted = '{"finish_reason":"error"} data: [DONE]';
    for (const [data, expected] of [
      ['[DONE]', 'whole'],
      ['data: [DONE]\n\n', 'whole'],
      [chat('stop'), 'whole'],
      [chat('MALFORMED_FUNCTION_CALL'), 'whole'],
      [chat('Network_Error'), 'broken_off'],
      [chat(null), undefined],
      [chat(null, quoted), undefined],
      ['{"type":"message_stop"}', 'whole'],
      ['{"type":"message_delta","delta":{"stop_reason":"end_turn"}}', 'whole'],
      ['{"type":"message_delta","delta":{"stop_reason":"network_error"}}', 'broken_off'],
      ['{"type":"message_delta","delta":{"stop_reason":null}}', undefined],
      ['{"type":"response.completed","response":{}}', 'whole'],
      ['{"type":"response.output_item.done","item":{"status":"completed"}}', undefined],
      ['{"content":[{"type":"tool_use","input":{"finish_reason":"error"}}],"stop_reason":"tool_use"}', 'whole'],
      ['', undefined],
    ] as const) {
      assert.equal(responseEndIn(data), expected, data);
    }
  });
});
