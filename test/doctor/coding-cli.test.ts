import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { planCodingCli } from '../../engine/client-files/coding-cli.ts';
import type { Credential } from '../../engine/client-files/draft.ts';
import { clientNames } from '../../engine/client-files/names.ts';
import { parseToml } from '../../engine/client-files/toml-text.ts';
import { examineCodingCli } from '../../engine/doctor/clients/coding-cli.ts';
import { times } from '../support/times.ts';
import { lookAt, type Mended, mend, mendAll, VENDOR_NAMES } from './client-on-desk.ts';
import { FOLDER, HOME, type PretendedDesk } from './support.ts';

const KEY = 'gw_planted_key_2718281828';
const CONFIG = '~/.codingcli/config.toml';
const AUTH = '~/.codingcli/auth.json';
const CONFIG_PATH = `${HOME}/.codingcli/config.toml`;
const AUTH_PATH = `${HOME}/.codingcli/auth.json`;

const RIGHT = `model_provider = "custom"
model = "coder-1"
model_reasoning_effort = "none"
model_context_window = 500000
model_auto_compact_token_limit = 475000

[model_providers.custom]
name = "custom"
base_url = "https://gateway.example.com/v1"
wire_api = "responses"
requires_compat_auth = true
supports_websockets = false
`;
const RIGHT_AUTH = `{ "COMPAT_API_KEY": "${KEY}" }\n`;
const TOKENS = { id_token: 'planted-id', access_token: 'planted-access', refresh_token: 'planted-refresh' };
const SECRETS = [KEY, ...Object.values(TOKENS)];

const look = (given: PretendedDesk) => lookAt(examineCodingCli, given);

interface Faulty {
  readonly auth?: string | object;
  readonly env?: Readonly<Record<string, string>>;
}

/** The right files with another configuration, or another file with keys. */
function desk(config: string, { auth = RIGHT_AUTH, env = {} }: Faulty = {}): PretendedDesk {
  const text = typeof auth === 'string' ? auth : JSON.stringify(auth, null, 2);
  return { files: { [CONFIG]: config, ...(text !== '' && { [AUTH]: text }) }, env };
}

/** The right file with one fault in it. */
function withFault(text: string, by: string, faulty: Faulty = {}): PretendedDesk {
  assert.ok(RIGHT.includes(text), `${text} is in the file`);
  return desk(RIGHT.replace(text, by), faulty);
}

/** Mends a desk, and checks that nothing is left and that no secret was shown. */
function mended(given: PretendedDesk): Mended & { readonly toml: Record<string, unknown>; readonly key: unknown } {
  const result = mend(examineCodingCli, given);
  assert.deepEqual(result.found.faults, []);
  for (const secret of SECRETS) assert.ok(!result.shown.includes(secret), result.shown);
  assert.equal(result.found.connection?.token, KEY);
  const { COMPAT_API_KEY: key } = JSON.parse(result.files[AUTH_PATH] ?? '{}');
  return { ...result, toml: plain(result.files[CONFIG_PATH]!), key };
}

/** What a TOML text says, in objects as tests write them. */
const plain = (text: string): Record<string, unknown> => JSON.parse(JSON.stringify(parseToml(text)));

/** One fault, found by name and mended to what is right. */
function assertMended(given: PretendedDesk, fault: string, found: RegExp): void {
  assert.deepEqual(look(given).faults, [fault]);
  assert.match(look(given).of(fault.split(' ')[1]!).found, found);
  assert.deepEqual(mended(given).toml, plain(RIGHT));
}

