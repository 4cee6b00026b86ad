/** What `appscli limits list` says about limits that depend on groups, or that gateway.yaml has no more. */
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, writeConfig } from '../../support/gateway.ts';
import { cli, type Ended } from '../support.ts';
import { assertNarrow } from '../tokens/backend-at-gateway.ts';

const BY_GROUP = {
  ...{ name: 'by-group', scope: 'user', window: 'month', limit_usd: 400 },
  limit_usd_by_group: { contractors: 100, staff: 900 },
};
const PER_MODEL = { name: 'per-model', scope: ['team', 'model'], window: 'month', limit_usd: 200 };

describe('limits as they are listed', () => {
  let commands: (rules: readonly object[], ...arguments_: readonly string[]) => Promise<Ended>;
  const closing: (() => Promise<unknown>)[] = [];
  before(async () => {
    const database = await createTestDatabase();
    closing.push(database.drop);
    const env = { ...process.env, TEST_DATABASE_URL: database.url };
    commands = async (rules, ...arguments_) => {
      const token_groups = ['contractors', 'staff', 'visitors'].map((name) => ({ name, models: ['*'] }));
      const config = gatewayConfig('http://127.0.0.1:9', { token_groups, spend_limits: { rules } });
      const { directory, config_file } = await writeConfig(config);
      closing.push(() => rm(directory, { recursive: true, force: true }));
      const ended = await cli([...arguments_, '--config', config_file], { env });
      assert.equal(ended.exit_code, 0, ended.stderr);
      assertNarrow(ended.stderr);
      return ended;
    };
  });
  after(async () => {
    for (const close of closing.reverse()) await close();
  });
  const run: (...given: Parameters<typeof commands>) => Promise<string> = async (...given) =>
    (await commands(...given)).stdout;
  const words: typeof run = async (...given) => (await commands(...given)).stderr;
  const tokenOf = (user: string, group: string) =>
    run([BY_GROUP], 'tokens', 'create', '--user', user, '--group', group, '--name', group);
  const listed = (user: string) => run([BY_GROUP], 'limits', 'list', '--user', user);

  test('an amount by group is that of the group of the access tokens', async () => {
    await tokenOf('lee@example.com', 'contractors');
    await tokenOf('ann@example.com', 'visitors');
    assert.match(await listed('lee@example.com'), /^user lee@example\.com per month: 100 USD$/m);
    assert.match(await listed('ann@example.com'), /^user ann@example\.com per month: 400 USD$/m);
    assert.match(await listed('new@example.com'), /^user new@example\.com per month: 400 USD$/m);
  });

  test('somebody with tokens of several groups has no one amount', async () => {
    await tokenOf('bob@example.com', 'contractors');
    await tokenOf('bob@example.com', 'staff');
    const told = await listed('bob@example.com');
    assert.match(told, /^user bob@example\.com per month: limited by group$/m);
    assert.match(told, /gateway\.yaml: 100 USD for contractors, 900 USD for staff \(by-group\)/);
  });

  test('room granted where nothing is limited is said to count for nothing yet', async () => {
    const grant = ['limits', 'grant', '--user', 'zoe@example.com', '--usd', '5', '--expires', '1h', '--window'];
    const told = 'Nothing limits it: what is granted counts only once something does.';
    assert.ok((await words([BY_GROUP], ...grant, 'day')).includes(told));
    assert.ok(!(await words([BY_GROUP], ...grant, 'month')).includes(told));
  });

  test('what is set for a counter that gateway.yaml has no more is said to have no effect', async () => {
    const whose = ['--team', 'search', '--model', 'coder-1', '--window', 'month'];
    await run([PER_MODEL], 'limits', 'set', ...whose, '--usd', '5');
    assert.match(await run([PER_MODEL], 'limits', 'list'), /^team search and model coder-1 per month: 5 USD$/m);
    for (const whom of [[], ['--team', 'search']]) {
      const told = await run([], 'limits', 'list', ...whom);
      assert.match(told, /^team search and model coder-1 per month: no limit$/m);
      assert.match(told.replace(/\s+/g, ' '), /no limit of gateway\.yaml counts this: what is set .* has no effect/);
    }
    const { limits } = JSON.parse(await run([], 'limits', 'list', '--json'));
    assert.deepEqual([limits[0].counted, limits[0].limit, limits[0].set.limit], [false, null, 5]);
    await run([], 'limits', 'clear', ...whose);
  });
});
