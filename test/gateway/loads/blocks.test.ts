import assert from 'node:assert/strict';
import { test } from 'node:test';
import { blockAround, blockEnd } from '../../../engine/edge/gateway/loads.ts';

const YAML = `routing:
  rules:
    - name: long
      when:
        '>': [{ var: request.input_tokens_estimate }, 1000]

      # where it goes
      upstream: main
    - name: other
      upstream: main
  default_upstream: main
models: []
`.split('\n');

const JSON_TEXT = JSON.stringify({ rules: [{ name: 'a', when: { '!': true } }, { name: 'b' }] }, null, 2).split('\n');

test('the entry of a list ends where the next one or its owner begins', () => {
  assert.equal(blockEnd(YAML, 3), 8);
  assert.equal(blockEnd(YAML, 9), 10);
  assert.equal(blockEnd(YAML, 11), 11);
  assert.equal(blockEnd(YAML, 99), 99);
});

test('the entry of a key begins above it', () => {
  assert.deepEqual(blockAround(YAML, 4), { first_line: 3, last_line: 8 });
  assert.deepEqual(blockAround(YAML, 9), { first_line: 9, last_line: 10 });
  assert.deepEqual(blockAround(YAML, 12), { first_line: 12, last_line: 12 });
});

test('JSON is recognized by its brackets', () => {
  assert.equal(JSON_TEXT[2]!.trim(), '{');
  assert.deepEqual(blockAround(JSON_TEXT, 4), { first_line: 3, last_line: 8 });
});
