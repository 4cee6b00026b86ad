import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, describe, test } from 'node:test';
import { cli } from '../../cli/support.ts';
import {
  bootGateway,
  type ConfigSections,
  gatewayConfig,
  mainUpstream,
  type TestGateway,
} from '../../support/gateway.ts';
import {
  answerJson,
  EVENT_STREAM,
  message,
  messageEvents,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';

let main: ScriptedUpstream;
let spare: ScriptedUpstream;
let gateway: TestGateway;
let replica: TestGateway;

const MODELS = gatewayConfig('').models as readonly object[];
/** A model of its own, of which nobody knows that main fails before a test lets it. */
const FAILING = 'failing-1';

/** Two upstreams of which every request asks main first. */
function sections(rules: readonly object[]): ConfigSections {
  const upstream = (name: string, { url }: ScriptedUpstream) => ({
    ...mainUpstream(url),
    name,
    breaker: { open_seconds: 60 },
  });
  return {
    upstreams: [upstream('main', main), upstream('spare', spare)],
    models: [...MODELS, { ...MODELS[0], id: FAILING }],
    routing: { default_upstreams: ['main', 'spare'], rules },
  };
}

before(async () => {
  main = await startUpstream();
  spare = await startUpstream();
  const config = sections([{ name: 'lone', models: ['mapped-1'], upstream: 'main' }]);
  gateway = await bootGateway({ upstream_url: main.url, config });
  const database_url = gateway.env.TEST_DATABASE_URL!;
  replica = await bootGateway({ upstream_url: main.url, config, database_url });
});
after(async () => {
  await replica?.close();
  await gateway?.close();
  await main?.close();
  await spare?.close();
});
beforeEach(() => {
  for (const upstream of [main, spare]) {
    upstream.requests.length = 0;
    upstream.script = answerJson(message());
  }
});

/** Each request is of a session of its own: others stay where their prompts are kept. */
async function ask(at: TestGateway, { model = 'coder-1', stream = false, token = at.token } = {}): Promise<Response> {
  return fetch(`${at.url}/v1/messages`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'x-claude-code-session-id': randomUUID(),
    },
    body: JSON.stringify({ model, max_tokens: 10, stream, messages: [{ role: 'user', content: 'Hi' }] }),
  });
}

async function run(...words: string[]): Promise<string> {
  const { exit_code, stdout, stderr } = await cli([...words, '--config', gateway.config_file], { env: gateway.env });
  assert.equal(exit_code, 0, stderr);
  return stdout + stderr.replace(/\s+/g, ' ');
}

/** Resumes main, and resolves when both replicas know it. */
async function resume(): Promise<void> {
  await run('upstreams', 'resume', 'main');
  for (const at of [gateway, replica]) {
    await until('it is asked again', async () => {
      main.requests.length = 0;
      await ask(at);
      return main.requests.length === 1;
    });
  }
}

const served = () => [main.requests.length, spare.requests.length];

describe('an upstream that an administrator drains', () => {
  test('gets no new requests at any replica, ends those it has, and gets requests again once it is resumed', async () => {
    let goOn = () => {};
    const events = messageEvents();
    main.script = async ({ res }) => {
      res.writeHead(200, [...EVENT_STREAM]);
      res.write(events[0]);
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      res.end(events.slice(1).join(''));
    };
    const running = await ask(gateway, { stream: true });
    assert.match(
      await run('upstreams', 'drain', 'main', '--reason', 'new account'),
      /^Drained "main": .* The route lone has no other upstream/,
    );
    // Replicas are told; whichever has not heard yet still asks main.
    main.script = answerJson(message());
    for (const at of [gateway, replica]) {
      await until('the next request goes elsewhere', async () => {
        main.requests.length = 0;
        assert.equal((await ask(at)).status, 200);
        return main.requests.length === 0;
      });
    }
    goOn();
    const text = await running.text();
    assert.ok(text.endsWith(events.at(-1)!) && !text.includes('event: error'), text);
    assert.match(
      await run('upstreams', 'list'),
      /^UPSTREAM +STATE +BY +REASON\nmain +drained +command \S+ +new account\nspare/,
    );

    const alone = await ask(gateway, { model: 'mapped-1' });
    assert.equal(alone.status, 503);
    assert.ok(Number(alone.headers.get('retry-after')) > 0);
    assert.match(
      ((await alone.json()) as { error: { message: string } }).error.message,
      /an administrator has drained it/,
    );

    await resume();
    const changes = await run('audit', 'changes', '--json');
    assert.match(changes, /"action":"upstream\.drain","subject":"main"/);
  });

  test('is drained at a gateway that starts afterwards', async () => {
    await run('upstreams', 'drain', 'main');
    const later = await bootGateway({
      upstream_url: main.url,
      database_url: gateway.env.TEST_DATABASE_URL!,
      config: sections([]),
    });
    try {
      assert.equal((await ask(later)).status, 200);
      assert.deepEqual(served(), [0, 1]);
    } finally {
      await later.close();
      await resume();
    }
  });
});

describe('an upstream that fails', () => {
  test('is left out once its breaker is open, at other replicas too, which heard of it', async () => {
    // Each replica believes only what is about a model it has asked for.
    for (const at of [gateway, replica]) await ask(at, { model: FAILING });
    assert.deepEqual(served(), [2, 0]);
    main.script = answerJson({ type: 'error', error: { type: 'api_error', message: 'broken' } }, 500);
    const tokens = [gateway.token, await gateway.newToken({ user: 'another@example.com' })];
    for (let n = 0; n < 5; n++)
      assert.equal((await ask(gateway, { model: FAILING, token: tokens[n % 2]! })).status, 200);
    assert.deepEqual(served(), [7, 5]);
    assert.equal((await ask(gateway, { model: FAILING })).status, 200);
    assert.deepEqual(served(), [7, 6], 'it is not asked any more');
    const told = ({ logs }: TestGateway) =>
      logs.filter(
        (line) => line.includes('requests go to other upstreams until it is tried again') && line.includes(FAILING),
      );
    assert.equal(told(gateway).length, 1, told(gateway).join('\n'));
    await until('the other replica has heard of it', () => told(replica).length > 0);
    assert.equal((await ask(replica, { model: FAILING })).status, 200);
    assert.deepEqual(served(), [7, 7]);
  });
});
