import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CLIENT_KINDS, CLIENTS, type ClientKind, planClient } from '../../engine/edge/client-files/clients.ts';
import { clientNames } from '../../engine/edge/client-files/names.ts';
import { showDiff } from '../../engine/edge/client-files/show-diff.ts';
import { diagnoseClient } from '../../engine/edge/doctor/clients/diagnose-client.ts';
import { diagnoseWorkstation } from '../../engine/edge/doctor/diagnose-workstation.ts';
import { composeFixes } from '../../engine/edge/doctor/fixes.ts';
import { type FakeWorkstation, FOLDER, HOME, mended, workstationWith } from './support.ts';

const ROOT = 'https://gateway.example.com';
const TOKEN = 'gw_planted_token_1';

/** One fault of a client: its files before, what is found, and its file after `--fix`. */
interface Row extends FakeWorkstation {
  /** Of everything that is found, such as `failed build_cli.env_key`; none where nothing is wrong. */
  readonly finds: readonly string[];
  /** What the finding says. */
  readonly says?: RegExp;
  /** What a file says afterwards; the text is that of the first file before where it is left out. */
  readonly after?: Readonly<Record<string, string>>;
}

const BUILD = '~/.buildcli/config.toml';
const CODING = '~/.codingcli/config.toml';
const AUTH = '~/.codingcli/auth.json';
const SETTINGS = '~/.client/settings.json';

/** The file as `appscli client` writes it, with texts of it replaced. */
function written(
  client: ClientKind,
  credential: Parameters<typeof planClient>[1]['credential'],
  changes: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const spec = {
    root_url: ROOT,
    credential,
    model: 'coder-1',
    alias: client === 'build-cli' ? 'coder' : undefined,
    context_window: 500_000,
  };
  const place = {
    path: { 'build-cli': BUILD, 'coding-cli': CODING, messages: SETTINGS }[client],
    auth: AUTH,
    platform: 'linux',
    read: () => undefined,
  } as const;
  const { drafts } = planClient(client, spec, clientNames(undefined), place);
  return Object.fromEntries(
    drafts.map(({ path, after }) => [
      path,
      Object.entries(changes).reduce(
        (text, [from, to]) => (text.includes(from) ? text.replace(from, to) : text),
        after,
      ),
    ]),
  );
}

const SET = { env: { RELAY_API_KEY: TOKEN } };
const build = (
  changes: Readonly<Record<string, string>> = {},
  credential: Parameters<typeof planClient>[1]['credential'] = { token: TOKEN },
) => written('build-cli', credential, changes);
const coding = (
  changes: Readonly<Record<string, string>> = {},
  credential: Parameters<typeof planClient>[1]['credential'] = { token: TOKEN },
) => written('coding-cli', credential, changes);
const settings = (changes: Readonly<Record<string, unknown>> = {}, more: object = {}) => ({
  [SETTINGS]: JSON.stringify(
    { env: { VENDOR_BASE_URL: ROOT, VENDOR_AUTH_TOKEN: TOKEN, ...changes }, ...more },
    null,
    2,
  ),
});

const SECOND = `[model.second]\nmodel = "coder-2"\nbase_url = "${ROOT}/v1"\ncontext_window = 500000\n`;

