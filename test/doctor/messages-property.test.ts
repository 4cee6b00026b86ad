import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Desk } from '../../engine/doctor/desk.ts';
import { examineFiles } from '../../engine/doctor/examine-desk.ts';
import { anyText } from '../support/any-text.ts';
import { times } from '../support/times.ts';
import { deskWith, FOLDER, mended, type PretendedDesk } from './support.ts';

const TOKEN = 'gw_planted0token0of0a0person';
const NAMES = [
  ...[
    'BASE_URL',
    'AUTH_TOKEN',
    'API_KEY',
    'MODEL',
    'CUSTOM_HEADERS',
    'DEFAULT_SONNET_MODEL',
    'API_BASE',
    'BASEURL',
  ].map((end) => `VENDOR_${end}`),
  ...['MAX_CONTEXT_TOKENS', 'ENABLE_GATEWAY_MODEL_DISCOVERY', 'USE_VERTEX', 'OAUTH_TOKEN'].map(
    (end) => `CLIENT_CODE_${end}`,
  ),
  ...['ENABLE_PROMPT_CACHING_1H', 'FORCE_PROMPT_CACHING_5M', 'DISABLE_AUTO_COMPACT'],
];
const ADDRESSES = [
  'https://gw.example.com',
  'https://gw.example.com/v1/',
  '"https://gw.example.com"',
  'gw.example.com',
];
const text = fc.oneof(
  fc.constantFrom(...ADDRESSES, TOKEN, `Bearer ${TOKEN}`, `Authorization: Bearer ${TOKEN}`, '<API_KEY>', '$KEY'),
  fc.constantFrom('', '1', '0', '200k', '9999999', 'sonnet', 'coder-1', '__proto__'),
  anyText({ maxLength: 12 }),
);
const env = fc.dictionary(fc.constantFrom(...NAMES), text, { maxKeys: 7, noNullPrototype: true });
const settings = fc.oneof(
  fc
    .record(
      {
        env: fc.oneof({ weight: 9, arbitrary: env }, { weight: 1, arbitrary: fc.jsonValue() }),
        apiKeyHelper: fc.oneof(text, fc.constant('appscli token --base-url https://other.example.com')),
        forceLoginMethod: fc.constantFrom('gateway', 'other'),
        forceLoginGatewayUrl: text,
        model: text,
        VENDOR_AUTH_TOKEN: text,
        VENDOR_BASE_URL: text,
      },
      { requiredKeys: [] },
    )
    .map((value) => JSON.stringify(value, null, 2)),
  anyText({ maxLength: 30 }),
);
const desks: fc.Arbitrary<PretendedDesk> = fc.record({
  env,
  files: fc.dictionary(
    fc.constantFrom(
      '~/.client/settings.json',
      `${FOLDER}/.client/settings.json`,
      `${FOLDER}/.client/settings.local.json`,
      '/etc/client/managed-settings.json',
      '~/.client/cache/gateway-models.json',
      '~/.client/.credentials.json',
    ),
    settings,
    { noNullPrototype: true },
  ),
  rights: fc.constantFrom({}, { '~/.client/settings.json': 0o644 }),
});

const look = (desk: Desk) => examineFiles({ desks: [desk], only: 'messages' });

test('whatever the Messages client is told, faults have remedies, no credential is told, and what is mended stays so', () => {
  fc.assert(
    fc.property(desks, (given) => {
      const diagnoses = look(deskWith(given));
      for (const { verdict, remedy, found, fixes, ...others } of diagnoses) {
        if (verdict === 'failed' || verdict === 'warning') assert.ok(remedy, `${found}: no remedy`);
        assert.ok(!JSON.stringify([found, remedy, others]).includes(TOKEN), found);
        for (const { path } of fixes ?? [])
          assert.ok(!path.startsWith('/etc/'), 'a file of an administrator is changed');
      }
      const after = mended(given, diagnoses, look);
      const left = look(deskWith(after));
      assert.deepEqual(mended(after, left), after, 'there is more to mend');
    }),
    { numRuns: times(50) },
  );
});

test('settings nested without end are told without being looked into', () => {
  const deep = `{"env":{"VENDOR_BASE_URL":"https://gw.example.com/v1"},"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
  const given = { files: { '~/.client/settings.json': deep } };
  const diagnoses = look(deskWith(given));
  assert.ok(diagnoses.length > 0);
  assert.deepEqual(mended(given, diagnoses).files, { '/home/ada/.client/settings.json': deep });
});
