import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { CheckResult, Verdict } from '../../engine/contract/checks.ts';
import { MODELS_CHECKS } from '../../engine/selfcheck/checks/models.ts';
import type { Echo } from '../../engine/selfcheck/echo/echo.ts';
import { openEcho } from '../../engine/selfcheck/echo/open-echo.ts';
import { type Asked, checkAt, checkBeside, error, type Said } from './messages/gateway.ts';
import { listen, makeCheck, subjectAt, TOKEN } from './support.ts';

let echo: Echo;
before(async () => {
  echo = await openEcho();
});
after(() => echo.close());

const LIST: Said = { json: { data: [{ id: 'coder-1', type: 'model' }], has_more: false } };
const UNAUTHORISED = error(401, 'authentication_error', 'This token is not known.');

function assertFound(result: CheckResult, verdict: Verdict, found: RegExp, remedy: RegExp = /./): void {
  const told = JSON.stringify(result, null, 1);
  assert.equal(result.verdict, verdict, told);
  assert.match(result.found, found, told);
  if (verdict === 'failed' || verdict === 'warning') assert.match(result.remedy ?? '', remedy, told);
  assert.ok(!told.includes(TOKEN));
}

describe('at a gateway that does it right', () => {
  for (const { id } of MODELS_CHECKS) {
    test(`${id} is ok`, async () => assertFound(await checkBeside(id, echo), 'ok', /./));
  }
});

describe('the list of models', () => {
  const cases: [string, Said, Verdict, RegExp, RegExp?][] = [
    ['with models', LIST, 'ok', /^1 model after \d+ ms$/],
    ['that is empty', { json: { data: [] } }, 'warning', /empty/, /token group/],
    ['without ids', { json: { data: [{ id: 'a' }, { name: 'b' }, 'c'] } }, 'failed', /2 of 3 models have no id/],
    ['that is another JSON', { json: { status: 'ok' } }, 'failed', /no list came, but JSON with status/],
    [
      'that is called text',
      { ...LIST, headers: { 'content-type': 'text/plain' } },
      'warning',
      /content type "text\/plain"/,
    ],
    [
      'that is a login page',
      { headers: { 'content-type': 'text/html' }, text: '<title>Sign in</title>' },
      'failed',
      /where people sign in/,
      /let \/v1\/ through/,
    ],
    [
      'that is a redirect',
      { status: 302, headers: { location: 'https://idp.example.com/authorize?x=1' }, text: '' },
      'failed',
      /https:\/\/idp.example.com\/authorize, where people sign in/,
    ],
    ['that is refused with 401', UNAUTHORISED, 'failed', /status 401/, /token is not accepted/],
    ['that is refused with 403', error(403, 'permission_error', 'no'), 'warning', /status 403/, /ask whoever runs/],
    ['that is not served', { status: 404, json: { detail: 'Not Found' } }, 'failed', /status 404: Not Found/],
  ];
  for (const [what, said, verdict, found, remedy] of cases) {
    test(`${what} is ${verdict}`, async () =>
      assertFound(await checkAt('models.list', () => said), verdict, found, remedy));
  }

  test('tells when the model that is asked is not in it', async () => {
    const result = await checkAt('models.list', () => LIST, { model: 'coder-2' });
    assert.deepEqual(result.details, ['coder-2, which is asked here, is not in it']);
  });

  test('is asked for as clients do', async () => {
    let seen: Asked | undefined;
    await checkAt('models.list', (asked) => {
      seen = asked;
      return LIST;
    });
    assert.equal(seen?.path, '/v1/models?limit=1000');
    assert.equal(seen?.headers.authorization, `Bearer ${TOKEN}`);
    assert.equal(seen?.headers['accept-encoding'], 'gzip, deflate, br, zstd');
  });

  test('fails when it is later than clients wait, and says how late', async () => {
    const ask = async () => {
      const body = Buffer.from('{"data":[{"id":"coder-1"}]}');
      const arrivals = [{ at_ms: 3100, bytes: body.length }];
      const headers = { 'content-type': 'application/json' };
      return { status: 200, headers, body, arrivals, head_ms: 20, total_ms: 3100, ending: 'whole' as const };
    };
    const subject = subjectAt('http://127.0.0.1:1', { ask });
    const list = await makeCheck(MODELS_CHECKS, 'models.list', subject);
    const refusal = await makeCheck(MODELS_CHECKS, 'models.no_token', subject);
    assertFound(list, 'failed', /took 3\.1 seconds: clients wait 3/, /keep the list at hand/);
    assertFound(refusal, 'failed', /took 3\.1 seconds/);
  });
});

