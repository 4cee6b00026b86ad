/** A developer's queries to a gateway without access to its gateway.yaml: models, prices, own use and limits. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { credentialsFrom, openCredentials } from '../../../engine/edge/client/credentials.ts';
import { cli } from '../../cli/support.ts';
import { createBackend } from '../../client/scripted-gateway.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const scene = useSignInScene({
  auth: { admin_groups: ['admins'] },
  config: {
    models: [
      model('coder-1', { context_window: 200_000, max_output_tokens: 64_000 }),
      model('unknown-size', {}),
      model('refused-1', {}),
    ],
    token_groups: [
      { name: 'engineers', models: ['*'], members: ['engineering'] },
      { name: 'others', models: ['coder-1'], members: ['marketing'] },
    ],
    prices: { rows: [{ upstream: 'main', models: ['coder-1'], multiplier: 2 }] },
    access: { rules: [{ name: 'no-preview', models: ['refused-1'], message: 'Not yet.' }] },
    spend_limits: { defaults: { user_daily_usd: 20 } },
  },
});

function model(id: string, more: object): object {
  return { id, family: id, pricing: { input: 3, output: 15 }, ...more };
}

/** A user who signed in on a machine of their own, and their token. */
async function newDeveloper(sub: string) {
  const { env } = createBackend();
  const { gateway } = scene;
  const { access_token, refresh_token, expires_in: lifetime_seconds, email } = await scene.signIn(sub);
  const credentials = openCredentials(env);
  const kept = credentialsFrom({ access_token, refresh_token, lifetime_seconds, email }, Date.now());
  await credentials.locked(async () => credentials.write(gateway.url, kept));
  const run = async (...words: readonly string[]) => {
    const ended = await cli([...words, '--base-url', gateway.url], { env });
    assert.equal(ended.exit_code, 0, ended.stderr);
    return ended.stdout;
  };
  return { run, access_token };
}

describe('appscli', () => {
  test('models shows those one may use, each with its window and the price in force', async () => {
    const { run } = await newDeveloper('anna');
    assert.equal(
      await run('models'),
      `MODEL         WINDOW  MAX OUTPUT  INPUT  OUTPUT  CACHE R  CACHE W
coder-1       200000       64000      6      30      0.6      7.5
unknown-size                          3      15      0.3     3.75

Window and maximum output in tokens, prices in USD per million tokens.
`,
    );
    const { models } = JSON.parse(await run('models', '--json'));
    assert.deepEqual(models[0].prices, [
      {
        upstream: 'main',
        usd_per_million_tokens: { input: 6, output: 30, cache_read: 0.6, cache_write_5m: 7.5, cache_write_1h: 12 },
      },
    ]);
    assert.equal(models[1].context_window, null);
  });

  test("usage shows one's own requests and remaining limits, and no other user's", async () => {
    const { gateway } = scene;
    const [anna, ben] = [await newDeveloper('anna'), await newDeveloper('ben')];
    for (const { access_token } of [anna, ben]) assert.equal((await ask(gateway.url, access_token)).status, 200);
    await until('both requests are in the ledger', async () => (await gateway.database.knex('ledger')).length === 2);
    const shown = await ben.run('usage');
    assert.match(shown, /^Usage of ben@example\.com to \d{4}-\d\d-\d\d \d\d:\d\d UTC:\nMODEL +REQUESTS /);
    assert.match(shown, /^coder-1 +1 /m);
    assert.match(
      shown,
      /^user ben@example\.com +day +20\.00 +\d\.\d\d +(?:19|20)\.\d\d +USD +\d{4}-\d\d-\d\d 00:00 UTC$/m,
    );
    assert.doesNotMatch(shown, /anna/);
    // Administrators see all users', with a note.
    const all = await anna.run('usage', '--by', 'user');
    assert.match(all, /^Usage of all users /);
    assert.match(all, /^ben@example\.com +1 /m);
    assert.match(all, /^user anna@example\.com /m);
    assert.equal(JSON.parse(await ben.run('usage', '--json')).total.requests, 1);
  });
});
