import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endToEndHeaders } from '../../engine/run/headers.ts';

test('end-to-end headers keep their order, spelling and repetitions', () => {
  const raw = ['X-B', '1', 'Set-Cookie', 'a=1', 'set-cookie', 'b=2', 'anthropic-RateLimit', '3'];
  assert.deepEqual(endToEndHeaders(raw, undefined), raw);
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
  assert.deepEqual(endToEndHeaders(raw, 'X-Hop , close'), ['Date', 'd']);
});
