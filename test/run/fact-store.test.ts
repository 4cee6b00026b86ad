import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FactStore } from '../../engine/run/fact-store.ts';

test('a fact reads back by path and as part of the nested view', () => {
  const facts = new FactStore();
  facts.set('principal.token.group', 'research');
  facts.set('request.stream', false);
  assert.equal(facts.get('principal.token.group'), 'research');
  assert.deepEqual(JSON.parse(JSON.stringify(facts.view)), {
    request: { stream: false },
    principal: { token: { group: 'research' } },
  });
});

test('a fact that nobody wrote is undefined at any depth', () => {
  const facts = new FactStore();
  assert.equal(facts.get('principal.token.group'), undefined);
  facts.set('principal.id', 'user:a');
  assert.equal(facts.get('principal.token.group'), undefined);
});

test('writing a fact twice, or one that does not exist, is an error', () => {
  const facts = new FactStore();
  facts.set('request.model', 'm');
  assert.throws(() => facts.set('request.model', 'n'), /already written/);
  assert.throws(() => facts.set('request.typo' as 'request.model', 'n'), /no fact/);
});

test('nothing of Object.prototype can be seen through the view', () => {
  const facts = new FactStore();
  facts.set('request.model', 'm');
  const view = facts.view as Record<string, Record<string, unknown>>;
  assert.equal(view.constructor, undefined);
  assert.equal(view.request!.toString, undefined);
});
