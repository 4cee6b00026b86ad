import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandBench } from './with-gateway.ts';

const bench = commandBench();

test('usage --json has a row per user, team, project, model and upstream with exact cost', async () => {
  const token = await bench.newToken({ user: 'frank@example.com', team: 'search', project: 'indexer' });
  await bench.request(token);
  await bench.request(token);
  const { stdout } = await bench.succeed('usage', '--user', 'frank@example.com', '--json');
  assert.deepEqual(JSON.parse(stdout), [
    {
      user: 'frank@example.com',
      team: 'search',
      project: 'indexer',
      model: 'coder-1',
      upstream: 'main',
      surface: 'messages',
      requests: 2,
      input_tokens: 200,
      output_tokens: 80,
      cache_read_tokens: 4000,
      cache_write_5m_tokens: 20,
      cache_write_1h_tokens: 40,
      // 200 * 3 + 80 * 15 + 4000 * 0.3 + 20 * 3.75 + 40 * 6 = 3315 USD per million tokens.
      cost_usd: 0.003315,
    },
  ]);
});

test('usage is a table of at most 80 columns with totals, and its filters narrow it down', async () => {
  await bench.request(
    await bench.newToken({
      user: 'grace@a.rather.long.domain.with.many.parts.and.more.example.com',
      team: 'platform',
    }),
  );
  await bench.request(await bench.newToken({ user: 'heidi@example.com', team: 'search' }));
  const { stdout } = await bench.succeed('usage', '--since', '1d');
  const lines = stdout.trimEnd().split('\n');
  assert.match(stdout, /^USER/m);
  assert.match(lines.at(-1)!, /^total /i);
  for (const line of lines) assert.ok(line.length <= 80, line);
  const narrow = JSON.parse((await bench.succeed('usage', '--team', 'platform', '--json')).stdout);
  assert.deepEqual(
    narrow.map(({ team }: { team: string }) => team),
    ['platform'],
  );
  assert.deepEqual(JSON.parse((await bench.succeed('usage', '--until', '2020-01-01', '--json')).stdout), []);
  assert.deepEqual(JSON.parse((await bench.succeed('usage', '--model', 'other', '--json')).stdout), []);
});
