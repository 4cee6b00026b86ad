import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ModelConfig } from '../../../engine/contract/config.ts';
import { answeringModels } from '../../../engine/money/prices/answering-model.ts';

const model = (id: string, upstream_ids: Record<string, string> = {}, aliases: string[] = []) =>
  ({ id, aliases, upstream_ids }) as unknown as ModelConfig;

const find = answeringModels({
  models: [
    model('big-4.5', {}, ['big']),
    model('router-big', { router: 'vendor/big-4.5' }),
    model('expensive-1', { router: 'vendor/expensive-1' }),
  ],
});

test('a model that two upstreams serve is the one that was asked for, however the answer shortens its name', () => {
  for (const name of [
    'vendor/big-4.5',
    'big-4.5',
    'big-4.5-20260101',
    'vendor/big-4.5@20260101',
    'eu/vendor/big-4.5',
  ]) {
    assert.equal(find(name, 'router', 'router-big')?.id, 'router-big', name);
    assert.equal(find(name, 'main', 'big-4.5')?.id, 'big-4.5', name);
  }
});

test('another model is found by what any upstream calls it, and a name that nobody knows is nobody', () => {
  for (const name of ['vendor/expensive-1', 'expensive-1', 'expensive-1-2026-03-01', 'other/expensive-1']) {
    assert.equal(find(name, 'router', 'router-big')?.id, 'expensive-1', name);
  }
  assert.equal(find('other/big-4.5', 'router', 'router-big')?.id, 'big-4.5', 'of another vendor');
  assert.equal(find('big-5', 'router', 'router-big'), undefined);
});
