import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { planBuildCli } from '../../engine/client-files/build-cli.ts';
import type { Credential } from '../../engine/client-files/draft.ts';
import { clientNames } from '../../engine/client-files/names.ts';
import { parseToml } from '../../engine/client-files/toml-text.ts';
import { examineBuildCli } from '../../engine/doctor/clients/build-cli.ts';
import { times } from '../support/times.ts';
import { lookAt, mend, mendAll, VENDOR_NAMES } from './client-on-desk.ts';
import { HOME, type PretendedDesk } from './support.ts';

const KEY = 'gw_planted_key_2718281828';
const CONFIG = '~/.buildcli/config.toml';
const PATH = `${HOME}/.buildcli/config.toml`;

const RIGHT = `[models]
default = "coder"
session_summary = "coder"
image_description = "coder"

[model.coder]
model = "coder-1"
base_url = "https://gateway.example.com/v1"
name = "Coder"
context_window = 500000
env_key = "GATEWAY_TOKEN"
`;
/** How shells name the variable. */
const REFERENCES = ['', '{'].map((open) => `$${open}GATEWAY_TOKEN${open && '}'}`);
const ENV = { GATEWAY_TOKEN: KEY };

const look = (given: PretendedDesk) => lookAt(examineBuildCli, given);

/** The right file with one fault in it. */
function withFault(text: string, by: string, env: Readonly<Record<string, string>> = ENV): PretendedDesk {
  assert.ok(RIGHT.includes(text), `${text} is in the file`);
  return { files: { [CONFIG]: RIGHT.replace(text, by) }, env };
}

/** Mends a desk, checks that nothing is left, that no key was shown, and returns what the file says. */
function mended(given: PretendedDesk): Record<string, unknown> {
  const { files, found, shown } = mend(examineBuildCli, given);
  assert.deepEqual(found.faults, []);
  assert.ok(!shown.includes(KEY), shown);
  return plain(files[PATH]!);
}

/** What a TOML text says, in objects as tests write them. */
const plain = (text: string): Record<string, unknown> => JSON.parse(JSON.stringify(parseToml(text)));

describe('a build CLI that is set up as it should be', () => {
  test('has nothing wrong with it, and its connection is told', () => {
    const { faults, connection, diagnoses } = look({ files: { [CONFIG]: RIGHT }, env: ENV });
    assert.deepEqual(faults, []);
    const { fixWindow, ...told } = connection!;
    const [fix] = fixWindow!(128_000).fixes!;
    assert.match(fix!.change(RIGHT)!, /context_window = 128000\n/);
    assert.deepEqual(told, {
      client: 'build-cli',
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
        model: 'made/coder-1',
        alias: 'made-coder-1',
        display_name: 'Coder',
        context_window: 200_000,
      };
      for (const names of [clientNames(undefined), VENDOR_NAMES]) {
        const path = names.build_cli.config_file;
        const { drafts } = planBuildCli(wish, names.build_cli, { path, read: () => undefined });
        const found = look({ files: { [path]: drafts[0]!.after }, env: ENV, names });
        assert.deepEqual(found.faults, []);
        assert.equal(found.connection?.token, 'helper' in credential ? undefined : KEY);
        assert.equal(found.connection?.helper !== undefined, 'helper' in credential);
      }
    }
  });

  test('may have a sign-in to its vendor beside the key, other entries, and keys that nobody here knows', () => {
    const files = {
      '~/.buildcli/auth.json': '{"issuer":{"key":"session"}}',
      [CONFIG]: `${RIGHT}reasoning_effort = "high"\nfrobnicate = true\n\n[model.of-the-vendor]\ntemperature = 0.5\n\n[ui]\ntheme = "dark"\n`,
    };
    assert.deepEqual(look({ files, env: ENV }).faults, []);
  });

  test('may leave address and key to a provider', () => {
    const text = `[models]\ndefault = "coder"\nsession_summary = "coder"\nimage_description = "coder"\n[model_providers.gateway]\nbase_url = "https://gateway.example.com/v1/"\nenv_key = ["UNSET_TOKEN", "GATEWAY_TOKEN"]\n[model.coder]\nmodel = "coder-1"\nmodel_provider = "gateway"\ncontext_window = 500000\n`;
    const { faults, connection } = look({ files: { [CONFIG]: text }, env: ENV });
    assert.deepEqual(faults, []);
    assert.equal(connection?.token, KEY);
    assert.equal(connection?.root_url, 'https://gateway.example.com');
  });

  test('that asks its vendor on purpose is told of no fault', () => {
    for (const given of [{ programs: ['buildcli'] }, { files: { [CONFIG]: '[ui]\ntheme = "dark"\n' } }]) {
      const { diagnoses, connection } = look({ ...given, env: { COMPAT_API_KEY: KEY } });
      assert.deepEqual(
        diagnoses.map(({ id, verdict }) => [id, verdict]),
        [['build_cli.gateway', 'skipped']],
      );
      assert.equal(connection, undefined);
      assert.match(diagnoses[0]!.details![0]!, /COMPAT_API_KEY is set, which the client does not read/);
    }
  });
});

