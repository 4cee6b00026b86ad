import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { collect, connect, parseRaw, send } from '../../e2e/support/client.ts';
import { anyText } from '../../support/any-text.ts';
import { times } from '../../support/times.ts';
import { assertError, ISSUER, useSignIn } from './support.ts';

const { served, backstage, ask, see, answer: response, token } = useSignIn();

const FORM = 'application/x-www-form-urlencoded';
const DISCOVERY = '/.well-known/oauth-authorization-server';
const PROGRAM_POSTS = ['/oauth/device_authorization', '/oauth/token', '/oauth/revoke'];

describe('the discovery document', () => {
  it('names endpoints at the public URL, for any Host header', async () => {
    const headers = { host: 'evil.example', 'x-forwarded-host': 'evil.example' };
    const response = await ask('GET', DISCOVERY, { headers });
    assert.equal(response.status, 200);
    assert.deepEqual(response.json(), {
      issuer: ISSUER,
      device_authorization_endpoint: `${ISSUER}/oauth/device_authorization`,
      token_endpoint: `${ISSUER}/oauth/token`,
      revocation_endpoint: `${ISSUER}/oauth/revoke`,
      grant_types_supported: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
      response_types_supported: [],
      token_endpoint_auth_methods_supported: ['none'],
      revocation_endpoint_auth_methods_supported: ['none'],
      service_documentation: `${ISSUER}/protocol`,
    });
  });

  it('queries neither the identity provider nor the database', async () => {
    backstage.store_down = true;
    assert.equal((await ask('GET', DISCOVERY)).status, 200);
    assert.equal((await ask('HEAD', DISCOVERY)).text, '');
  });
});

describe('the device authorization', () => {
  it('follows RFC 8628, and ignores unknown parameters', async () => {
    const form = { surface: 'terminal', client_id: 'whoever', scope: 'openid' };
    const response = await ask('POST', '/oauth/device_authorization', { form, headers: { host: 'evil.example' } });
    const { device_code, user_code, verification_uri_complete, ...rest } = response.json();
    assert.equal(typeof device_code, 'string');
    assert.equal(verification_uri_complete, `${ISSUER}/device?user_code=${user_code}`);
    assert.deepEqual(rest, { verification_uri: `${ISSUER}/device`, expires_in: 600, interval: 5 });
  });

  it('is limited per address', async () => {
    for (let n = 0; n < 30; n++) await ask('POST', '/oauth/device_authorization');
    const refused = await ask('POST', '/oauth/device_authorization');
    assertError(refused, 429, 'slow_down');
    assert.equal(refused.headers['retry-after'], '600');
  });
});

describe('the token endpoint', () => {
  it('names the missing or wrong parameter, and repeats nothing of it', async () => {
    const wrong: [Record<string, string>, string, RegExp][] = [
      [{}, 'invalid_request', /'grant_type'/],
      [{ grant_type: '' }, 'invalid_request', /'grant_type'/],
      [{ grant_type: 'password' }, 'unsupported_grant_type', /device_code/],
      [{ grant_type: '<script>secret-of-the-client</script>' }, 'unsupported_grant_type', /^((?!script>).)*$/],
      [{ grant_type: 'refresh_token' }, 'invalid_request', /'refresh_token'/],
      [{ grant_type: 'urn:ietf:params:oauth:grant-type:device_code' }, 'invalid_request', /'device_code'/],
    ];
    for (const [form, error, words] of wrong) assertError(await token(form), 400, error, words);
  });
});

