/** What the real gateway records of its decisions, and how it explains them afterwards. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { pick } from '../../http/admin/support.ts';
import { answerJson, message } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { operation } from '../support/operation.ts';
import { useGateway } from '../support/use-gateway.ts';

const of_team = (team: string) => ({ '===': [{ var: 'principal.team' }, team] });

const opened = useGateway({
  routing: {
    default_upstream: 'main',
    rules: [
      { name: 'at-night', upstream: 'main', when: of_team('night') },
      { name: 'big', upstream: 'main', when: { '>': [{ var: 'request.max_tokens' }, 50] } },
    ],
  },
  spend_limits: {
    time_zone: 'UTC',
    rules: [{ name: 'poor', when: of_team('poor'), scope: 'user', window: 'day', limit_usd: 0.0001 }],
  },
});

const SECRET = 'the-text-of-a-prompt-7d1f';

async function ask(token: string, more: object = {}): Promise<{ status: number; id: string }> {
  const response = await fetch(`${opened.gateway.url}/v1/messages`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'coder-1', max_tokens: 64, messages: [{ role: 'user', content: SECRET }], ...more }),
  });
  await response.text();
  return { status: response.status, id: response.headers.get('x-gateway-request-id')! };
}

/** What an administrator gets from this gateway. */
const fetchTrace = (name: 'getRequest' | 'explainRequest', id: string, as?: string) =>
  until('the request is recorded', () => operation(opened.gateway, name, { path: { id } }, as).catch(() => undefined));

describe('the trace of a request', () => {
  test('of a served one has its stages, the rules with their inputs, and the sent request', async () => {
    opened.upstream.script = answerJson(message());
    const { status, id } = await ask(opened.gateway.token);
    assert.equal(status, 200);
    const { request, trace, ledger, record } = await until('its cost is in the ledger', async () => {
      const found = await fetchTrace('getRequest', id);
      return found.ledger.length > 0 && found;
    });
    assert.match(trace.why, /^Served by main in .*, by the rule big\. It cost 0\.\d+ USD\.$/);
    const ran = ['authenticate', 'read-body', 'resolve-route', 'check-budget', 'meter-usage', 'translate'];
    const ends = [...ran.map((id) => [id, 'ran']), ['forward', 'answered']];
    assert.deepEqual(pick(trace.stages, 'id', 'end'), ends);
    const rules = trace.rules.filter(({ kind }: { kind: string }) => kind === 'routing');
    assert.deepEqual(pick(rules, 'name', 'held'), [
      ['at-night', false],
      ['big', true],
      ['default', null],
    ]);
    assert.deepEqual(rules[1].reasons, [{ held: true, words: 'request.max_tokens > 50 (request.max_tokens is 64)' }]);
    assert.match(`${rules[1].file}:${rules[1].line}`, /^gateway\.yaml:\d+$/);
    assert.equal(trace.bytes, 'Sent byte for byte as received.');
    assert.equal(ledger.length, 1);
    assert.equal(ledger[0].cost_usd, request.cost_usd);
    assert.ok(request.ttfb_ms >= 0);
    assert.ok(!JSON.stringify(record).includes(SECRET));
  });

  test("of a rejected one begins with the client's error, and shows its current outcome", async () => {
    const poor = await opened.gateway.newToken({ user: 'poor@example.com', team: 'poor' });
    const { token } = opened.gateway;
    for (const [asked, status, why, now] of [
      [
        await ask(poor),
        429,
        /^Rejected: Retrying will not help: .* the daily limit of 0\.0001 USD for user poor@example\.com.* Defined in gateway\.yaml:\d+\.$/,
        /^It would be rejected now by the limit poor: user poor@example\.com: .*As it did then\.$/,
      ],
      [
        await ask(token, { model: 'no-such-model' }),
        404,
        /^Rejected by the stage resolve-route.*: the model does not exist for this caller \(model_not_found\)\.$/,
        /./,
      ],
      [await ask(token), 200, /^Served by main/, /^It would go to main now, by the rule big\. As it did then\.$/],
    ] as const) {
      assert.equal(asked.status, status);
      const { request, trace } = await fetchTrace('getRequest', asked.id);
      assert.match(trace.why, why);
      const replay = await fetchTrace('explainRequest', asked.id);
      assert.match(replay.words, now);
      if (status !== 429) continue;
      assert.deepEqual([request.refused_by, trace.stages.at(-1).end, replay.would], ['poor', 'refused', 'refused']);
      const { rule, limit, spent, refused } = trace.limits[0];
      assert.deepEqual({ rule, limit, spent, refused }, { rule: 'poor', limit: 0.0001, spent: 0, refused: true });
    }
  });

  test('shows users without the admin role only the conditions that matched', async () => {
    const { id } = await ask(opened.gateway.token);
    const { trace } = await fetchTrace('getRequest', id, 'dev@example.com');
    const names = pick(trace.rules, 'name');
    assert.ok(names.includes('big') && !names.includes('at-night') && !names.includes('poor'), names.join());
    const now = await fetchTrace('explainRequest', id, 'dev@example.com');
    assert.deepEqual(pick(now.rules, 'name'), ['big']);
  });
});
