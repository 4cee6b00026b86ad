import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createBearerTokens } from '../../../engine/domain/identity/tokens/access-tokens.ts';
import { noteOwners } from '../../../engine/domain/identity/tokens/service-tokens.ts';
import { generateToken } from '../../../engine/domain/identity/tokens/token-format.ts';
import { createToken } from '../../../engine/domain/identity/tokens/tokens.ts';
import { ADMIN_OPERATIONS } from '../../../engine/edge/admin/description.ts';
import { commandsOf } from '../../cli/at-gateway.ts';
import { cli } from '../../cli/support.ts';
import { createBackend } from '../../client/scripted-gateway.ts';
import { quietLog } from '../../support/store.ts';
import { adminBench } from './support.ts';

const bench = adminBench();

const PATH = '/admin/api/service-tokens';
const DAY = 86_400_000;

const make = (scopes: readonly string[], more: object = {}, who = 'root') =>
  bench.done(201, who, 'POST', PATH, { name: 'onboarding', scopes, ...more });

const find = async (id: string) =>
  (await bench.get('root', PATH)).service_tokens.find((each: { id: string }) => each.id === id);

async function refusal(who: string, method: string, path: string, body?: object) {
  const response = await bench.ask(who, method, path, body);
  assert.ok(response.status >= 400, `${method} ${path}: ${response.status}`);
  return [response.status, response.body.error.code, response.body.error.message] as const;
}