describe('a form', () => {
  it('requires one content type: another is rejected with the expected one', async () => {
    for (const path of PROGRAM_POSTS) {
      for (const type of ['application/json', 'text/plain', 'multipart/form-data; boundary=x', '']) {
        const refused = await send(served.url, { path, headers: ['content-type', type], body: '{"grant_type":"x"}' });
        assertError(refused, 400, 'invalid_request', /application\/x-www-form-urlencoded/);
      }
    }
  });

  it('may declare UTF-8, and no other charset', async () => {
    const sent = async (headers: Record<string, string>) =>
      (await ask('POST', '/oauth/revoke', { form: 'token=x', headers })).status;
    for (const [charset, status] of Object.entries({ 'UTF-8': 200, '"utf-8"': 200, 'utf-16': 400 })) {
      assert.equal(await sent({ 'content-type': `${FORM}; charset=${charset}` }), status, charset);
    }
    assert.equal(await sent({ 'content-encoding': 'gzip' }), 415);
  });

  it('has no parameter twice', async () => {
    const twice = await ask('POST', '/oauth/token', { form: 'grant_type=refresh_token&grant_type=x' });
    assertError(twice, 400, 'invalid_request', /'grant_type' more than once/);
    const hostile = await ask('POST', '/oauth/token', { form: '<b>=1&<b>=2' });
    assert.ok(!hostile.text.includes('<b>'));
  });

  it('has at most 16 KiB, declared or not', async () => {
    const body = `device_code=${'x'.repeat(17_000)}`;
    const declared = await ask('POST', '/oauth/token', { form: body });
    assert.equal(declared.status, 413);
    assert.equal(declared.headers.connection, 'close');
    const chunks = [Buffer.from(body.slice(0, 9000)), Buffer.from(body.slice(9000))];
    const streamed = await send(served.url, { path: '/oauth/token', headers: ['content-type', FORM], body: chunks });
    assert.equal(streamed.status, 413);
  });

  it('that never ends is aborted, and its connection closed', async () => {
    const socket = await connect(served.url);
    const received = collect(socket);
    socket.write(`POST /oauth/token HTTP/1.1\r\nhost: x\r\ncontent-type: ${FORM}\r\ncontent-length: 20\r\n\r\ngrant`);
    while (backstage.clock.next() === undefined) await new Promise((resolve) => setImmediate(resolve));
    backstage.clock.advance(30_000);
    const { status, body } = parseRaw(await received.closed);
    assert.deepEqual([status, JSON.parse(body).error], [408, 'invalid_request']);
  });

  it('of any bytes gets JSON, and never 500', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), fc.constantFrom(...PROGRAM_POSTS), async (bytes, path) => {
        const headers = ['content-type', FORM];
        const response = await send(served.url, { path, headers, body: Buffer.from(bytes) as never });
        assert.ok(response.status < 500, `${response.status}`);
        response.json();
      }),
      { numRuns: times(30) },
    );
  });
});

describe('any query of the pages', () => {
  it('gets a page without scripts, and never 500', async () => {
    const path = fc.constantFrom('/device?user_code=', '/oauth/callback?state=', '/oauth/callback?error=');
    await fc.assert(
      fc.asyncProperty(path, anyText({ maxLength: 100 }), async (start, text) => {
        const response = await ask('GET', start + encodeURIComponent(text.toWellFormed()));
        assert.ok(response.status < 500, `${response.status}`);
        assert.ok(!/<script|javascript:|onerror/i.test(response.text));
      }),
      { numRuns: times(30) },
    );
  });
});

describe('the wrong method', () => {
  it('gets the right form: JSON for programs, a page for browsers', async () => {
    const allowed = { [DISCOVERY]: 'GET, HEAD', '/device': 'GET, HEAD, POST', '/oauth/callback': 'GET' };
    for (const path of [...Object.keys(allowed), ...PROGRAM_POSTS]) {
      for (const method of ['DELETE', 'PUT', 'OPTIONS', 'PATCH']) {
        const response = await ask(method, path);
        assert.equal(response.status, 405, `${method} ${path}`);
        assert.equal(response.headers.allow, (allowed as Record<string, string>)[path] ?? 'POST');
        const page = path === '/device' || path === '/oauth/callback';
        assert.equal(response.headers['content-type'], page ? 'text/html; charset=utf-8' : 'application/json');
      }
    }
    assert.equal((await ask('GET', '/oauth/token')).status, 405);
  });
});

describe('every response', () => {
  it('has the headers that keep it from being framed, sniffed, stored or run', async () => {
    const responses = [
      await ask('GET', '/device'),
      await see('BBBBBBBB'),
      await response(''),
      await response('', 'approve', {}),
      await ask('GET', '/oauth/callback'),
      await token({}),
      await ask('POST', '/oauth/device_authorization'),
      await ask('DELETE', '/oauth/revoke'),
    ];
    const expected = {
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
      'referrer-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
      'cache-control': 'no-store',
      'access-control-allow-origin': undefined,
      'x-powered-by': undefined,
    };
    for (const { headers, status } of responses) {
      for (const [name, value] of Object.entries(expected)) assert.equal(headers[name], value, `${name} at ${status}`);
      assert.match(String(headers['content-security-policy']), /^default-src 'none'.*frame-ancestors 'none'/);
      assert.ok(headers['x-gateway-request-id']);
    }
  });
});