describe('a build CLI that wants a sign-in in a browser', () => {
  test('because its variable is not set is told so, with what else it would have taken', () => {
    const { of, faults, connection } = look({ files: { [CONFIG]: RIGHT }, env: { COMPAT_API_KEY: KEY } });
    assert.deepEqual(faults, ['failed build_cli.key']);
    assert.match(
      of('build_cli.key').found,
      /GATEWAY_TOKEN of env_key is not set here, there is no sign-in, and BUILD_VENDOR_API_KEY is not set/,
    );
    assert.match(of('build_cli.key').details![0]!, /COMPAT_API_KEY is set, which the client does not read/);
    assert.equal(of('build_cli.key').where, `${PATH}:11`);
    assert.equal(connection?.token, undefined);
  });

  test('takes the variable of its vendor last', () => {
    for (const name of ['BUILD_VENDOR_API_KEY', 'BUILDCLI_API_KEY']) {
      const { faults, connection, of } = look({ files: { [CONFIG]: RIGHT }, env: { [name]: KEY } });
      assert.deepEqual(faults, []);
      assert.equal(connection?.token, KEY);
      assert.match(of('build_cli.key').found, new RegExp(name));
    }
  });

  test('would send the sign-in to its vendor to the gateway', () => {
    const files = { [CONFIG]: RIGHT, '~/.buildcli/auth.json': '{"issuer":{"key":"planted-session"}}' };
    const { faults, of, connection } = look({ files, env: { BUILD_VENDOR_API_KEY: KEY } });
    assert.deepEqual(faults, ['failed build_cli.key']);
    assert.match(of('build_cli.key').found, /sends the sign-in to its vendor instead/);
    assert.equal(connection?.token, undefined);
  });

  test('because keys are not allowed is told which line says so', () => {
    const { faults, of } = look({ files: { [CONFIG]: `${RIGHT}[account]\ndisable_api_key_auth = true\n` }, env: ENV });
    assert.deepEqual(faults, ['failed build_cli.key']);
    assert.equal(of('build_cli.key').where, `${PATH}:13`);
  });

  test('because its default is not there gets the only entry as its default', () => {
    const given = withFault('default = "coder"\n', '');
    assert.match(look(given).of('build_cli.default_model').found, /wants a sign-in in a browser/);
    assert.equal((mended(given).models as { default: string }).default, 'coder');
  });

  test('because its default is another word gets the entry that was meant, unless that is not sure', () => {
    for (const word of ['Coder', 'codr', 'something-else', 7]) {
      const given = withFault('default = "coder"', `default = ${JSON.stringify(word)}`);
      assert.deepEqual(look(given).faults, ['failed build_cli.default_model']);
      assert.equal((mended(given).models as { default: string }).default, 'coder');
    }
    const two = `${RIGHT.replace('default = "coder"', 'default = "other"')}[model.writer]\nmodel = "writer-1"\nbase_url = "https://gateway.example.com/v1"\ncontext_window = 1000\n`;
    const { of } = look({ files: { [CONFIG]: two }, env: ENV });
    assert.equal(of('build_cli.default_model').fixes, undefined);
    assert.match(of('build_cli.default_model').remedy!, /alias of an entry: coder or writer/);
  });
});

