import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { statusOf } from '../../../engine/protocols/errors.ts';
import { errorOfEvent, readError } from '../../../engine/protocols/read-error.ts';
import { outcomeOf } from '../../../engine/upstreams/attempts/error-meaning.ts';

const body = (error: object) => JSON.stringify({ type: 'error', error });

describe('an error response', () => {
  const ROWS: readonly (readonly [status: number, body: string, outcome: string])[] = [
    [429, body({ type: 'rate_limit_error', message: 'slow' }), 'limited'],
    [429, '', 'limited'],
    [429, JSON.stringify({ error: { code: 'insufficient_quota', type: 'insufficient_quota' } }), 'payment'],
    [529, body({ type: 'overloaded_error' }), 'overloaded'],
    [503, '<html>', 'overloaded'],
    [500, JSON.stringify({ error: { code: 'server_is_overloaded', message: 'busy' } }), 'overloaded'],
    [500, body({ type: 'api_error' }), 'failed'],
    [520, '', 'failed'],
    [502, '', 'bad_gateway'],
    [504, '', 'bad_gateway'],
    [401, '', 'credential'],
    [402, '', 'payment'],
    [403, '', 'permission'],
    [400, body({ type: 'invalid_request_error', message: 'Your credit balance is too low to access' }), 'payment'],
    [400, JSON.stringify({ error: { code: 'model_not_found' } }), 'model_missing'],
    [404, '', 'model_missing'],
    [501, '', 'model_missing'],
    [400, body({ type: 'invalid_request_error', message: 'prompt is too long' }), 'caller'],
    [409, '', 'caller'],
    [413, '', 'caller'],
    [422, '', 'caller'],
  ];
  for (const [status, text, outcome] of ROWS) {
    test(`${status} ${text.slice(0, 60)} is ${outcome}`, () =>
      assert.equal(outcomeOf(status, readError(text)), outcome));
  }
});

describe('an error in a stream', () => {
  const ROWS: readonly (readonly [name: string, data: object, status: number])[] = [
    ['error', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }, 529],
    ['error', { type: 'error', error: { type: 'api_error' } }, 500],
    ['error', { type: 'error', error: { type: 'rate_limit_error' } }, 429],
    ['error', { type: 'error', error: { type: 'invalid_request_error' } }, 400],
    ['message', { error: { code: 429, message: 'upstream limited' } }, 429],
    ['message', { error: { code: 'rate_limit_exceeded', type: 'requests' } }, 429],
    ['message', { error: { code: null, type: 'server_error' } }, 500],
    ['message', { error: { code: 'context_length_exceeded', type: 'invalid_request_error' } }, 400],
    ['error', { type: 'error', code: 'server_is_overloaded', message: 'busy' }, 503],
    ['response.failed', { type: 'response.failed', response: { error: { code: 'server_error' } } }, 500],
    ['response.failed', { type: 'response.failed', response: { error: { code: 'insufficient_quota' } } }, 402],
    ['response.failed', { type: 'response.failed', response: { error: { code: 'image_parse_error' } } }, 400],
    ['response.failed', { type: 'response.failed', response: { error: { code: 'cyber_policy' } } }, 400],
    ['error', {}, 500],
  ];
  for (const [name, data, status] of ROWS) {
    test(`${name} ${JSON.stringify(data).slice(0, 70)} stands for ${status}`, () => {
      assert.equal(statusOf(errorOfEvent(name, JSON.stringify(data))!), status);
    });
  }

  test('is none where an answer only speaks of errors', () => {
    const said = {
      type: 'content_block_delta',
      delta: { type: 'text_delta', text: '{"error": {"type": "api_error"}}' },
    };
    assert.equal(errorOfEvent('content_block_delta', JSON.stringify(said)), undefined);
    const created = { type: 'response.created', response: { error: null, status: 'in_progress' } };
    assert.equal(errorOfEvent('response.created', JSON.stringify(created)), undefined);
    assert.equal(errorOfEvent('message', JSON.stringify({ choices: [], error: null })), undefined);
  });

  test('whatever it holds, is read without a failure', () => {
    fc.assert(
      fc.property(fc.string(), fc.json(), (name, json) => {
        const said = errorOfEvent(name, json);
        if (said !== undefined) assert.notEqual(outcomeOf(statusOf(said), said), 'answered');
      }),
    );
  });
});