describe('a coding CLI that is set up as it should be', () => {
  test('has nothing wrong with it, and its connection is told', () => {
    const { faults, connection, diagnoses } = look(desk(RIGHT));
    assert.deepEqual(faults, []);
    const { fixWindow, ...told } = connection!;
    const [fix] = fixWindow!(128_000).fixes!;
    assert.match(fix!.change(RIGHT)!, /context_window = 128000\n/);
    assert.deepEqual(told, {
      client: 'coding-cli',
      root_url: 'https://gateway.example.com',
      token: KEY,
      model: 'coder-1',
      context_window: 500_000,
    });
    assert.ok(!JSON.stringify(diagnoses).includes(KEY));
  });

  test('is what appscli client writes, with each way to a credential', () => {
    const credentials: Credential[] = [
      { variable: 'GATEWAY_TOKEN' },
      { token: KEY },
      { helper: { program: '/usr/bin/appscli', args: ['token', '--base-url', 'https://gateway.example.com'] } },
    ];
    for (const credential of credentials) {
      const wish = {
        root_url: 'https://gateway.example.com',
        credential,
        model: 'coder-1',
        provider_name: 'Gateway',
        context_window: 200_000,
      };
      for (const names of [clientNames(undefined), VENDOR_NAMES]) {
        const { config_file: config, auth_file: auth } = names.coding_cli;
        const { drafts } = planCodingCli(wish, names.coding_cli, { config, auth, read: () => undefined });
        const files = Object.fromEntries(drafts.map(({ path, after }) => [path, after]));
        const found = look({ files, env: { GATEWAY_TOKEN: KEY }, names });
        assert.deepEqual(found.faults, []);
        assert.equal(found.connection?.token, 'helper' in credential ? undefined : KEY);
        assert.equal(found.connection?.helper !== undefined, 'helper' in credential);
      }
    }
  });

  test('may have its key in the section, in headers or in a keyring, and keys that nobody here knows', () => {
    const own = (by: string) => withFault('requires_compat_auth = true', by, { auth: '' });
    assert.equal(look(own(`experimental_bearer_token = "${KEY}"`)).connection?.token, KEY);
    for (const given of [
      own(`experimental_bearer_token = "${KEY}"`),
      own('env_http_headers = { "x-api-key" = "GATEWAY_TOKEN" }'),
      desk(`cli_auth_credentials_store = "keyring"\n${RIGHT}`, { auth: '' }),
      desk(
        `personality = "friendly"\n${RIGHT}frobnicate = true\n[features]\nundo = true\n[mcp_servers.docs]\nurl = "https://docs.example.com"\n`,
      ),
    ]) {
      assert.deepEqual(look(given).faults, []);
    }
  });

  test('that asks its vendor on purpose is told of no fault', () => {
    for (const given of [
      { programs: ['codingcli'], env: { COMPAT_BASE_URL: 'https://gateway.example.com' } },
      { ...desk('model = "of-the-vendor"\n', { auth: { tokens: TOKENS } }), env: { COMPAT_BASE_URL: 'x' } },
    ]) {
      const { diagnoses, connection } = look(given);
      assert.deepEqual(
        diagnoses.map(({ id, verdict }) => [id, verdict]),
        [['coding_cli.gateway', 'skipped']],
      );
      assert.match(diagnoses[0]!.details![0]!, /COMPAT_BASE_URL is set, which the client does not read/);
      assert.equal(connection, undefined);
    }
  });
});

