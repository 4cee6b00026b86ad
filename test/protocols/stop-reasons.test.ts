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

async function collect(stream: AsyncIterable<unknown>): Promise<unknown[]> {
  const events: unknown[] = [];
  for await (const event of stream) events.push(event);
  return events;
}

const refused = { name: /Error/, message: /dropped\nthe connection/ };

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

  test('is an error that the Messages SDK throws', async () => {
    const text = definitionOf('messages').errors.breakOff(ERROR, REQUEST);
    const client = new Anthropic(answering(`event: ping\ndata: {"type":"ping"}\n\n${text}`));
    const ask = { model: 'm', max_tokens: 1, messages: [{ role: 'user' as const, content: 'x' }] };
    await assert.rejects(client.messages.create({ ...ask, stream: true }).then(collect), /dropped/);
  });

  test('is an error that the chat completions SDK throws', async () => {
    const text = definitionOf('chat').errors.breakOff(ERROR, REQUEST);
    const client = new OpenAI(answering(text));
    const asked = client.chat.completions.create({ model: 'm', messages: [], stream: true });
    await assert.rejects(asked.then(collect), refused);
  });

  test('is an error that the Responses SDK throws', async () => {
    const text = definitionOf('responses').errors.breakOff(ERROR, REQUEST);
    const client = new OpenAI(answering(text));
    await assert.rejects(client.responses.create({ model: 'm', input: 'x', stream: true }).then(collect), refused);
  });

  test('for Responses tells clients that skip errors that the response has failed', () => {
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

/** What servers call the end of an answer, and what it means: the words of their documentation and sources. */

/** By server: each of its words and what it means. */
const SERVERS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  messages: {
    end_turn: 'finished',
    max_tokens: 'max_tokens',
    stop_sequence: 'stop_sequence',
    pause_turn: 'paused',
    compaction: 'paused',
    refusal: 'refusal',
    model_context_window_exceeded: 'context_window',
  },
  chat: { stop: 'finished', length: 'max_tokens', content_filter: 'content_filter' },
  responses: { max_output_tokens: 'max_tokens', content_filter: 'content_filter', steered: 'paused' },
  DeepSeek: { insufficient_system_resource: 'broken_off' },
  Zhipu: { sensitive: 'content_filter', network_error: 'broken_off' },
  Gemini: {
    STOP: 'finished',
    MAX_TOKENS: 'max_tokens',
    SAFETY: 'content_filter',
    RECITATION: 'content_filter',
    BLOCKLIST: 'content_filter',
    PROHIBITED_CONTENT: 'content_filter',
    SPII: 'content_filter',
    IMAGE_SAFETY: 'content_filter',
    MALFORMED_FUNCTION_CALL: 'unusable',
    UNEXPECTED_TOOL_CALL: 'unusable',
    'content_filter: SAFETY': 'content_filter',
    'function_call_filter: MALFORMED_FUNCTION_CALL': 'unusable',
    'FinishReason.MAX_TOKENS': 'max_tokens',
    FINISH_REASON_STOP: 'finished',
  },
  Cohere: {
    COMPLETE: 'finished',
    STOP_SEQUENCE: 'stop_sequence',
    ERROR_TOXIC: 'content_filter',
    ERROR_LIMIT: 'context_window',
    ERROR: 'broken_off',
    USER_CANCEL: 'broken_off',
    TIMEOUT: 'broken_off',
  },
  Bedrock: {
    guardrail_intervened: 'content_filter',
    content_filtered: 'content_filter',
    malformed_model_output: 'unusable',
    FINISHED: 'finished',
    CONTENT_FILTERED: 'content_filter',
  },
  Mistral: { model_length: 'context_window', error: 'broken_off' },
  vLLM: { abort: 'broken_off' },
  'Hugging Face': { eos_token: 'finished' },
  Together: { eos: 'finished' },
  'llama.cpp': { limit: 'max_tokens', word: 'stop_sequence' },
  'LM Studio': {
    eosFound: 'finished',
    maxPredictedTokensReached: 'max_tokens',
    contextLengthReached: 'context_window',
  },
  watsonx: { token_limit: 'max_tokens', cancelled: 'broken_off', time_limit: 'max_tokens' },
  xAI: { REASON_STOP: 'finished', REASON_MAX_LEN: 'max_tokens', REASON_MAX_CONTEXT: 'context_window' },
  Yandex: {
    ALTERNATIVE_STATUS_FINAL: 'finished',
    ALTERNATIVE_STATUS_TRUNCATED_FINAL: 'max_tokens',
    ALTERNATIVE_STATUS_CONTENT_FILTER: 'content_filter',
  },
  ERNIE: { normal: 'finished' },
  Ollama: { load: 'finished' },
  'Vercel AI SDK': { 'content-filter': 'content_filter', error: 'broken_off' },
};

function meaning(word: unknown, has_calls = false, notes = new Notes()): string {
  const end = readEnd(word, { has_calls }, notes);
  if ('reason' in end) return end.reason;
  assert.equal(end.problem.status, 502);
  return end.problem.message.startsWith('The upstream broke off') ? 'broken_off' : 'unusable';
}

describe('the reason for stopping', () => {
  for (const [server, words] of Object.entries(SERVERS)) {
    test(`is read in the words of ${server}, in whatever case`, () => {
      for (const [word, expected] of Object.entries(words)) {
        for (const spelled of [word, word.toUpperCase(), word.toLowerCase()]) {
          const notes = new Notes();
          assert.equal(meaning(spelled, false, notes), expected, spelled);
          assert.deepEqual(notes.names, [], spelled);
        }
      }
    });
  }

  test('calls tools where there are calls, and only there', () => {
    for (const word of [
      'tool_use',
      'tool_calls',
      'TOOL_CALL',
      'function_call',
      'tool-calls',
      'end_turn',
      'STOP',
      null,
    ]) {
      assert.equal(meaning(word, true), 'tool_calls', String(word));
      assert.equal(meaning(word, false), 'finished', String(word));
    }
    assert.equal(meaning('MAX_TOKENS', true), 'max_tokens');
  });

  test('that nobody knows is a cut one, or what it seems to be, and is noted', () => {
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

  test('is not said by what stands for nothing', () => {
    for (const nothing of [null, undefined, '', 'null', 'NULL', 'none', 'not_finished', 0, 1, {}, [], false]) {
      assert.equal(saysReason(nothing), false, JSON.stringify(nothing));
    }
  });
});

describe('the end of an answer', () => {
  test('is found in the events of every protocol, and not in what the model says', () => {
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