describe('a default that is the id of a model', () => {
  test('becomes the alias of its entry', () => {
    const given = withFault('default = "coder"', 'default = "coder-1"');
    const { faults, of, connection } = look(given);
    assert.deepEqual(faults, ['warning build_cli.default_model']);
    assert.match(of('build_cli.default_model').found, /"coder-1", the id of a model and not the alias/);
    assert.equal(of('build_cli.default_model').where, `${PATH}:2`);
    assert.equal(connection?.model, 'coder-1');
    assert.equal((mended(given).models as { default: string }).default, 'coder');
  });

  test('stays where several entries have it', () => {
    const text = `${RIGHT.replace('default = "coder"', 'default = "coder-1"')}[model.again]\nmodel = "coder-1"\nbase_url = "https://gateway.example.com/v1"\ncontext_window = 500000\n`;
    assert.equal(look({ files: { [CONFIG]: text }, env: ENV }).of('build_cli.default_model').fixes, undefined);
  });

  test('is fine where the client gets its list of models from an address', () => {
    const env = { ...ENV, BUILDCLI_MODELS_BASE_URL: 'https://gateway.example.com/v1' };
    assert.deepEqual(look(withFault('default = "coder"', 'default = "writer-1"', env)).faults, []);
  });

  test('of a variable wins over the file, and is not mended there', () => {
    const given = withFault('name', 'name', { ...ENV, BUILDCLI_DEFAULT_MODEL: 'other' });
    const { of } = look(given);
    assert.equal(of('build_cli.default_model').where, 'BUILDCLI_DEFAULT_MODEL');
    assert.equal(of('build_cli.default_model').fixes, undefined);
    assert.match(of('build_cli.default_model').remedy!, /^unset BUILDCLI_DEFAULT_MODEL/);
  });
});

describe('an env_key that holds a key', () => {
  test('becomes an api_key in a file that only its owner can read, and is never shown', () => {
    for (const key of [KEY, `Bearer ${KEY}`, ` ${KEY}`]) {
      const given = withFault('"GATEWAY_TOKEN"', JSON.stringify(key), {});
      const { faults, of, diagnoses, connection } = look({ ...given, rights: { [CONFIG]: 0o644 } });
      assert.deepEqual(faults, ['failed build_cli.env_key', 'warning build_cli.rights']);
      assert.equal(of('build_cli.env_key').where, `${PATH}:11`);
      assert.ok(!JSON.stringify(diagnoses.map(({ fixes: _, ...told }) => told)).includes(KEY));
      assert.equal(connection?.token, undefined, 'the client does not find it');
      const { files, secret, shown, found } = mend(examineBuildCli, { ...given, rights: { [CONFIG]: 0o644 } });
      assert.deepEqual(found.faults, []);
      assert.equal(found.connection?.token, KEY);
      assert.deepEqual(secret, [PATH]);
      assert.ok(!shown.includes(KEY), shown);
      assert.match(files[PATH]!, new RegExp(`^api_key = "${KEY}"$`, 'm'));
      assert.doesNotMatch(files[PATH]!, /env_key/);
    }
  });

  test('beside names of variables stays a list of names', () => {
    const given = withFault('"GATEWAY_TOKEN"', `["GATEWAY_TOKEN", "${KEY}"]`);
    const entry = (mended(given).model as Record<string, Record<string, unknown>>).coder!;
    assert.deepEqual(entry.env_key, ['GATEWAY_TOKEN']);
    assert.equal(entry.api_key, undefined);
  });

  test('is the name of a variable when it is set, when it is in capitals, and when it reads like a name', () => {
    assert.deepEqual(
      look(withFault('"GATEWAY_TOKEN"', `"gw_token_1234567890"`, { gw_token_1234567890: KEY })).faults,
      [],
    );
    for (const name of ['XAI_API_KEY_2_FOR_GATEWAYS', 'gateway_token_of_the_team']) {
      assert.deepEqual(look(withFault('"GATEWAY_TOKEN"', `"${name}"`, {})).faults, ['failed build_cli.key']);
    }
  });

  test('with a $ before the name loses it', () => {
    for (const text of REFERENCES) {
      const given = withFault('"GATEWAY_TOKEN"', `"${text}"`);
      assert.deepEqual(look(given).faults, ['failed build_cli.env_key']);
      assert.equal((mended(given).model as Record<string, Record<string, unknown>>).coder!.env_key, 'GATEWAY_TOKEN');
    }
  });
});

