import assert from 'node:assert/strict';
import { validateHeaderValue } from 'node:http';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import { ERRORS, type ErrorCode, StageError } from '../../engine/base/contract/errors.ts';
import { PROTOCOLS, type Protocol } from '../../engine/base/contract/protocol.ts';
import { definitionOf } from '../../engine/domain/protocols/definitions.ts';
import { headerText, problemOf, readProblem } from '../../engine/domain/protocols/errors.ts';
import { meaningOf, PHRASES, readError } from '../../engine/domain/protocols/read-error.ts';
import { anyText } from '../support/any-text.ts';
import { SERVER_ERRORS } from './upstream-errors.ts';

/** The meaning of errors of real servers. */

describe('an error of a server', () => {
  for (const { list, server, status, body, says, means } of SERVER_ERRORS) {
    if (list !== 'reasons')
      it(`has its meaning: ${server}, ${means}`, () =>
        assert.equal(meaningOf(readError(body), status)?.meaning, means));
    it(`gives its reason: ${server}`, () => {
      const { message } = readError(body);
      assert.ok(message.includes(says), message);
      assert.doesNotMatch(message, /the-prompt-itself/);
      // As text it means the same.
      assert.equal(readError(typeof body === 'string' ? body : JSON.stringify(body)).message, message);
    });
  }
});

describe('the table of meanings', () => {
  it('has a body of a server for each phrase', () => {
    const texts = SERVER_ERRORS.flatMap(({ list, body }) => (list === 'reasons' ? [] : readError(body).texts));
    const unused = Object.values(PHRASES)
      .flat()
      .filter(([, phrase]) => !texts.some((text) => phrase.test(text)));
    const found = unused.map(([server, phrase]) => `${server}: ${phrase}`);
    assert.deepEqual(found, []);
  });
});

describe('any text and any JSON', () => {
  const cutWell = (text: string) => text.length <= 8001 && (text.length < 1001 || text.isWellFormed());

  it('is read as an error without a failure, and a long reason is cut between two characters', () => {
    const values = fc.oneof(fc.jsonValue(), fc.string({ unit: 'grapheme' }), fc.json());
    fc.assert(
      fc.property(values, fc.nat(3000), (value, length) => {
        assert.ok(cutWell(readError(value).message));
        assert.ok(cutWell(readError({ detail: `x${'😀'.repeat(length)}` }).message));
        assert.ok(cutWell(readError({ error: { message: `${'😀'.repeat(length * 3)}` } }).message));
      }),
    );
  });

  it('ends with an ellipsis where it was cut', () => {
    assert.match(readError({ object: 'error', message: 'y'.repeat(1001) }).message, /^y{1000}…$/);
    assert.match(readError('z'.repeat(70_000)).message, /^z{1000}…$/);
    assert.equal(readError({ detail: 'y'.repeat(1000) }).message, 'y'.repeat(1000));
  });

  it('nested without end yields its message or nothing, without delay', () => {
    const deep = (text: string, levels: number): string =>
      levels === 0 ? text : JSON.stringify({ error: deep(text, levels - 1) });
    assert.equal(readError(deep('inside', 4)).message, 'inside');
    readError(`${'{"error":'.repeat(30_000)}"x"${'}'.repeat(30_000)}`);
    readError(`${'<message>'.repeat(20_000)}`);
    meaningOf(readError(`${'exceeds '.repeat(8000)}`), 400);
  });
});

/** Errors of upstreams in the envelope that clients of another protocol read. */

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

for (const [status, type] of MESSAGES_TYPES) {
  it(`an error of a Messages upstream has the status of its kind when it comes in a stream: ${type}`, () => {
    assert.equal(readProblem(undefined, { error: { type, message: 'x' } }).status, status);
  });

  it(`an error of a chat completions upstream becomes the kind that Messages has for status ${status}`, () => {
    const error = { message: 'These words.', param: null, type: 'invalid_request_error', code: null };
    assert.deepEqual(translated('messages', status, { error }), { type, message: 'These words.' });
  });
}