const BUILD_ROWS: Readonly<Record<string, Row>> = {
  'the key in the file': { files: build(), finds: [] },
  'the key in a variable': { files: build({}, { variable: 'RELAY_API_KEY' }), ...SET, finds: [] },
  'a key where the name of a variable belongs': {
    files: build({ 'env_key = "RELAY_API_KEY"': `env_key = "${TOKEN}"` }, { variable: 'RELAY_API_KEY' }),
    finds: ['failed build_cli.api_key', 'failed build_cli.env_key'],
    says: /env_key contains a key: it must be the name of a variable/,
    after: build(),
  },
  'a variable with a $ before its name': {
    files: build({ '"RELAY_API_KEY"': '"$RELAY_API_KEY"' }, { variable: 'RELAY_API_KEY' }),
    ...SET,
    finds: ['failed build_cli.env_key'],
    after: build({}, { variable: 'RELAY_API_KEY' }),
  },
  'a variable that is not set': {
    files: build({}, { variable: 'RELAY_API_KEY' }),
    finds: ['failed build_cli.key'],
    says: /RELAY_API_KEY of env_key is not set here: the client requires a browser sign-in/,
  },
  'a variable that is not set, and a sign-in at the vendor': {
    files: { ...build({}, { variable: 'RELAY_API_KEY' }), '~/.buildcli/auth.json': '{"token": "x"}' },
    finds: ['failed build_cli.key'],
    says: /would send its vendor login to the gateway/,
  },
  'no key at all, and variables of other clients': {
    files: build({ [`api_key = "${TOKEN}"\n`]: '' }),
    env: { COMPAT_API_KEY: TOKEN },
    finds: ['failed build_cli.key'],
    says: /COMPAT_API_KEY/,
  },
  'the key that the client takes last': {
    files: build({ [`api_key = "${TOKEN}"\n`]: '' }),
    env: { BUILD_VENDOR_API_KEY: TOKEN },
    finds: [],
  },
  'the word Bearer before the key': {
    files: build({ '"gw_': '"Bearer gw_' }),
    finds: ['failed build_cli.api_key'],
    says: /api_key contains the word Bearer or white space beside the key: the client sends it unchanged/,
    after: build(),
  },
  'the name of a variable as the key': {
    files: build({ [`"${TOKEN}"`]: '"RELAY_API_KEY"' }),
    ...SET,
    finds: ['failed build_cli.api_key', 'failed build_cli.env_key'],
    after: { [BUILD]: build({}, { variable: 'RELAY_API_KEY' })[BUILD]! },
  },
  'the id of a model as the default': {
    files: build({ 'default = "coder"': 'default = "coder-1"' }),
    finds: ['failed build_cli.default_model'],
    says: /default is coder-1: it must name an entry \[model\.<alias>\]/,
    after: build(),
  },
  'no default': {
    files: build({ 'default = "coder"\n': '' }),
    finds: ['failed build_cli.default_model'],
    says: /default is missing/,
  },
  'a default with a slip of the pen': {
    files: build({ 'default = "coder"': 'default = "codr"' }),
    finds: ['failed build_cli.default_model'],
    after: build(),
  },
  'a default that may be any of several': {
    files: {
      [BUILD]: `${build({ 'default = "coder"': 'default = "nothing"' })[BUILD]}\n[model.second]\nbase_url = "${ROOT}/v1"\n`,
    },
    finds: ['failed build_cli.default_model', 'failed build_cli.context_window'],
    says: /set default in \[models\] to the alias of an entry: coder or second/,
  },
  'a key in place of a name, and no /v1, in an entry that is not the default': {
    files: { [BUILD]: `${build()[BUILD]}\n${SECOND.replace('/v1"', '"')}env_key = "${TOKEN}"\n` },
    finds: ['failed build_cli.base_url', 'failed build_cli.api_key', 'failed build_cli.env_key'],
    after: { [BUILD]: `${build()[BUILD]}\n${SECOND}api_key = "${TOKEN}"\n` },
  },
  'an entry that is not the default, with a variable that is not set here': {
    files: { [BUILD]: `${build()[BUILD]}\n${SECOND}env_key = "UNSET_KEY"\n` },
    finds: [],
  },
  'an entry that is not the default, with what stands for a key': {
    files: { [BUILD]: `${build()[BUILD]}\n${SECOND}api_key = "<API_KEY>"\n` },
    finds: ['failed build_cli.key'],
    says: /api_key contains no key/,
  },
  'an entry with faults beside a default of the vendor': {
    files: { [BUILD]: `[models]\ndefault = "own"\n[model.own]\nmodel = "m"\n${SECOND.replace('/v1"', '"')}` },
    finds: ['failed build_cli.base_url'],
  },
  'an entry of another gateway': {
    files: { [BUILD]: `${build()[BUILD]}\n[model.second]\nbase_url = "https://other.example.com/api"\n` },
    finds: [],
  },
  'a default by a variable that names no entry': {
    files: build(),
    env: { BUILDCLI_DEFAULT_MODEL: 'coder-1' },
    finds: ['failed build_cli.default_model'],
    says: /BUILDCLI_DEFAULT_MODEL is coder-1: it overrides the file/,
  },
  'no context window': {
    files: build({ 'context_window = 500000\n': '' }),
    finds: ['failed build_cli.context_window'],
    says: /context_window is missing: the client assumes 200000 tokens/,
  },
  'a context window of next to nothing': {
    files: build({ '500000': '200' }),
    finds: ['failed build_cli.context_window'],
    says: /context_window is 200: the client compacts conversations by this value/,
    after: build(),
  },
  'a context window in quotes': {
    files: build({ '500000': '"500_000"' }),
    finds: ['failed build_cli.context_window'],
    after: build(),
  },
  'a context window of more than any model': {
    files: build({ '500000': '5000000' }),
    finds: ['failed build_cli.context_window'],
    after: build(),
  },
  'an address without /v1': {
    files: build({ [`${ROOT}/v1`]: ROOT }),
    finds: ['failed build_cli.base_url'],
    says: /it must end in \/v1/,
    after: build(),
  },
  'an address with the path of an API': {
    files: build({ [`${ROOT}/v1`]: `${ROOT}/v1/chat/completions` }),
    finds: ['failed build_cli.base_url'],
    after: build(),
  },
  'no address': {
    files: build({ [`"${ROOT}/v1"`]: '"gateway"' }),
    finds: ['failed build_cli.address'],
    says: /it is not an absolute URL/,
  },
  'a model of the vendor for titles': {
    files: build({ 'session_summary = "coder"\n': '' }),
    finds: ['warning build_cli.side_models'],
    says: /session_summary is missing: the client requests a model of its vendor/,
  },
  'a file that is no TOML': {
    files: { [BUILD]: '[models\n' },
    finds: ['failed build_cli.file'],
    says: /invalid TOML/,
  },
  'variables that win over the files': {
    files: build(),
    env: { BUILDCLI_CONFIG: 'x' },
    finds: ['warning build_cli.overlay'],
  },
  'a key that others can read': { files: build(), rights: { [BUILD]: 0o644 }, finds: ['warning build_cli.rights'] },
  'a helper': {
    files: build({}, { helper: { program: '/opt/appscli', args: ['token', '--base-url', ROOT] } }),
    finds: [],
  },
};

