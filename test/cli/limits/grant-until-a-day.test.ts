/** `appscli limits grant --expires 2027-01-30`: a day begins where the gateway is, not where the command runs. */
import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { grant, list } from '../../../engine/cli/limits/limits.ts';
import { expiryThere } from '../../../engine/cli/options.ts';
import type { GatewayConfig } from '../../../engine/contract/config.ts';
import { formatInZone, startOfDate } from '../../../engine/kit/zoned-time.ts';
import { limitedConfig } from '../../http/admin/limits-config.ts';
import { type AdminBench, useAdminApi } from '../../http/admin/support.ts';
import { createTestDatabase } from '../../support/database.ts';
import { gatewayConfig, writeConfig } from '../../support/gateway.ts';
import { cli } from '../support.ts';
import { backendOf, failure } from '../tokens/backend-at-gateway.ts';

const inOneLine = (text: string) => text.replace(/\s+/g, ' ');

test('on the database, a date is the midnight of the configured zone, told with its name', async (t) => {
  const database = await createTestDatabase();
  t.after(database.drop);
  const spend_limits = { defaults: { user_daily_usd: 50 }, time_zone: 'Asia/Kolkata' };
  const { directory, config_file } = await writeConfig(gatewayConfig('http://127.0.0.1:9', { spend_limits }));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const env = { ...process.env, TEST_DATABASE_URL: database.url, TZ: 'America/Los_Angeles' };
  const run = (...given: readonly string[]) => cli(['limits', ...given, '--config', config_file], { env });
  const day = formatInZone(Date.now() + 5 * 86_400_000, 'Asia/Kolkata').slice(0, 10);
  const whose = ['--user', 'ana@example.com', '--window', 'day'];
  const granted = await run('grant', ...whose, '--usd', '20', '--expires', day);
  assert.equal(granted.exit_code, 0, granted.stderr);
  assert.match(inOneLine(granted.stderr), new RegExp(`^Grant grt_\\w+: .* until ${day} 00:00 Asia/Kolkata\\. `));
  const shown = await run('list', '--user', 'ana@example.com');
  assert.match(inOneLine(shown.stdout), new RegExp(`plus 20 USD until ${day} 00:00 Asia/Kolkata, grt_`));
  assert.match(inOneLine(shown.stdout), /; resets \S+ 00:00 Asia\/Kolkata/);
  const { limits } = JSON.parse((await run('list', '--user', 'ana@example.com', '--json')).stdout);
  const found = limits.find(({ grants }: { grants: unknown[] }) => grants.length > 0);
  assert.equal(found.grants[0].expires_at, startOfDate(day, 'Asia/Kolkata')!.toISOString());
  assert.equal(found.time_zone, 'Asia/Kolkata');
  const within = await run(
    'grant',
    ...whose.slice(0, 2),
    '--team',
    'search',
    '--window',
    'month',
    '--usd',
    '9',
    '--expires',
    '3d',
  );
  assert.match(
    inOneLine(within.stderr),
    /team search per month: 9 USD .* used once team search per month has no more room plus 9/,
  );
});

describe('at a running gateway', () => {
  let bench: AdminBench;
  const spend_limits = { ...limitedConfig.spend_limits, time_zone: 'Europe/Berlin' };
  useAdminApi(
    (opened) => {
      bench = opened;
    },
    { ...limitedConfig, spend_limits } as GatewayConfig,
  );
  const whose = () => ({
    config: 'gateway.yaml',
    baseUrl: bench.url,
    user: 'carol@example.com',
    window: 'day' as const,
  });

  test('a date is the midnight of the zone of the gateway', async () => {
    const granting = backendOf('root', bench.url);
    await grant(granting.context, { ...whose(), usd: 20, expires: '2026-03-14', json: true });
    assert.equal(JSON.parse(granting.data()).grant.expires_at, '2026-03-13T23:00:00.000Z');
    const listing = backendOf('root', bench.url);
    await list(listing.context, { config: 'gateway.yaml', baseUrl: bench.url, user: 'carol@example.com' });
    assert.match(inOneLine(listing.data()), /until 2026-03-14 00:00 Europe\/Berlin, grt_/);
  });

  test('a day that has begun there, or is none, is refused', async () => {
    const { context } = backendOf('root', bench.url);
    for (const [expires, message] of [
      ['2026-03-10', /2026-03-10 has begun already \(Europe\/Berlin\)/],
      ['2026-02-30', /expires_on.*a date such as 2027-01-31/],
      ['2028-01-01', /too far away/],
    ] as const) {
      assert.match((await failure(grant(context, { ...whose(), usd: 20, expires }))).message, message);
    }
  });
});

test('a moment or a span stays what it is', () => {
  assert.equal(expiryThere('2999-01-31'), '2999-01-31');
  assert.deepEqual(expiryThere('2999-01-31T18:00:00Z'), new Date('2999-01-31T18:00:00Z'));
  assert.ok(expiryThere('3d') instanceof Date);
  assert.throws(() => expiryThere('2999-02-30'), /Write 30d/);
  assert.throws(() => expiryThere('friday'), /Write 30d/);
});
