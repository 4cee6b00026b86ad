import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CheckResult, Verdict } from '../../engine/contract/checks.ts';
import { MESSAGES_CHECKS } from '../../engine/selfcheck/checks/messages.ts';
import type { Echo } from '../../engine/selfcheck/echo/echo.ts';
import { openEcho } from '../../engine/selfcheck/echo/open-echo.ts';
import { type Asked, checkAt, checkBeside, error, refusedBy, type Said } from './messages/gateway.ts';
import { TOKEN } from './support.ts';

let echo: Echo;
before(async () => {
  echo = await openEcho();
});
after(() => echo.close());

const HTML = { 'content-type': 'text/html' };
const PAGE: Said = { headers: HTML, text: '<!doctype html><title>Console</title>' };
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'coder-1',
  content: [{ type: 'text', text: 'pong' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: { input_tokens: 9, output_tokens: 3, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
};

function assertFound(result: CheckResult, verdict: Verdict, found: RegExp, remedy: RegExp = /./): void {
  const told = JSON.stringify(result, null, 1);
  assert.equal(result.verdict, verdict, told);
  assert.match(result.found, found, told);
  if (verdict === 'failed' || verdict === 'warning') assert.match(result.remedy ?? '', remedy, told);
  assert.ok(!told.includes(TOKEN));
}

describe('at a gateway that does it right', () => {
  for (const { id } of MESSAGES_CHECKS) {
    test(`${id} is ok`, async () => assertFound(await checkBeside(id, echo), 'ok', /./));
  }

  test('no check is made where there is no model to ask, but one for a model that does not exist', async () => {
    const results = await Promise.all(
      MESSAGES_CHECKS.map(({ id }) => checkAt(id, refusedBy as (asked: Asked) => Said, { model: undefined })),
    );
    const made = results.filter(({ verdict }) => verdict !== 'skipped').map(({ id }) => id);
    assert.deepEqual(made, ['messages.unknown_model']);
  });
});

describe('a message', () => {
  const faults: [string, Said, RegExp, RegExp][] = [
    ['is a page', PAGE, /in place of JSON comes the web page "Console"/, /web application/],
    [
      'is a redirect',
      { status: 302, headers: { location: 'https://sso.example.com/login' }, text: '' },
      /redirect/,
      /let \/v1\//,
    ],
    ['is empty', { text: '' }, /an empty answer/, /./],
    ['is cut JSON', { text: '{"id":"msg_1","type":"mess' }, /can not be read/, /cut or changed/],
    [
      'is a chat completion',
      { json: { id: 'x', choices: [] } },
      /no message came, but JSON with id, choices/,
      /chat completion/,
    ],
    [
      'is an error with status 200',
      { json: error(200, 'api_error', 'no').json },
      /no message came/,
      /status of its upstream/,
    ],
    ['has no usage', { json: { ...MESSAGE, usage: undefined } }, /no count in usage.input_tokens/, /translates/],
    [
      'has a usage of nothing',
      { json: { ...MESSAGE, usage: { input_tokens: 0, output_tokens: 3 } } },
      /without any input tokens/,
      /./,
    ],
    ['has text for content', { json: { ...MESSAGE, content: 'pong' } }, /content that is no list/, /./],
    ['has no stop_reason', { json: { ...MESSAGE, stop_reason: null } }, /no stop_reason/, /./],
    ['is called HTML', { json: MESSAGE, headers: HTML }, /content type is "text\/html"/, /content-type/],
    [
      'is refused',
      error(401, 'authentication_error', 'unknown'),
      /status 401: authentication_error: unknown/,
      /token is not accepted/,
    ],
    [
      'lost its token',
      error(401, 'authentication_error', 'Missing Authorization header'),
      /status 401/,
      /take "Authorization" off/,
    ],
    ['is of no model', error(404, 'not_found_error', 'model not found'), /status 404/, /token group/],
    ['is over budget', error(429, 'rate_limit_error', 'spend limit of 5.00 USD'), /status 429/, /limit of this token/],
    ['fails', error(529, 'overloaded_error', 'Overloaded'), /status 529: overloaded_error/, /logs of the gateway/],
  ];
  for (const [what, said, found, remedy] of faults) {
    test(`that ${what} fails, and it is said why`, async () =>
      assertFound(await checkAt('messages.json', () => said), 'failed', found, remedy));
  }

  test('of another name of the model is fine, and is told', async () => {
    const result = await checkAt('messages.json', () => ({ json: { ...MESSAGE, model: 'coder-1-20260101' } }));
    assertFound(result, 'ok', /9 tokens in and 3 out/);
    assert.match(result.details!.join(), /coder-1-20260101 answered/);
  });

  test('that is empty although it ended by itself is a warning, and one that ended at its limit is not', async () => {
    const ended = (stop_reason: string) => () => ({ json: { ...MESSAGE, content: [], stop_reason } });
    assertFound(await checkAt('messages.json', ended('end_turn')), 'warning', /empty/);
    assertFound(await checkAt('messages.json', ended('max_tokens')), 'ok', /./);
  });

  test('of cached tokens only counts as input', async () => {
    const usage = { input_tokens: 0, output_tokens: 3, cache_read_input_tokens: 9 };
    assertFound(await checkAt('messages.json', () => ({ json: { ...MESSAGE, usage } })), 'ok', /./);
  });
});

describe('usage of prompt caching', () => {
  test('is a warning where its fields are missing, and fine where they are null', async () => {
    const usage = { input_tokens: 9, output_tokens: 3, cache_read_input_tokens: null };
    const missing = await checkAt('messages.usage', () => ({ json: { ...MESSAGE, usage } }));
    assertFound(missing, 'warning', /has no cache_creation_input_tokens:/);
    const whole = { ...usage, cache_creation_input_tokens: null };
    assertFound(await checkAt('messages.usage', () => ({ json: { ...MESSAGE, usage: whole } })), 'ok', /./);
  });

  test('fails where cache_control is refused', async () => {
    const refuse = ({ json }: Asked) =>
      JSON.stringify(json).includes('cache_control')
        ? error(400, 'invalid_request_error', 'system.0.cache_control: not supported')
        : { json: MESSAGE };
    assertFound(await checkAt('messages.usage', refuse), 'failed', /status 400.*cache_control/);
  });
});

describe('a wrong token', () => {
  test('that gets an answer fails, for anybody can use the gateway', async () => {
    assertFound(
      await checkAt('messages.wrong_token', () => ({ json: MESSAGE })),
      'failed',
      /a model answered/,
      /check tokens/,
    );
  });

  test('that reaches the echo upstream fails, which takes every token and so says nothing of a real one', async () => {
    const result = await checkAt('messages.wrong_token', () => ({ json: MESSAGE }), { echo });
    assertFound(result, 'failed', /^the request reached an upstream: the gateway does not check the token itself$/);
  });

  test('is refused with 401 and in the form of the Messages API', async () => {
    const cases: [Said, RegExp][] = [
      [{ status: 401, headers: HTML, text: '<title>Sign in</title>' }, /"Sign in"/],
      [{ status: 401, json: { detail: 'no' } }, /not in the form of the Messages API: JSON with detail/],
      [error(400, 'invalid_request_error', 'bad key'), /status 400 in place of 401/],
      [error(500, 'api_error', 'oops'), /status 500/],
      [{ json: { status: 'ok' } }, /no error came, but status 200 and JSON with status/],
    ];
    for (const [said, found] of cases) assertFound(await checkAt('messages.wrong_token', () => said), 'failed', found);
    const forbidden = error(403, 'permission_error', 'no');
    assertFound(await checkAt('messages.wrong_token', () => forbidden), 'ok', /status 403: permission_error: no/);
  });

  test('that gets the error page of a proxy may have lost an error of the gateway to it', async () => {
    const page = { status: 502, headers: HTML, text: '<title>502</title><hr><center>nginx</center>' };
    const result = await checkAt('messages.wrong_token', () => page);
    assertFound(
      result,
      'failed',
      /in place of an error in JSON comes the web page "502"/,
      /proxy_intercept_errors off/,
    );
  });

  test('is sent in place of the token, and not beside it', async () => {
    let seen: unknown;
    await checkAt('messages.wrong_token', ({ headers }) => {
      seen = headers.authorization;
      return error(401, 'authentication_error', 'no');
    });
    assert.match(String(seen), /^Bearer selfcheck-[0-9a-f-]{36}$/);
  });
});

describe('a request that is wrong', () => {
  const cases: [string, Said, Verdict, RegExp][] = [
    ['is taken', { json: MESSAGE }, 'failed', /it was taken, with status 200/],
    ['gets status 500', error(500, 'api_error', 'TypeError'), 'failed', /try again and again/],
    ['gets a page', { status: 400, headers: HTML, text: '<html>' }, 'failed', /page/],
    [
      'gets another form of error',
      { status: 400, json: { error: { message: 'no', code: 400 } } },
      'failed',
      /not in the form/,
    ],
    [
      'gets an error that is called text',
      { ...error(400, 'invalid_request_error', 'no'), headers: { 'content-type': 'text/plain' } },
      'failed',
      /content type "text\/plain"/,
    ],
    ['gets an empty message', error(400, 'invalid_request_error', ''), 'failed', /not in the form/],
    ['is not looked at', error(401, 'authentication_error', 'no'), 'skipped', /can not be told/],
    ['is refused', error(400, 'invalid_request_error', 'messages: not a list'), 'ok', /messages: not a list/],
  ];
  for (const [what, said, verdict, found] of cases) {
    test(`that ${what} is ${verdict}`, async () =>
      assertFound(await checkAt('messages.error', () => said), verdict, found));
  }
});

describe('a model that does not exist', () => {
  test('fails where another one answers, and leaves it open where every name is passed on', async () => {
    assertFound(
      await checkAt('messages.unknown_model', () => ({ json: MESSAGE })),
      'failed',
      /another model answered: coder-1/,
    );
    const passed_on = ({ json }: Asked) => ({ json: { ...MESSAGE, model: json.model } });
    assertFound(await checkAt('messages.unknown_model', passed_on), 'skipped', /passed on/);
  });

  test('fails with status 500 or a page, and is fine with 403', async () => {
    assertFound(await checkAt('messages.unknown_model', () => error(502, 'api_error', 'no')), 'failed', /status 502/);
    assertFound(await checkAt('messages.unknown_model', () => PAGE), 'failed', /Console/);
    assertFound(
      await checkAt('messages.unknown_model', () => error(403, 'permission_error', 'not yours')),
      'ok',
      /403/,
    );
  });
});

describe('token counting', () => {
  const counting = (count: (asked: Asked) => unknown) => (asked: Asked) => ({ json: { input_tokens: count(asked) } });
  const length = ({ json }: Asked) => JSON.stringify(json).length;
  const cases: [string, (asked: Asked) => Said, Verdict, RegExp][] = [
    [
      'a count that grows',
      counting((asked) => Math.ceil(length(asked) / 4)),
      'ok',
      /\d+ tokens for a sentence, \d+ for 400 words/,
    ],
    ['0', counting(() => 0), 'failed', /0 tokens for a sentence: the count is made up/],
    ['a constant', counting(() => 1000), 'failed', /1000 tokens for a sentence and 1000 for 400 words/],
    ['a count that hardly grows', counting((asked) => (length(asked) > 500 ? 12 : 10)), 'failed', /made up/],
    ['a text', counting(() => 'many'), 'failed', /no count came/],
    ['an empty object', () => ({ json: {} }), 'failed', /an empty JSON object/],
    ['an empty body', () => ({ text: '' }), 'failed', /an empty answer/],
    ['a page', () => PAGE, 'failed', /Console/],
    [
      'status 404 and JSON',
      () => error(404, 'not_found_error', 'Not found'),
      'ok',
      /not supported, and it says so with status 404/,
    ],
    ['status 404 in another form', () => ({ status: 404, json: { detail: 'Not Found' } }), 'ok', /Not Found/],
    ['status 501 and JSON', () => error(501, 'api_error', 'not supported'), 'ok', /status 501/],
    [
      'status 404 and text',
      () => ({ status: 404, headers: { 'content-type': 'text/plain' }, text: '404 page not found' }),
      'warning',
      /404 page not found/,
    ],
    ['status 500', () => error(500, 'api_error', 'oops'), 'failed', /status 500/],
    ['status 401', () => error(401, 'authentication_error', 'no'), 'skipped', /can not be told/],
  ];
  for (const [what, answer, verdict, found] of cases) {
    test(`by ${what} is ${verdict}`, async () =>
      assertFound(await checkAt('messages.count_tokens', answer), verdict, found));
  }
});

describe('unknown beta features and fields', () => {
  const isUnknown = ({ headers, json }: Asked) =>
    headers['vendor-beta'] !== undefined || json.selfcheck_unknown_field !== undefined;
  const unknown = (said: Said) => (asked: Asked) => (isUnknown(asked) ? said : { json: MESSAGE });

  test('are fine when they are taken, and when they are refused by name', async () => {
    assertFound(await checkAt('messages.unknown_field', () => ({ json: MESSAGE })), 'ok', /both are taken/);
    const refused = unknown(error(400, 'invalid_request_error', 'Extra inputs are not permitted'));
    assertFound(await checkAt('messages.unknown_field', refused), 'ok', /refused with status 400: .*Extra inputs/);
  });

  test('fail when something breaks over them', async () => {
    assertFound(
      await checkAt('messages.unknown_field', unknown(error(500, 'api_error', 'oops'))),
      'failed',
      /status 500/,
    );
    assertFound(
      await checkAt('messages.unknown_field', unknown({ status: 403, headers: HTML, text: '<h1>Blocked</h1>' })),
      'failed',
      /Blocked/,
    );
  });
});
