/**
 * Chat templates that require alternating user and assistant turns. The upstream checks the order as the templates of two families do,
 * which do not count calls and results, and as the validator of one vendor does.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ONE_ATTEMPT } from '../../support/gateway.ts';
import type { Asked } from '../../support/model-provider/model-provider.ts';
import { askBody, type Nine, nineConfig, post, useNine } from '../support/nine.ts';
import { lossesOf } from '../support/odd.ts';

type Message = Readonly<Record<string, unknown>>;

let nine: Nine;
useNine(
  (opened) => {
    nine = opened;
  },
  (url) =>
    nineConfig(url, {
      upstreams: [
        { name: 'own', type: 'compat', protocols: ['chat'], supports: { strict_turns: true }, ...ONE_ATTEMPT },
      ],
      models: [
        { id: 'coder-small', upstream_ids: { chat: 'mistralai/Devstral-Small-2507' } },
        { id: 'local', upstream_ids: { own: 'q4.gguf' } },
      ],
      rules: [
        { name: 'small', models: ['coder-small'], upstream: 'chat' },
        { name: 'local', models: ['local'], upstream: 'own' },
      ],
    }),
);

/** Why a strict template rejects these messages. */
function fault(messages: readonly Message[]): string | undefined {
  const [first] = messages;
  const turns = messages.slice(first?.role === 'system' ? 1 : 0);
  const counted = turns.filter(({ role, tool_calls }) => role !== 'tool' && tool_calls === undefined);
  if (counted.some(({ role }, index) => (role === 'user') !== (index % 2 === 0)))
    return 'After the optional system message, conversation roles must alternate user/assistant/user/assistant/...';
  if (turns.some(({ role }, index) => role === 'user' && turns[index - 1]?.role === 'tool'))
    return "Unexpected role 'user' after role 'tool'";
  return undefined;
}

/** A model with such a template. */
const strictModel = ({ body }: Asked) => {
  const message = fault((body as { messages: Message[] }).messages);
  return message === undefined ? { said: [{ kind: 'text', text: 'Yes' }] } : { status: 400, message };
};

/** What the provider is sent of these messages of a Messages client. */
async function ask(model: string, messages: readonly object[]) {
  nine.provider.reset();
  if (model !== 'via-chat') nine.provider.model = strictModel as typeof nine.provider.model;
  const answer = await post(nine.gateway, 'messages', askBody('messages', model, '', { messages, tools }));
  assert.deepEqual(nine.provider.refused, []);
  assert.equal(answer.status, 200, answer.text);
  const { messages: sent } = nine.provider.only().body as { messages: Message[] };
  return { sent, losses: await lossesOf(nine, answer) };
}

const text = (said: string) => ({ type: 'text', text: said });
const call = (id: string) => ({ type: 'tool_use', id, name: 'find', input: {} });
const result = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: 'found' });
const user = (content: unknown) => ({ role: 'user', content });
const assistant = (content: unknown) => ({ role: 'assistant', content });
const tools = [{ name: 'find', input_schema: { type: 'object' } }];

const SEEN = [assistant('I have the results.')];
for (const [which, model, between] of [
  ['known by its name', 'coder-small', SEEN],
  ['known by its upstream', 'local', SEEN],
  ['and no other', 'via-chat', []],
] as const) {
  test(`a model that wants user and assistant to take turns, ${which}, gets a message between results and the user`, async () => {
    const { sent, losses } = await ask(model, [user('a'), assistant([call('1')]), user([result('1'), text('b')])]);
    assert.deepEqual(sent.slice(2), [{ role: 'tool', tool_call_id: '1', content: 'found' }, ...between, user('b')]);
    assert.deepEqual(losses, between.length > 0 ? ['user_after_results'] : []);
  });
}

test('what was sent before stays the same when the conversation goes on', async () => {
  const turns = [
    ...[user('a'), user('b'), assistant([text('c'), call('1'), call('2')])],
    ...[user([result('1'), result('2'), text('d')]), assistant('e'), user('f'), assistant('g'), user('h')],
  ];
  for (const model of ['via-chat', 'coder-small']) {
    let before = '';
    for (const length of [4, 6, 8]) {
      const sent = JSON.stringify((await ask(model, turns.slice(0, length))).sent);
      assert.ok(sent.startsWith(before), `${sent} does not begin with ${before}`);
      before = sent.slice(0, -1);
    }
  }
});
