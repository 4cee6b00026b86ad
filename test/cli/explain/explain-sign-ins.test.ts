import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { explain } from '../../../engine/cli/explain/explain-sign-ins.ts';
import { noteRefusal, type RefusedSignIn } from '../../../engine/identity/provider/refused-sign-ins.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import { type AdminBench, useAdminApi } from '../../http/admin/support.ts';
import { quietLog } from '../../support/store.ts';
import { commandBench } from '../sign-in/with-gateway.ts';
import { assertNarrow, backendOf } from '../tokens/backend-at-gateway.ts';

let api: AdminBench;
useAdminApi((opened) => {
  api = opened;
});
const bench = commandBench();

const REFUSED: Omit<RefusedSignIn, 'at'> = {
  email: 'dana@example.com',
  subject: 'dana-1',
  issuer: 'https://id.example.com',
  client: 'Claude Code 2.1.330',
  client_address: '192.0.2.7',
  request_id: 'request-1',
  refused: 'group',
  detail: 'dana@example.com is in none of auth.oidc.allowed_groups; /engineering came, and engineering is expected',
  groups: ['/engineering', 'everybody'],
  expected: ['engineering', 'research'],
};

describe('appscli sessions explain', () => {
  test('says why somebody was refused, with the groups that came and those expected', async () => {
    await noteRefusal({ database: bench.gateway.database, clock: systemClock, log: quietLog }, REFUSED);
    const { stdout } = await bench.succeed('sessions', 'explain', 'Dana@example.com');
    assertNarrow(stdout);
    assert.match(
      stdout,
      /^dana@example\.com\n {2}refused {3}\d{4}-\d\d-\d\d \d\d:\d\d UTC: dana@example\.com is in none of/,
    );
    assert.match(stdout, /^ {2}came {6}\/engineering, everybody$/m);
    assert.match(stdout, /^ {2}expected {2}one of engineering, research \(auth\.oidc\.allowed_groups\)$/m);
    assert.match(stdout, /Claude Code 2\.1\.330 from 192\.0\.2\.7, request request-1/);
    const { stdout: json } = await bench.succeed('sessions', 'explain', 'dana@example.com', '--json');
    const { refused, sessions } = JSON.parse(json);
    assert.deepEqual([refused[0].groups, sessions], [REFUSED.groups, []]);
  });

  test('tells of refusals that nobody asked for but the gateway', async () => {
    const refused = { ...REFUSED, email: 'erin@example.com', request_id: '' };
    await noteRefusal({ database: bench.gateway.database, clock: systemClock, log: quietLog }, refused);
    const { stdout } = await bench.succeed('sessions', 'explain', 'erin@example.com');
    assert.match(stdout.replace(/\s+/g, ' '), /from 192\.0\.2\.7, asked about by the gateway itself came/);
  });

  test('keeps ten refusals of one address, and says where there are none', async () => {
    for (let n = 0; n < 25; n++) {
      const refused = { ...REFUSED, email: 'often@example.com', request_id: `request-${n}` };
      await noteRefusal({ database: bench.gateway.database, clock: systemClock, log: quietLog }, refused);
    }
    const { stdout } = await bench.succeed('sessions', 'explain', 'often@example.com', '--json');
    const { refused } = JSON.parse(stdout) as { refused: { request_id: string }[] };
    assert.equal(refused.length, 10);
    assert.equal(refused[0]!.request_id, 'request-24');
    assert.match(
      (await bench.succeed('sessions', 'explain', 'nobody@example.com')).stdout,
      /nobody has tried to sign in/,
    );
  });

  test('asks a gateway, too', async () => {
    await noteRefusal({ database: api.database, clock: systemClock, log: quietLog }, REFUSED);
    const backend = backendOf('root', api.url);
    assert.equal(await explain(backend.context, 'dana@example.com', { config: 'gateway.yaml', baseUrl: api.url }), 0);
    assert.match(backend.data(), /came {6}\/engineering, everybody/);
  });
});
