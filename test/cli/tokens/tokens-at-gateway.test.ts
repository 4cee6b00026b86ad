import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { whoami } from '../../../engine/cli/sign-in/whoami.ts';
import { create, list, revoke, rotate } from '../../../engine/cli/tokens/tokens.ts';
import { createToken } from '../../../engine/identity/tokens/tokens.ts';
import { type AdminBench, useAdminApi } from '../../http/admin/support.ts';
import { assertNarrow, backendOf, failure } from './backend-at-gateway.ts';

let bench: AdminBench;
useAdminApi((opened) => {
  bench = opened;
});

const place = () => ({ config: 'gateway.yaml', baseUrl: bench.url });

test('somebody who signed in makes, lists, rotates and revokes access tokens of their own', async () => {
  const backend = backendOf('alice', bench.url);
  const { context } = backend;
  assert.equal(await create(context, { ...place(), name: 'laptop' }), 0);
  assert.match(backend.data(), /^gw_\w{49}\n$/);
  assert.match(
    backend.info(),
    /^Access token tok_\w+ for alice@example\.com\. It does not expire, and is\nshown only this once:\n$/,
  );
  assertNarrow(backend.info());

  const rotating = backendOf('alice', bench.url);
  assert.equal(await rotate(rotating.context, undefined, { ...place(), name: 'laptop', overlap: 60 }), 0);
  assert.notEqual(rotating.data(), backend.data());
  assert.match(rotating.info(), /takes the place of tok_/);

  const listing = backendOf('alice', bench.url);
  await list(listing.context, place());
  const lines = listing.data().trimEnd().split('\n');
  assert.deepEqual(lines[0]!.split(/\s{2,}/), ['ID', 'USER', 'NAME', 'GROUP', 'TEAM', 'BY', 'STATE']);
  assert.match(lines[1]!, /alice@\S*\s+laptop\s+coders\s+search\s+self\s+replaced$/);
  assert.match(lines[2]!, /active$/);
  assertNarrow(listing.data());

  const revoking = backendOf('alice', bench.url);
  await revoke(revoking.context, undefined, { ...place(), name: 'laptop' });
  assert.match(
    revoking.info(),
    /^Revoked tok_\w+: "laptop" of alice@example\.com, and tok_\w+,\nwhich it had replaced\.\n$/,
  );
  const again = await failure(revoke(revoking.context, undefined, { ...place(), name: 'laptop' }));
  assert.equal(again.exit_code, 1);
  assert.match(again.message, /is revoked already/);
});

test('what the gateway refuses ends the command with its words', async () => {
  const { context } = backendOf('alice', bench.url);
  const group = await failure(create(context, { ...place(), name: 'x', group: 'everything' }));
  assert.equal(group.exit_code, 1);
  assert.match(
    group.message,
    /^You may not have access tokens of the token group "everything": you may make them in coders\.$/,
  );
  const others = await failure(list(context, { ...place(), user: 'bob@example.com' }));
  assert.match(others.message, /Only administrators see/);
  const id = await failure(revoke(context, 'tok_/../../me', place()));
  assert.equal(id.exit_code, 1);
  assert.match(id.message, /no access token with this id/);
  const nothing = await failure(rotate(context, undefined, { ...place(), name: 'never made' }));
  assert.equal(nothing.exit_code, 1);
  assert.match(nothing.message, /no token has the name "never made" of alice@example\.com/);
});

test('an administrator works for everybody, and sees all pages', async () => {
  const backend = backendOf('root', bench.url);
  const wish = {
    name: 'ci',
    user: 'ci@example.com',
    group: 'everything',
    team: 'sales',
    expires: new Date('2030-01-01'),
  };
  await create(backend.context, { ...place(), ...wish, json: true });
  const { token, ...made } = JSON.parse(backend.data());
  assert.match(token, /^gw_/);
  assert.deepEqual(
    [made.user, made.group, made.team, made.created_by],
    ['ci@example.com', 'everything', 'sales', 'root@example.com'],
  );
  for (let i = 0; i < 1001; i++) {
    await createToken(bench.by, { user: 'many@example.com', group: 'coders', name: `n${i}` });
  }
  const listing = backendOf('root', bench.url);
  await list(listing.context, { ...place(), user: 'many@example.com', json: true });
  assert.equal(JSON.parse(listing.data()).length, 1001);
});

test('a gateway that sends escape sequences or nonsense does not move the cursor', async () => {
  const token = JSON.stringify({ id: '\x1b[2Jtok', user: '\x1b]0;x\x07', name: 7, state: 'great' });
  const server = createServer((_req, res) => {
    res.setHeader('content-type', 'application/json');
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    res.end(`{"email":"\\u009bx","tokens":[${token},null,3,${deep}],"next":null}`);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const backend = backendOf('alice', baseUrl);
    await list(backend.context, { config: '', baseUrl });
    await list(backend.context, { config: '', baseUrl, json: true });
    await whoami(backend.context, { baseUrl, json: true });
    for (const make of [
      create(backend.context, { config: '', baseUrl, name: 'x' }),
      rotate(backend.context, 'tok_1', { config: '', baseUrl }),
    ]) {
      const { exit_code, message } = await failure(make);
      assert.deepEqual([exit_code, message.includes('holds no access token')], [69, true]);
    }
    assert.ok(!backend.data().includes('\x9b'));
    assert.ok(!backend.data().includes('\x1b') && !backend.data().includes('\\u001b'), backend.data());
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