describe('an api_key that holds something else', () => {
  const withKey = (text: string, env = ENV) =>
    withFault('env_key = "GATEWAY_TOKEN"', `api_key = ${JSON.stringify(text)}`, env);

  test('such as the name of a variable becomes an env_key', () => {
    for (const text of ['GATEWAY_TOKEN', ...REFERENCES]) {
      const { coder } = mended(withKey(text)).model as Record<string, Record<string, unknown>>;
      assert.equal(coder!.env_key, 'GATEWAY_TOKEN');
      assert.equal(coder!.api_key, undefined);
    }
  });

  test('such as the word Bearer or white space loses that', () => {
    for (const text of [`Bearer ${KEY}`, `${KEY}\n`]) {
      const { coder } = mended(withKey(text)).model as Record<string, Record<string, unknown>>;
      assert.equal(coder!.api_key, KEY);
    }
  });

  test('such as an example is told so', () => {
    for (const text of ['<API_KEY>', 'YOUR_API_KEY', 'xxxx']) {
      const { faults, connection } = look(withKey(text));
      assert.deepEqual(faults, ['failed build_cli.api_key']);
      assert.equal(connection?.token, undefined);
    }
  });

  test('and is empty counts as none', () => {
    assert.deepEqual(look(withKey('')).faults, ['failed build_cli.key']);
  });

  test('wins over a variable, which is said without alarm', () => {
    const given = withFault('env_key', `api_key = "${KEY}2"\nenv_key`);
    const { faults, of, connection } = look(given);
    assert.deepEqual(faults, []);
    assert.equal(connection?.token, `${KEY}2`);
    assert.match(of('build_cli.key').details![0]!, /GATEWAY_TOKEN is set too, and not read/);
  });

  test('and can be read by others gets other rights', () => {
    const given = { ...withKey(KEY), rights: { [CONFIG]: 0o644 } };
    assert.deepEqual(look(given).faults, ['warning build_cli.rights']);
    mended(given);
  });
});

describe('a context window', () => {
  const window = (given: PretendedDesk) =>
    (mended(given).model as Record<string, Record<string, unknown>>).coder!.context_window;

  test('that is missing, no number or larger than any model becomes 500000', () => {
    for (const [by, found] of [
      ['', /context_window is missing; the client goes by 200000 tokens/],
      ['context_window = 5000000\n', /context_window is 5000000, more than any model takes/],
      ['context_window = 0\n', /no number of tokens/],
      ['context_window = "large"\n', /no number of tokens/],
    ] as const) {
      const given = withFault('context_window = 500000\n', by);
      assert.deepEqual(look(given).faults, ['failed build_cli.context_window']);
      assert.match(look(given).of('build_cli.context_window').found, found);
      assert.equal(window(given), 500_000);
    }
  });

  test('in quotes becomes the number it is', () => {
    assert.equal(window(withFault('context_window = 500000', 'context_window = "256_000"')), 256_000);
  });

  test('that is missing is that of another entry with the same model', () => {
    const given = withFault('context_window = 500000\n', '');
    const other = `[model.other]\nmodel = "coder-1"\nbase_url = "https://gateway.example.com/v1"\ncontext_window = 128000\n`;
    assert.equal(window({ ...given, files: { [CONFIG]: given.files![CONFIG]! + other } }), 128_000);
  });

  test('of 1000000 is nothing to speak of, and compaction at 99 % is', () => {
    const given = withFault('context_window = 500000', 'context_window = 1000000\nauto_compact_threshold_percent = 99');
    assert.deepEqual(look(given).faults, ['warning build_cli.compaction']);
    mended(given);
  });
});

