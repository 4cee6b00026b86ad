import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withWholeCommand } from '../../engine/doctor/whole-command.ts';

const FACTS = {
  client: 'coding-cli',
  root_url: 'https://gw.corp.test',
  model: 'coder-1',
  profile: '/opt/my names.yaml',
} as const;

test('a remedy names a command that can be pasted: with the gateway, the model and the names of the client', () => {
  assert.equal(
    withWholeCommand('appscli client coding-cli asks for the key', FACTS),
    "appscli client coding-cli --base-url https://gw.corp.test --model coder-1 --profile '/opt/my names.yaml' asks for the key",
  );
  assert.equal(
    withWholeCommand('set it up again with appscli client', { ...FACTS, client: 'messages', profile: undefined }),
    'set it up again with appscli client messages --base-url https://gw.corp.test',
  );
});

test('examples in a remedy give way to what is known, and stay where nothing is', () => {
  const remedy = 'appscli client coding-cli --base-url https://gateway.example.com --model MODEL sets it up';
  assert.equal(
    withWholeCommand(remedy, { ...FACTS, profile: undefined }),
    'appscli client coding-cli --base-url https://gw.corp.test --model coder-1 sets it up',
  );
  const nothing = { client: 'coding-cli', root_url: undefined, model: undefined, profile: undefined } as const;
  assert.equal(withWholeCommand(remedy, nothing), remedy);
});

test('an option that a remedy means is not written twice, and a remedy without the command stays as it is', () => {
  assert.equal(
    withWholeCommand('set it; appscli client coding-cli --model other --check does', { ...FACTS, profile: undefined }),
    'set it; appscli client coding-cli --base-url https://gw.corp.test --model other --check does',
  );
  assert.equal(withWholeCommand('chmod 600 it', FACTS), 'chmod 600 it');
});
