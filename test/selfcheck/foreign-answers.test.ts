import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { isPrintableLine } from '../../engine/kit/text/printable.ts';
import { cameLine, describeJson, errorText, sentLine } from '../../engine/selfcheck/answer-lines.ts';
import { foreignAnswer } from '../../engine/selfcheck/foreign-answers.ts';
import { readAnswer } from '../../engine/selfcheck/read-answer.ts';
import { times } from '../support/times.ts';

interface Given {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly ending?: 'whole' | 'cut' | 'too_large' | 'too_late';
}

function answer(text: string, { status = 200, headers = {}, ending = 'whole' }: Given = {}) {
  const body = Buffer.from(text);
  const arrivals = [{ at_ms: 5, bytes: body.length }];
  return readAnswer({ status, headers, body, arrivals, head_ms: 4, total_ms: 6, ending });
}

const HTML = { 'content-type': 'text/html; charset=utf-8' };

async function recognised(text: string, given: Given = {}) {
  return foreignAnswer(await answer(text, given));
}

/** The pages as the programs make them. */
const NGINX_502 =
  '<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx/1.26.3</center>\r\n</body>\r\n</html>\r\n';
const HAPROXY_503 =
  '<html><body><h1>503 Service Unavailable</h1>\nNo server is available to handle this request.\n</body></html>\n';
const APACHE_404 =
  '<!DOCTYPE HTML PUBLIC "-//IETF//DTD HTML 2.0//EN">\n<html><head>\n<title>404 Not Found</title>\n</head><body>\n<h1>Not Found</h1>\n<p>The requested URL was not found on this server.</p>\n<hr>\n<address>Apache/2.4.62 (Debian) Server at example.com Port 80</address>\n</body></html>\n';
const LOGIN_PAGE =
  '<!doctype html><html><head><title>Acme: Sign in</title></head><body><form action="/do"><input name="p" type="password"></form></body></html>';

describe('an answer that no API makes', () => {
  test('is JSON for the API, and none of this, when it is whole JSON', async () => {
    for (const text of ['{}', '{"a": 1}', '[]', ' {"type":"error"}\n', 'null'])
      assert.equal(await recognised(text, { headers: HTML }), undefined);
  });

  test('is a redirect, with where to but nothing that is behind a question mark or before an at sign', async () => {
    const location = 'https://me:secret@other.example.com/v1/models?token=secret#secret';
    const found = await recognised('', { status: 301, headers: { location } });
    assert.equal(found?.kind, 'redirect');
    assert.equal(found?.what, 'a redirect (status 301) to https://other.example.com/v1/models');
    const nowhere = await recognised('', { status: 302 });
    assert.equal(nowhere?.what, 'a redirect (status 302) that does not say where to');
  });

  test('is a sign-in where a redirect leads to one', async () => {
    for (const location of [
      'https://login.example.com/authorize?client_id=1',
      '/oauth2/start?rd=%2Fv1',
      'https://example.okta.com/app',
      'https://idp.example.com/saml2/sso',
      '/users/sign_in',
    ]) {
      const found = await recognised('<a>', { status: 302, headers: { ...HTML, location } });
      assert.equal(found?.kind, 'login', location);
      assert.match(found!.remedy, /let \/v1\/ through/);
    }
    for (const location of ['https://gateway.example.com/v1/models', '/v1/models/', 'https://blog.example.com/'])
      assert.equal((await recognised('', { status: 302, headers: { location } }))?.kind, 'redirect', location);
  });

  test('is a login page by what is on it', async () => {
    const found = await recognised(LOGIN_PAGE, { headers: HTML });
    assert.equal(found?.kind, 'login');
    assert.equal(found?.what, 'the web page "Acme: Sign in" (status 200), where people sign in');
  });

  test('is the error page of a proxy, which is named, with what that one needs', async () => {
    const pages: [string, Given, RegExp, RegExp][] = [
      [NGINX_502, { status: 502, headers: HTML }, /"502 Bad Gateway" \(status 502\) of nginx$/, /nginx gets no answer/],
      [HAPROXY_503, { status: 503, headers: HTML }, /of HAProxy$/, /HAProxy has nothing behind it/],
      [NGINX_502.replaceAll('502 Bad Gateway', '503'), { status: 503, headers: HTML }, /of nginx$/, /limit_req/],
      [APACHE_404, { status: 404, headers: HTML }, /of Apache$/, /is the address that of the gateway/],
      ['no healthy upstream', { status: 503 }, /of Envoy: no healthy upstream$/, /Envoy has nothing behind it/],
      [
        '<html><title>413</title>',
        { status: 413, headers: { ...HTML, server: 'nginx' } },
        /of nginx$/,
        /client_max_body_size/,
      ],
      [
        '<html><title>504</title>',
        { status: 504, headers: { server: 'awselb/2.0' } },
        /of AWS load balancer$/,
        /proxy_read_timeout/,
      ],
      [
        '',
        { status: 401, headers: { 'www-authenticate': 'Basic realm="x"' } },
        /^an empty answer/,
        /password of its own/,
      ],
    ];
    for (const [text, given, what, remedy] of pages) {
      const found = await recognised(text, given);
      assert.match(found!.what, what);
      assert.match(found!.remedy, remedy);
    }
  });

  test('is the page of an application that answers everything, with status 200', async () => {
    const found = await recognised('<!DOCTYPE html><html><head><title>Console</title></head><div id="app">', {
      headers: HTML,
    });
    assert.equal(found?.kind, 'page');
    assert.match(found!.remedy, /web application/);
  });

  test('is an answer that is empty, broke off, is too large, or is not over', async () => {
    assert.equal((await recognised(' \n'))?.kind, 'empty');
    for (const ending of ['cut', 'too_large', 'too_late'] as const)
      assert.equal((await recognised('{"a":1}', { ending }))?.kind, 'unreadable');
    const zipped = await recognised('{"a":1}', { headers: { 'content-encoding': 'gzip' } });
    assert.match(zipped!.what, /compression/);
  });

  test('is JSON that was cut', async () => {
    const found = await recognised('{"data": [{"id": "a"}, {"i', { headers: { 'content-type': 'application/json' } });
    assert.equal(found?.kind, 'truncated');
  });

  test('is text', async () => {
    const found = await recognised('404 page not found\n', { status: 404, headers: { 'content-type': 'text/plain' } });
    assert.equal(found?.kind, 'text');
    assert.match(found!.what, /404 page not found$/);
  });
});