const CODING_ROWS: Readonly<Record<string, Row>> = {
  'the key in its file': { files: coding(), finds: [] },
  'the key in a variable': { files: coding({}, { variable: 'RELAY_API_KEY' }), ...SET, finds: [] },
  'a helper': {
    files: coding({}, { helper: { program: '/opt/appscli', args: ['token', '--base-url', ROOT] } }),
    finds: [],
  },
  'a helper beside a variable': {
    files: {
      [CODING]: coding({}, { helper: { program: 'appscli', args: ['token'] } })[CODING]!.replace(
        'wire_api',
        'env_key = "X"\nwire_api',
      ),
    },
    finds: ['failed coding_cli.env_key'],
    says: /does not start with two key sources/,
    after: coding({}, { helper: { program: 'appscli', args: ['token'] } }),
  },
  'a variable that is not set': {
    files: coding({}, { variable: 'RELAY_API_KEY' }),
    finds: ['failed coding_cli.env_key'],
    says: /env_key names RELAY_API_KEY, which is not set: the client cannot send requests/,
  },
  'no key': {
    files: { [CODING]: coding()[CODING]! },
    env: { COMPAT_API_KEY: TOKEN },
    finds: ['failed coding_cli.key'],
    says: /the client does not read the variable COMPAT_API_KEY for this provider/,
  },
  'a key that is not used': {
    files: coding({ 'requires_compat_auth = true\n': '' }),
    finds: ['failed coding_cli.auth_flag'],
    says: /requires_compat_auth is missing: the client sends no key/,
  },
  'a key where the name of a variable belongs': {
    files: { [CODING]: coding({}, { variable: 'RELAY_API_KEY' })[CODING]!.replace('RELAY_API_KEY', TOKEN) },
    finds: ['failed coding_cli.key', 'failed coding_cli.env_key', 'failed coding_cli.auth_flag'],
    after: coding(),
  },
  'a variable that is not set, with the key in its file': {
    files: coding({ wire_api: 'env_key = "UNSET"\nwire_api' }),
    finds: ['failed coding_cli.env_key'],
    says: /env_key names UNSET, which is not set/,
    after: coding(),
  },
  'white space beside the key': {
    files: coding({ [`"${TOKEN}"`]: `" ${TOKEN}"` }),
    finds: ['failed coding_cli.key'],
    after: coding(),
  },
  'a sign-in of the vendor beside the key': {
    files: coding({ '"COMPAT_API_KEY"': '"tokens": {"id_token": "x"}, "auth_mode": "chatgpt", "COMPAT_API_KEY"' }),
    finds: ['failed coding_cli.sign_in'],
    says: /may send instead of the key/,
  },
  'a sign-in of the vendor beside the key, and no word of which counts': {
    files: coding({
      '"COMPAT_API_KEY"': '"tokens": {"id_token": "x"}, "COMPAT_API_KEY"',
      '"auth_mode": "apikey"': '"x": "y"',
    }),
    finds: ['warning coding_cli.sign_in'],
    says: /there is also a vendor sign-in/,
  },
  'another key for single runs': {
    files: coding(),
    env: { CODINGCLI_API_KEY: 'gw_another_token_2' },
    finds: ['warning coding_cli.key_variable'],
  },
  'keys in a keyring': {
    files: coding({ model_provider: 'cli_auth_credentials_store = "keyring"\nmodel_provider' }),
    finds: ['failed coding_cli.store'],
  },
  'no context window': {
    files: coding({ 'model_context_window = 500000\n': '' }),
    finds: ['failed coding_cli.context_window'],
    says: /conversations are not compacted in time/,
  },
  'no limit of compaction': {
    files: coding({ 'model_auto_compact_token_limit = 475000\n': '' }),
    finds: ['failed coding_cli.compact_limit'],
  },
  'a window of several million': {
    files: coding({ '500000': '5000000', '475000': '4750000' }),
    finds: ['failed coding_cli.context_window', 'failed coding_cli.compact_limit'],
    after: coding(),
  },
  'a limit above the window': {
    files: coding({ '475000': '600000' }),
    finds: ['failed coding_cli.compact_limit'],
    after: coding(),
  },
  'a smaller window': { files: coding({ '500000': '200000', '475000': '150000' }), finds: [] },
  'another protocol': {
    files: coding({ '"responses"': '"chat"' }),
    finds: ['failed coding_cli.wire_api'],
    says: /wire_api is chat: the client only supports responses/,
    after: coding(),
  },
  'no protocol': {
    files: coding({ 'wire_api = "responses"\n': '' }),
    finds: ['warning coding_cli.wire_api'],
    after: coding(),
  },
  WebSockets: {
    files: coding({ 'supports_websockets = false': 'supports_websockets = true' }),
    finds: ['warning coding_cli.supports_websockets'],
    after: coding(),
  },
  'an address without /v1': {
    files: coding({ [`${ROOT}/v1`]: ROOT }),
    finds: ['failed coding_cli.base_url'],
    after: coding(),
  },
  'a provider that is not there': {
    files: coding({ 'model_provider = "custom"': 'model_provider = "custm"' }),
    finds: ['failed coding_cli.provider'],
    says: /model_provider is custm: no section has that name/,
    after: coding(),
  },
  'no provider': {
    files: coding({ 'model_provider = "custom"\n': '' }),
    finds: ['failed coding_cli.provider'],
    says: /model_provider is missing: the client uses its vendor/,
  },
  'the name of a built-in provider': {
    files: coding({
      'model_provider = "custom"': 'model_provider = "compat"',
      'model_providers.custom': 'model_providers.compat',
    }),
    finds: ['failed coding_cli.provider'],
  },
  'no model': { files: coding({ 'model = "coder-1"\n': '' }), finds: ['failed coding_cli.model'] },
  'a catalogue of models': {
    files: coding({ model_provider: 'model_catalog_json = "x"\nmodel_provider' }),
    finds: ['warning coding_cli.catalogue'],
  },
  'a profile': {
    files: coding({ model_provider: 'profile = "x"\nmodel_provider' }),
    finds: ['warning coding_cli.profile'],
  },
  'a key that others can read': { files: coding(), rights: { [AUTH]: 0o640 }, finds: ['warning coding_cli.rights'] },
  'a broken file with the key': { files: { ...coding(), [AUTH]: '{' }, finds: ['failed coding_cli.file'] },
  'a broken file with the key, and faults in the other': {
    files: {
      ...coding({ '"responses"': '"chat"', 'requires_compat_auth = true\n': '', '"custom"': '"custm"' }),
      [AUTH]: '{',
    },
    finds: [
      'failed coding_cli.file',
      'failed coding_cli.provider',
      'failed coding_cli.wire_api',
      'failed coding_cli.auth_flag',
    ],
  },
};

