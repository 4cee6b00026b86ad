import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { use } from '../../support/use.ts';
import { openScene } from './scene.ts';

const scene = use(() =>
  openScene(
    { 'messages-1': 'messages', 'chat-1': 'chat', 'responses-1': 'responses', 'limits-1': 'messages' },
    {
      spend_limits: {
        rules: [
          {
            name: 'used-up',
            scope: 'user',
            window: 'day',
            limit_usd: 0.000001,
            when: { '===': [{ var: 'principal.email' }, 'spent@example.com'] },
          },
        ],
      },
    },
  ),
);

describe('a self-check of our own gateway', { concurrency: 2 }, () => {
  for (const protocol of ['messages', 'chat', 'responses'] as const) {
    test(`passes with an upstream of ${protocol}`, async () => {
      const { checks, exit_code, having, stdout } = await scene.check(`${protocol}-1`);
      assert.deepEqual(having('failed'), [], stdout);
      assert.deepEqual(having('warning'), [], stdout);
      assert.equal(exit_code, 0);
      for (const id of ['models.list', 'messages.json', 'messages.stream', 'chat.stream', 'responses.stream'])
        assert.equal(checks.get(id)?.verdict, 'ok', id);
      // A gateway that translates can't pass bytes on; one that does not has to.
      for (const id of ['forwarding.messages_body', 'forwarding.headers', 'forwarding.usage'])
        assert.equal(checks.get(id)?.verdict, protocol === 'messages' ? 'ok' : 'skipped', id);
    });
  }

  test('finds the rejection at a limit complete, in every protocol', async () => {
    const token = await scene.gateway.newToken({ user: 'spent@example.com' });
    const { having, exit_code, stdout } = await scene.check('limits-1', {
      arguments: ['--limit-token-env', 'TEST_LIMIT_TOKEN', '--only', 'limits'],
      env: { TEST_LIMIT_TOKEN: token },
    });
    assert.deepEqual(having('failed'), [], stdout);
    assert.deepEqual(having('skipped'), [], stdout);
    assert.ok(having('ok').length > 0);
    assert.equal(exit_code, 0);
    assert.ok(!stdout.includes(token));
  });
});
