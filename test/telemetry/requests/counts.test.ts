import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StageError } from '../../../engine/contract/errors.ts';
import { attempt, ended, limit, NOON, openScene, refused, USD } from './scene.ts';

const HOUR = 3600 * 1000;

describe('the metrics about requests', () => {
  it('count how each ended, what it cost and used, and how long it took', () => {
    const { requestEnded, series } = openScene();
    requestEnded(ended());
    requestEnded(refused(new StageError('forbidden', 'No.')));
    requestEnded(ended({ facts: { 'outcome.aborted': true } }));
    assert.deepEqual(series('gateway.requests'), {
      'messages coder-1 main 2xx answered': 1,
      'messages coder-1 4xx refused': 1,
      'messages coder-1 main 2xx aborted': 1,
    });
    assert.deepEqual(series('gateway.cost'), { 'messages coder-1 main': 0.01 });
    assert.deepEqual(series('gateway.tokens'), {
      'coder-1 main uncached_input': 20,
      'coder-1 main cache_read': 200,
      'coder-1 main cache_write_5m': 14,
      'coder-1 main cache_write_1h': 6,
      'coder-1 main output': 100,
    });
    assert.deepEqual(series('http.server.request.duration'), {
      'POST /v1/messages 200': 2,
      'POST /v1/messages 403': 1,
    });
    assert.deepEqual(series('gateway.overhead.duration'), { messages: 2 });
    assert.deepEqual(series('gen_ai.client.token.usage'), {
      'chat anthropic coder-1 input': 2,
      'chat anthropic coder-1 output': 2,
    });
    assert.deepEqual(series('gen_ai.client.operation.time_to_first_chunk'), { 'chat anthropic coder-1': 2 });
  });

  it('tell teams apart only where that is asked for', () => {
    const { requestEnded, series } = openScene({ metrics: { interval_seconds: 60, team: true } });
    requestEnded(ended());
    assert.deepEqual(series('gateway.cost'), { 'messages coder-1 main payments': 0.005 });
  });

  it('have the same series for 1,000 callers, sessions, tokens, addresses and unknown models as for one', () => {
    const { requestEnded, metrics } = openScene({ metrics: { interval_seconds: 60, team: false } });
    const count = () => metrics.measure().reduce((sum, { series }) => sum + series.length, 0);
    const one = (i: number) => {
      const facts = {
        'principal.id': `user:${i}`,
        'principal.email': `user${i}@example.com`,
        'principal.team': `team-${i}`,
        'principal.token.id': `tok_${i}`,
        'request.session_id': `session-${i}`,
        'request.client.address': `10.0.0.${i}`,
        'request.path': `/v1/messages/${i}`,
      };
      requestEnded(ended({ facts, limits: [limit({ key: `user${i}@example.com`, spent: i })] }));
      const unknown = new StageError('model_not_found', 'None.', { details: { model: `m-${i}` } });
      requestEnded(refused(unknown, { facts: { ...facts, 'request.model': `m-${i}` } }));
    };
    one(0);
    const before = count();
    for (let i = 1; i < 1000; i++) one(i);
    assert.equal(count(), before);
  });

  it('tell 200 models apart where gateway.yaml names none, and only those that answered', () => {
    const { requestEnded, series } = openScene({}, { models: [], from_model_lists: true });
    for (let i = 0; i < 300; i++) {
      const facts = { 'request.model': `m-${i}` };
      const unknown = new StageError('model_not_found', 'None.', { details: { model: `never-${i}` } });
      requestEnded(refused(unknown, { facts: { 'request.model': `never-${i}` } }));
      requestEnded(ended({ facts }));
    }
    const names = Object.keys(series('gateway.requests'));
    assert.equal(names.filter((name) => /\bm-\d+/.test(name)).length, 200);
    assert.equal(names.filter((name) => /\bnever-/.test(name)).length, 0);
  });

  it('count fallbacks by the upstream that was left and why, attempts, and those that may be billed', () => {
    const { requestEnded, series } = openScene();
    const unanswered = { status: null, certainty: 'possibly_accepted', outcome: 'unanswered' } as const;
    requestEnded(
      ended({
        attempts: [attempt({ ...unanswered, reason: 'next_unconfirmed' }), attempt({ n: 2, upstream: 'spare' })],
        facts: { 'usage.possibly_billed_nano_usd': USD / 10, 'route.upstream': 'spare' },
      }),
    );
    assert.deepEqual(series('gateway.fallbacks'), { 'main next_unconfirmed': 1 });
    assert.deepEqual(series('gateway.attempts'), {
      'main unanswered next_unconfirmed': 1,
      'spare answered served': 1,
    });
    assert.deepEqual(series('gateway.unconfirmed_attempts'), { main: 1 });
    assert.deepEqual(series('gateway.cost.possible'), { 'coder-1 spare': 0.1 });
  });

  it('count what rules decided, and what those in shadow mode would have', () => {
    const { requestEnded, series } = openScene();
    requestEnded(ended({ facts: { 'route.rule': 'night' }, shadows: ['routing:later', 'spend:soon', 'screen'] }));
    requestEnded(refused(new StageError('rate_limit_exceeded', 'Wait.'), { facts: { 'request.limit_rule': 'calm' } }));
    requestEnded(ended({ attempts: [], facts: { 'policy.names': ['everyone'] } }));
    assert.deepEqual(series('gateway.decisions'), {
      'route night enforce routed': 1,
      'route later shadow matched': 1,
      'spend soon shadow matched': 1,
      'stage screen shadow matched': 1,
      'spend calm enforce refused': 1,
      'policy everyone enforce served': 1,
    });
    assert.deepEqual(series('gateway.refusals'), { 'messages rate_limit_exceeded calm': 1 });
  });

  it('count requests that no pipeline took by why', () => {
    const { requestRejected, series } = openScene();
    requestRejected(404, 'path_not_found');
    assert.deepEqual(series('gateway.rejected'), { 'path_not_found 404': 1 });
  });
});