describe('a key of the coding CLI', () => {
  test('that is missing is told, and that a variable of its name does not count', () => {
    for (const auth of ['', '{}', { COMPAT_API_KEY: null }, { COMPAT_API_KEY: '' }]) {
      const { faults, of, connection } = look(desk(RIGHT, { auth, env: { COMPAT_API_KEY: KEY } }));
      assert.deepEqual(faults, ['failed coding_cli.key']);
      assert.match(
        of('coding_cli.key').details![0]!,
        /COMPAT_API_KEY is set as a variable, which the client does not read/,
      );
      assert.equal(connection?.token, undefined);
    }
  });

  test('under another name gets the right one', () => {
    const given = desk(RIGHT, { auth: { API_KEY: KEY, last_refresh: null } });
    assert.deepEqual(look(given).faults, ['failed coding_cli.key']);
    assert.equal(look(given).of('coding_cli.key').where, `${AUTH_PATH}:2`);
    const { key, files } = mended(given);
    assert.equal(key, KEY);
    assert.ok(!files[AUTH_PATH]!.includes('"API_KEY"'));
  });

  test('with the word Bearer or white space loses that', () => {
    for (const text of [`Bearer ${KEY}`, `${KEY}\n`]) {
      const given = desk(RIGHT, { auth: { COMPAT_API_KEY: text } });
      assert.deepEqual(look(given).faults, ['failed coding_cli.key']);
      assert.equal(mended(given).key, KEY);
    }
  });

  test('that is an example or the name of a variable is none', () => {
    for (const text of ['<API_KEY>', '$GATEWAY_TOKEN', 'GATEWAY_TOKEN']) {
      const { faults, connection } = look(desk(RIGHT, { auth: { COMPAT_API_KEY: text } }));
      assert.deepEqual(faults, ['failed coding_cli.key']);
      assert.equal(connection?.token, undefined);
    }
  });

  test('that others can read gets other rights', () => {
    const given = { ...desk(RIGHT), rights: { [AUTH]: 0o644 } };
    assert.deepEqual(look(given).faults, ['warning coding_cli.rights']);
    assert.deepEqual(mended(given).secret, [AUTH_PATH]);
  });

  test('is used once the section says so', () => {
    const given = withFault('requires_compat_auth = true\n', '');
    assert.deepEqual(look(given).faults, ['failed coding_cli.auth_flag']);
    assert.equal(look(given).connection?.token, undefined);
    assert.deepEqual(mended(given).toml, plain(RIGHT));
    assert.deepEqual(look(withFault('requires_compat_auth = true\n', '', { auth: '' })).faults, [
      'failed coding_cli.auth_flag',
    ]);
  });

  test('of a variable for single runs wins over that of the file', () => {
    const { faults, of } = look(desk(RIGHT, { env: { CODINGCLI_API_KEY: 'another' } }));
    assert.deepEqual(faults, ['warning coding_cli.key_variable']);
    assert.equal(of('coding_cli.key_variable').where, 'CODINGCLI_API_KEY');
    assert.deepEqual(look(desk(RIGHT, { env: { CODINGCLI_API_KEY: KEY } })).faults, []);
  });

  test('in a keyring or in no store is not that of the file', () => {
    for (const store of ['keyring', 'ephemeral']) {
      const given = desk(`cli_auth_credentials_store = "${store}"\n${RIGHT}`);
      assert.deepEqual(look(given).faults, ['failed coding_cli.key']);
      mended(given);
    }
  });

  test('in a broken file is told with the line', () => {
    const { faults, of, diagnoses } = look(desk(RIGHT, { auth: `{\n  "COMPAT_API_KEY": "${KEY}",\n}` }));
    assert.deepEqual(faults, ['failed coding_cli.auth_file']);
    assert.match(of('coding_cli.auth_file').where!, /auth\.json:3$/);
    assert.ok(!JSON.stringify(diagnoses).includes(KEY));
  });
});

describe('a sign-in beside the key', () => {
  const auth = { COMPAT_API_KEY: KEY, tokens: TOKENS, last_refresh: '2026-11-23T00:00:00Z' };

  test('is told, and the file says afterwards which of both is meant', () => {
    const given = desk(RIGHT, { auth });
    assert.deepEqual(look(given).faults, ['warning coding_cli.sign_in']);
    const { files } = mended(given);
    assert.deepEqual(JSON.parse(files[AUTH_PATH]!), { ...auth, auth_mode: 'apikey' });
  });

  test('that is used in its place goes to the gateway, which must not be', () => {
    const given = desk(RIGHT, { auth: { auth_mode: 'person', ...auth } });
    assert.deepEqual(look(given).faults, ['failed coding_cli.sign_in']);
    assert.match(look(given).of('coding_cli.sign_in').found, /sends the gateway the sign-in to its vendor/);
    assert.equal(look(given).connection?.token, undefined);
    mended(given);
    assert.match(
      look(desk(RIGHT, { auth: { tokens: TOKENS } })).of('coding_cli.key').found,
      /sends the gateway the sign-in/,
    );
  });

  test('that is not there while the file says it is used leaves no key', () => {
    const given = desk(RIGHT, { auth: { auth_mode: 'person', COMPAT_API_KEY: KEY } });
    assert.deepEqual(look(given).faults, ['failed coding_cli.sign_in']);
    mended(given);
  });
});

