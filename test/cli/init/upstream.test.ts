import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseUpstream } from '../../../engine/cli/init/upstream.ts';

/** Somebody at a terminal who gives these answers, one after the other. */
function person(...said: string[]) {
  const questions: string[] = [];
  const told: string[] = [];
  const input = {
    answers: true,
    line: async (question: string) => {
      questions.push(question);
      const answer = said.shift();
      assert.notEqual(answer, undefined, question);
      return answer!;
    },
    all: async () => '',
  };
  return { input, questions, told, tell: (text: string) => void told.push(text) };
}

test('who presses Enter gets the stand-in, and is asked nothing else', async () => {
  const { input, questions, tell } = person('');
  const chosen = await chooseUpstream({}, input, tell);
  assert.deepEqual(chosen, { base_url: undefined, type: 'vendor', key_env: 'UPSTREAM_KEY' });
  assert.equal(questions.length, 1);
});

test('who names a provider is asked what it speaks and for the name of its key, again where the answer cannot be one', async () => {
  const { input, told, tell } = person(
    'example',
    'https://api.example.com',
    'chat',
    'compat',
    'sk-planted-1234567',
    'MY_KEY',
  );
  const chosen = await chooseUpstream({}, input, tell);
  assert.deepEqual(chosen, { base_url: 'https://api.example.com', type: 'compat', key_env: 'MY_KEY' });
  assert.equal(told.length, 3);
  assert.doesNotMatch(told.join(''), /planted/);
});

test('what options name is not asked for', async () => {
  const { input, questions, tell } = person();
  const chosen = await chooseUpstream({ upstreamUrl: 'https://api.example.com' }, input, tell);
  assert.deepEqual(chosen, { base_url: 'https://api.example.com', type: 'vendor', key_env: 'UPSTREAM_KEY' });
  assert.deepEqual(questions, []);
});
