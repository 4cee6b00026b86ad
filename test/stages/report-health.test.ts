import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Answer } from '../../engine/api.ts';
import { openStage, type ServiceWishes } from '../../engine/simulate/stage-harness.ts';
import reportHealth from '../../stages/report-health.ts';

async function ask(checks: readonly string[], health: ServiceWishes['health'] & {}): Promise<Answer> {
  const stage = openStage(reportHealth, { options: { checks }, health });
  return (await stage.hooks.request!(stage.request())) as Answer;
}

const up = async () => ({ database: { ok: true } });
const down = async () => ({ database: { ok: false, detail: 'connect ECONNREFUSED db.internal:5432' } });

describe('report-health', () => {
  it('reports liveness without looking at anything', async () => {
    const answer = await ask([], () => assert.fail('liveness asked the database'));
    assert.equal(answer.status, 200);
    assert.deepEqual(JSON.parse(answer.body), { status: 'ok', checks: {} });
  });

  it('answers 200 while the database answers', async () => {
    const answer = await ask(['database'], up);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers['cache-control'], 'no-store');
    assert.deepEqual(JSON.parse(answer.body), { status: 'ok', checks: { database: 'ok' } });
  });

  it('answers 503 without saying where the database is when it is away', async () => {
    const answer = await ask(['database'], down);
    assert.equal(answer.status, 503);
    assert.equal(answer.headers['cache-control'], 'no-store');
    assert.deepEqual(JSON.parse(answer.body), { status: 'unavailable', checks: { database: 'unavailable' } });
    assert.doesNotMatch(answer.body, /db\.internal|5432/);
  });

  it('tells about the configuration what anybody may know, without effect on the status', async () => {
    const told = { state: 'reload_failed', failed_reloads: 1 };
    const stage = openStage(reportHealth, {
      options: { checks: ['database'], tells: ['configuration'] },
      health: async () => ({ database: { ok: true }, configuration: { ok: true, detail: 'C1001', told } }),
    });
    const answer = (await stage.hooks.request!(stage.request())) as Answer;
    assert.equal(answer.status, 200);
    assert.deepEqual(JSON.parse(answer.body), { status: 'ok', checks: { database: 'ok' }, configuration: told });
  });

  it('tells how the upstreams are, and is as ready with all of them open', async () => {
    const told = { main: { state: 'open', until: '2027-01-31T08:00:05.000Z' }, spare: { state: 'drained' } };
    const stage = openStage(reportHealth, {
      options: { checks: ['database'], tells: ['upstreams'] },
      health: async () => ({ database: { ok: true }, upstreams: { ok: true, detail: 'api.internal', told } }),
    });
    const answer = (await stage.hooks.request!(stage.request())) as Answer;
    assert.equal(answer.status, 200);
    assert.deepEqual(JSON.parse(answer.body), { status: 'ok', checks: { database: 'ok' }, upstreams: told });
  });

  it('answers 503 when the check itself fails', async () => {
    const answer = await ask(['database'], async () => {
      throw new Error('the check failed');
    });
    assert.equal(answer.status, 503);
  });

  it('shares one check among probes that arrive together, and checks anew afterwards', async () => {
    let checks = 0;
    const stage = openStage(reportHealth, {
      options: { checks: ['database'] },
      health: async () => {
        checks++;
        return { database: { ok: true } };
      },
    });
    const probe = () => stage.hooks.request!(stage.request());
    await Promise.all([probe(), probe(), probe()]);
    assert.equal(checks, 1);
    await probe();
    assert.equal(checks, 2);
  });
});
