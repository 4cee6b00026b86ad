/** Clients that keep nothing of an answer beside its text and its calls, in conversations with servers that want their state back. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import type { Protocol } from '../../../engine/base/contract/protocol.ts';
import { answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { randomOf } from '../../support/random.ts';
import { inTurn } from '../../support/times.ts';
import { send } from '../support/client.ts';
import { type Nine, post, sameAt, sending, useNine } from '../support/nine.ts';
import { idOf } from '../support/odd.ts';
import { auditRecord } from '../support/state.ts';
import {
  chatDocument,
  playing,
  STATEFUL_SERVERS,
  type StatefulServer,
  twinConfig,
  withUniqueIds,
} from './stateful-servers.ts';
import { talkingClient } from './talking-client.ts';

// biome-ignore lint/suspicious/noExplicitAny: a test asserts on whatever shape came
type Json = any;

let nine: Nine;
useNine((started) => {
  nine = started;
}, twinConfig);

afterEach(() => nine.provider.reset());

const random = randomOf('forgotten state');
/** Part of an identifier that looks as random as those of servers. */
const mark = (): string => `4fGh7kLm${Math.floor(random() * 36 ** 8).toString(36)}x`;

/** A client, and what it leaves out of the messages of the assistant. */
interface Forgetful {
  readonly name: string;
  readonly spoken: Protocol;
  forget(body: Json): void;
}

const isThinking = ({ type }: Json) => type === 'thinking' || type === 'redacted_thinking';

const FORGETFUL: readonly Forgetful[] = [
  {
    name: 'a chat client that keeps texts and calls',
    spoken: 'chat',
    forget({ messages }) {
      for (const message of messages) {
        if (message.role !== 'assistant') continue;
        const { content, tool_calls } = message;
        for (const key of Object.keys(message)) delete message[key];
        Object.assign(message, { role: 'assistant', content: content || null });
        if (tool_calls === undefined) continue;
        message.tool_calls = tool_calls.map(({ id, type, function: { name, arguments: text } }: Json) => {
          return { id, type, function: { name, arguments: text } };
        });
      }
    },
  },
  {
    name: 'a Messages client that keeps no thinking blocks',
    spoken: 'messages',
    forget({ messages }) {
      for (const message of messages) {
        if (message.role === 'assistant') message.content = message.content.filter((block: Json) => !isThinking(block));
      }
    },
  },
  {
    name: 'a Messages client that keeps one thinking block in each message',
    spoken: 'messages',
    forget({ messages }) {
      for (const message of messages) {
        if (message.role !== 'assistant') continue;
        const first = message.content.find(isThinking);
        message.content = message.content.filter((block: Json) => block === first || !isThinking(block));
      }
    },
  },
  {
    name: 'a Responses client that keeps no reasoning',
    spoken: 'responses',
    forget(body) {
      body.input = body.input.filter(({ type }: Json) => type !== 'reasoning');
    },
  },
];

function forgotten({ forget }: Forgetful, text: string): string {
  const body = JSON.parse(text);
  forget(body);
  return JSON.stringify(body);
}

const rewritesOf = async (answer: Parameters<typeof idOf>[0]): Promise<readonly string[]> =>
  ((await auditRecord(nine.gateway.database, idOf(answer))).record as Json).rewrites;

const lastBody = (): string => nine.provider.upstream.requests.at(-1)!.body.toString();

/** Leads a conversation to its end with a client that forgets. */
async function lead(server: StatefulServer, client_kind: Forgetful, stream: boolean): Promise<void> {
  const { spoken } = client_kind;
  const wrong: string[] = [];
  nine.provider.upstream.script = playing(server, wrong);
  const client = talkingClient(spoken);
  const session = mark();
  for (const [turn] of server.turns.entries()) {
    const body = forgotten(client_kind, client.ask(sameAt('chat'), stream, 'Weather?'));
    const request = sending(spoken, nine.gateway.token, body);
    const answer = await send(nine.gateway.url, {
      ...request,
      headers: [...request.headers, 'x-claude-code-session-id', session],
    });
    assert.deepEqual(wrong, [], `turn ${turn}`);
    assert.equal(answer.status, 200, answer.text);
    if (spoken === 'chat' && turn === 1) assert.ok((await rewritesOf(answer)).includes('messages'));
    client.take(answer.text, stream);
  }
}

/** State under names that nobody knows, and state in a text that the client does keep. */
const UNKNOWN = /nobody knows/;
const IN_CONTENT = /parts of the content/;

const WAYS = [false, true].flatMap((is_unique) => [false, true].map((stream) => ({ is_unique, stream })));
for (const [at, client] of FORGETFUL.entries()) {
  describe(client.name, () => {
    for (const [place, server] of STATEFUL_SERVERS.entries()) {
      if (UNKNOWN.test(server.name) || (client.spoken === 'chat' && IN_CONTENT.test(server.name))) continue;
      for (const { is_unique, stream } of inTurn(WAYS, at + place)) {
        test(`goes on at ${server.name}`, () =>
          lead(is_unique ? withUniqueIds(server, mark()) : server, client, stream));
      }
    }
  });
}

