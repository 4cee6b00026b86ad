import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ClientKind } from '../../engine/edge/client-files/clients.ts';
import { showDiff } from '../../engine/edge/client-files/show-diff.ts';
import { diagnoseClient } from '../../engine/edge/doctor/clients/diagnose-client.ts';
import { diagnoseWorkstation } from '../../engine/edge/doctor/diagnose-workstation.ts';
import { composeFixes } from '../../engine/edge/doctor/fixes.ts';
import { anyText } from '../support/any-text.ts';
import { times } from '../support/times.ts';
import { type FakeWorkstation, FOLDER, mended, workstationWith } from './support.ts';

const TOKEN = 'gw_planted0token0of0a0person';
const words = (text: string) => text.split(' ');
const NAMES = [
  ...words('BASE_URL AUTH_TOKEN API_KEY MODEL CUSTOM_HEADERS DEFAULT_SONNET_MODEL API_BASE BASEURL').map(
    (end) => `VENDOR_${end}`,
  ),
  ...words('MAX_CONTEXT_TOKENS ENABLE_GATEWAY_MODEL_DISCOVERY USE_VERTEX OAUTH_TOKEN').map(
    (end) => `CLIENT_CODE_${end}`,
  ),
  ...words('ENABLE_PROMPT_CACHING_1H FORCE_PROMPT_CACHING_5M DISABLE_AUTO_COMPACT'),
];
const ADDRESSES = words('https://gw.example.com https://gw.example.com/v1/ "https://gw.example.com" gw.example.com');
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
const workstations: fc.Arbitrary<FakeWorkstation> = fc.record({
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

const KEYS = [
  ...words('model base_url name context_window api_key env_key auth_provider wire_api model_provider default profile'),
  ...words('requires_compat_auth supports_websockets experimental_bearer_token model_context_window auth command args'),
  ...words('model_auto_compact_token_limit headers'),
];
const HEADERS = words('[models] [model.coder-1] [model.b] [model_providers.custom] [model_providers.compat]');
const scalar = fc.oneof(text, fc.integer(), fc.boolean(), fc.array(text, { maxLength: 2 }));
const toml = fc
  .array(
    fc.tuple(
      fc.constantFrom('', ...HEADERS, '[auth_provider.b]', '[otel]'),
      fc.dictionary(fc.constantFrom(...KEYS), scalar, { maxKeys: 6, noNullPrototype: true }),
    ),
    { maxLength: 5 },
  )
  .map((tables) =>
    tables
      .map(([header, keys]) =>
        [header, ...Object.entries(keys).map(([key, value]) => `${key} = ${JSON.stringify(value)}`)].join('\n'),
      )
      .join('\n'),
  );
const auth = fc.oneof(
  fc.dictionary(fc.constantFrom('COMPAT_API_KEY', 'auth_mode', 'tokens'), scalar).map((value) => JSON.stringify(value)),
  text,
);

const files = fc.record(
  { '~/.buildcli/config.toml': toml, '~/.codingcli/config.toml': toml, '~/.codingcli/auth.json': auth },
  { requiredKeys: [], noNullPrototype: true },
);
const variables = fc.dictionary(
  fc.constantFrom('KEY', 'RELAY_API_KEY', 'BUILD_VENDOR_API_KEY', 'CODINGCLI_API_KEY', 'BUILDCLI_DEFAULT_MODEL'),
  text,
  { noNullPrototype: true },
);
const configured = fc.oneof(
  fc.tuple(fc.constant<ClientKind>('messages'), workstations),
  fc.tuple(fc.constantFrom<ClientKind>('coding-cli', 'build-cli'), fc.record({ files, env: variables })),
);

test('whatever the configuration of a client, faults have remedies, no credential is shown, and fixes are stable', () => {
  fc.assert(
    fc.property(configured, ([client, given]: [ClientKind, FakeWorkstation]) => {
      const { diagnoses } = diagnoseClient(workstationWith(given), client);
      for (const { verdict, remedy, found, fixes, ...others } of diagnoses) {
        if (verdict === 'failed' || verdict === 'warning') assert.ok(remedy, `${found}: no remedy`);
        assert.ok(!JSON.stringify([found, remedy, others]).includes(TOKEN), found);
        for (const { path } of fixes ?? [])
          assert.ok(!path.startsWith('/etc/'), 'a file of an administrator is changed');
      }
      if (client !== 'messages') {
        const { changes, hides } = composeFixes(workstationWith(given), diagnoses);
        for (const change of changes) assert.ok(!showDiff(change, hides, false).includes(TOKEN), change.after);
      }
      const after = mended(given, diagnoses);
      const left = diagnoseClient(workstationWith(after), client).diagnoses;
      assert.deepEqual(mended(after, left), after, 'there is more to mend');
    }),
    { numRuns: times(100) },
  );
});

test('reports endlessly nested settings without reading into them', async () => {
  const deep = `{"env":{"VENDOR_BASE_URL":"https://gw.example.com/v1"},"x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`;
  const found: string[] = [];
  const workstation = workstationWith({ files: { '~/.client/settings.json': deep } });
  const scope = { workstations: [workstation], only: 'messages', is_offline: true } as const;
  for await (const { id, fixes = [] } of diagnoseWorkstation(scope)) {
    found.push(id);
    assert.deepEqual(fixes, []);
  }
  assert.ok(found.includes('messages.files'), found.join());
});
