import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bearer, send } from '../../e2e/support/client.ts';
import { until } from '../../support/until.ts';
import { commandBench } from '../sign-in/with-gateway.ts';

const bench = commandBench();

test('audit tail prints the latest records, oldest first, and --json one object per line', async () => {
  const token = await bench.newToken({ user: 'ivan@example.com' });
  const ids = [await bench.request(token), await bench.request(token)];
  const { stdout } = await bench.succeed('audit', 'tail', '-n', '2', '--json');
  const records = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  assert.deepEqual(
    records.map(({ request_id }) => request_id),
    ids,
  );
  for (const record of records) {
    const { user, model, input_tokens, output_tokens, route_rule, spend_rule } = record;
    assert.deepEqual(
      { user, model, input_tokens, output_tokens, route_rule, spend_rule },
      {
        user: 'ivan@example.com',
        model: 'coder-1',
        input_tokens: 100,
        output_tokens: 40,
        route_rule: 'default',
        spend_rule: null,
      },
    );
  }
  const readable = (await bench.succeed('audit', 'tail', '-n', '1')).stdout;
  assert.match(readable, /^\S+ {2}200 {2}ivan@example\.com {2}coder-1 at main\n {4}[\d.]+ USD, \d+ ms, id \S+\n$/);
});

test('audit tail leaves out what a record does not tell', async () => {
  const record = { request_id: 'sparse', user: 'sparse@example.com', status: 200 };
  await bench.gateway.database.knex('audit_log').insert({ at: new Date(), request_id: 'sparse', record });
  const { stdout } = await bench.succeed('audit', 'tail', '-n', '1');
  assert.match(stdout, / 200 {2}sparse@example\.com {2}no model\n {4}id sparse\n$/);
  assert.doesNotMatch(stdout, /undefined|NaN/);
});

test('audit tail tells the rules of a translation that applied', async () => {
  const token = await bench.newToken({ user: 'lena@example.com' });
  const body = JSON.stringify({ model: 'coder-1', seed: 7, messages: [{ role: 'user', content: 'Hello' }] });
  const { headers } = await send(bench.gateway.url, { path: '/v1/chat/completions', headers: bearer(token), body });
  const text = await until('the request is in the audit log', async () => {
    const { stdout } = await bench.succeed('audit', 'tail');
    return stdout.includes(String(headers['x-gateway-request-id'])) && stdout;
  });
  assert.match(text, /lena@example\.com {2}coder-1 at main\n {4}translation: seed\n/);
});

test('audit tail --follow goes on with new records that fit until Ctrl-C', async () => {
  const token = await bench.newToken({ user: 'judy@example.com' });
  const other = await bench.newToken({ user: 'mona@example.com' });
  const tail = bench.start('audit', 'tail', '-n', '0', '--follow', '--json', '--user', 'judy@example.com');
  // It follows from the moment it has connected, which only its first record shows.
  const seen = await until('the tail prints a new record', async () => {
    await bench.request(other);
    await bench.request(token);
    return tail.stdout().includes('judy@example.com');
  });
  assert.equal(seen, true);
  tail.process.kill('SIGINT');
  const { exit_code, stdout } = await tail.ended;
  assert.equal(exit_code, 0);
  assert.doesNotMatch(stdout, /mona@example\.com/);
});

test('a reader that goes away ends a command quietly', async () => {
  await bench.request(await bench.newToken({ user: 'kim@example.com' }));
  const tail = bench.start('audit', 'tail', '-n', '1000', '--follow', '--json');
  await until('the tail prints', () => tail.stdout() !== '');
  tail.process.stdout!.destroy();
  const token = await bench.newToken({ user: 'kim@example.com' });
  await until('the tail has ended', async () => {
    await bench.request(token);
    return tail.process.exitCode !== null;
  });
  assert.equal(tail.process.exitCode, 0);
  assert.equal(tail.stderr(), '');
});