describe('the list of models without a good token', () => {
  test('is asked for without one, and with a wrong one in place of it', async () => {
    const seen: unknown[] = [];
    for (const id of ['models.no_token', 'models.wrong_token'])
      await checkAt(id, ({ headers }) => {
        seen.push(headers.authorization);
        return UNAUTHORISED;
      });
    assert.equal(seen[0], undefined);
    assert.match(String(seen[1]), /^Bearer selfcheck-/);
  });

  const cases: [string, Said, Verdict, RegExp, RegExp?][] = [
    ['given all the same', LIST, 'warning', /not refused/, /public on purpose/],
    ['another JSON', { json: { status: 'ok' } }, 'failed', /status 200 in place of 401 or 403: JSON with status/],
    ['refused', UNAUTHORISED, 'ok', /status 401: authentication_error: This token/],
    [
      'refused in the form of chat completions',
      { status: 403, json: { error: { message: 'no' } } },
      'ok',
      /status 403: no/,
    ],
    ['refused without a word', { status: 401, json: {} }, 'warning', /an empty JSON object/],
    ['refused with another status', error(500, 'api_error', 'oops'), 'failed', /status 500 in place of 401 or 403/],
    [
      'a page',
      { status: 401, headers: { 'content-type': 'text/html' }, text: '<h1>401</h1>' },
      'failed',
      /in place of an error in JSON comes the web page/,
    ],
    [
      'a redirect',
      { status: 303, headers: { location: '/login' }, text: '' },
      'failed',
      /to \/login, where people sign in/,
    ],
  ];
  for (const [what, said, verdict, found, remedy] of cases) {
    test(`${what} is ${verdict}`, async () =>
      assertFound(await checkAt('models.no_token', () => said), verdict, found, remedy));
  }
});

describe('the address', () => {
  const root = (said: Said) => checkAt('address', () => said);

  test('is fine, whatever its root answers, and where people who open it are sent is told', async () => {
    assertFound(await root({ status: 404, json: {} }), 'ok', /^http:\/\/127/);
    const sent = await root({ status: 302, headers: { location: 'https://portal.example.com/start?x=y' }, text: '' });
    assertFound(sent, 'ok', /./);
    assert.deepEqual(sent.details, ['people who open it are sent to https://portal.example.com']);
  });

  test('is fine when nothing answers at its root', async () => {
    const gateway = await listen(({ res }) => res.destroy());
    assertFound(await makeCheck(MODELS_CHECKS, 'address', subjectAt(gateway.url)), 'ok', /./);
    await gateway.close();
  });

  test('fails where it redirects to https, and names the right one', async () => {
    const said = { status: 308, headers: { location: 'https://127.0.0.1/' }, text: '' };
    assertFound(await root(said), 'failed', /redirects to https/, /https:\/\/127\.0\.0\.1/);
  });

  test('is a warning when it was given with /v1', async () => {
    const given = await checkAt('address', () => ({ json: {} }), { given_url: 'http://127.0.0.1:1/v1/' });
    assertFound(given, 'warning', /given with \/v1/, /give Messages clients http:\/\/127/);
  });

  test('is a warning without TLS beyond this machine', async () => {
    const ask = subjectAt('http://127.0.0.1:1').ask;
    const subject = subjectAt('http://gateway.example.com', { ask });
    assertFound(await makeCheck(MODELS_CHECKS, 'address', subject), 'warning', /without encryption/);
  });

  test('is never asked with the token', async () => {
    await checkAt('address', ({ headers }) => {
      assert.equal(headers.authorization, undefined);
      return { json: {} };
    });
  });
});