describe('an address', () => {
  test('without /v1, or with a path of the API, ends in /v1 afterwards', () => {
    for (const url of [
      'https://gateway.example.com',
      'https://gateway.example.com/',
      'https://gateway.example.com/v1/chat/completions',
      'https://gateway.example.com/v1/v1',
      'https://gateway.example.com/v1/models/',
      ' https://gateway.example.com/v1',
    ]) {
      const given = withFault('https://gateway.example.com/v1', url);
      assert.deepEqual(look(given).faults, ['failed build_cli.base_url'], url);
      assert.equal(look(given).connection?.root_url, 'https://gateway.example.com');
      const { coder } = mended(given).model as Record<string, Record<string, unknown>>;
      assert.equal(coder!.base_url, 'https://gateway.example.com/v1');
    }
  });

  test('that can only be guessed at is left to people', () => {
    for (const [url, fault] of [
      ['gateway.example.com/v1', 'failed'],
      ['localhost:8080/v1', 'failed'],
      ['https://ada:secret@gateway.example.com/v1', 'failed'],
      ['https://gateway.example.com/v1?team=x', 'failed'],
      ['https://gateway.example.com/api/paas/v4', 'warning'],
      ['http://gateway.example.com/v1', 'warning'],
    ]) {
      const { faults, of } = look(withFault('https://gateway.example.com/v1', url!));
      assert.deepEqual(faults, [`${fault} build_cli.base_url`], url);
      assert.equal(of('build_cli.base_url').fixes, undefined);
      assert.ok(!of('build_cli.base_url').found.includes('secret'));
    }
    assert.deepEqual(look(withFault('https://gateway.example.com/v1', 'http://127.0.0.1:8080/v1')).faults, []);
  });

  test('that the default has not is told, for its key goes to the vendor', () => {
    const text = `${RIGHT.replace('base_url = "https://gateway.example.com/v1"\n', '')}[model.other]\nbase_url = "https://gateway.example.com/v1"\ncontext_window = 1000\n`;
    assert.deepEqual(look({ files: { [CONFIG]: text }, env: ENV }).faults, ['warning build_cli.base_url']);
  });
});

describe('models for titles and summaries', () => {
  test('that are not named become the default, for the gateway need not have those of the vendor', () => {
    const given = withFault('session_summary = "coder"\nimage_description = "coder"\n', '');
    assert.deepEqual(look(given).faults, ['warning build_cli.side_models']);
    assert.deepEqual(mended(given).models, { default: 'coder', session_summary: 'coder', image_description: 'coder' });
  });

  test('that are not named send texts past the gateway where there is a sign-in', () => {
    const given = withFault('session_summary = "coder"\n', '');
    const files = { ...given.files, '~/.buildcli/auth.json': '{"issuer":{"key":"s"}}' };
    assert.match(look({ ...given, files }).of('build_cli.side_models').found, /sends texts there, past the gateway/);
  });
});

describe('names of tables and keys', () => {
  test('that are slips of the pen are put right, and what stood there stays', () => {
    const key = `api_key = "${KEY}"`;
    for (const [text, by] of [
      ['[model.coder]', '[models.coder]'],
      ['base_url', 'baseurl'],
      ['base_url', 'api_base'],
      ['model = ', 'modle = '],
      ['context_window', 'context_length'],
    ] as const) {
      const given = withFault(text, by);
      assert.ok(
        look(given).faults.some((fault) => fault.endsWith(' build_cli.names')),
        by,
      );
      const toml = mended({
        ...given,
        files: { [CONFIG]: given.files![CONFIG]!.replace('env_key = "GATEWAY_TOKEN"', key) },
      });
      assert.deepEqual(toml, plain(RIGHT.replace('env_key = "GATEWAY_TOKEN"', key)));
    }
  });

  test('of the models table in the singular are moved', () => {
    const given = withFault('[models]', '[model]');
    assert.deepEqual(mended(given), plain(RIGHT));
  });

  test('of the other client are named', () => {
    const text =
      'model_provider = "custom"\nmodel = "coder-1"\n[model_providers.custom]\nbase_url = "https://gateway.example.com/v1"\nwire_api = "responses"\n';
    const { faults, of } = look({ files: { [CONFIG]: text } });
    assert.deepEqual(faults, ['failed build_cli.gateway']);
    assert.match(of('build_cli.gateway').found, /like the file of the coding CLI/);
  });

  test('of a protocol that the client does not know fall away', () => {
    const given = withFault('name = "Coder"', 'api_backend = "chat"');
    assert.deepEqual(look(given).faults, ['warning build_cli.api_backend']);
    mended(given);
  });
});

