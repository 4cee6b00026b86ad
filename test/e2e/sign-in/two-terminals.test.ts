import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type FrozenClock, frozenClock } from '../../../engine/kit/clock.ts';
import { createTestDatabase } from '../../support/database.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { askForToken, bootSignIn, refreshWith, signIn } from '../../support/identity/sign-in.ts';
import { type Keychain, startTerminal, type Terminal, type TerminalKind } from '../../support/identity/terminals.ts';
import { until } from '../../support/until.ts';
import { send } from '../support/client.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

let provider: TestIdentityProvider;
let database: Awaited<ReturnType<typeof createTestDatabase>>;
let clock: FrozenClock;
let gateways: readonly TestGateway[];
let asked = 0;

before(async () => {
  const people = ['anna', 'ben', 'cleo'].map((name) => [name, { email: `${name}@example.com`, email_verified: true }]);
  provider = await startIdentityProvider({ people: Object.fromEntries(people) });
  database = await createTestDatabase();
  clock = frozenClock(Date.now());
  const shared = { provider, clock, database_url: database.url, server: { trusted_proxies: ['127.0.0.1'] } };
  const one = await bootSignIn(shared);
  const other = await bootSignIn({ ...shared, public_url: one.url });
  gateways = [one, other];
});
after(async () => {
  for (const gateway of gateways ?? []) await gateway.close();
  await database?.drop();
  await provider?.close();
});

/** The gateway whose turn it is, as behind a balancer. */
const next = (): TestGateway => gateways[asked++ % gateways.length]!;

const useToken = (token: string) =>
  send(next().url, { method: 'GET', path: '/v1/models', headers: ['authorization', `Bearer ${token}`] });

async function ask(refresh_token: string) {
  const { status, body } = await askForToken(next().url, refreshWith(refresh_token));
  if (status === 200) {
    const { access_token, refresh_token, expires_in } = body;
    return { access_token, refresh_token, expires_at: clock.now() + expires_in * 1000 };
  }
  if (status === 401 && body.error === 'invalid_grant') return 'invalid_grant' as const;
  assert.equal(status, 503, body.error);
  return 'later' as const;
}

/** Signs somebody in and starts terminals on what that left. */
async function startTerminals(sub: string, kinds: readonly TerminalKind[]) {
  const { access_token, refresh_token, expires_in } = await signIn(gateways[0]!.url, sub);
  const stored = { access_token, refresh_token, expires_at: clock.now() + expires_in * 1000 };
  const keychain: Keychain = { stored, locked: false };
  return kinds.map((kind) => startTerminal(kind, keychain));
}

/** A person sends a request in a terminal, which renews first when it is time; what was adopted may have to be renewed, too. */
async function work(terminal: Terminal): Promise<void> {
  for (let tries = 0; tries < 3; tries++) {
    const token = terminal.send(clock.now());
    if (token === undefined) break;
    terminal.take(await ask(token));
  }
  assert.equal(terminal.out, false, `${terminal.kind} was signed out`);
  const { status, text } = await useToken(terminal.held.access_token);
  assert.equal(status, 200, `${terminal.kind}: ${text}`);
}

/** Waits until the database knows that these session tokens are in use. */
const seen = (...access_tokens: string[]) =>
  until('session tokens in use are written down', async () => {
    const claims = access_tokens.map((token) => JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString()));
    const rows = await gateways[0]!.database.query(
      'test_seen',
      'select from sessions s join unnest($1::text[], $2::bigint[]) v (id, iat) on v.id = s.id and s.seen_at >= to_timestamp(v.iat)',
      [claims.map(({ sid }) => sid), claims.map(({ iat }) => iat)],
    );
    return rows.length === access_tokens.length;
  });

describe('somebody who copied what a sign-in stored', () => {
  const renewFrom = async (client_address: string, refresh_token: string) => {
    const body = new URLSearchParams(refreshWith(refresh_token));
    const headers = { 'x-forwarded-for': client_address };
    const answer = await fetch(`${next().url}/oauth/token`, { method: 'POST', body, headers });
    return { status: answer.status, body: (await answer.json()) as { access_token: string; refresh_token: string } };
  };

  it('is out everywhere once the owner, whose program was refused, signs in again', async () => {
    const copied = await signIn(gateways[0]!.url, 'ben');
    clock.advance(HOUR);
    const stolen = (await renewFrom('203.0.113.9', copied.refresh_token)).body;
    assert.equal((await useToken(stolen.access_token)).status, 200);
    await seen(stolen.access_token);
    clock.advance(MINUTE);
    for (const status of [503, 401]) assert.equal((await renewFrom('192.0.2.1', copied.refresh_token)).status, status);
    const anew = await signIn(gateways[0]!.url, 'ben');
    const isRefused = async () => (await useToken(stolen.access_token)).status === 401;
    await until('the thief is refused by both', async () => (await isRefused()) && (await isRefused()));
    for (const _ of gateways) {
      assert.equal((await useToken(stolen.access_token)).status, 401);
      assert.equal((await renewFrom('203.0.113.9', stolen.refresh_token)).status, 401);
      assert.equal((await useToken(anew.access_token)).status, 200);
    }
  });
});

describe('two terminals of one person, at two gateways', () => {
  it('are not signed out by the answer to a renewal that got lost, however late they ask again', async () => {
    for (const pause_ms of [0, 9 * HOUR]) {
      const [terminal] = await startTerminals('anna', ['adopting']);
      clock.advance(HOUR);
      await ask(terminal!.send(clock.now())!);
      terminal!.take('later');
      clock.advance(pause_ms);
      await work(terminal!);
    }
  });

  it('share what one of them gets when they renew at the same moment, and the provider is asked once', async () => {
    const { refresh_token } = await signIn(gateways[0]!.url, 'ben');
    clock.advance(HOUR);
    const askedProvider = () => provider.requests.filter(({ endpoint }) => endpoint === 'token').length;
    const before_all = askedProvider();
    const answers = await Promise.all(Array.from({ length: 6 }, () => ask(refresh_token)));
    const tokens = answers.map((answer) => (typeof answer === 'string' ? answer : answer.refresh_token));
    assert.equal(new Set(tokens).size, 1, String(tokens));
    assert.equal(askedProvider() - before_all, 1);
  });
});
