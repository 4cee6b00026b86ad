import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createFindings } from '../../engine/base/source/findings.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { BUILT_IN, readProfile } from '../../engine/pipeline/load/profile.ts';
import { GATEWAY, projectOfTest, SHIPPED } from './support/project.ts';
import { stages } from './support/stages.ts';

async function loadWith(
  profile: string,
  files: Readonly<Record<string, string>> = {},
  environment: 'required' | 'ignored' = 'required',
  change = (gateway: string) => gateway,
) {
  const gateway = change(GATEWAY).replace(/^server:\n/m, `server:\n  profile: ${JSON.stringify(profile)}\n`);
  const project = projectOfTest({ 'gateway.yaml': gateway, ...files });
  const env = { UPSTREAM_KEY: 'value-of-the-key' };
  const options = { stages, env, environment, shipped_pipelines: SHIPPED };
  const loaded = await load(project.path('gateway.yaml'), options);
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
    const [missing, ...more] = found;
    assert.deepEqual([missing?.code, missing?.file, more], ['C4021', path('gateway.yaml'), []]);
    assert.match(missing!.text, /neutral, anthropic, shipped, or a file at .*nuetral/);
    assert.ok(files.includes(path('nuetral')), 'it may appear');
    const elsewhere = await loadWith('acme.yaml', {}, 'ignored');
    assert.equal(elsewhere.found.map(({ code }) => code).join(), 'W7007');
    assert.deepEqual(elsewhere.config!.server.profile, { header_prefix: 'vendor' });
  });

  const bad: Readonly<Record<string, string>> = {
    'a header of the gateway': 'header_prefix: acme\nrefusal_header: retry-after\n',
    'no prefix': '{}\n',
    'an empty prefix': 'header_prefix: ""\n',
    'a prefix that is no header name': 'header_prefix: "acme: x\\r\\nset-cookie"\n',
    'a prefix that begins with a dash': 'header_prefix: -acme\n',
    'a prefix of 41 characters': `header_prefix: ${'a'.repeat(41)}\n`,
    'an unknown client': 'header_prefix: acme\nclients: { editor: {} }\n',
    'a file that is not absolute': 'header_prefix: acme\nclients: { build_cli: { config_file: c.toml } }\n',
    'what is no name of a variable': 'header_prefix: acme\nclients: { messages: { variable_prefix: "A-B" } }\n',
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

  test('may name the header of a rejection, files and variables of coding clients, and have 40 characters', async () => {
    const clients = { build_cli: { config_file: '~/.acme/config.toml' }, messages: { variable_prefix: 'ACME' } };
    const profile = { header_prefix: 'a'.repeat(40), refusal_header: 'x-acme-words', clients };
    const { config, found } = await loadWith('acme.yaml', { 'acme.yaml': JSON.stringify(profile) });
    assert.deepEqual([found, config!.server.profile], [[], profile]);
  });

  test('of an upstream is its own, else that of its address, else that of the server unless that is neutral', async () => {
    const profilesOf = async (server: string) => {
      const more = `  - { name: own, base_url: "https://api.example.com", profile: own.yaml }
  - { name: known, base_url: "https://api.anthropic.com/" }
  - { name: path, base_url: "http://[::1]/anthropic/x" }
  - { name: alike, base_url: "https://anthropic.com.evil.example" }
  - { name: neutral, base_url: "https://api.example.com", profile: neutral }
  - { name: built-in, base_url: "https://api.example.com", profile: anthropic }
`;
      const files = { 'own.yaml': 'header_prefix: own\n', 'corp.yaml': 'header_prefix: corp\n' };
      const loaded = await loadWith(server, files, 'required', (gateway) =>
        gateway.replace('models:\n', `${more}models:\n`),
      );
      assert.ok(loaded.config, JSON.stringify(loaded.diagnostics));
      assert.ok(loaded.files.includes(loaded.path('own.yaml')));
      return Object.fromEntries(loaded.config.upstreams.map(({ name, profile }) => [name, profile?.header_prefix]));
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
});
