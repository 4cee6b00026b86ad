import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createLog } from '../../engine/base/kit/log.ts';

function capture(format: 'json' | 'readable', debug = false) {
  const lines: string[] = [];
  const log = createLog({ write: (line) => void lines.push(line), format, debug });
  return { log, lines, records: () => lines.map((line) => JSON.parse(line)) };
}

test('a record is one line of JSON with time, level, fields and message', () => {
  const { log, records } = capture('json');
  log.warn({ upstream: 'main', attempt: 2 }, 'no answer');
  const [{ time, ...rest }] = records();
  assert.deepEqual(rest, { level: 40, upstream: 'main', attempt: 2, msg: 'no answer' });
  assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60_000);
});

test('for a terminal it is one readable line', () => {
  const { log, lines } = capture('readable');
  log.error({ err: new Error('refused'), part: 'a b', port: 1 }, 'it failed');
  assert.match(lines[0]!, /^\d\d:\d\d:\d\d ERROR it failed: refused part="a b" port=1\n$/);
});

test('a number that contains a secret leaves a readable line, also for listeners', () => {
  const { log, records } = capture('json');
  const taken: string[] = [];
  log.tap((line) => taken.push(line));
  log.hide('4318');
  log.info({ port: 4318, nested: { more: 143180 } }, 'at 4318');
  const [{ port, nested, msg }] = records();
  assert.deepEqual({ port, nested, msg }, { port: '[secret]', nested: { more: '[secret]' }, msg: 'at [secret]' });
  assert.equal(JSON.parse(taken[0]!).port, '[secret]');
});

test('debug records are written only on request', () => {
  const quiet = capture('json');
  quiet.log.debug({}, 'detail');
  assert.deepEqual(quiet.lines, []);
  const loud = capture('json', true);
  loud.log.debug({}, 'detail');
  assert.equal(loud.lines.length, 1);
});

test('fields that are named like a secret are not written, at any depth', () => {
  const { log, lines } = capture('json');
  log.info(
    { headers: { authorization: 'Basic planted-1', 'x-api-key': 'planted-2' }, list: [{ password: 'planted-3' }] },
    'm',
  );
  const fields = ['access_token', 'refresh_token', 'id-token', 'client_secret', 'device_code', 'user_code', 'nonce'];
  for (const field of fields) log.info({ body: { [field]: 'planted-6' } }, 'm');
  log.info({ code: 'W7002', access_tokens: 3 }, 'm');
  assert.doesNotMatch(lines.join(), /planted/);
  assert.match(lines.join(), /"code":"W7002","access_tokens":3/);
});

test('credentials are recognised by their shape in messages and stack traces', () => {
  const { log, lines } = capture('json');
  const token = `gw_${'a1B2'.repeat(12)}`;
  const err = new Error(`connect postgres://app:planted-4@db:5432/x with Bearer planted-5 and ${token}`);
  log.error({ err }, `refused ${token}`);
  const refresh_token = `gwr_${'a1B2'.repeat(11)}`;
  const [signed, sealed] = ['eyJhbGciOi_-1.eyJzdWIiOi_-1.planted-7', 'eyJhbGciOiJkaXIi..planted-8.planted-9.planted'];
  log.error({ err: new Error(`of ${signed}`), sealed }, `refused ${refresh_token} and ${signed}`);
  assert.doesNotMatch(lines.join(), /planted|a1B2a1B2/);
  assert.match(lines.join(), /postgres:\/\/app:\[secret\]@db:5432/);
});

test('whatever text was declared secret never appears, wherever it is put', () => {
  const secrets = fc.string({ unit: 'grapheme-ascii', minLength: 12, maxLength: 40 });
  fc.assert(
    fc.property(secrets, fc.constantFrom('json', 'readable'), (secret, format) => {
      // A text of one repeated character would also occur in ordinary words.
      fc.pre(new Set(secret).size > 6);
      const { log, lines } = capture(format as 'json' | 'readable', true);
      log.hide(secret);
      log.error(
        { err: new Error(`it was ${secret}`), url: `/x?${secret}`, nested: { list: [secret] } },
        `got ${secret}`,
      );
      assert.ok(!lines.join().includes(secret));
      assert.ok(!lines.join().includes(JSON.stringify(secret).slice(1, -1)));
    }),
  );
});
