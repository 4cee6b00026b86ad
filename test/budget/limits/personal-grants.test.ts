/** Headroom granted to one user within a limit that a team shares: theirs alone, exact at once, and temporary. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../../engine/base/kit/clock.ts';
import { nameCounted } from '../../../engine/domain/budget/limits/limit-names.ts';
import { grantLimit, revokeGrant } from '../../../engine/domain/budget/limits/limit-settings.ts';
import { readLimits } from '../../../engine/domain/budget/limits/limit-statuses.ts';
import { ask } from '../../e2e/support/client.ts';
import { useGateway } from '../../e2e/support/use-gateway.ts';
import { makeToken, type TestGateway } from '../../support/gateway.ts';
import { answerJson, message, type ScriptedUpstream } from '../../support/model-provider/scripted-upstream.ts';

const USD = 1_000_000_000;
const spend_limits = {
  on_exceeded: 'deny',
  reserve: 'worst_case',
  rules: [{ name: 'team-pool', scope: 'team', window: 'month', limit_usd: 0 }],
};
let upstream: ScriptedUpstream;
let gateway: TestGateway;

useGateway(
  (opened) => {
    ({ upstream, gateway } = opened);
  },
  { spend_limits },
);

const config = { spend_limits: { defaults: {}, ...spend_limits }, models: [], upstreams: [] } as never;
const counterOf = (user: string) =>
  nameCounted(config, { of: { user, team: 'search' }, window: 'month', unit: 'nano_usd' });

function grantTo(user: string, amount: number) {
  const by = { database: gateway.database, clock: systemClock, actor: { kind: 'command', name: 'test' } } as const;
  const expires_at = new Date(Date.now() + 3_600_000);
  return grantLimit(by, { name: counterOf(user), amount, expires_at });
}

const tokenOf = (user: string) => makeToken(gateway.database, { user, team: 'search', name: user });
const send = (token: string) => ask(gateway.url, token, { model: 'coder-1', max_tokens: 100 });

test('the pool is used up for all but the caller with a grant, until the grant is revoked', async () => {
  const [ann, ben] = [await tokenOf('ann@example.com'), await tokenOf('ben@example.com')];
  assert.equal((await send(ann)).status, 429);
  const grant = await grantTo('ann@example.com', USD);
  assert.equal((await send(ann)).status, 200);
  assert.equal((await send(ben)).status, 429);

  const at = { database: gateway.database, clock: systemClock, config };
  const [limit] = await readLimits(at, [counterOf('ann@example.com')]);
  assert.deepEqual([limit!.counted, limit!.limit, limit!.grants.length], [true, 1, 1]);

  const by = { database: gateway.database, clock: systemClock, actor: { kind: 'command', name: 'test' } } as const;
  await revokeGrant(by, grant.id);
  assert.equal((await send(ann)).status, 429);
});

test('many requests at once use no more than was granted', async () => {
  const token = await tokenOf('cleo@example.com');
  // A request reserves at least its 100 tokens of output, at 15 USD per million.
  const room = 10 * 1_500_000;
  await grantTo('cleo@example.com', room);
  const blocked = Promise.withResolvers<void>();
  upstream.script = async (exchange) => {
    await blocked.promise;
    return answerJson(message())(exchange);
  };
  const responses = Array.from({ length: 20 }, () => send(token));
  const refused = responses.map(async (response) => assert.ok((await response).status === 429));
  // The rejected ones return while the others are kept waiting, and they are more than half.
  await Promise.any(refused);
  blocked.resolve();
  const statuses = (await Promise.all(responses)).map(({ status }) => status);
  await Promise.allSettled(refused);
  const served = statuses.filter((status) => status === 200).length;
  assert.ok(served > 0 && served < 10, `${served} served`);
});
