import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, beforeEach, test } from 'node:test';
import { cli } from '../../cli/support.ts';
import { bootGateway, type ConfigSections, mainUpstream, type TestGateway } from '../../support/gateway.ts';
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

/** Two upstreams of which every request asks main first. */
function sections(): ConfigSections {
  const upstream = (name: string, { url }: ScriptedUpstream) => ({
    ...mainUpstream(url),
    name,
    breaker: { open_seconds: 60 },
  });
  return {
    upstreams: [upstream('main', main), upstream('spare', spare)],
    routing: {
      default_upstreams: ['main', 'spare'],
      rules: [{ name: 'lone', models: ['mapped-1'], upstream: 'main' }],
    },
  };
}

before(async () => {
  main = await startUpstream();
  spare = await startUpstream();
  gateway = await bootGateway({ upstream_url: main.url, config: sections() });
});
after(async () => {
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
async function ask({ model = 'coder-1', stream = false } = {}): Promise<Response> {
  return fetch(`${gateway.url}/v1/messages`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${gateway.token}`,
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

test('an upstream that an administrator drains gets no new requests, ends those it has, and gets requests again once it is resumed', async () => {
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
  const running = await ask({ stream: true });
  assert.match(
    await run('upstreams', 'drain', 'main', '--reason', 'new account'),
    /^Drained "main": .* The route lone has no other upstream/,
  );
  // The gateway is told; until it has heard it still asks main.
  main.script = answerJson(message());
  await until('the next request goes elsewhere', async () => {
    main.requests.length = 0;
    assert.equal((await ask()).status, 200);
    return main.requests.length === 0;
  });
  goOn();
  const text = await running.text();
  assert.ok(text.endsWith(events.at(-1)!) && !text.includes('event: error'), text);
  assert.match(
    await run('upstreams', 'list'),
    /^UPSTREAM +STATE +BY +REASON\nmain +drained +command \S+ +new account\nspare/,
  );

  const alone = await ask({ model: 'mapped-1' });
  assert.equal(alone.status, 503);
  assert.ok(Number(alone.headers.get('retry-after')) > 0);
  assert.match(
    ((await alone.json()) as { error: { message: string } }).error.message,
    /an administrator has drained it/,
  );

  await run('upstreams', 'resume', 'main');
  await until('it is asked again', async () => {
    main.requests.length = 0;
    await ask();
    return main.requests.length === 1;
  });
  const changes = await run('audit', 'changes', '--json');
  assert.match(changes, /"action":"upstream\.drain","subject":"main"/);
});
