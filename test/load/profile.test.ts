import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createFindings } from '../../engine/base/source/findings.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { BUILT_IN, readProfile } from '../../engine/pipeline/load/profile.ts';
import { GATEWAY, projectOfTest, SHIPPED } from './support/project.ts';
import { stages } from './support/stages.ts';

/** Loads a gateway.yaml that names a profile. */
async function loadWith(profile: string, files: Readonly<Record<string, string>> = {}, env?: 'ignored') {
  const gateway = GATEWAY.replace(/^server:\n/m, `server:\n  profile: ${JSON.stringify(profile)}\n`);
  assert.notEqual(gateway, GATEWAY);
  const project = projectOfTest({ 'gateway.yaml': gateway, ...files });
  const loaded = await load(project.path('gateway.yaml'), {
    stages,
    env: { UPSTREAM_KEY: 'value-of-the-key' },
    environment: env ?? 'required',
    shipped_pipelines: SHIPPED,
  });
  const found = loaded.diagnostics.map((each) => ({ code: each.code, file: each.file, text: JSON.stringify(each) }));
  return { ...loaded, found, path: project.path };
}

describe('a profile', () => {
  test('names the headers that the gateway writes, from a file beside gateway.yaml', async () => {
    const { config, found, files, path } = await loadWith('names/acme.yaml', {
      'names/acme.yaml': 'header_prefix: acme\n',
    });
    assert.deepEqual(found, []);
    assert.deepEqual(config!.server.profile, { header_prefix: 'acme' });
    assert.ok(Object.isFrozen(config!.server.profile));
    assert.ok(files.includes(path('names/acme.yaml')), 'a change of it is a change of the configuration');
  });

  test('that is missing prevents the start, with the position and the known profiles', async () => {
    const { config, found, files, path } = await loadWith('nuetral');
    assert.equal(config, undefined);
    assert.deepEqual(
      found.map(({ code, file }) => [code, file]),
      [['C4021', path('gateway.yaml')]],
    );
    assert.match(found[0]!.text, /neutral, anthropic, shipped, or a file at .*nuetral/);
    assert.ok(files.includes(path('nuetral')), 'it may appear');
    const elsewhere = await loadWith('acme.yaml', {}, 'ignored');
    assert.deepEqual(
      elsewhere.found.map(({ code }) => code),
      ['W7007'],
    );
    assert.deepEqual(elsewhere.config!.server.profile, { header_prefix: 'vendor' });
  });

  test('names the header with the message of a rejection', async () => {
    const { config, found } = await loadWith('acme.yaml', {
      'acme.yaml': 'header_prefix: acme\nrefusal_header: x-acme-words\n',
    });
    assert.deepEqual(found, []);
    assert.equal(config!.server.profile.refusal_header, 'x-acme-words');
  });

  const bad: Readonly<Record<string, string>> = {
    'a header of the gateway': 'header_prefix: acme\nrefusal_header: retry-after\n',
    'an unknown key': 'header_prefix: acme\ncolour: red\n',
    'no prefix': '{}\n',
    'an empty prefix': 'header_prefix: ""\n',
    'a prefix that is no header name': 'header_prefix: "acme: x\\r\\nset-cookie"\n',
    'capital letters': 'header_prefix: Acme\n',
    'a prefix that begins with a dash': 'header_prefix: -acme\n',
    'a prefix of 41 characters': `header_prefix: ${'a'.repeat(41)}\n`,
    'an unknown client': 'header_prefix: acme\nclients: { editor: {} }\n',
    'a file that is not absolute': 'header_prefix: acme\nclients: { build_cli: { config_file: c.toml } }\n',
    'what is no name of a variable': 'header_prefix: acme\nclients: { messages: { variable_prefix: "A-B" } }\n',
    'a list': '- acme\n',
    'what is no YAML': 'header_prefix: [acme\n',
    nothing: '',
  };
  for (const [what, text] of Object.entries(bad)) {
    test(`with ${what} is rejected at its position`, async () => {
      const { config, found, path } = await loadWith('acme.yaml', { 'acme.yaml': text });
      assert.equal(config, undefined);
      assert.ok(found.length > 0);
      for (const { code, file } of found) {
        assert.match(code, /^C/);
        assert.equal(file, path('acme.yaml'));
      }
    });
  }

  test('may name the files and variables of coding clients', async () => {
    const clients = { build_cli: { config_file: '~/.acme/config.toml' }, messages: { variable_prefix: 'ACME' } };
    const { config, found } = await loadWith('acme.yaml', {
      'acme.yaml': JSON.stringify({ header_prefix: 'acme', clients }),
    });
    assert.deepEqual(found, []);
    assert.deepEqual(config!.server.profile, { header_prefix: 'acme', clients });
  });

  test('of an upstream is its own, else that of its address, else that of the server unless that is neutral', async () => {
    const profilesOf = async (server: string) => {
      const url = 'base_url: https://api.example.com';
      const lines = [
        ...['name: main', 'base_url: https://api.example.com', '- name: own', url, 'profile: own.yaml'],
        ...[
          '- name: known',
          'base_url: https://api.anthropic.com/',
          '- name: path',
          'base_url: http://[::1]/anthropic/x',
        ],
        ...[
          '- name: alike',
          'base_url: https://anthropic.com.evil.example',
          '- name: neutral',
          url,
          'profile: neutral',
        ],
        ...['- name: built-in', url, 'profile: anthropic'],
      ];
      const upstreams = lines.map((line) => (line.startsWith('- ') ? `  ${line}\n` : `    ${line}\n`)).join('');
      const gateway = GATEWAY.replace(
        / {4}type: vendor\n {4}base_url.*\n {4}api_key_env.*\n/,
        upstreams.replace(/^.*\n/, ''),
      );
      const project = projectOfTest({
        'gateway.yaml': gateway.replace(/^server:\n/m, `server:\n  profile: ${server}\n`),
        'own.yaml': 'header_prefix: own\n',
        'corp.yaml': 'header_prefix: corp\n',
      });
      const options = {
        stages,
        env: { UPSTREAM_KEY: 'x' },
        environment: 'required',
        shipped_pipelines: SHIPPED,
      } as const;
      const { config, diagnostics, files } = await load(project.path('gateway.yaml'), options);
      assert.ok(config, JSON.stringify(diagnostics));
      assert.ok(files.includes(project.path('own.yaml')));
      return Object.fromEntries(config.upstreams.map(({ name, profile }) => [name, profile?.header_prefix]));
    };
    const same = { own: 'own', known: 'anthropic', path: 'anthropic', neutral: 'vendor', 'built-in': 'anthropic' };
    assert.deepEqual(await profilesOf('neutral'), { ...same, main: undefined, alike: undefined });
    assert.deepEqual(await profilesOf('corp.yaml'), { ...same, main: 'corp', alike: 'corp' });
    assert.deepEqual(await profilesOf('anthropic'), { ...same, main: 'anthropic', alike: 'anthropic' });
  });

  test('that is built in equals the shipped file', () => {
    const findings = createFindings();
    const file = join(import.meta.dirname, '../../examples/profiles/vendor-names.yaml');
    assert.equal(BUILT_IN.anthropic.header_prefix, readProfile(file, findings)?.header_prefix);
  });

  test('of 40 characters is fine', async () => {
    const { config } = await loadWith('acme.yaml', { 'acme.yaml': `header_prefix: ${'a'.repeat(40)}\n` });
    assert.equal(config!.server.profile.header_prefix.length, 40);
  });

  test('that is a directory is rejected', async () => {
    const { config, found } = await loadWith('names', { 'names/acme.yaml': 'header_prefix: acme\n' });
    assert.equal(config, undefined);
    assert.equal(found.length, 1);
  });
});
