/** Sign-ins, sessions, changes, reloads and the start, as a collector sees them. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, beginSignIn, bootSignIn, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import { type ReceivedSpan, startCollector, type TestCollector } from '../../support/telemetry/collector.ts';

const COLLECTOR_KEY = 'collector-key-6c1f90aa';

let provider: TestIdentityProvider;
let collector: TestCollector;
let gateway: TestGateway;

before(async () => {
  provider = await startIdentityProvider();
  collector = await startCollector();
  const otlp = { endpoint: collector.endpoint, headers_env: 'TEST_COLLECTOR_HEADERS' };
  gateway = await bootSignIn({
    provider,
    auth: { admin_groups: ['admins'] },
    config: { telemetry: { otlp }, token_groups: [{ name: 'all', models: ['*'], members: ['marketing'] }] },
    env: { TEST_COLLECTOR_HEADERS: `x-key=${COLLECTOR_KEY}`, OTEL_BSP_SCHEDULE_DELAY: '100' },
  });
});
after(async () => {
  await gateway?.close();
  await collector?.close();
  await provider?.close();
});

/** The first span of this name with this value of an attribute. */
const spanOf = (name: string, attribute: string, value: unknown): Promise<ReceivedSpan> =>
  collector.span(
    `${name} with ${attribute} ${value}`,
    (span) => span.name === name && span.attributes[attribute] === value,
  );

/** The attributes of a span but for the identifier of its request. */
function said({ attributes }: ReceivedSpan): object {
  const { 'gateway.request_id': _, ...rest } = attributes;
  return rest;
}

test('the start is a span, from the start of the process on', async () => {
  const start = await collector.span('the start', ({ name }) => name === 'gateway.start');
  assert.equal(start.kind, 'internal');
  assert.ok(Number(start.attributes['gateway.start.pipelines']) > 3);
  assert.ok(start.ended_at - start.began_at > 100);
});

test('a sign-in, its session, its renewal and a change are spans and counts, without a user name', async () => {
  await beginSignIn(gateway.url);
  const ben = await signIn(gateway.url, 'ben');
  await askForToken(gateway.url, refreshWith(ben.refresh_token));
  assert.equal((await askForToken(gateway.url, refreshWith(`gwr_${'x'.repeat(42)}A`))).status, 401);
  const made = await fetch(`${gateway.url}/admin/api/tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${ben.access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'planted-token-name', group: 'all' }),
  });
  const { token } = (await made.json()) as { token: string };
  await spanOf('gateway.sign_in', 'gateway.sign_in.outcome', 'begun');
  await spanOf('gateway.sign_in', 'gateway.sign_in.outcome', 'approved');
  const began = await spanOf('gateway.session', 'gateway.session.outcome', 'began');
  assert.deepEqual([began.kind, began.status, began.parent_span_id], ['internal', 'unset', undefined]);
  await spanOf('gateway.session', 'gateway.session.outcome', 'renewed');
  const refused = await spanOf('gateway.session', 'gateway.session.outcome', 'refused');
  assert.equal(refused.status, 'error');
  assert.deepEqual(said(refused), { 'gateway.session.outcome': 'refused', 'error.type': 'unknown' });
  const change = await spanOf('gateway.admin_change', 'gateway.admin.action', 'token.create');
  assert.equal(change.attributes['gateway.admin.actor_kind'], 'person');
  assert.equal(made.status, 201, JSON.stringify(change.attributes));
  const wire = collector.wire();
  const secrets = [ben.access_token, ben.refresh_token, token, 'planted-token-name', 'ben@', 'Ben ', 'gwr_'];
  for (const secret of secrets) assert.ok(!wire.includes(secret), secret);
});

test('reloads are spans: a successful one, and a failed one, with its error codes', async () => {
  const good = await readFile(gateway.config_file, 'utf8');
  const config = JSON.parse(good);
  await writeFile(gateway.config_file, JSON.stringify({ ...config, branding: { name: 'Other' } }));
  await gateway.reload();
  const in_force = await spanOf('gateway.reload', 'gateway.reload.result', 'in_force');
  const { 'gateway.config.hash': hash, ...rest } = said(in_force) as Record<string, unknown>;
  assert.match(String(hash), /^[0-9a-f]{12}$/);
  assert.deepEqual(rest, {
    'gateway.reload.result': 'in_force',
    'gateway.reload.changed_files': 1,
    'gateway.reload.needs_restart': [],
  });
  await writeFile(gateway.config_file, JSON.stringify({ ...config, planted_key: 'planted-value' }));
  await gateway.reload();
  const failed = await spanOf('gateway.reload', 'gateway.reload.result', 'failed');
  assert.equal(failed.attributes['error.type'], 'invalid_configuration');
  assert.match(String((failed.attributes['gateway.reload.findings'] as string[])[0]), /^C\d{4}$/);
  assert.ok(!collector.wire().includes('planted-value'));
  await writeFile(gateway.config_file, good);
  await gateway.reload();
});