describe('an env_key of the coding CLI', () => {
  const withEnvKey = (value: string, faulty: Faulty = {}) =>
    withFault('requires_compat_auth = true', `env_key = ${value}`, faulty);

  test('that holds a key moves to the file with keys, and is never shown', () => {
    for (const [text, auth] of [
      [`"${KEY}"`, ''],
      [`"Bearer ${KEY}"`, '{}'],
      [`'${KEY}'`, RIGHT_AUTH],
    ] as const) {
      const given = withEnvKey(text, { auth });
      const { faults, of, diagnoses } = look(given);
      assert.deepEqual(faults, ['failed coding_cli.env_key']);
      assert.equal(of('coding_cli.env_key').where, `${CONFIG_PATH}:11`);
      assert.ok(!JSON.stringify(diagnoses.map(({ fixes: _, ...told }) => told)).includes(KEY));
      const { key, secret, toml } = mended(given);
      assert.equal(key, KEY);
      assert.ok(auth === RIGHT_AUTH || secret.includes(AUTH_PATH));
      assert.deepEqual(toml, plain(RIGHT));
    }
  });

  test('that holds another key than the file is left to people', () => {
    const { of } = look(withEnvKey('"gw_another_key_161803398"'));
    assert.equal(of('coding_cli.env_key').fixes, undefined);
  });

  test('under the name api_key does the same', () => {
    const given = withFault('requires_compat_auth = true', `api_key = "${KEY}"`, { auth: '' });
    assert.deepEqual(look(given).faults, ['failed coding_cli.env_key']);
    assert.deepEqual(mended(given).toml, plain(RIGHT));
  });

  test('that is set is the key, whatever the file has', () => {
    const env = { GATEWAY_TOKEN: KEY };
    assert.equal(look(withEnvKey('"GATEWAY_TOKEN"', { env, auth: '' })).connection?.token, KEY);
    const both = withFault('wire_api', 'env_key = "GATEWAY_TOKEN"\nwire_api', {
      env,
      auth: { COMPAT_API_KEY: 'another-key' },
    });
    assert.deepEqual(look(both).faults, []);
    assert.match(look(both).of('coding_cli.key').details![0]!, /another key is in .*auth\.json, which is not read/);
  });

  test('that is not set keeps the client from starting; where the key is in its file as well, env_key goes', () => {
    const { faults, of } = look(withEnvKey('"GATEWAY_TOKEN"', { auth: '' }));
    assert.deepEqual(faults, ['failed coding_cli.env_key']);
    assert.equal(of('coding_cli.env_key').fixes, undefined);
    assertMended(
      withFault('wire_api', 'env_key = "GATEWAY_TOKEN"\nwire_api'),
      'failed coding_cli.env_key',
      /GATEWAY_TOKEN, which is not set here/,
    );
    assertMended(withFault('wire_api', 'env_key = ""\nwire_api'), 'failed coding_cli.env_key', /env_key is empty/);
  });

  test('with a $ before the name, or in a list, is the name', () => {
    const env = { GATEWAY_TOKEN: KEY };
    for (const text of ['"$GATEWAY_TOKEN"', '["GATEWAY_TOKEN"]']) {
      const given = withEnvKey(text, { env, auth: '' });
      assert.deepEqual(look(given).faults, ['failed coding_cli.env_key']);
      const { toml } = mended(given);
      assert.equal((toml.model_providers as Record<string, Record<string, unknown>>).custom!.env_key, 'GATEWAY_TOKEN');
    }
  });

  test('whose variable begins with Bearer is told so', () => {
    const { faults } = look(withEnvKey('"GATEWAY_TOKEN"', { env: { GATEWAY_TOKEN: `Bearer ${KEY}` }, auth: '' }));
    assert.deepEqual(faults, ['failed coding_cli.key']);
  });
});

