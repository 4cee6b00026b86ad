/** Errors of upstreams in the envelope that clients of another protocol read. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ERRORS, type ErrorCode, StageError } from '../../engine/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../engine/contract/protocol.ts';
import { definitionOf } from '../../engine/protocols/definitions.ts';
import { problemOf, readProblem } from '../../engine/protocols/errors.ts';

const MESSAGES_TYPES = [
  [400, 'invalid_request_error'],
  [401, 'authentication_error'],
  [402, 'billing_error'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [409, 'conflict_error'],
  [413, 'request_too_large'],
  [429, 'rate_limit_error'],
  [500, 'api_error'],
  [504, 'timeout_error'],
  [529, 'overloaded_error'],
] as const;

const errorsOf = (protocol: Protocol) => definitionOf(protocol).errors;

function translated(to: Protocol, status: number | undefined, body: unknown) {
  return errorsOf(to).fields(readProblem(status, body));
}

describe('an error of a Messages upstream', () => {
  for (const [status, type] of MESSAGES_TYPES) {
    it(`keeps its words for clients of chat completions: ${type}`, () => {
      const body = { type: 'error', error: { type, message: 'These words.' }, request_id: 'req_1' };
      const fields = translated('chat', status, body);
      assert.equal(fields.message, 'These words.');
      assert.notEqual(fields.type, undefined);
    });

    it(`has the status of its kind when it comes in a stream: ${type}`, () => {
      assert.equal(readProblem(undefined, { error: { type, message: 'x' } }).status, status);
    });
  }

  it('has the code by which clients of Responses know an overload, a limit and a bad key', () => {
    const code = (type: string, status: number) =>
      translated('responses', status, { error: { type, message: 'x' } }).code;
    assert.equal(code('overloaded_error', 529), 'server_is_overloaded');
    assert.equal(code('rate_limit_error', 429), 'rate_limit_exceeded');
    assert.equal(code('authentication_error', 401), 'invalid_api_key');
    assert.equal(code('not_found_error', 404), 'model_not_found');
    assert.equal(code('invalid_request_error', 400), null);
  });

  it('is recognised as a prompt that is too long by its words', () => {
    const message = 'prompt is too long: 210000 tokens > 200000 maximum';
    const body = { type: 'error', error: { type: 'invalid_request_error', message } };
    assert.deepEqual(translated('chat', 400, body), {
      message,
      type: 'invalid_request_error',
      code: 'context_length_exceeded',
      param: null,
    });
  });
});

describe('an error of a chat completions upstream', () => {
  const body = (error: object) => ({ error: { message: 'These words.', param: null, ...error } });

  for (const [status, type] of MESSAGES_TYPES) {
    it(`becomes the kind that Messages has for status ${status}`, () => {
      const fields = translated('messages', status, body({ type: 'invalid_request_error', code: null }));
      assert.deepEqual(fields, { type, message: 'These words.' });
    });
  }

  it('is a matter of billing when the quota is used up, an overload when it says so, and late with status 408', () => {
    const type = (status: number, error: object) => translated('messages', status, body(error)).type;
    assert.equal(type(429, { type: 'insufficient_quota', code: 'insufficient_quota' }), 'billing_error');
    assert.equal(type(503, { type: 'server_error', code: 'server_is_overloaded' }), 'overloaded_error');
    assert.equal(type(503, { type: 'server_error', code: null }), 'api_error');
    assert.equal(type(422, { type: 'invalid_request_error', code: null }), 'invalid_request_error');
    assert.equal(type(408, { type: 'invalid_request_error', code: null }), 'timeout_error');
  });

  it('says to Messages clients in their words that the prompt is too long', () => {
    const message = "This model's maximum context length is 8192 tokens.";
    const error = { message, type: 'invalid_request_error', code: 'context_length_exceeded' };
    assert.deepEqual(translated('messages', 400, { error }), {
      type: 'invalid_request_error',
      message: `prompt is too long: ${message}`,
      code: 'context_length_exceeded',
    });
  });

  it('stays as it is where the words say so already', () => {
    const error = { message: 'Sorry, the Prompt is too long.', type: 'invalid_request_error', code: null };
    assert.equal(translated('messages', 400, { error }).message, 'Sorry, the Prompt is too long.');
  });

  it('passes between chat completions and Responses with type, code and place', () => {
    const error = { message: 'No.', type: 'invalid_request_error', code: 'unknown_parameter', param: 'input[0]' };
    assert.deepEqual(translated('chat', 400, { error }), error);
  });

  it('keeps the kinds that only a compat server knows', () => {
    const error = { message: 'No.', type: 'BadRequestError', code: 400 };
    assert.deepEqual(translated('responses', 400, { error }), {
      message: 'No.',
      type: 'BadRequestError',
      code: '400',
      param: null,
    });
  });
});

describe('an error of another shape', () => {
  const words = (body: unknown) => readProblem(503, body).message;

  it('is told by its status where there is no text to give', () => {
    for (const body of [
      undefined,
      null,
      7,
      [],
      [1, 2],
      {},
      { error: {} },
      { error: { message: 7 } },
      { detail: [1] },
    ]) {
      assert.equal(words(body), 'The upstream answered with an error (status 503) and did not say more.');
    }
  });

  it('has no whole page for a type', () => {
    assert.equal(readProblem(500, { error: { message: 'a', type: 't'.repeat(101) } }).type, undefined);
  });

  it('passes as it is where the protocol has its message, up to a bound', () => {
    assert.equal(words({ error: { message: 'x'.repeat(5000) } }).length, 5000);
    assert.equal(words({ error: { message: 'x'.repeat(9000) } }).length, 8001);
  });
});

describe('any JSON as an error', () => {
  it('becomes a complete error of every protocol, with the message untouched', () => {
    const bodies = fc.oneof(
      fc.jsonValue(),
      fc.record(
        {
          error: fc.oneof(
            fc.jsonValue(),
            fc.record({
              type: fc.oneof(fc.constantFrom('overloaded_error', 'toString', '__proto__', 'requests'), fc.jsonValue()),
              code: fc.oneof(fc.constantFrom('constructor', 'insufficient_quota'), fc.jsonValue()),
              message: fc.oneof(fc.string(), fc.jsonValue()),
            }),
          ),
        },
        { requiredKeys: [] },
      ),
    );
    const protocols = fc.constantFrom(...PROTOCOLS);
    const statuses = fc.option(fc.integer({ min: 400, max: 599 }), { nil: undefined });
    fc.assert(
      fc.property(protocols, statuses, bodies, (to, status, body) => {
        const problem = readProblem(status, body);
        assert.ok(problem.status >= 400 && problem.status < 600);
        assert.notEqual(problem.message, '');
        const { error } = errorsOf(to).write(problem, 'req-1') as { error: Record<string, unknown> };
        assert.equal(typeof error.type, 'string');
        assert.ok(String(error.message).endsWith(problem.message));
        if (to !== 'messages') assert.ok(error.code === null || typeof error.code === 'string');
      }),
    );
  });
});

describe('an error of the gateway', () => {
  it('has in every protocol the kind that the catalogue says', () => {
    for (const code of Object.keys(ERRORS) as ErrorCode[]) {
      const { type, compat } = ERRORS[code];
      const error = new StageError(code, 'These words.');
      assert.deepEqual(errorsOf('messages').fields(problemOf(error, errorsOf('messages'))), {
        type,
        message: 'These words.',
        code,
      });
      for (const protocol of ['chat', 'responses'] as const) {
        const fields = errorsOf(protocol).fields(problemOf(error, errorsOf(protocol)));
        assert.equal(fields.message, 'These words.');
        assert.equal(fields.type, compat.type, code);
        if (compat.code !== null) assert.equal(fields.code, compat.code);
      }
    }
  });

  it('names the request in the envelope', () => {
    const problem = problemOf(new StageError('upstream_failed', 'It broke.'), errorsOf('messages'));
    assert.deepEqual(errorsOf('messages').write(problem, 'req-1'), {
      type: 'error',
      error: { type: 'api_error', message: 'It broke.', code: 'upstream_failed' },
      request_id: 'req-1',
    });
  });
});

describe('the refusal of an upstream that is told in words of our own', () => {
  const told = (protocol: Protocol, status: number) => {
    const error = new StageError('upstream_failed', 'Refused.', { status });
    const { type, code } = JSON.parse(errorsOf(protocol).body(error, 'req_1')).error;
    return { type, code, retry: errorsOf(protocol).headers(error)['x-should-retry'] };
  };

  it('is called what its status is', () => {
    assert.deepEqual(told('messages', 429), { type: 'rate_limit_error', code: 'upstream_failed', retry: 'true' });
    assert.deepEqual(told('messages', 401), { type: 'authentication_error', code: 'upstream_failed', retry: 'false' });
    assert.deepEqual(told('chat', 429), { type: 'requests', code: 'rate_limit_exceeded', retry: 'true' });
    assert.deepEqual(told('responses', 404), {
      type: 'invalid_request_error',
      code: 'model_not_found',
      retry: 'false',
    });
  });

  it('without a status of its own is a failure like any other', () => {
    assert.deepEqual(told('messages', 502), { type: 'api_error', code: 'upstream_failed', retry: 'true' });
    assert.deepEqual(told('chat', 502), { type: 'server_error', code: null, retry: 'true' });
  });
});