test('whatever an answer holds, what is said of it is short and can be printed', async () => {
  const bits = fc.constantFrom(
    '<html>',
    '<title>',
    '\u001b[31m',
    '\u202e',
    '{',
    '"a":',
    '[[',
    '}',
    '\r\n',
    'Sign in',
    '\0',
    '💥',
    'x'.repeat(300),
  );
  const texts = fc.array(bits, { maxLength: 12 }).map((parts) => parts.join(''));
  await fc.assert(
    fc.asyncProperty(texts, texts, fc.integer({ min: 100, max: 999 }), async (text, header, status) => {
      const headers = { location: header, server: header, 'content-type': header, 'www-authenticate': header };
      const given = await answer(text, { status, headers });
      const found = foreignAnswer(given);
      const lines = [found?.what, found?.remedy, cameLine(given), errorText(given.json), describeJson(given.json)];
      for (const line of lines.filter((line) => line !== undefined)) {
        assert.ok(isPrintableLine(line), JSON.stringify(line));
        assert.ok(line.length < 500);
      }
    }),
    { numRuns: times(200) },
  );
});

describe('a line about an answer', () => {
  test('says what was sent, without a credential', () => {
    assert.equal(sentLine({ path: '/v1/models' }), 'GET /v1/models');
    assert.equal(sentLine({ path: '/v1/messages', json: {} }, 'a short prompt'), 'POST /v1/messages, a short prompt');
    assert.equal(sentLine({ path: '/v1/models', token: null }), 'GET /v1/models, without a token');
    assert.equal(sentLine({ path: '/v1/models', token: 'abc' }), 'GET /v1/models, with a wrong token');
  });

  test('says status, type, size and time, and the text of an error in the form of whatever API', async () => {
    const json = { 'content-type': 'application/json' };
    const ok = await answer('{"id":"secret prompt"}', { headers: json });
    assert.equal(cameLine(ok), 'status 200, application/json, 22 bytes, 6 ms');
    const errors: [string, string][] = [
      ['{"type":"error","error":{"type":"not_found_error","message":"no"}}', 'not_found_error: no'],
      ['{"error":{"message":"no","type":null,"code":"invalid_api_key"}}', 'invalid_api_key: no'],
      ['{"detail":"Not Found"}', 'Not Found'],
      ['{"error":"no"}', 'no'],
      ['{"message":"no Route matched with those values"}', 'no Route matched with those values'],
    ];
    for (const [text, expected] of errors) {
      const line = cameLine(await answer(text, { status: 400, headers: json }));
      assert.ok(line.endsWith(` ms: ${expected}`), line);
    }
  });

  test('names the fields of JSON and not their values', () => {
    assert.equal(describeJson({ a: 'secret', b: 1 }), 'JSON with a, b');
    assert.equal(describeJson([1, 2]), 'a JSON list of 2');
    assert.equal(describeJson({}), 'an empty JSON object');
  });
});