describe('a command for the key', () => {
  const command = '[model_providers.custom.auth]\ncommand = "/usr/bin/appscli"\nargs = ["token"]\n';

  test('beside other ways to it keeps the client from starting', () => {
    const given = desk(RIGHT + command, { auth: '' });
    assert.deepEqual(look(given).faults, ['failed coding_cli.key']);
    const { found } = mend(examineCodingCli, given);
    assert.deepEqual(found.faults, []);
    assert.deepEqual(found.connection?.helper?.command, { program: '/usr/bin/appscli', args: ['token'] });
  });

  test('that is none is told so', () => {
    const section = withFault('requires_compat_auth = true\n', '').files![CONFIG]!;
    assert.deepEqual(look(desk(`${section}[model_providers.custom.auth]\nargs = "token"\n`)).faults, [
      'failed coding_cli.key',
    ]);
  });
});

describe('the provider', () => {
  test('that is not there is the only section there is', () => {
    assertMended(
      withFault('"custom"', '"gateway"'),
      'failed coding_cli.provider',
      /"gateway", and there is no such section: the client does not start/,
    );
    assertMended(
      withFault('model_provider = "custom"\n', ''),
      'failed coding_cli.provider',
      /no model_provider is named: it asks its vendor/,
    );
  });

  test('of the vendor may be meant by somebody who is signed in there, or who names it', () => {
    for (const given of [
      withFault('model_provider = "custom"\n', '', { auth: { tokens: TOKENS } }),
      withFault('model_provider = "custom"', 'model_provider = "compat"'),
    ]) {
      const { faults, of, connection } = look(given);
      assert.deepEqual(faults, ['warning coding_cli.provider']);
      assert.equal(of('coding_cli.provider').fixes, undefined);
      assert.equal(connection, undefined);
    }
  });

  test('with a name that the client has itself gets another', () => {
    const given = desk(RIGHT.replaceAll('custom', 'compat').replace('name = "compat"', 'name = "custom"'));
    assert.deepEqual(look(given).faults, ['failed coding_cli.provider']);
    assert.deepEqual(mended(given).toml, plain(RIGHT));
  });

  test('of the client at another address works, with a hint', () => {
    const given = desk(
      'compat_base_url = "https://gateway.example.com/v1"\nmodel = "coder-1"\nmodel_context_window = 500000\nmodel_auto_compact_token_limit = 475000\n',
    );
    const { faults, connection } = look(given);
    assert.deepEqual(faults, ['warning coding_cli.provider']);
    assert.equal(connection?.token, KEY);
  });

  test('says what it speaks, has a name, and tries no WebSockets', () => {
    assertMended(withFault('wire_api = "responses"\n', ''), 'warning coding_cli.wire_api', /is missing/);
    assertMended(withFault('"responses"', '"chat"'), 'failed coding_cli.wire_api', /it does not start/);
    assertMended(withFault('\nname = "custom"', '\nname = ""'), 'failed coding_cli.name', /no name/);
    assertMended(
      withFault('websockets = false', 'websockets = true'),
      'warning coding_cli.supports_websockets',
      /several times/,
    );
    assertMended(withFault('auth = true', 'auth = "true"'), 'failed coding_cli.auth_flag', /neither true nor false/);
  });

  test('has an address that ends in /v1', () => {
    for (const url of ['https://gateway.example.com', 'https://gateway.example.com/v1/responses']) {
      assertMended(
        withFault('https://gateway.example.com/v1', url),
        'failed coding_cli.base_url',
        /has to end in \/v1/,
      );
    }
    const { faults, connection } = look(withFault('base_url = "https://gateway.example.com/v1"\n', ''));
    assert.deepEqual(faults, ['failed coding_cli.base_url']);
    assert.equal(connection, undefined);
  });
});

