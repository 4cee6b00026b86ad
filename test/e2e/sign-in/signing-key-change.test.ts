import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { beforeEach, describe, it } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/client.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

const MINUTE = 60_000;
const KEYS = {
  ONE: 'signing-key-one-0c1f7b62a9d84e53',
  TWO: 'signing-key-two-5d0a7be1f3c94286',
};
type Key = keyof typeof KEYS;

const scene = useSignInScene({
  replicas: 2,
  frozen: true,
  env: KEYS,
  auth: { session: { signing_key_env: 'ONE' } },
});

let one: TestGateway;
let other: TestGateway;
beforeEach(async () => {
  ({ gateway: one, other } = scene);
  for (const gateway of [one, other]) await giveKeys(gateway, 'ONE');
  scene.clock.advance(10 * MINUTE);
});

/** Writes keys into the configuration of one gateway and has it read that. */
async function giveKeys(gateway: TestGateway, current: Key, ...previous: Key[]): Promise<void> {
  const config = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  const previous_signing_keys = previous.map((key_env) => ({ key_env }));
  config.auth.session = { signing_key_env: current, previous_signing_keys };
  await writeFile(gateway.config_file, JSON.stringify(config));
  await gateway.reload();
}

const ask = ({ url }: TestGateway, token: string, path = '/v1/models', method = 'GET', body?: string) =>
  send(url, { method, path, headers: ['authorization', `Bearer ${token}`], ...(body === undefined ? {} : { body }) });
const renew = (gateway: TestGateway, refresh_token: string) => scene.renew(refresh_token, gateway);
const ended = async () =>
  (await one.database.query<{ id: string }>('test_ended', 'select id from sessions where revoked_at is not null', []))
    .length;

describe('changing the signing key, one gateway after the other', () => {
  it('in the order of the documents is harmless, forth and back again', async () => {
    const before_all = await ended();
    let is_over = false;
    const responses = new Map<string, number>();
    const count = (what: string) => responses.set(what, (responses.get(what) ?? 0) + 1);
    const person = async (sub: string, first: number) => {
      let tokens = await scene.signIn(sub);
      for (let turn = first; !is_over; turn++) {
        const gateway = turn % 2 === 0 ? one : other;
        count(`request ${(await ask(gateway, tokens.access_token)).status}`);
        if (turn % 3 !== 0) continue;
        const { status, body } = await renew(gateway, tokens.refresh_token);
        count(`renewal ${status}`);
        if (status === 200) tokens = body;
      }
    };
    const load = Promise.all(['anna', 'ben', 'anna'].map(person));
    const steps: [Key, ...Key[]][] = [
      ['ONE', 'TWO'],
      ['TWO', 'ONE'],
      ['ONE', 'TWO'],
    ];
    try {
      for (const [current, ...previous] of steps) {
        for (const gateway of [one, other]) {
          await giveKeys(gateway, current, ...previous);
          const so_far = responses.get('renewal 200') ?? 0;
          await until(
            'sessions are renewed under these keys, or a request is rejected',
            () => (responses.get('renewal 200') ?? 0) >= so_far + 4 || responses.size > 2,
          );
        }
      }
    } finally {
      is_over = true;
      await load;
    }
    assert.deepEqual([...responses.keys()].sort(), ['renewal 200', 'request 200'], JSON.stringify([...responses]));
    assert.equal(await ended(), before_all);
  });

  it('without announcing it first is 503 at the others, in the format of each protocol, and nothing ends', async () => {
    const before_all = await ended();
    await giveKeys(one, 'TWO', 'ONE');
    const tokens = await scene.signIn('anna');
    for (const path of ['/v1/models', '/managed/settings', '/admin/api/me', '/api/oauth/usage']) {
      const response = await ask(other, tokens.access_token, path);
      assert.deepEqual([path, response.status, response.headers['retry-after']], [path, 503, '1']);
      assert.equal(response.headers['www-authenticate'], undefined);
      assert.match(
        response.json().error.message,
        /does not have the signing key of your token\. Try again.*sign in again/,
      );
    }
    const chat = await ask(other, tokens.access_token, '/v1/chat/completions', 'POST', '{}');
    assert.deepEqual([chat.status, chat.json().error.type, chat.json().type], [503, 'server_error', undefined]);
    const messages = await ask(other, tokens.access_token, '/v1/messages', 'POST', '{}');
    assert.deepEqual([messages.status, messages.json().type, messages.json().error.type], [503, 'error', 'api_error']);

    for (let times = 0; times < 3; times++) {
      const { status, body } = await renew(other, tokens.refresh_token);
      assert.deepEqual([status, body.error], [503, 'temporarily_unavailable']);
    }
    const revoked = await scene.revoke(tokens.access_token, other);
    assert.equal(revoked.status, 503, 'a failed sign-out is not reported as done');
    assert.equal(await ended(), before_all);

    await giveKeys(other, 'TWO', 'ONE');
    assert.equal((await ask(other, tokens.access_token)).status, 200);
    const renewed = await renew(other, tokens.refresh_token);
    assert.equal(renewed.status, 200);
    for (const gateway of [one, other]) assert.equal((await ask(gateway, renewed.body.access_token)).status, 200);
  });
});