describe('a service token', () => {
  test("has exactly its scopes, in its own name and its owner's", async () => {
    const { token, id } = await make(['tokens:write', 'limits:read']);
    assert.match(token, /^gws_[0-9A-Za-z]{49}$/);
    const input = { user: 'zoe@example.com', group: 'coders', name: 'ci' };
    const made = await bench.ask(token, 'POST', '/admin/api/tokens', input);
    assert.deepEqual([made.status, made.body.user, made.body.self_service], [201, 'zoe@example.com', false]);
    assert.equal((await bench.ask(token, 'GET', '/admin/api/limits')).status, 200);
    for (const { scope, method, path } of ADMIN_OPERATIONS.values()) {
      if (scope === 'tokens:write' || scope === 'limits:read') continue;
      const filled = path.replace(/\{\w+\}/, id);
      assert.deepEqual((await refusal(token, method, filled)).slice(0, 2), [403, 'forbidden'], `${method} ${path}`);
    }
    assert.match(
      (await refusal(token, 'GET', '/admin/api/tokens'))[2],
      /the operation needs tokens:read; the token has/,
    );
    const own = await refusal(token, 'POST', '/admin/api/tokens', { name: 'x', group: 'coders' });
    assert.match(own[2], /"user" is missing/);
    const { changes } = await bench.get('root', '/admin/api/changes');
    assert.deepEqual(changes[0].actor, { kind: 'service', name: `onboarding (${id}, of root@example.com)` });
    assert.deepEqual([changes[1].action, changes[1].subject], ['service_token.create', id]);
    assert.deepEqual(changes[1].after.scopes, ['tokens:write', 'limits:read']);
    assert.ok(!JSON.stringify(changes).includes(token));
  });

  test('reads and drains upstreams if its scopes allow that, and never the configuration', async () => {
    const { token } = await make(['upstreams:read', 'upstreams:write']);
    assert.equal((await bench.ask(token, 'GET', '/admin/api/upstreams')).status, 200);
    const { body } = await bench.ask(token, 'POST', '/admin/api/upstreams/main/drain', {});
    assert.match(body.upstream.drained.by, /^service onboarding \(svc_/);
    assert.equal((await bench.ask(token, 'POST', '/admin/api/upstreams/main/resume')).status, 200);
    for (const path of ['', '/loads', '/versions/0123456789ab', '/diff?from=a&to=b', '/shadow-rules']) {
      assert.match((await refusal(token, 'GET', `/admin/api/config${path}`))[2], /is for signed-in people/, path);
    }
  });

  test('is created by administrators alone, with known scopes, and for a year at most', async () => {
    const input = { name: 'x', scopes: ['tokens:read'] };
    assert.equal((await refusal('alice', 'POST', PATH, input))[0], 403);
    assert.equal((await refusal('alice', 'GET', PATH))[0], 403);
    for (const scopes of [['tokens'], []]) {
      const [, , message] = await refusal('root', 'POST', PATH, { ...input, scopes });
      assert.match(message, /"scopes" is wrong: expected one or more of tokens:read/);
    }
    assert.equal((await refusal('root', 'POST', PATH, { ...input, expires_at: '2099-01-01' }))[0], 400);
    const { expires_at } = await make(['tokens:read']);
    assert.equal(Date.parse(expires_at), bench.clock.now() + 90 * DAY);
  });

  test('opens no model, and an access token opens no admin API', async () => {
    const { token } = await make(['tokens:read']);
    const bearer = createBearerTokens({ verify: () => assert.fail('the store is not queried') }, undefined);
    assert.throws(() => bearer.verify(token), { code: 'credential_invalid', message: /is for the admin API only/ });
    const { token: of_models } = await createToken(bench.by, { user: 'root@example.com', group: 'coders', name: 'x' });
    assert.deepEqual((await refusal(of_models, 'GET', '/admin/api/tokens')).slice(0, 2), [403, 'forbidden']);
  });

  test('that is made up, revoked or expired is rejected at once, and the list shows its use', async () => {
    const unknown = `gws_${'0'.repeat(49)}`;
    assert.match((await refusal(unknown, 'GET', '/admin/api/tokens'))[2], /malformed/);
    const { token, id } = await make(['tokens:read'], { expires_in_seconds: 3600 });
    assert.equal((await bench.ask(token, 'GET', '/admin/api/tokens')).status, 200);
    const { state, last_used_at } = await find(id);
    assert.deepEqual([state, Date.parse(last_used_at)], ['active', bench.clock.now()]);
    assert.equal((await bench.ask('root', 'DELETE', `${PATH}/${id}`)).body.state, 'revoked');
    assert.deepEqual((await refusal(token, 'GET', '/admin/api/tokens')).slice(0, 2), [401, 'credential_revoked']);
    assert.equal((await refusal('root', 'DELETE', `${PATH}/${id}`))[0], 409);
    assert.equal((await refusal('root', 'DELETE', `${PATH}/svc_nobody`))[0], 404);
    const short = await make(['tokens:read'], { expires_in_seconds: 60 });
    bench.clock.advance(60_000);
    assert.deepEqual((await refusal(short.token, 'GET', '/admin/api/tokens')).slice(0, 2), [401, 'credential_expired']);
  });

  test('that is made up costs its sender time, and the database no more than two statements at once', async (t) => {
    const { token } = await make(['tokens:read']);
    const { query } = bench.database;
    let [running, most] = [0, 0];
    t.mock.method(bench.database, 'query', async (name: string, ...rest: [string, readonly unknown[]]) => {
      if (name !== 'service_token_lookup') return query(name, ...rest);
      most = Math.max(most, ++running);
      return query(name, ...rest).finally(() => running--);
    });
    const asked = [token, ...Array.from({ length: 150 }, () => generateToken('service')), token];
    const statuses = await Promise.all(
      asked.map(async (text) => (await bench.ask(text, 'GET', '/admin/api/tokens')).status),
    );
    assert.deepEqual([statuses[0], statuses.at(-1), new Set(statuses).size], [200, 200, 2]);
    assert.ok(most <= 2, `${most} statements at once`);
  });

  test('stays valid, and is named, when its owner is deprovisioned', async () => {
    const { id, token } = await make(['tokens:read'], { name: 'who else knows' }, 'chief');
    const ended = await bench.ask('root', 'POST', '/admin/api/people/chief@example.com/deprovision', {});
    assert.deepEqual(ended.body.service_tokens, [{ id, name: 'who else knows' }]);
    assert.equal((await bench.ask(token, 'GET', '/admin/api/tokens')).status, 200);
    await bench.addSession('chief@example.com', 'ses_chief_again');
    const end = ['sessions', 'end', '--user', 'chief@example.com', '--with-tokens'];
    const { stderr } = await commandsOf('root', bench.url)(...end);
    assert.match(
      stderr,
      /1 session and 0 access tokens of chief@example\.com\.\nThese service tokens stay valid, .*:\n {2}svc_\w+ {2}who else/,
    );
    assert.match(stderr, /"appscli service-tokens rotate ID", or revoke it/);
    await bench.ask('root', 'DELETE', `${PATH}/${id}`);
    const after = await bench.ask('root', 'POST', '/admin/api/people/chief@example.com/deprovision', {});
    assert.deepEqual(after.body.service_tokens, []);
  });

  test('outlives its owner by a week, as list and log show, and longer under another administrator', async () => {
    const { database, clock } = bench;
    await database.query('test_stand', `update principals set signed_in_at = $1 where email = 'root@example.com'`, [
      new Date(clock.now()),
    ]);
    const { token, id } = await make(['tokens:read']);
    const use = async () => (await bench.ask(token, 'GET', '/admin/api/tokens')).status;
    const logs: string[] = [];
    const log = { ...quietLog, warn: (_: object, text: string) => void logs.push(text) };
    const note = () => noteOwners({ database, clock, log }, { admin_groups: ['operators'], days: 30 });
    const state = async () => (await find(id)).state;
    await note();
    assert.deepEqual([await state(), logs], ['active', []]);
    const bar = (at: Date | null) =>
      database.query('test_bar', `update principals set blocked_at = $1 where email = 'root@example.com'`, [at]);
    await bar(new Date(clock.now()));
    await note();
    await note();
    assert.equal(await state(), 'unowned');
    assert.match(logs.join(), /is no longer an administrator; it is suspended in 7 days/);
    clock.advance(7 * DAY - 1);
    assert.equal(await use(), 200);
    clock.advance(1);
    assert.deepEqual((await refusal(token, 'GET', '/admin/api/tokens')).slice(0, 2), [401, 'credential_revoked']);
    assert.equal(await state(), 'suspended');
    await bar(null);
    const other = await bench.ask('root', 'POST', `${PATH}/${id}/rotate`, {});
    assert.equal(other.status, 201);
    assert.equal((await bench.ask(other.body.token, 'GET', '/admin/api/tokens')).status, 200);
    assert.equal(await use(), 401, 'a holder of the old one does not have the new one');
  });

  test('rotates with an overlap', async () => {
    const { token, id } = await make(['tokens:read']);
    const { body: next } = await bench.ask('root', 'POST', `${PATH}/${id}/rotate`, { overlap_seconds: 60 });
    const use = async (text: string) => (await bench.ask(text, 'GET', '/admin/api/tokens')).status;
    assert.deepEqual([await use(token), await use(next.token)], [200, 200]);
    bench.clock.advance(60_000);
    assert.deepEqual([await use(token), await use(next.token)], [401, 200]);
    assert.equal((await refusal('root', 'POST', `${PATH}/${id}/rotate`, {}))[0], 409);
  });
});

test('the commands create, list, replace and end them, and work with one instead of a sign-in', async () => {
  const root = commandsOf('root', bench.url);
  const made = await root('service-tokens', 'create', '--name', 'nightly', '--scope', 'tokens:read');
  const token = made.stdout.trim();
  assert.match(token, /^gws_/);
  const env = { ...createBackend().env, APPSCLI_SERVICE_TOKEN: token };
  const automation = (...words: string[]) => cli([...words, '--base-url', bench.url], { env });
  assert.equal((await automation('tokens', 'list')).exit_code, 0);
  const more = await automation('service-tokens', 'create', '--name', 'more', '--scope', 'tokens:read');
  assert.match(more.stderr, /lacks permission: this operation is for signed-in people/);
  const listed = JSON.parse((await root('service-tokens', 'list', '--json')).stdout);
  const { id } = listed.find(({ name }: { name: string }) => name === 'nightly');
  assert.match((await root('service-tokens', 'list')).stdout, /nightly.*tokens:read.*root@example\.com/s);
  const next = JSON.parse((await root('service-tokens', 'rotate', id, '--overlap', '0', '--json')).stdout);
  assert.equal((await root('service-tokens', 'revoke', next.id)).exit_code, 0);
  assert.match((await root('service-tokens', 'revoke', next.id)).stderr, /has ended/);
});