describe('the gauges of budgets', () => {
  const USER = 'defaults.user_daily_usd day';

  it('tell of each rule who has used most of it, and follow that one down', () => {
    const { requestEnded, series } = openScene();
    const facts = { 'spend.reserved_nano_usd': 0, 'usage.cost_nano_usd': 0 };
    const use = (key: string, spent: number) =>
      requestEnded(ended({ facts, limits: [limit({ key, spent: spent * USD })] }));
    use('alice@example.com', 20);
    use('bob@example.com', 30);
    use('alice@example.com', 21);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.7 });
    assert.deepEqual(series('gateway.budget.remaining'), { [USER]: 15 });
    assert.deepEqual(series('gateway.budget.resets_in'), { [USER]: 12 * 3600 });
    use('bob@example.com', 22.5);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.55 });
  });

  it('count what a request cost, and no longer what was reserved for it, however requests overlap', () => {
    const { requestEnded, series, clock } = openScene();
    const began = clock.monotonic();
    const end = (told_at: number, spent: number, reserved: number, cost: number) => {
      clock.advance(1000);
      const facts = { 'spend.reserved_nano_usd': 5 * USD, 'usage.cost_nano_usd': cost * USD };
      const limits = [limit({ spent: spent * USD, reserved: reserved * USD })];
      requestEnded(ended({ facts, limits, told_at: began + told_at }));
    };
    // Three that were under way at once, each with 5 USD reserved, and one that begins when they are over.
    end(1, 20, 5, 1);
    assert.deepEqual(series('gateway.budget.remaining'), { [USER]: 29 });
    end(3, 20, 15, 1);
    end(2, 20, 10, 1);
    assert.deepEqual(series('gateway.budget.remaining'), { [USER]: 27 });
    end(3500, 23, 5, 2);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.5 });
  });

  it('forget a window that is over', () => {
    const { requestEnded, series, clock } = openScene();
    requestEnded(ended({ limits: [limit({ resets_at: NOON + HOUR })] }));
    clock.advance(HOUR);
    assert.deepEqual(series('gateway.budget.used_ratio'), {});
    requestEnded(ended({ limits: [limit({ resets_at: NOON + 25 * HOUR, spent: 0, reserved: 0 })] }));
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.0001 });
  });

  it('forget limits that a reload has changed, whoever used most of them, and no others', () => {
    const { requestEnded, series, reload } = openScene();
    const facts = { 'spend.reserved_nano_usd': 0, 'usage.cost_nano_usd': 0 };
    const use = (key: string, spent: number, most: number) =>
      requestEnded(ended({ facts, limits: [limit({ key, spent, reserved: 0, limit: most })] }));
    use('alice@example.com', 90, 100);
    reload({ models: [] });
    use('bob@example.com', 10, 100);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.9 });
    reload({ spend_limits: { defaults: { user_daily_usd: 1 } } as never });
    use('bob@example.com', 10, 1000);
    assert.deepEqual(series('gateway.budget.used_ratio'), { [USER]: 0.01 });
  });
});
