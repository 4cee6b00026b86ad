/** Every example is sound: no warning, its own tests pass. Those that no other test starts serve requests as they are. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { cli } from '../cli/support.ts';
import { REPOSITORY } from '../support/readme-blocks.ts';
import { startExample, variablesOf } from './support.ts';

const EXAMPLES = join(REPOSITORY, 'examples');

for (const file of globSync('**/gateway.yaml', { cwd: EXAMPLES }).toSorted()) {
  const name = dirname(file);
  test(`examples/${name} passes the check without a warning, and its own tests`, async () => {
    const config_file = join(EXAMPLES, file);
    const env = { ...process.env, ...variablesOf(readFileSync(config_file, 'utf8')) };
    const checked = await cli(['check', '--deny-warnings', '--config', config_file], { env });
    assert.equal(checked.exit_code, 0, checked.stdout + checked.stderr);
    // test/pipelines.test.ts runs those of all others.
    if (!name.startsWith('policies/')) return;
    const tested = await cli(['test', join(EXAMPLES, name), '--min-coverage', '100']);
    assert.equal(tested.exit_code, 0, tested.stdout + tested.stderr);
  });
}

for (const name of ['rules', 'operations', 'every-client', 'redact-email-addresses', 'other-endpoints']) {
  test(`examples/${name} serves requests`, async (t) => {
    const { gateway, close } = await startExample(name);
    t.after(close);
    assert.equal((await fetch(`${gateway.url}/readyz`)).status, 200);
    assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 401);
  });
}
