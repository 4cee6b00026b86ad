/** Replicas of one configuration: what may differ between their machines, and `gateway --listen`. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { configHash } from '../../../engine/domain/telemetry/config-hash.ts';
import { load } from '../../../engine/pipeline/load/index.ts';
import { cli, startCli } from '../../cli/support.ts';
import { CERTIFICATES } from '../../support/certificates.ts';
import { createTestDatabase } from '../../support/database.ts';
import { bootGateway, gatewayConfig, serverSection, UPSTREAM_KEY, writeConfig } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { openProcessScene } from '../support/process-scene.ts';

interface Loads {
  readonly replicas: readonly { readonly version: string }[];
  readonly loads: readonly { readonly config_hash: string; readonly needs_restart: readonly string[] }[];
}

/** The output of `config loads` after so many loads. */
function loadsOf(config_file: string, env: NodeJS.ProcessEnv, count: number): Promise<Loads> {
  return until(`${count} loads are written down`, async () => {
    const { stdout } = await cli(['config', 'loads', '--json', '--config', config_file], { env });
    const found: Loads = JSON.parse(stdout);
    return found.loads.length >= count && found;
  });
}

const distinct = (values: readonly string[]) => new Set(values).size;

describe('replicas', () => {
  it('share a configuration that differs in machine settings, and not one that differs in a limit', async () => {
    const own = await createTestDatabase();
    const closing: (() => Promise<unknown>)[] = [own.drop];
    const boot = async (machine: string, listen: string, user_daily_usd: number) => {
      const ca_file = join((await writeConfig({})).directory, `${machine}.pem`);
      closing.push(() => rm(dirname(ca_file), { recursive: true }));
      await writeFile(ca_file, CERTIFICATES.first.cert);
      const telemetry = {
        metrics: { listen },
        forward_to: [{ url: 'https://collector.example.com', ca_file }],
      };
      const gateway = await bootGateway({
        upstream_url: 'http://127.0.0.1:9',
        database_url: own.url,
        config: {
          server: { ...serverSection({}), listen },
          spend_limits: { defaults: { user_daily_usd }, spool_dir: `spool-of-${machine}` },
          telemetry,
        },
      });
      closing.push(() => gateway.close());
      return gateway;
    };
    try {
      const one = await boot('one', '127.0.0.1:0', 5);
      await boot('other', 'localhost:0', 5);
      const alike = await loadsOf(one.config_file, one.env, 2);
      assert.equal(distinct(alike.replicas.map(({ version }) => version)), 1);
      assert.equal(distinct(alike.loads.map(({ config_hash }) => config_hash)), 1);
      await boot('third', '127.0.0.1:0', 6);
      const different = await loadsOf(one.config_file, one.env, 3);
      assert.equal(distinct(different.replicas.map(({ version }) => version)), 2);
      assert.equal(distinct(different.loads.map(({ config_hash }) => config_hash)), 2);
    } finally {
      for (const close of closing.reverse()) await close();
    }
  });
});

it('a secret in a file beside gateway.yaml is the same, whatever the directory', async () => {
  const hashes = await Promise.all(
    [1, 2].map(async () => {
      const upstreams = [{ name: 'main', type: 'vendor', base_url: 'http://127.0.0.1:9', api_key_file: './key' }];
      const { config_file, directory } = await writeConfig(gatewayConfig('http://127.0.0.1:9', { upstreams }));
      try {
        await writeFile(join(directory, 'key'), UPSTREAM_KEY);
        const { config, diagnostics } = await load(config_file, { stages: [], env: {}, environment: 'ignored' });
        assert.ok(config !== undefined, JSON.stringify(diagnostics));
        return configHash(config);
      } finally {
        await rm(directory, { recursive: true });
      }
    }),
  );
  assert.equal(distinct(hashes), 1);
});

describe('gateway --listen', () => {
  it('listens there whatever the file says, also after a reload, and is named where that fails', async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    const busy = `127.0.0.1:${(taken.address() as AddressInfo).port}`;
    const scene = await openProcessScene({ sections: () => ({ server: { ...serverSection({}), listen: busy } }) });
    try {
      const { config_file, env } = scene;
      const gateway = await scene.start('--listen', '127.0.0.1:0');
      assert.notEqual(new URL(gateway.url).host, busy);
      await loadsOf(config_file, env, 1);
      gateway.child.kill('SIGHUP');
      const { loads } = await loadsOf(config_file, env, 2);
      assert.deepEqual(loads[0]!.needs_restart, []);

      const refused = await startCli(['gateway', '--config', config_file, '--listen', busy], { env }).ended;
      assert.equal(refused.exit_code, 69);
      assert.match(refused.stderr, /is in use by another program; stop it, or set --listen to a free port/);
      const wrong = await cli(['gateway', '--config', config_file, '--listen', '8080'], { env });
      assert.equal(wrong.exit_code, 64);
      assert.match(wrong.stderr, /--listen.*'8080' is invalid\. Expected host:port, such as 127\.0\.0\.1:8080/);
    } finally {
      await scene.close();
      taken.close();
    }
  });
});
