import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Answer, GatewayConfig } from '../../engine/api.ts';
import { openStage, stageConfig } from '../../engine/simulate/stage-harness.ts';
import answer from '../../stages/answer.ts';

function answered(options: object): Answer {
  const stage = openStage(answer, { options });
  return stage.hooks.request!(stage.request({})) as Answer;
}

function problems(options: object): readonly string[] {
  const check = answer.check as (options: object, config: GatewayConfig) => readonly string[];
  return check({ status: 200, headers: {}, ...options }, stageConfig());
}

describe('answer', () => {
  it('says 200 and nothing more without options', () => {
    assert.deepEqual(answered({}), { kind: 'answer', status: 200, headers: {}, body: '' });
  });

  it('sends JSON of any kind and plain text, each as what it is', () => {
    for (const json of [{ status: 'ok' }, [], 'word', 0, false, null]) {
      const { headers, body } = answered({ json });
      assert.equal(headers['content-type'], 'application/json');
      assert.deepEqual(JSON.parse(body), json);
    }
    const { status, headers, body } = answered({ status: 503, text: 'Zurück um 18 Uhr.' });
    assert.deepEqual([status, headers['content-type'], body], [503, 'text/plain; charset=utf-8', 'Zurück um 18 Uhr.']);
  });

  it('sends the headers it is told, a content type of their own included', () => {
    const { headers } = answered({
      text: '# Hello',
      headers: { 'Content-Type': 'text/markdown', 'Retry-After': '60' },
    });
    assert.deepEqual(headers, { 'content-type': 'text/markdown', 'retry-after': '60' });
  });

  it('cannot be told two bodies, a body where HTTP has none, or headers of the connection', () => {
    assert.deepEqual(problems({ json: null, text: 'a' }), ['json and text cannot both be the body: leave one out']);
    assert.match(problems({ status: 204, text: '' })[0]!, /status 204 has no body/);
    assert.match(problems({ headers: { 'Content-Length': '5' } })[0]!, /Content-Length is the server's to write/);
    assert.deepEqual(problems({ status: 304, headers: { etag: '"1"' } }), []);
  });
});
