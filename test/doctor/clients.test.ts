import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CLIENTS, type ClientKind, planClient } from '../../engine/edge/client-files/clients.ts';
import { clientNames } from '../../engine/edge/client-files/names.ts';
import { showDiff } from '../../engine/edge/client-files/show-diff.ts';
import { diagnoseClient } from '../../engine/edge/doctor/clients/diagnose-client.ts';
import { diagnoseWorkstation } from '../../engine/edge/doctor/diagnose-workstation.ts';
import { composeFixes } from '../../engine/edge/doctor/fixes.ts';
import { type FakeWorkstation, FOLDER, HOME, mended, workstationWith } from './support.ts';

const ROOT = 'https://gateway.example.com';
const TOKEN = 'gw_planted_token_1';

type Files = Readonly<Record<string, string>>;
type More = FakeWorkstation & { readonly says?: RegExp; readonly after?: Files };
/** The files of a client; everything that is found, such as `failed env_key`; what a finding says, and more. */
type Row = readonly [files: Files, finds: string, more?: RegExp | More];
/** `fixes`: by default `--fix` makes the files as `appscli client` writes them. */
type Rows = Readonly<Record<'finds' | 'fixes', readonly Row[]>>;
type Credential = Parameters<typeof planClient>[1]['credential'];

const BUILD = '~/.buildcli/config.toml';
const CODING = '~/.codingcli/config.toml';
const AUTH = '~/.codingcli/auth.json';
const SETTINGS = '~/.client/settings.json';

/** Makes the files as `appscli client` writes them, with texts replaced. */
const writing =
  (client: ClientKind, path: string, alias?: string) =>
  (changes: Files = {}, credential: Credential = { token: TOKEN }): Record<string, string> => {
    const spec = { root_url: ROOT, credential, model: 'coder-1', alias, context_window: 500_000 };
    const place = { path, auth: AUTH, platform: 'linux', read: () => undefined } as const;
    const { drafts } = planClient(client, spec, clientNames(undefined), place);
    const change = (text: string, [from, to]: readonly [string, string]) => text.replace(from, to);
    return Object.fromEntries(drafts.map(({ path, after }) => [path, Object.entries(changes).reduce(change, after)]));
  };

const VARIABLE = { variable: 'RELAY_API_KEY' };
const SET = { env: { RELAY_API_KEY: TOKEN } };
const HELPER = { helper: { program: '/opt/appscli', args: ['token', '--base-url', ROOT] } };
const build = writing('build-cli', BUILD, 'coder');
const coding = writing('coding-cli', CODING);
const OF_SHELL = { VENDOR_BASE_URL: ROOT, VENDOR_AUTH_TOKEN: TOKEN };
const settings = (changes: Readonly<Record<string, unknown>> = {}, more: object = {}) => ({
  [SETTINGS]: JSON.stringify({ env: { ...OF_SHELL, ...changes }, ...more }, null, 2),
});

const SECOND = `[model.second]\nmodel = "coder-2"\nbase_url = "${ROOT}/v1"\ncontext_window = 500000\n`;

const NO_KEY = build({ [`api_key = "${TOKEN}"\n`]: '' });
const GOOD = `${build()[BUILD]}\n`;