describe('files of the build CLI', () => {
  test('that are no TOML are told with the line, without a word of what is in them', () => {
    const { faults, of, diagnoses } = look({ files: { [CONFIG]: `[models]\ndefault = ${KEY}\n` } });
    assert.deepEqual(faults, ['failed build_cli.file']);
    assert.equal(of('build_cli.file').where, `${PATH}:2`);
    assert.ok(!JSON.stringify(diagnoses).includes(KEY));
  });

  test('of an administrator fill in below and win above, and are not mended', () => {
    const managed = '[model.coder]\nbase_url = "https://gateway.example.com"\n';
    const given = {
      files: {
        [CONFIG]: RIGHT.replace('base_url = "https://gateway.example.com/v1"\n', ''),
        '/etc/buildcli/managed_config.toml': managed,
      },
      env: ENV,
    };
    const { of } = look(given);
    assert.equal(of('build_cli.base_url').where, '/etc/buildcli/managed_config.toml:2');
    assert.equal(of('build_cli.base_url').fixes, undefined);
    const enforced = {
      ...given.files,
      [CONFIG]: RIGHT,
      '/etc/buildcli/requirements.toml': '[models]\ndefault = "theirs"\n',
    };
    const { of: ofEnforced } = look({ files: enforced, env: ENV });
    assert.equal(ofEnforced('build_cli.default_model').where, '/etc/buildcli/requirements.toml:2');
    assert.equal(ofEnforced('build_cli.default_model').fixes, undefined);
  });

  test('in a folder that a variable names are those that count', () => {
    const env = { ...ENV, BUILDCLI_HOME: '/srv/tools' };
    assert.deepEqual(look({ files: { '/srv/tools/config.toml': RIGHT }, env }).faults, []);
    const { faults, of } = look({ files: { [CONFIG]: RIGHT }, programs: ['buildcli'], env });
    assert.deepEqual(faults, ['failed build_cli.folder']);
    assert.match(of('build_cli.folder').remedy!, /unset BUILDCLI_HOME/);
  });

  test('with more configuration in a variable are said not to be all', () => {
    const { faults } = look(withFault('name', 'name', { ...ENV, BUILDCLI_CONFIG: '{}' }));
    assert.deepEqual(faults, ['warning build_cli.overlay']);
  });

  test('of any form crash nothing, and show no key', () => {
    const value = fc.oneof(
      fc.constantFrom(KEY, 'coder', '$GATEWAY_TOKEN', '', 'https://gateway.example.com'),
      fc.integer(),
      fc.boolean(),
    );
    const keys = [
      'model',
      'base_url',
      'env_key',
      'api_key',
      'context_window',
      'auth_provider',
      'model_provider',
      'apikey',
      'default',
    ];
    const table = fc.dictionary(fc.constantFrom(...keys), value, { maxKeys: 5 });
    const line = ([key, text]: [string, unknown]) => `${key} = ${JSON.stringify(text)}`;
    const toml = fc
      .record({ models: table, coder: table, other: table, gateway: table })
      .map(({ models, coder, other, gateway }) =>
        [
          ...['[models]', ...Object.entries(models).map(line)],
          ...['[model.coder]', ...Object.entries(coder).map(line)],
          ...['[model_providers.gateway]', ...Object.entries(gateway).map(line)],
          ...['[models.other]', ...Object.entries(other).map(line)],
        ].join('\n'),
      );
    fc.assert(
      fc.property(toml, (text) => {
        const given = { files: { [CONFIG]: text }, env: ENV };
        const { diagnoses } = look(given);
        assert.ok(!JSON.stringify(diagnoses.map(({ fixes: _, ...told }) => told)).includes(KEY));
        mendAll(examineBuildCli, given, [KEY]);
      }),
      { numRuns: times(15) },
    );
  });
});