describe('when conversations are shortened', () => {
  const limits = (given: PretendedDesk) => {
    const { model_context_window: window, model_auto_compact_token_limit: limit } = mended(given).toml;
    return [window, limit];
  };

  test('is at 475000 of 500000 where nothing is said', () => {
    const given = withFault('model_context_window = 500000\nmodel_auto_compact_token_limit = 475000\n', '');
    assert.deepEqual(look(given).faults, ['failed coding_cli.context_window', 'failed coding_cli.compact_limit']);
    assert.deepEqual(limits(given), [500_000, 475_000]);
  });

  test('is at 95 % of the window that is said, and a window belongs to the limit that is said', () => {
    assert.deepEqual(
      limits(withFault('window = 500000\nmodel_auto_compact_token_limit = 475000', 'window = 200000')),
      [200_000, 190_000],
    );
    assert.deepEqual(
      limits(
        withFault(
          'model_context_window = 500000\nmodel_auto_compact_token_limit = 475000',
          'model_auto_compact_token_limit = 190000',
        ),
      ),
      [200_000, 190_000],
    );
  });

  test('comes too late with a window of several millions, or a limit that is not below it', () => {
    assert.deepEqual(limits(withFault('window = 500000', 'window = 5000000')), [500_000, 475_000]);
    for (const [limit, verdict] of [
      [600_000, 'failed'],
      [500_000, 'failed'],
      [490_000, 'warning'],
    ] as const) {
      const given = withFault('475000', String(limit));
      assert.deepEqual(look(given).faults, [`${verdict} coding_cli.compact_limit`]);
      assert.deepEqual(limits(given), [500_000, 475_000]);
    }
    assert.deepEqual(look(withFault('475000', '300000')).faults, []);
  });

  test('is no text in quotes', () => {
    assert.deepEqual(limits(withFault('window = 500000', 'window = "500_000"')), [500_000, 475_000]);
  });

  test('is not for a local catalogue to say', () => {
    const withCatalogue = (text: string | undefined) => ({
      ...desk(`model_catalog_json = "catalogue.json"\n${RIGHT}`),
      files: {
        ...desk(`model_catalog_json = "catalogue.json"\n${RIGHT}`).files,
        ...(text !== undefined && { '~/.codingcli/catalogue.json': text }),
      },
    });
    const model = (context_window: number) => JSON.stringify({ models: [{ slug: 'coder-1', context_window }] });
    for (const text of [undefined, '{"models":[]}', model(10_000_000)]) {
      assertMended(withCatalogue(text), 'failed coding_cli.catalogue', /does not start|more than any model takes/);
    }
    for (const text of [model(400_000), '{"models":[{"slug":"other"}]}', 'no JSON']) {
      assert.deepEqual(look(withCatalogue(text)).faults, ['warning coding_cli.catalogue']);
      assert.equal(look(withCatalogue(text)).of('coding_cli.catalogue').fixes, undefined);
    }
  });
});

describe('names of tables and keys of the coding CLI', () => {
  test('below the wrong header are put at the top', () => {
    const top = 'model_provider = "custom"\nmodel = "coder-1"\n';
    const given = desk(`${RIGHT.replace(top, '')}${top}`);
    assert.deepEqual(look(given).faults, ['failed coding_cli.names', 'failed coding_cli.names']);
    assert.deepEqual(mended(given).toml, plain(RIGHT));
    assert.deepEqual(look(desk(`${RIGHT}[review]\nmodel = "other"\n`)).faults, []);
  });

  test('that are slips of the pen are put right', () => {
    for (const [text, by] of [
      ['model_context_window', 'context_window'],
      ['model_auto_compact_token_limit', 'auto_compact_token_limit'],
      ['base_url', 'baseurl'],
      ['base_url', 'endpoint'],
      ['wire_api', 'wireapi'],
      ['requires_compat_auth', 'require_compat_auth'],
    ] as const) {
      assertMended(withFault(text, by), 'failed coding_cli.names', /does not know the key/);
    }
  });

  test('of the other client are named', () => {
    const { faults } = look(
      desk(
        '[models]\ndefault = "coder"\n[model.coder]\nmodel = "coder-1"\nbase_url = "https://gateway.example.com/v1"\n',
      ),
    );
    assert.deepEqual(faults, ['failed coding_cli.gateway']);
  });
});