const BUILD_ROWS: Rows = {
  finds: [
    [build(), ''],
    [build({}, VARIABLE), '', SET],
    [
      build({}, VARIABLE),
      'failed key',
      /RELAY_API_KEY of env_key is not set here: the client requires a browser sign-in/,
    ],
    [
      { ...build({}, VARIABLE), '~/.buildcli/auth.json': '{"token": "x"}' },
      'failed key',
      /would send its vendor login to the gateway/,
    ],
    [NO_KEY, 'failed key', { says: /COMPAT_API_KEY/, env: { COMPAT_API_KEY: TOKEN } }],
    [NO_KEY, '', { env: { BUILD_VENDOR_API_KEY: TOKEN } }],
    [build({ 'default = "coder"\n': '' }), 'failed default_model', /default is missing/],
    [
      {
        [BUILD]: `${build({ 'default = "coder"': 'default = "nothing"' })[BUILD]}\n[model.second]\nbase_url = "${ROOT}/v1"\n`,
      },
      'failed default_model, failed context_window',
      /set default in \[models\] to the alias of an entry: coder or second/,
    ],
    [{ [BUILD]: `${GOOD}${SECOND}env_key = "UNSET_KEY"\n` }, ''],
    [{ [BUILD]: `${GOOD}${SECOND}api_key = "<API_KEY>"\n` }, 'failed key', /api_key contains no key/],
    [
      { [BUILD]: `[models]\ndefault = "own"\n[model.own]\nmodel = "m"\n${SECOND.replace('/v1"', '"')}` },
      'failed base_url',
    ],
    [{ [BUILD]: `${GOOD}[model.second]\nbase_url = "https://other.example.com/api"\n` }, ''],
    [
      build(),
      'failed default_model',
      { says: /BUILDCLI_DEFAULT_MODEL is coder-1: it overrides the file/, env: { BUILDCLI_DEFAULT_MODEL: 'coder-1' } },
    ],
    [
      build({ 'context_window = 500000\n': '' }),
      'failed context_window',
      /context_window is missing: the client assumes 200000 tokens/,
    ],
    [build({ [`"${ROOT}/v1"`]: '"gateway"' }), 'failed address', /it is not an absolute URL/],
    [
      build({ 'session_summary = "coder"\n': '' }),
      'warning side_models',
      /session_summary is missing: the client requests a model of its vendor/,
    ],
    [{ [BUILD]: '[models\n' }, 'failed file', /invalid TOML/],
    [build(), 'warning overlay', { env: { BUILDCLI_CONFIG: 'x' } }],
    [build(), 'warning rights', { rights: { [BUILD]: 0o644 } }],
    [build({}, HELPER), ''],
  ],
  fixes: [
    [
      build({ 'env_key = "RELAY_API_KEY"': `env_key = "${TOKEN}"` }, VARIABLE),
      'failed api_key, failed env_key',
      /env_key contains a key: it must be the name of a variable/,
    ],
    [
      build({ '"RELAY_API_KEY"': '"$RELAY_API_KEY"' }, VARIABLE),
      'failed env_key',
      { ...SET, after: build({}, VARIABLE) },
    ],
    [
      build({ '"gw_': '"Bearer gw_' }),
      'failed api_key',
      /api_key contains the word Bearer or white space beside the key: the client sends it unchanged/,
    ],
    [
      build({ [`"${TOKEN}"`]: '"RELAY_API_KEY"' }),
      'failed api_key, failed env_key',
      { ...SET, after: { [BUILD]: build({}, VARIABLE)[BUILD]! } },
    ],
    [
      build({ 'default = "coder"': 'default = "coder-1"' }),
      'failed default_model',
      /default is coder-1: it must name an entry \[model\.<alias>\]/,
    ],
    [
      build({ '500000': '200' }),
      'failed context_window',
      /context_window is 200: the client compacts conversations by this value/,
    ],
    [build({ '500000': '5000000' }), 'failed context_window'],
    [build({ [`${ROOT}/v1`]: ROOT }), 'failed base_url', /it must end in \/v1/],
  ],
};

