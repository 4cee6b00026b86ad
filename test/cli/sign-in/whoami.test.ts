import assert from 'node:assert/strict';
import { beforeEach, test } from 'node:test';
import { whoami } from '../../../engine/cli/sign-in/whoami.ts';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { held, keep, NOW } from '../../client/keep-credentials.ts';
import {
  type Backend,
  createBackend,
  type ScriptedGateway,
  startScriptedGateway,
} from '../../client/scripted-gateway.ts';

let gateway: ScriptedGateway;
let backend: Backend;
const clock = frozenClock(NOW);
const me = {
  email: 'alice@example.com',
  name: 'Alice Archer',
  groups: ['eng', 'staff'],
  team: 'platform',
  project: null,
  roles: [],
  token_group: 'all',
  models: Array.from({ length: 12 }, (_, i) => `coder-${i}`),
};

beforeEach(async () => {
  gateway = await startScriptedGateway();
  backend = createBackend();
  keep(backend, { [gateway.url]: held(3000) });
});

test('who it is, with what and for how long, in 80 columns', async () => {
  gateway.scripts.set('/admin/api/me', () => ({ body: me }));
  assert.equal(await whoami(backend.context, {}, { clock }), 0);
  assert.equal(
    backend.data(),
    `alice@example.com at ${gateway.url}
Name         Alice Archer
Groups       eng, staff
Team         platform
Token group  all
Models       coder-0, coder-1, coder-2, coder-3, coder-4, coder-5, coder-6,
             coder-7, coder-8, coder-9, coder-10, coder-11
Token until  2027-01-31 12:50 UTC
`,
  );
  assert.equal(gateway.to('/admin/api/me')[0]?.headers.authorization, 'Bearer access-0');
});

test('that there are no models is said, and why', async () => {
  const none = { ...me, token_group: null, models: [] };
  const no_models_because = 'you are a member of no token group (your groups are eng); an administrator adds one';
  gateway.scripts.set('/admin/api/me', () => ({ body: { ...none, no_models_because } }));
  await whoami(backend.context, {}, { clock });
  assert.match(
    backend.data().replace(/\s+/g, ' '),
    /Models none: you are a member of no token group \(your groups are eng\);/,
  );
  backend = createBackend();
  keep(backend, { [gateway.url]: held(3000) });
  gateway.scripts.set('/admin/api/me', () => ({ body: none }));
  await whoami(backend.context, {}, { clock });
  assert.match(backend.data(), /^Models +none: ask an administrator/m);
});

test('with --json it is what the gateway says, and the token is not in it', async () => {
  gateway.scripts.set('/admin/api/me', () => ({ body: me }));
  await whoami(backend.context, { json: true }, { clock });
  const token_expires_at = '2027-01-31T12:50:00.000Z';
  assert.deepEqual(JSON.parse(backend.data()), { base_url: gateway.url, ...me, token_expires_at });
});

test('names are shown without what a terminal acts upon', async () => {
  gateway.scripts.set('/admin/api/me', () => ({ body: { ...me, groups: ['\x1b[2Jeng\n', 7, { id: '\x07' }] } }));
  await whoami(backend.context, {}, { clock });
  assert.match(backend.data(), /^Groups {7}\uFFFD\[2Jeng, \uFFFD$/m);
});

test('a gateway that does not say who, says why instead', async () => {
  for (const [reply, words] of [
    [{ status: 403, body: { error: { message: 'Not for\nyou.' } } }, /status 403, Not for you\.$/],
    [{ body: '<html>' }, /status 200 and something that is not JSON/],
    [{ body: [] }, /status 200, without saying why/],
  ] as const) {
    gateway.scripts.set('/admin/api/me', () => reply);
    await assert.rejects(whoami(backend.context, {}, { clock }), words);
  }
});

test('a sign-in that has ended is words and exit code 1', async () => {
  gateway.scripts.set('/admin/api/me', () => ({ status: 401, body: {} }));
  await assert.rejects(whoami(backend.context, {}, { clock }), {
    exit_code: 1,
    message: /any more: the gateway refuses it\. Run: appscli login/,
  });
});