describe('what decides besides', () => {
  test('is told: profiles, forced sign-ins, efforts, models that are not named', () => {
    assert.deepEqual(look(desk(`profile = "work"\n${RIGHT}`)).faults, ['failed coding_cli.profile']);
    assert.deepEqual(look(desk(`forced_login_method = "person"\n${RIGHT}`)).faults, [
      'failed coding_cli.forced_sign_in',
    ]);
    assert.deepEqual(look(withFault('model = "coder-1"\n', '')).faults, ['failed coding_cli.model']);
    assertMended(withFault('"none"', '"extreme"'), 'warning coding_cli.effort', /passes it on as it is/);
  });

  test('is the file of the folder, which is said without alarm', () => {
    const given = desk(RIGHT);
    const files = { ...given.files, [`${FOLDER}/.codingcli/config.toml`]: '# ours\nmodel = "other"\n' };
    const { faults, of } = look({ ...given, files });
    assert.deepEqual(faults, []);
    assert.equal(of('coding_cli.project').where, `${FOLDER}/.codingcli/config.toml:2`);
  });

  test('is a folder that a variable names', () => {
    const env = { CODINGCLI_HOME: '/srv/tools' };
    assert.deepEqual(
      look({ files: { '/srv/tools/config.toml': RIGHT, '/srv/tools/auth.json': RIGHT_AUTH }, env }).faults,
      [],
    );
    assert.deepEqual(look({ ...desk(RIGHT), programs: ['codingcli'], env }).faults, ['failed coding_cli.folder']);
  });

  test('is a file of an administrator, which is not mended', () => {
    const managed = RIGHT.replace('https://gateway.example.com/v1', 'https://gateway.example.com');
    const { of } = look({ files: { '/etc/codingcli/config.toml': managed, [AUTH]: RIGHT_AUTH } });
    assert.equal(of('coding_cli.base_url').where, '/etc/codingcli/config.toml:9');
    assert.equal(of('coding_cli.base_url').fixes, undefined);
  });
});

test('files of the coding CLI of any form crash nothing, and show no key', () => {
  const value = fc.oneof(
    fc.constantFrom(KEY, 'custom', 'compat', '$GATEWAY_TOKEN', '', 'https://gateway.example.com', 'chat', 'apikey'),
    fc.integer(),
    fc.boolean(),
  );
  const top_keys = [
    'model_provider',
    'model',
    'model_context_window',
    'model_auto_compact_token_limit',
    'profile',
    'compat_base_url',
    'model_catalog_json',
  ];
  const keys = [
    'name',
    'base_url',
    'env_key',
    'api_key',
    'wire_api',
    'requires_compat_auth',
    'experimental_bearer_token',
    'model_provider',
    'endpoint',
  ];
  const top = fc.dictionary(fc.constantFrom(...top_keys), value, { maxKeys: 5 });
  const section = fc.dictionary(fc.constantFrom(...keys), value, { maxKeys: 6 });
  const auth = fc.dictionary(
    fc.constantFrom('COMPAT_API_KEY', 'API_KEY', 'auth_mode', 'tokens'),
    fc.oneof(value, fc.constant(TOKENS), fc.constant(null)),
  );
  const line = ([key, text]: [string, unknown]) => `${key} = ${JSON.stringify(text)}`;
  fc.assert(
    fc.property(top, section, section, auth, (values, custom, other, kept) => {
      const text = [
        ...Object.entries(values).map(line),
        ...['[model_providers.custom]', ...Object.entries(custom).map(line)],
        ...['[model_providers.other]', ...Object.entries(other).map(line)],
      ].join('\n');
      const given = desk(text, { auth: kept });
      const { diagnoses } = look(given);
      const told = JSON.stringify(diagnoses.map(({ fixes: _, ...each }) => each));
      for (const secret of SECRETS) assert.ok(!told.includes(secret), told);
      mendAll(examineCodingCli, given, SECRETS);
    }),
    { numRuns: times(15) },
  );
});