const CODING_ROWS: Rows = {
  finds: [
    [coding(), ''],
    [coding({}, VARIABLE), '', SET],
    [coding({}, HELPER), ''],
    [
      coding({}, VARIABLE),
      'failed env_key',
      /env_key names RELAY_API_KEY, which is not set: the client cannot send requests/,
    ],
    [
      { [CODING]: coding()[CODING]! },
      'failed key',
      {
        says: /the client does not read the variable COMPAT_API_KEY for this provider/,
        env: { COMPAT_API_KEY: TOKEN },
      },
    ],
    [
      coding({ 'requires_compat_auth = true\n': '' }),
      'failed auth_flag',
      /requires_compat_auth is missing: the client sends no key/,
    ],
    [
      coding({ '"COMPAT_API_KEY"': '"tokens": {"id_token": "x"}, "auth_mode": "chatgpt", "COMPAT_API_KEY"' }),
      'failed sign_in',
      /may send instead of the key/,
    ],
    [
      coding({
        '"COMPAT_API_KEY"': '"tokens": {"id_token": "x"}, "COMPAT_API_KEY"',
        '"auth_mode": "apikey"': '"x": "y"',
      }),
      'warning sign_in',
      /there is also a vendor sign-in/,
    ],
    [coding(), 'warning key_variable', { env: { CODINGCLI_API_KEY: 'gw_another_token_2' } }],
    [coding({ model_provider: 'cli_auth_credentials_store = "keyring"\nmodel_provider' }), 'failed store'],
    [
      coding({ 'model_context_window = 500000\n': '' }),
      'failed context_window',
      /conversations are not compacted in time/,
    ],
    [coding({ 'model_auto_compact_token_limit = 475000\n': '' }), 'failed compact_limit'],
    [coding({ '500000': '200000', '475000': '150000' }), ''],
    [
      coding({ 'model_provider = "custom"\n': '' }),
      'failed provider',
      /model_provider is missing: the client uses its vendor/,
    ],
    [coding({ 'model = "coder-1"\n': '' }), 'failed model'],
    [coding({ model_provider: 'model_catalog_json = "x"\nmodel_provider' }), 'warning catalogue'],
    [coding({ model_provider: 'profile = "x"\nmodel_provider' }), 'warning profile'],
    [coding(), 'warning rights', { rights: { [AUTH]: 0o640 } }],
    [{ ...coding(), [AUTH]: '{' }, 'failed file'],
  ],
  fixes: [
    [
      {
        [CODING]: coding({}, HELPER)[CODING]!.replace('wire_api', 'env_key = "X"\nwire_api'),
      },
      'failed env_key',
      {
        says: /does not start with two key sources/,
        after: coding({}, HELPER),
      },
    ],
    [
      { [CODING]: coding({}, VARIABLE)[CODING]!.replace('RELAY_API_KEY', TOKEN) },
      'failed key, failed env_key, failed auth_flag',
    ],
    [coding({ wire_api: 'env_key = "UNSET"\nwire_api' }), 'failed env_key', /env_key names UNSET, which is not set/],
    [coding({ [`"${TOKEN}"`]: `" ${TOKEN}"` }), 'failed key'],
    [coding({ '500000': '5000000', '475000': '4750000' }), 'failed context_window, failed compact_limit'],
    [coding({ '"responses"': '"chat"' }), 'failed wire_api', /wire_api is chat: the client only supports responses/],
    [coding({ 'supports_websockets = false': 'supports_websockets = true' }), 'warning supports_websockets'],
    [coding({ [`${ROOT}/v1`]: ROOT }), 'failed base_url'],
    [
      coding({ 'model_provider = "custom"': 'model_provider = "custm"' }),
      'failed provider',
      /model_provider is custm: no section has that name/,
    ],
  ],
};