describe('an error of an upstream has for clients of another protocol', () => {
  const TOO_LONG = "This model's maximum context length is 8192 tokens.";
  const INVALID = { type: 'invalid_request_error' };
  const FULL = { message: TOO_LONG, ...INVALID, code: 'context_length_exceeded' };
  const SORRY = { message: 'Sorry, the Prompt is too long.' };
  const SHARED = { message: 'No.', ...INVALID, code: 'unknown_parameter', param: 'input[0]' };
  const ODD = { message: 'No.', type: 'BadRequestError', code: 400 };
  const ROWS: readonly (readonly [what: string, to: Protocol, status: number, error: object, told: object])[] = [
    ['the code of an overload', 'responses', 529, { type: 'overloaded_error' }, { code: 'server_is_overloaded' }],
    ['the code of a limit', 'responses', 429, { type: 'rate_limit_error' }, { code: 'rate_limit_exceeded' }],
    ['the code of a bad key', 'responses', 401, { type: 'authentication_error' }, { code: 'invalid_api_key' }],
    ['the code of a missing model', 'responses', 404, { type: 'not_found_error' }, { code: 'model_not_found' }],
    ['no code for any other', 'responses', 400, INVALID, { code: null }],
    ['the kind of a used-up quota', 'messages', 429, { code: 'insufficient_quota' }, { type: 'billing_error' }],
    ['the kind of an overload', 'messages', 503, { code: 'server_is_overloaded' }, { type: 'overloaded_error' }],
    ['no such kind without that code', 'messages', 503, { type: 'server_error' }, { type: 'api_error' }],
    ['the kind of a wrong request', 'messages', 422, INVALID, INVALID],
    ['the kind of what came late', 'messages', 408, INVALID, { type: 'timeout_error' }],
    [
      'their words for a prompt that is too long',
      'messages',
      400,
      FULL,
      { ...FULL, message: `prompt is too long: ${TOO_LONG}` },
    ],
    ['its own words where they say so already', 'messages', 400, { ...INVALID, ...SORRY }, SORRY],
    ['type, code and place, which they share', 'chat', 400, SHARED, SHARED],
    ['kinds that only a compat server knows', 'responses', 400, ODD, { ...ODD, code: '400', param: null }],
  ];
  for (const [what, to, status, error, told] of ROWS) {
    it(what, () => {
      const fields = translated(to, status, { error: { message: 'x', ...error } });
      assert.deepEqual({ ...fields, ...told }, fields);
      assert.ok(Object.keys(fields).every((key) => ['message', 'type', 'code', 'param'].includes(key)));
    });
  }
});

