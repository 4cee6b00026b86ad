import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../support/until.ts';
import { cli, startCli } from './support.ts';

test('the mock responds in every API, to every model and key, and ends by a signal', async () => {
  const running = startCli(['mock-upstream', '--listen', '127.0.0.1:0']);
  const url = await until('it prints its address', () => /^.*: (http:\S+)$/m.exec(running.stdout())?.[1]);
  const user = { role: 'user', content: 'Hello' };
  for (const [path, body] of [
    ['/v1/messages', { model: 'any', max_tokens: 9, messages: [user] }],
    ['/v1/chat/completions', { model: 'any', messages: [user] }],
    ['/v1/responses', { model: 'any', input: 'Hello' }],
  ] as const) {
    const headers = { 'content-type': 'application/json', 'x-api-key': 'whatever' };
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    assert.equal(response.status, 200, path);
    assert.match(await response.text(), /This is a mock model\./, path);
  }
  const list = await fetch(`${url}/v1/models?limit=1000`);
  const { data } = (await list.json()) as { data: { id: string }[] };
  const ids = data.map(({ id }) => id);
  assert.ok(ids.includes('claude-sonnet-4-5') && ids.includes('gpt-4o'), 'models that the catalogue of prices knows');
  const second = await cli(['mock-upstream', '--listen', new URL(url).host]);
  assert.equal(second.exit_code, 69);
  assert.match(second.stderr, /in use by another program; stop it, or set --listen to a free port/);
  running.process.kill('SIGTERM');
  assert.equal((await running.ended).exit_code, 0);
});