const MESSAGES_ROWS: Rows = {
  finds: [
    [settings(), ''],
    [{}, '', { env: OF_SHELL }],
    [
      {},
      'failed address',
      {
        says: /export VENDOR_BASE_URL=https:\/\/gateway\.example\.com$/,
        env: { ...OF_SHELL, VENDOR_BASE_URL: `${ROOT}/v1/messages` },
      },
    ],
    [settings({ VENDOR_BASE_URL: 'gateway' }), 'failed address'],
    [
      {},
      'failed address',
      { says: /sends the token to its vendor/, env: { VENDOR_AUTH_TOKEN: TOKEN }, programs: ['client'] },
    ],
    [settings({ VENDOR_AUTH_TOKEN: undefined }), 'failed key', /would send its vendor login to the gateway/],
    [
      settings({ VENDOR_AUTH_TOKEN: undefined }, { apiKeyHelper: 'echo x' }),
      'warning key',
      {
        says: /in addition to the key helper's, and the gateway decides between them; unset VENDOR_AUTH_TOKEN/,
        env: { VENDOR_AUTH_TOKEN: TOKEN },
      },
    ],
    [settings({ VENDOR_AUTH_TOKEN: '<API_KEY>' }), 'failed key', /a placeholder or a variable name/],
    [settings({ ENABLE_PROMPT_CACHING_1H: '1', FORCE_PROMPT_CACHING_5M: '0' }), ''],
    [settings({ VENDOR_MODEL: 'coder-1' }), 'warning context_window', /--check reads it from the gateway/],
    [settings({ VENDOR_MODEL: 'vendor-opus-5' }), ''],
    [
      settings({ VENDOR_AUTH_TOKEN: undefined }, { forceLoginMethod: 'gateway', forceLoginGatewayUrl: ROOT }),
      'failed sign_in',
      /the client does not sign in/,
    ],
    [{ [SETTINGS]: JSON.stringify({ forceLoginMethod: 'gateway', forceLoginGatewayUrl: ROOT }) }, ''],
    [
      { [`${FOLDER}/.client/settings.json`]: settings()[SETTINGS]! },
      'failed secret',
      /usually committed with the project/,
    ],
    [
      {
        [`${FOLDER}/.client/settings.json`]: JSON.stringify({ env: { VENDOR_BASE_URL: 'https://evil.example.com' } }),
        ...settings({ VENDOR_BASE_URL: undefined }),
      },
      'warning key',
      /the doctor did not send it/,
    ],
    [{ [SETTINGS]: '{' }, 'failed file', { env: OF_SHELL }],
    [settings(), 'warning rights', { rights: { [SETTINGS]: 0o644 } }],
  ],
  fixes: [
    [
      settings({ VENDOR_BASE_URL: `${ROOT}/v1` }),
      'failed address',
      /VENDOR_BASE_URL is .*\/v1: the client appends \/v1/,
    ],
    [
      settings({ VENDOR_API_KEY: 'sk-planted-legacy-2' }),
      'warning key',
      /VENDOR_API_KEY is set: the client sends it in addition to the token/,
    ],
    [settings({ VENDOR_AUTH_TOKEN: `Bearer ${TOKEN}` }), 'failed key'],
    [
      settings({ ENABLE_PROMPT_CACHING_1H: '1', DISABLE_PROMPT_CACHING: '1' }),
      'warning cache_1h',
      { says: /prompts are not cached for an hour/, after: settings({ ENABLE_PROMPT_CACHING_1H: '1' }) },
    ],
    [settings({ CLIENT_CODE_USE_BEDROCK: '1' }), 'failed provider'],
    [settings({ CLIENT_CODE_MAX_CONTEXT_TOKENS: '9000000' }), 'warning context_window'],
    [settings({ DISABLE_AUTO_COMPACT: '1' }), 'warning compaction'],
  ],
};

const faultsOn = (client: ClientKind, input: FakeWorkstation) =>
  diagnoseClient(workstationWith(input), client).diagnoses.filter(
    ({ verdict }) => verdict === 'failed' || verdict === 'warning',
  );
const byPath = (files: Files) =>
  Object.fromEntries(Object.entries(files).map(([path, text]) => [path.replace(/^~/, HOME), text]));
const contentOf = (text = '') => (text.trim().startsWith('{') ? JSON.parse(text) : CLIENTS['build-cli'].parse(text));

function assertRow(client: ClientKind, [files, finds, more = {}]: Row, fixed: Files | undefined): void {
  const { says, after = fixed, ...rest }: More = more instanceof RegExp ? { says: more } : more;
  const input = { files, ...rest };
  const faults = faultsOn(client, input);
  const name = client === 'messages' ? client : client.replace('-', '_');
  assert.equal(faults.map(({ verdict, id }) => `${verdict} ${id.replace(`${name}.`, '')}`).join(', '), finds);
  const texts = faults.map(({ found, remedy }) => `${found}; ${remedy}`);
  assert.ok(says === undefined || texts.some((text) => says.test(text)), texts.join('\n'));
  for (const { remedy, where } of faults) assert.ok(remedy !== undefined && where !== undefined);
  for (const secret of [TOKEN, 'sk-planted-legacy-2']) assert.ok(!texts.join().includes(secret), texts.join('\n'));
  const put_right = mended(input, faults);
  const left = faultsOn(client, put_right);
  if (after !== undefined) {
    const fixed_files = { ...byPath(put_right.files!) };
    for (const [path, text] of Object.entries(byPath(after)))
      assert.deepEqual(contentOf(fixed_files[path]), contentOf(text), fixed_files[path]);
    assert.deepEqual(left, []);
  }
  // What was mended is not found a second time, and nothing of it shows a key.
  const fixes = left.flatMap(({ fixes = [] }) => fixes);
  assert.deepEqual(fixes, []);
  const { changes, hides } = composeFixes(workstationWith(input), faults);
  for (const change of changes) assert.ok(!showDiff(change, hides, false).includes(TOKEN));
}

