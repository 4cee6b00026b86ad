import assert from 'node:assert/strict';
import { test } from 'node:test';
import { passedHeaders } from '../../engine/run/headers.ts';
import { originHeader } from '../../engine/upstreams/origin-headers.ts';

test('headers that pass keep their order, spelling and repetitions', () => {
  const raw = ['X-B', '1', 'Link', '</a>', 'link', '</b>', 'anthropic-RateLimit', '3'];
  assert.deepEqual(passedHeaders(raw, undefined), raw);
});

test('headers of one connection stay behind, also those the Connection header names', () => {
  const raw = [
    'Connection',
    'X-Hop , close',
    'x-hop',
    '1',
    'Transfer-Encoding',
    'chunked',
    'Keep-Alive',
    '5',
    'TE',
    'x',
    'Upgrade',
    'h2c',
    'Date',
    'd',
  ];
  assert.deepEqual(passedHeaders(raw, 'X-Hop , close'), ['Date', 'd']);
});

test('what describes the body passes also where the Connection header names it', () => {
  const raw = ['Connection', 'content-length, Content-Type', 'Content-Length', '3', 'Content-Type', 'a/b'];
  assert.deepEqual(passedHeaders(raw, 'content-length, Content-Type'), raw.slice(2));
});

test('headers that act on the host they come from stay behind, each with its effect', () => {
  const acting = [
    'Set-Cookie',
    'set-cookie2',
    'Strict-Transport-Security',
    'Clear-Site-Data',
    'Alt-Svc',
    'Access-Control-Allow-Origin',
    'access-control-of-the-future',
    'Public-Key-Pins-Report-Only',
    'Content-Security-Policy',
    'NEL',
    'Report-To',
    'WWW-Authenticate',
    'Accept-CH',
    'X-Accel-Redirect',
    'Cross-Origin-Resource-Policy',
  ];
  const passing = ['x-accel-buffering', 'retry-after', 'access', 'security', 'server-timing', 'link', 'cache-control'];
  const raw = [...acting, ...passing].flatMap((name) => [name, 'value']);
  assert.deepEqual(
    passedHeaders(raw, undefined),
    passing.flatMap((name) => [name, 'value']),
  );
  for (const name of acting) assert.ok(originHeader(name.toLowerCase())?.effect, name);
  for (const name of passing) assert.equal(originHeader(name), undefined);
});
