/** Where sessions are served by several upstreams: on one as long as that can, and on the next where it cannot. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, beforeEach, test } from 'node:test';
import { bootGateway, gatewayConfig, type TestGateway } from '../../support/gateway.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { bearer, messagesBody, type Response, send } from '../support/client.ts';

const NAMES = ['a', 'b', 'c'] as const;
type Name = (typeof NAMES)[number];

const upstreams = {} as Record<Name, ScriptedUpstream>;
let gateway: TestGateway;

before(async () => {
  for (const name of NAMES) upstreams[name] = await startUpstream();
  const { models, ...rest } = gatewayConfig(upstreams.a.url) as { models: readonly { id: string }[] };
  const model = (id: string) => ({ ...models[0], id });
  const upstream = (name: Name, more: object = {}) => ({
    name,
    type: 'vendor',
    base_url: upstreams[name].url,
    api_key_env: 'TEST_UPSTREAM_KEY',
    ...more,
  });
  gateway = await bootGateway({
    upstream_url: upstreams.a.url,
    config: {
      ...rest,
      upstreams: [
        ...NAMES.map((name) => upstream(name)),
        {
          ...upstream('c'),
          name: 'lone',
          breaker: { failures: 2, open_seconds: 30 },
          retry_budget: { percent: 0, min: 0 },
        },
        { ...upstream('a'), name: 'one', type: 'compat', protocols: ['responses'] },
        { ...upstream('b'), name: 'two', type: 'compat', protocols: ['responses'] },
      ],
      models: ['coder-1', 'lone-1', 'stored-1'].map(model),
      routing: {
        default_upstreams: NAMES.map((name) => ({ upstream: name, weight: 1 })),
        rules: [
          { name: 'lone', models: ['lone-1'], upstream: 'lone' },
          { name: 'stored', models: ['stored-1'], upstreams: ['one', 'two'] },
        ],
      },
      spend_limits: { defaults: { user_daily_usd: 1000 } },
    },
  });
});
after(async () => {
  await gateway?.close();
  await Promise.all(Object.values(upstreams).map((upstream) => upstream.close()));
});
beforeEach(() => {
  for (const upstream of Object.values(upstreams)) {
    upstream.requests.length = 0;
    upstream.script = answerJson(message());
  }
});

function ask(session: string, body: object = {}, path = '/v1/messages', at = gateway): Promise<Response> {
  const headers = bearer(gateway.token, ['x-claude-code-session-id', session]);
  return send(at.url, { path, headers, body: messagesBody(body) });
}

/** Which upstreams have got requests since this was asked last, in no order. */
function asked(): Name[] {
  return NAMES.filter((name) => upstreams[name].requests.splice(0).length > 0);
}

async function turn(session: string, body?: object, path?: string, at?: TestGateway): Promise<Name[]> {
  const response = await ask(session, body, path, at);
  assert.equal(response.status, 200, response.text);
  return asked();
}

/** Where the next turns of twelve sessions are served. */
async function places(name: string, at = gateway): Promise<Name[]> {
  const found: Name[] = [];
  for (let i = 0; i < 12; i++) found.push(...(await turn(`${name} ${i}`, {}, '/v1/messages', at)));
  return found;
}

test('all turns of a session go to one upstream, at every replica, and all upstreams have sessions', async () => {
  const first = await places('staying');
  assert.deepEqual(new Set(first), new Set(NAMES));
  assert.deepEqual(await places('staying'), first);
  // Another replica: the same configuration and database, and nothing of what the first one remembers.
  const config = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  const database_url = gateway.env.TEST_DATABASE_URL!;
  const replica = await bootGateway({ upstream_url: upstreams.a.url, config, database_url });
  try {
    assert.deepEqual(await places('staying', replica), first);
  } finally {
    await replica.close();
  }
});

test('when one of three upstreams leaves the route only its own sessions move, and both others get some', async () => {
  const first = await places('moving');
  const text = await readFile(gateway.config_file, 'utf8');
  const config = JSON.parse(text);
  config.routing.default_upstreams = [
    { upstream: 'b', weight: 1 },
    { upstream: 'c', weight: 1 },
  ];
  await writeFile(gateway.config_file, JSON.stringify(config));
  await gateway.reload();
  const then = await places('moving').finally(async () => {
    await writeFile(gateway.config_file, text);
    await gateway.reload();
  });
  const moved = then.filter((_, index) => first[index] === 'a');
  assert.deepEqual(new Set(moved), new Set(['b', 'c']));
  for (const [index, name] of first.entries()) if (name !== 'a') assert.equal(then[index], name);
});

test('a session whose upstream failed stays where it was served instead, also once that is well again', async () => {
  const [home] = (await turn('moving')) as [Name];
  const others = NAMES.filter((name) => name !== home);
  upstreams[home].script = answerJson({ type: 'error', error: { type: 'api_error', message: 'broken' } }, 500);
  const moved = (await turn('moving')).filter((name) => name !== home);
  assert.equal(moved.length, 1);
  assert.ok(others.includes(moved[0]!));
  upstreams[home].script = answerJson(message());
  assert.deepEqual(await turn('moving'), moved);
  upstreams[moved[0]!].script = answerJson({ input_tokens: 7 });
  assert.deepEqual(await turn('moving', {}, '/v1/messages/count_tokens'), moved);
});

test('what a response continues is asked of the upstream that has it, and of no other', async () => {
  const answer = (id: string) =>
    answerJson({
      id,
      object: 'response',
      status: 'completed',
      output: [],
      usage: { input_tokens: 1, output_tokens: 1 },
    });
  const post = (body: object) =>
    send(gateway.url, {
      path: '/v1/responses',
      headers: bearer(gateway.token),
      body: JSON.stringify({ model: 'stored-1', input: 'Hi', max_output_tokens: 16, ...body }),
    });
  upstreams.a.script = answerJson({ error: { message: 'broken', type: 'server_error' } }, 500);
  upstreams.b.script = answer('resp_b');
  assert.equal((await post({ instructions: 'Be brief.' })).status, 200);
  upstreams.a.script = answer('resp_a');
  asked();
  assert.equal((await post({ previous_response_id: 'resp_b' })).status, 200);
  assert.deepEqual(asked(), ['b']);
  assert.equal((await post({ instructions: 'Be long.' })).status, 200);
  assert.deepEqual(asked(), ['a']);
  // What only one upstream has is never asked of another.
  upstreams.b.script = answerJson({ error: { message: 'busy', type: 'server_error' } }, 503);
  assert.equal((await post({ previous_response_id: 'resp_b' })).status, 503);
  assert.deepEqual(asked(), ['b']);
});
