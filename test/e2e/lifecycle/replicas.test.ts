/** Replicas of one configuration listen where `gateway --listen` says. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { describe, it } from 'node:test';
import { cli, startCli } from '../../cli/support.ts';
import { serverSection } from '../../support/gateway.ts';
import { openPort } from '../../support/net/own-port.ts';
import { until } from '../../support/until.ts';
import { openProcessScene } from '../support/process-scene.ts';

interface Loads {
  readonly loads: readonly { readonly needs_restart: readonly string[] }[];
}

/** The output of `config loads` after so many loads. */
function loadsOf(config_file: string, env: NodeJS.ProcessEnv, count: number): Promise<Loads> {
  return until(`${count} loads are written down`, async () => {
    const { stdout } = await cli(['config', 'loads', '--json', '--config', config_file], { env });
    const found: Loads = JSON.parse(stdout);
    return found.loads.length >= count && found;
  });
}

describe('gateway --listen', () => {
  it('overrides the file, also after a reload, and is named in errors', async () => {
    await using taken = await openPort(createServer());
    const busy = `127.0.0.1:${taken.port}`;
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
    }
  });
});