/** A server that has answered a chat client with a call, and what the client would send next. */
async function answered(
  name: string,
  id = mark(),
  more: object = {},
): Promise<{ server: StatefulServer; next: (model: string) => Json }> {
  const server = withUniqueIds(STATEFUL_SERVERS.find((one) => one.name.startsWith(name))!, id);
  nine.provider.upstream.script = playing(server, []);
  const client = talkingClient('chat');
  const asked = { ...JSON.parse(client.ask(sameAt('chat'), false, 'Weather?')), ...more };
  client.take((await post(nine.gateway, 'chat', asked)).text, false);
  nine.provider.upstream.script = answerJson(chatDocument({ role: 'assistant', content: 'Sunny.' }));
  const text = client.ask('', false, '');
  return { server, next: (model) => ({ ...JSON.parse(text), ...more, model }) };
}

const bare = (body: Json): string => forgotten(FORGETFUL[0]!, JSON.stringify(body));

describe('state of a call', () => {
  test('comes back within the state boundary, and nowhere else', async () => {
    const { server, next } = await answered('Gemini');
    assert.equal((await post(nine.gateway, 'chat', bare(next('twin')))).status, 200);
    assert.deepEqual(JSON.parse(lastBody()).messages[1], server.turns[0]!.message);
    const other = await post(nine.gateway, 'chat', bare(next('other')));
    assert.equal(lastBody(), bare(next('other')));
    assert.deepEqual(await rewritesOf(other), []);
  });

  test('is nothing to another caller with the same identifiers', async () => {
    const { next } = await answered('Gemini');
    const body = bare(next(sameAt('chat')));
    const token = await nine.gateway.newToken({ user: `${mark()}@example.com` });
    assert.equal((await send(nine.gateway.url, sending('chat', token, body))).status, 200);
    assert.equal(lastBody(), body);
    await post(nine.gateway, 'chat', body);
    assert.notEqual(lastBody(), body);
  });

  test('leaves what a client sends', async () => {
    const { next } = await answered('OpenRouter: reasoning and');
    const whole = next(sameAt('chat'));
    const untouched = async (body: Json) => {
      const text = JSON.stringify(body, null, 1);
      const answer = await post(nine.gateway, 'chat', text);
      assert.equal(lastBody(), text);
      assert.deepEqual(await rewritesOf(answer), []);
    };
    await untouched(whole);
    const own = { reasoning: 'Mine.', reasoning_details: [] };
    await untouched({
      ...whole,
      messages: whole.messages.map((one: Json) => ('reasoning' in one ? { ...one, ...own } : one)),
    });
    // Words that the client changed are not joined by those it was sent.
    const body = JSON.parse(bare(whole));
    body.messages[1].reasoning_content = 'Mine.';
    await post(nine.gateway, 'chat', JSON.stringify(body));
    const [, said] = JSON.parse(lastBody()).messages;
    assert.equal(said.reasoning_content, 'Mine.');
    assert.equal(said.reasoning, undefined);
    assert.equal(said.reasoning_details.length, 1);
  });

  test('changes no byte but those it adds, and the audit record says so', async () => {
    const { server, next } = await answered('Gemini');
    const [first, second] = server.turns[0]!.message.tool_calls;
    const said = (call: Json) =>
      `{ "id":"${call.id}" , "type":"function","function":{"name":"weather","arguments":"{}"}, "x": 1.0}`;
    const tail = `,"role" : "assistant","content":"S\\u0061y"},\n{"role":"tool","tool_call_id":"${first.id}","content":"é"}],"z":[ ]}`;
    const head = `{ "model":"${sameAt('chat')}",  "tools":${JSON.stringify(next('').tools)}, "messages" : [{"role":"user","content":"Hi"}, {"tool_calls":[`;
    const text = `${head}${said(first)},${said(second)}]${tail}`;
    const answer = await post(nine.gateway, 'chat', text);
    const field = JSON.stringify({ extra_content: first.extra_content }).slice(1, -1);
    assert.equal(lastBody(), `${head}{${field},${said(first).slice(1)},${said(second)}]${tail}`);
    assert.deepEqual(await rewritesOf(answer), ['messages']);
    assert.ok(!JSON.stringify(await auditRecord(nine.gateway.database, idOf(answer))).includes('thought_signature'));
    assert.ok(!nine.gateway.logs.some((line) => line.includes('thought_signature')));
  });

  test('is nothing to another session, and to another call, with an identifier that both may have', async () => {
    const { server, next } = await answered('Gemini', 'x', { prompt_cache_key: 'one' });
    const body = next(sameAt('chat'));
    await post(nine.gateway, 'chat', bare(body));
    assert.deepEqual(JSON.parse(lastBody()).messages[1], server.turns[0]!.message);
    const another_call = structuredClone(body);
    for (const one of another_call.messages[1].tool_calls) one.function.arguments = '{"city":"Rome"}';
    for (const other of [{ ...body, prompt_cache_key: 'another' }, { ...body, prompt_cache_key: '' }, another_call]) {
      await post(nine.gateway, 'chat', bare(other));
      assert.equal(lastBody(), bare(other));
    }
  });

  test('is not remembered by an identifier that other sessions may have where the client names none', async () => {
    const { next } = await answered('Gemini', 'x');
    const body = bare(next(sameAt('chat')));
    await post(nine.gateway, 'chat', body);
    assert.equal(lastBody(), body);
  });
});