const MESSAGES_ROWS: Readonly<Record<string, Row>> = {
  'a token in its settings': { files: settings(), finds: [] },
  'a token of the shell': { env: { VENDOR_BASE_URL: ROOT, VENDOR_AUTH_TOKEN: TOKEN }, finds: [] },
  'an address that ends in /v1': {
    files: settings({ VENDOR_BASE_URL: `${ROOT}/v1` }),
    finds: ['failed messages.address'],
    says: /VENDOR_BASE_URL is .*\/v1: the client appends \/v1/,
    after: settings(),
  },
  'an address of the shell that ends in /v1': {
    env: { VENDOR_BASE_URL: `${ROOT}/v1/messages`, VENDOR_AUTH_TOKEN: TOKEN },
    finds: ['failed messages.address'],
    says: /export VENDOR_BASE_URL=https:\/\/gateway\.example\.com$/,
  },
  'an address in quotes': {
    files: settings({ VENDOR_BASE_URL: `'${ROOT}'` }),
    finds: ['failed messages.address'],
    after: settings(),
  },
  'no address that can be used': {
    files: settings({ VENDOR_BASE_URL: 'gateway' }),
    finds: ['failed messages.address'],
  },
  'a token without an address': {
    env: { VENDOR_AUTH_TOKEN: TOKEN },
    programs: ['client'],
    finds: ['failed messages.address'],
    says: /sends the token to its vendor/,
  },
  'an address without a token': {
    files: settings({ VENDOR_AUTH_TOKEN: undefined }),
    finds: ['failed messages.key'],
    says: /would send its vendor login to the gateway/,
  },
  'a token beside a key helper': {
    files: settings({ VENDOR_AUTH_TOKEN: undefined }, { apiKeyHelper: 'echo x' }),
    env: { VENDOR_AUTH_TOKEN: TOKEN },
    finds: ['warning messages.key'],
    says: /in addition to the key helper's, and the gateway decides between them; unset VENDOR_AUTH_TOKEN/,
  },
  'a legacy key beside the token': {
    files: settings({ VENDOR_API_KEY: 'sk-planted-legacy-2' }),
    finds: ['warning messages.key'],
    says: /VENDOR_API_KEY is set: the client sends it in addition to the token/,
    after: settings(),
  },
  'the word Bearer before the token': {
    files: settings({ VENDOR_AUTH_TOKEN: `Bearer ${TOKEN}` }),
    finds: ['failed messages.key'],
    after: settings(),
  },
  'a placeholder': {
    files: settings({ VENDOR_AUTH_TOKEN: '<API_KEY>' }),
    finds: ['failed messages.key'],
    says: /a placeholder or a variable name/,
  },
  'an hour that is not asked for': {
    files: settings({ ENABLE_PROMPT_CACHING_1H: '1', DISABLE_PROMPT_CACHING: '1' }),
    finds: ['warning messages.cache_1h'],
    says: /prompts are not cached for an hour/,
    after: settings({ ENABLE_PROMPT_CACHING_1H: '1' }),
  },
  'an hour that nothing keeps from being asked for': {
    files: settings({ ENABLE_PROMPT_CACHING_1H: '1', FORCE_PROMPT_CACHING_5M: '0' }),
    finds: [],
  },
  'a cloud in place of the gateway': {
    files: settings({ CLIENT_CODE_USE_BEDROCK: '1' }),
    finds: ['failed messages.provider'],
    after: settings(),
  },
  'a model whose window the client guesses': {
    files: settings({ VENDOR_MODEL: 'coder-1' }),
    finds: ['warning messages.context_window'],
    says: /--check reads it from the gateway/,
  },
  'a model whose window the client knows': { files: settings({ VENDOR_MODEL: 'vendor-opus-5' }), finds: [] },
  'a window of more than any model': {
    files: settings({ CLIENT_CODE_MAX_CONTEXT_TOKENS: '9000000' }),
    finds: ['warning messages.context_window'],
    after: settings(),
  },
  'conversations that are not shortened': {
    files: settings({ DISABLE_AUTO_COMPACT: '1' }),
    finds: ['warning messages.compaction'],
    after: settings(),
  },
  'a sign-in with an address beside it': {
    files: settings({ VENDOR_AUTH_TOKEN: undefined }, { forceLoginMethod: 'gateway', forceLoginGatewayUrl: ROOT }),
    finds: ['failed messages.sign_in'],
    says: /the client does not sign in/,
  },
  'a sign-in': {
    files: { [SETTINGS]: JSON.stringify({ forceLoginMethod: 'gateway', forceLoginGatewayUrl: ROOT }) },
    finds: [],
  },
  'a credential in a file of the project': {
    files: { [`${FOLDER}/.client/settings.json`]: settings()[SETTINGS]! },
    finds: ['failed messages.secret'],
    says: /usually committed with the project/,
  },
  'a gateway that a file of the folder names': {
    files: {
      [`${FOLDER}/.client/settings.json`]: JSON.stringify({ env: { VENDOR_BASE_URL: 'https://evil.example.com' } }),
      ...settings({ VENDOR_BASE_URL: undefined }),
    },
    finds: ['warning messages.key'],
    says: /the doctor did not send it/,
  },
  'a broken file, and a token of the shell': {
    files: { [SETTINGS]: '{' },
    env: { VENDOR_BASE_URL: ROOT, VENDOR_AUTH_TOKEN: TOKEN },
    finds: ['failed messages.file'],
  },
  'a key that others can read': {
    files: settings(),
    rights: { [SETTINGS]: 0o644 },
    finds: ['warning messages.rights'],
  },
};

