/**
 * Chat templates that want user and assistant to take turns. The upstream checks the order as the templates of two families do,
 * which do not count calls and results, and as the validator of one vendor does.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
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

/** Why a strict template refuses these messages. */
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

const strictModel = ({ body }: Asked) => {
  const message = fault((body as { messages: Message[] }).messages);
  return message === undefined ? { said: [{ kind: 'text', text: 'Yes' }] } : { status: 400, message };
};

async function ask(spoken: 'messages' | 'responses', model: string, more: object) {
  nine.provider.reset();
  nine.provider.model = strictModel as typeof nine.provider.model;
  const answer = await post(nine.gateway, spoken, askBody(spoken, model, '', more));
  assert.deepEqual(nine.provider.refused, []);
  assert.equal(answer.status, 200, answer.text);
  const { messages } = nine.provider.only().body as { messages: Message[] };
  return { messages, losses: await lossesOf(nine, answer) };
}

const text = (said: string) => ({ type: 'text', text: said });
const PNG = 'iVBORw0KGgoAAAAN';
const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } };
const call = (id: string) => ({ type: 'tool_use', id, name: 'find', input: {} });
const result = (id: string) => ({ type: 'tool_result', tool_use_id: id, content: 'found' });
const user = (content: unknown) => ({ role: 'user', content });
const assistant = (content: unknown) => ({ role: 'assistant', content });
const tools = [{ name: 'find', input_schema: { type: 'object' } }];

describe('messages in a row become one at every upstream of chat completions', () => {
  const ROWS: readonly (readonly [name: string, given: readonly object[], sent: readonly object[]])[] = [
    ['two of the user', [user('a'), user('b')], [user([text('a'), text('b')])]],
    [
      'of the user, with an image and a mark',
      [user([{ ...text('a'), cache_control: { type: 'ephemeral' } }]), user([image, text('b')])],
      [user([text('a'), { type: 'image_url', image_url: { url: `data:image/png;base64,${PNG}` } }, text('b')])],
    ],
    [
      'of the user and of the role system',
      [user('a'), { role: 'system', content: 'Be short.' }, user('b')],
      [user([text('a'), text('<system_message>\nBe short.\n</system_message>'), text('b')])],
    ],
    [
      'two of the assistant',
      [user('a'), assistant('b'), assistant('c'), user('d')],
      [user('a'), assistant([text('b'), text('c')]), user('d')],
    ],
    ['one that is empty', [user('a'), user(''), user('b')], [user([text('a'), text('b')])]],
    ['one alone', [user('a'), assistant('b'), user('c')], [user('a'), assistant('b'), user('c')]],
  ];
  for (const [name, given, sent] of ROWS) {
    it(name, async () => {
      assert.deepEqual((await ask('messages', 'via-chat', { messages: given })).messages, sent);
    });
  }

  it('of a Responses client, with instructions among them', async () => {
    const input = [
      { role: 'developer', content: 'Be kind.' },
      user('a'),
      { role: 'developer', content: 'Be short.' },
      user('b'),
    ];
    const { messages } = await ask('responses', 'via-chat', { input });
    assert.deepEqual(messages, [
      { role: 'system', content: 'Be kind.' },
      user([text('a'), text('<system_message>\nBe short.\n</system_message>'), text('b')]),
    ]);
  });

  it('and what was sent before stays the same when the conversation goes on', async () => {
    const turns = [
      user('a'),
      user('b'),
      assistant([text('c'), call('1'), call('2')]),
      user([result('1'), result('2'), text('d')]),
      assistant('e'),
      user('f'),
      assistant('g'),
    ];
    for (const model of ['via-chat', 'coder-small']) {
      let before = '';
      for (const length of [4, 6, 7]) {
        // Each ends where the user speaks, as requests do.
        const messages = length === 7 ? [...turns, user('h')] : turns.slice(0, length);
        if (model === 'via-chat') nine.provider.model = () => ({ said: [{ kind: 'text', text: 'Yes' }] });
        const body = askBody('messages', model, '', { messages, tools });
        nine.provider.upstream.requests.length = 0;
        const answer = await post(nine.gateway, 'messages', body);
        assert.equal(answer.status, 200, answer.text);
        const sent = JSON.stringify((nine.provider.asked.at(-1)!.body as { messages: Message[] }).messages);
        assert.ok(sent.startsWith(before), `${sent} does not begin with ${before}`);
        before = sent.slice(0, -1);
      }
    }
  });
});

describe('a model that wants user and assistant to take turns', () => {
  const seen = assistant('I have the results.');
  for (const [why, model] of [
    ['by its name', 'coder-small'],
    ['by its upstream', 'local'],
  ] as const) {
    it(`${why} gets a message between results and the user`, async () => {
      const messages = [user('a'), assistant([call('1')]), user([result('1'), text('b')])];
      const { messages: sent, losses } = await ask('messages', model, { messages, tools });
      assert.deepEqual(sent.slice(2), [{ role: 'tool', tool_call_id: '1', content: 'found' }, seen, user('b')]);
      assert.deepEqual(losses, ['user_after_results']);
    });
  }

  const model = 'coder-small';
  it(`gets none where results end the conversation, or the assistant answered them`, async () => {
    const messages = [user('a'), assistant([call('1')]), user([result('1')])];
    assert.deepEqual((await ask('messages', model, { messages, tools })).losses, []);
    const answered = [...messages, assistant('b'), user('c')];
    assert.deepEqual((await ask('messages', model, { messages: answered, tools })).losses, []);
  });

  it(`gets one before an assistant who speaks first, and between an image of a result and its call`, async () => {
    const first = await ask('messages', model, { messages: [assistant('Hello.'), user('a')] });
    assert.deepEqual(first.messages, [user('(The conversation begins.)'), assistant('Hello.'), user('a')]);
    assert.deepEqual(first.losses, ['assistant_first']);
    const shown = { ...result('1'), content: [image] };
    const { losses } = await ask('messages', model, {
      messages: [user('a'), assistant([call('1')]), user([shown])],
      tools,
    });
    assert.deepEqual(losses, ['result_attachments', 'user_after_results']);
  });

  it('is no other: results are followed by the user as they are', async () => {
    nine.provider.model = () => ({ said: [{ kind: 'text', text: 'Yes' }] });
    const messages = [user('a'), assistant([call('1')]), user([result('1'), text('b')])];
    const answer = await post(nine.gateway, 'messages', askBody('messages', 'via-chat', '', { messages, tools }));
    assert.equal(answer.status, 200, answer.text);
    const { messages: sent } = nine.provider.only().body as { messages: Message[] };
    assert.deepEqual(sent.slice(2), [{ role: 'tool', tool_call_id: '1', content: 'found' }, user('b')]);
  });
});