const TABLES = [
  ['messages', MESSAGES_ROWS, settings()],
  ['coding-cli', CODING_ROWS, coding()],
  ['build-cli', BUILD_ROWS, build()],
] as const;
for (const [client, { finds, fixes }, fixed] of TABLES) {
  describe(`the ${CLIENTS[client].title}`, () => {
    for (const row of finds) test(`has ${row[1] || 'no fault'}`, () => assertRow(client, row, undefined));
    for (const row of fixes) test(`has ${row[1]}, which --fix mends`, () => assertRow(client, row, fixed));
  });
}

describe("a client's diagnosis", () => {
  test('includes how it reaches its gateway, and with what', () => {
    const of = (client: ClientKind, files: Record<string, string>) =>
      diagnoseClient(workstationWith({ files }), client).connection!;
    assert.deepEqual(
      [
        of('build-cli', build()),
        of('coding-cli', coding()),
        of('messages', settings({ VENDOR_MODEL: 'opus', VENDOR_DEFAULT_OPUS_MODEL: 'coder-1' })),
      ].map(({ root_url, token, model, context_window }) => [root_url, token, model, context_window]),
      [
        [ROOT, TOKEN, 'coder-1', 500_000],
        [ROOT, TOKEN, 'coder-1', 500_000],
        [ROOT, TOKEN, 'coder-1', undefined],
      ],
    );
  });

  test('names its trusted authorities, but for those of the folder', () => {
    const of = (client: ClientKind, files: Record<string, string>) =>
      diagnoseClient(workstationWith({ files, env: { SSL_CERT_FILE: '/ca' } }), client).connection!.authorities;
    const project = { [`${FOLDER}/.client/settings.json`]: JSON.stringify({ env: { NODE_EXTRA_CA_CERTS: '/evil' } }) };
    assert.deepEqual(of('messages', settings({ NODE_EXTRA_CA_CERTS: '/own' })), ['/own', '/ca']);
    assert.deepEqual(of('messages', { ...settings(), ...project }), ['/ca']);
    assert.deepEqual(of('coding-cli', coding()), ['/ca']);
  });

  test("has a window that can be set to the gateway's", () => {
    const workstation = workstationWith({ files: coding() });
    const { fixes } = diagnoseClient(workstation, 'coding-cli').connection!.fixWindow!(200_000);
    const [change] = composeFixes(workstation, [{ fixes: fixes! }]).changes;
    assert.match(change!.after!, /model_context_window = 200000\nmodel_auto_compact_token_limit = 190000/);
  });
});

test('reports a crashing check and runs the others', async () => {
  const workstation = workstationWith({ files: { '~/.buildcli/config.toml': '[models]\ndefault = "gw"\n' } });
  const read = (path: string) => {
    if (path.includes('codingcli')) throw new TypeError('a secret is in here');
    return workstation.read(path);
  };
  const found: string[] = [];
  for await (const each of diagnoseWorkstation({ workstations: [{ ...workstation, read }], is_offline: true })) {
    found.push(`${each.verdict} ${each.id}: ${each.found}`);
  }
  assert.ok(
    found.some((line) => line.startsWith('warning coding_cli.files: check crashed (TypeError)')),
    found.join('\n'),
  );
  assert.ok(found.some((line) => line.includes(' build_cli')));
  assert.ok(!found.join().includes('secret'));
});