describe('an error of another shape', () => {
  const words = (body: unknown) => readProblem(503, body).message;

  it('is described by its status if it has no text', () => {
    const bodies = [undefined, null, 7, [], [1, 2], {}, { error: {} }, { error: { message: 7 } }, { detail: [1] }];
    for (const body of bodies) {
      assert.equal(words(body), 'The upstream responded with an error (status 503) without a message.');
    }
  });

  it('has no whole page for a type', () => {
    assert.equal(readProblem(500, { error: { message: 'a', type: 't'.repeat(101) } }).type, undefined);
  });

  it('passes unchanged where the protocol has its message, up to a bound', () => {
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
  it('has in every protocol the kind of the catalogue', () => {
    for (const code of Object.keys(ERRORS) as ErrorCode[]) {
      const { type, compat } = ERRORS[code];
      const error = new StageError(code, 'These words.');
      const told = errorsOf('messages').fields(problemOf(error, errorsOf('messages')));
      assert.deepEqual(told, { type, message: 'These words.', code });
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

describe('a rejection of an upstream in words of our own', () => {
  const errorOf = (protocol: Protocol, status: number) => {
    const error = new StageError('upstream_failed', 'Refused.', { status });
    const { type, code } = JSON.parse(errorsOf(protocol).body(error, 'req_1')).error;
    return { type, code, retry: errorsOf(protocol).headers(error)['x-should-retry'] };
  };

  it('is named by its status', () => {
    const rows: readonly (readonly [Protocol, status: number, type: string, code: string, retry: string])[] = [
      ['messages', 429, 'rate_limit_error', 'upstream_failed', 'true'],
      ['messages', 401, 'authentication_error', 'upstream_failed', 'false'],
      ['chat', 429, 'requests', 'rate_limit_exceeded', 'true'],
      ['responses', 404, 'invalid_request_error', 'model_not_found', 'false'],
    ];
    for (const [protocol, status, ...told] of rows) assert.deepEqual(Object.values(errorOf(protocol, status)), told);
  });

  it('without a status of its own is a failure like any other', () => {
    assert.deepEqual(errorOf('messages', 502), { type: 'api_error', code: 'upstream_failed', retry: 'true' });
    assert.deepEqual(errorOf('chat', 502), { type: 'server_error', code: null, retry: 'true' });
  });
});

const COMPAT = ['chat', 'responses'] as const;
const refused = (more: ConstructorParameters<typeof StageError>[2] = {}) =>
  new StageError('spend_limit_exceeded', 'Nothing is left. Ask Bob.', more);

describe('a limit rejection for clients of chat completions and Responses', () => {
  test('has no text in resets_at, whatever a stage put there', () => {
    const resetOf = (protocol: Protocol, resets_at: string | number | null) => {
      const { error } = JSON.parse(errorsOf(protocol).body(refused({ details: { resets_at } }), 'r'));
      return [error.resets_at, error.reset_time];
    };
    const at = '2026-03-11T00:00:00.001Z';
    for (const protocol of COMPAT) {
      assert.deepEqual(resetOf(protocol, at), [1773187201, at]);
      assert.deepEqual(resetOf(protocol, 'tomorrow'), [null, 'tomorrow']);
      assert.equal(resetOf(protocol, 1773187200.5)[0], 1773187201);
      assert.equal(resetOf(protocol, null)[0], null);
    }
    assert.equal(resetOf('messages', at)[0], at);
  });

  test('suggests no wait when waiting is no help: a client that retries anyway does it at once', () => {
    const headers = { 'retry-after': '42023', 'x-should-retry': 'false' };
    const wait = (protocol: Protocol, more: object = {}) =>
      errorsOf(protocol).headers(refused({ headers, ...more }))['retry-after'];
    for (const protocol of COMPAT)
      assert.deepEqual(
        [{}, { status: 402 }, { status: 403 }].map((more) => wait(protocol, more)),
        [undefined, '0', '0'],
      );
    assert.equal(wait('messages'), '42023');
  });

  test('and any other error of ours suggests a minute at most', () => {
    const wait = (seconds: string) => {
      const error = new StageError('upstream_invalid', 'x', { headers: { 'retry-after': seconds } });
      return errorsOf('responses').headers(error)['retry-after'];
    };
    const waits = ['7', '60', '61', '42023', 'Wed, 21 Oct 2026 07:28:00 GMT'].map(wait);
    assert.deepEqual(waits, ['7', '60', undefined, undefined, undefined]);
  });

  test('carries its sentence in the header that the profile names, and only there', () => {
    const said = (protocol: Protocol, error: StageError) => errorsOf(protocol).headers(error, 'x-words')['x-words'];
    assert.equal(said('responses', refused()), 'Nothing is left. Ask Bob');
    assert.equal(said('messages', refused()), undefined);
    const soon = new StageError('rate_limit_exceeded', 'Too many.', { headers: { 'retry-after': '1' } });
    assert.equal(said('responses', soon), undefined);
    assert.equal(said('responses', new StageError('model_not_found', 'No such model.')), undefined);
  });
});

test('any sentence fits into a header: printable ASCII on one line, and not long', () => {
  const part = fc.oneof(anyText({ maxLength: 60 }), fc.string({ unit: 'grapheme' }));
  const anything = fc.tuple(part, fc.nat(40)).map(([text, times]) => text.repeat(times));
  fc.assert(
    fc.property(anything, (text) => {
      const value = headerText(text);
      validateHeaderValue('x-words', value);
      assert.match(value, /^(?:[!-~](?:[ -~]*[!-~])?)?$/);
      assert.ok(value.length <= 600);
    }),
  );
  assert.equal(headerText('Größe:\r\nÀ la\tcarte — 5 €'), 'Gro?e: A la carte ? 5 ?');
});