const TABLES = { messages: MESSAGES_ROWS, 'coding-cli': CODING_ROWS, 'build-cli': BUILD_ROWS } as const;
const faultsOn = (client: ClientKind, input: FakeWorkstation) =>
  diagnoseClient(workstationWith(input), client).diagnoses.filter(
    ({ verdict }) => verdict === 'failed' || verdict === 'warning',
  );
const byPath = (files: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(files).map(([path, text]) => [path.replace(/^~/, HOME), text]));

for (const [client, rows] of Object.entries(TABLES) as [ClientKind, Readonly<Record<string, Row>>][]) {
  describe(`the ${CLIENTS[client].title} with`, () => {
    for (const [what, row] of Object.entries(rows)) {
      test(what, () => {
        const { finds, says, after, ...input } = row;
        const faults = faultsOn(client, input);
        assert.deepEqual(
          faults.map(({ verdict, id }) => `${verdict} ${id}`),
          finds,
        );
        if (says !== undefined)
          assert.ok(
            faults.some(({ found, remedy }) => says.test(`${found}; ${remedy}`)),
            faults.map(({ found }) => found).join('\n'),
          );
        for (const { found, remedy, where } of faults) {
          assert.ok(remedy !== undefined && where !== undefined);
          for (const secret of [TOKEN, 'sk-planted-legacy-2'])
            assert.ok(!`${found}${remedy}`.includes(secret), `${found}; ${remedy}`);
        }
        const put_right = mended(input, faults);
        if (after !== undefined) {
          const files = { ...byPath(put_right.files!) };
          const said = (text: string | undefined) =>
            text?.trim().startsWith('{') ? JSON.parse(text) : CLIENTS['build-cli'].parse(text ?? '');
          for (const [path, text] of Object.entries(byPath(after)))
            assert.deepEqual(said(files[path]), said(text), files[path]);
          assert.deepEqual(
            faultsOn(client, put_right).map(({ id }) => id),
            [],
          );
        }
        // What was mended is not found a second time, and nothing of it shows a key.
        const left = faultsOn(client, put_right).flatMap(({ fixes = [] }) => fixes);
        assert.deepEqual(left, []);
        const { changes, hides } = composeFixes(workstationWith(input), faults);
        for (const change of changes) assert.ok(!showDiff(change, hides, false).includes(TOKEN));
      });
    }
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

  test('is nothing where no client is', () => {
    for (const client of CLIENT_KINDS) assert.deepEqual(diagnoseClient(workstationWith(), client).diagnoses, []);
    assert.equal(
      diagnoseClient(workstationWith({ programs: ['buildcli'] }), 'build-cli').diagnoses[0]?.verdict,
      'skipped',
    );
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
