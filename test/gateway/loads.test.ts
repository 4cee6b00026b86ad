/** What is recorded of a loaded configuration. */
import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { blockAround, blockEnd, createNoteLoad, type LoadRecord } from '../../engine/edge/gateway/loads.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { stages } from '../../stages/index.ts';
import { CERTIFICATES } from '../support/certificates.ts';
import { type ConfigSections, gatewayConfig, serverSection, UPSTREAM_KEY, writeConfig } from '../support/gateway.ts';

const YAML = `routing:
  rules:
    - name: long
      when:
        '>': [{ var: request.input_tokens_estimate }, 1000]

      # where it goes
      upstream: main
    - name: other
      upstream: main
  default_upstream: main
models: []
`.split('\n');

const JSON_TEXT = JSON.stringify({ rules: [{ name: 'a', when: { '!': true } }, { name: 'b' }] }, null, 2).split('\n');

test('the entry of a list ends where the next one or its owner begins; the entry of a key begins above it', () => {
  assert.deepEqual(
    [3, 9, 11, 99].map((line) => blockEnd(YAML, line)),
    [8, 10, 11, 99],
  );
  assert.deepEqual(blockAround(YAML, 4), { first_line: 3, last_line: 8 });
  assert.deepEqual(blockAround(YAML, 9), { first_line: 9, last_line: 10 });
  assert.deepEqual(blockAround(YAML, 12), { first_line: 12, last_line: 12 });
  assert.equal(JSON_TEXT[2]!.trim(), '{');
  assert.deepEqual(blockAround(JSON_TEXT, 4), { first_line: 3, last_line: 8 });
});

/** Version of the files and hash of the configuration, in a directory of its own. */
async function recorded(sections: ConfigSections, files: Readonly<Record<string, string>>) {
  const { config_file, directory } = await writeConfig(gatewayConfig('http://127.0.0.1:9', sections));
  try {
    for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
    const loaded = await load(config_file, { stages, env: {}, environment: 'ignored' });
    const { config } = loaded;
    assert.ok(config !== undefined, JSON.stringify(loaded.diagnostics));
    const notes: Parameters<LoadRecord['note']>[0][] = [];
    const note = createNoteLoad(config_file, { note: (load) => void notes.push(load) });
    note('start', { config, loaded, needs_restart: [] }, []);
    const [{ kept, in_force }] = notes as [(typeof notes)[number]];
    return { version: kept?.version, hash: in_force?.config_hash };
  } finally {
    await rm(directory, { recursive: true });
  }
}

test('replicas share a configuration that differs in machine settings, and not one that differs in a limit', async () => {
  const at = (machine: string, listen: string, user_daily_usd: number) => {
    const ca_file = `${machine}.pem`;
    const forward_to = [{ url: 'https://collector.example.com', ca_file }];
    const sections = {
      server: { ...serverSection({}), listen },
      spend_limits: { defaults: { user_daily_usd }, spool_dir: `spool-of-${machine}` },
      telemetry: { metrics: { listen }, forward_to },
    };
    return recorded(sections, { [ca_file]: CERTIFICATES.first.cert });
  };
  const one = await at('one', '127.0.0.1:0', 5);
  assert.deepEqual(await at('other', 'localhost:0', 5), one);
  const different = await at('third', '127.0.0.1:0', 6);
  assert.notEqual(different.version, one.version);
  assert.notEqual(different.hash, one.hash);
});

test('a secret in a file beside gateway.yaml is the same, whatever the directory', async () => {
  const upstreams = [{ name: 'main', type: 'vendor', base_url: 'http://127.0.0.1:9', api_key_file: './key' }];
  const [one, other] = [1, 2].map(() => recorded({ upstreams }, { key: UPSTREAM_KEY }));
  assert.equal((await one!).hash, (await other!).hash);
});
