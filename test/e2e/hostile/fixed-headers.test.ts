/** Headers that gateway.yaml sets for all requests to an upstream. */
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { bootGateway, type ConfigSections, mainUpstream } from '../../support/gateway.ts';
import { answerBytes, answerJson } from '../../support/model-provider/scripted-upstream.ts';
import { use } from '../../support/use.ts';
import { bearer, messagesBody, type Response, send } from '../support/client.ts';
import { recordOf } from '../support/odd.ts';
import { useUpstream } from '../support/use-gateway.ts';

const SECRET = 'planted-header-77aa31';

const first = useUpstream();
const second = useUpstream();
let token: string;
let people = 0;

const upstreams = (urls: readonly string[]): ConfigSections[] => [
  {
    ...mainUpstream(urls[0]!),
    headers: { 'x-team': 'search', 'x-api-token': { value_env: 'TEST_HEADER' }, 'user-agent': 'gateway/1' },
  },
  { ...mainUpstream(urls[1]!), name: 'spare', headers: { 'x-team': 'spare' } },
];

const gateway = use(() =>
  bootGateway({
    upstream_url: first.url,
    real_log: true,
    env: { TEST_HEADER: SECRET },
    config: {
      upstreams: upstreams([first.url, second.url]),
      routing: { default_upstreams: [{ upstream: 'main' }, { upstream: 'spare', order: 2 }] },
    },
  }),
);
beforeEach(async () => {
  // A user whose session has no upstream yet.
  token = await gateway.newToken({ user: `person-${++people}@example.com` });
});

const ask = (more: readonly string[] = []): Promise<Response> =>
  send(gateway.url, { path: '/v1/messages', headers: bearer(token, more), body: messagesBody() });

describe('fixed headers of an upstream', () => {
  test('are in every request to it, and in none to another', async () => {
    assert.equal((await ask()).status, 200);
    const { headers } = first.only();
    assert.equal(headers['x-team'], 'search');
    assert.equal(headers['x-api-token'], SECRET);
    assert.equal(headers['user-agent'], 'gateway/1');
    first.script = answerJson({ type: 'error', error: { type: 'overloaded_error', message: 'busy' } }, 529);
    assert.equal((await ask()).status, 200);
    const spare = second.only().headers;
    assert.equal(spare['x-team'], 'spare');
    assert.equal(spare['x-api-token'], undefined);
  });

  test("replace a client's own, in any spelling, and its record shows it", async () => {
    const response = await ask(['X-Team', 'mine', 'x_team', 'mine too', 'x-mine', 'stays']);
    const { headers } = first.only();
    assert.equal(headers['x-team'], 'search');
    assert.equal(headers.x_team, undefined);
    assert.equal(headers['x-mine'], 'stays');
    const { dropped_headers } = await recordOf(gateway, response);
    assert.deepEqual(dropped_headers.toSorted(), ['x-team', 'x_team']);
    assert.equal((await recordOf(gateway, await ask())).dropped_headers, undefined);
  });

  test('never show a secret in the log or in an audit record', async () => {
    first.script = answerBytes(500, { 'content-type': 'text/plain' }, `bad token ${SECRET}`);
    second.script = first.script;
    const response = await ask();
    assert.ok(response.status >= 500);
    assert.ok(!JSON.stringify(await recordOf(gateway, response)).includes(SECRET));
    assert.ok(!gateway.logs.join('\n').includes(SECRET));
  });
});

test('a value that cannot be sent in a header keeps the gateway from starting, and is not shown', async () => {
  const env = { TEST_HEADER: `${SECRET}\nx-admin: 1` };
  const config = { upstreams: upstreams([first.url, second.url]) };
  await assert.rejects(bootGateway({ upstream_url: first.url, env, config }), (error: Error) => {
    assert.match(error.message, /TEST_HEADER/);
    return !error.message.includes(SECRET);
  });
});
