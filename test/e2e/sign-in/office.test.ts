import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { createTestDatabase } from '../../support/database.ts';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import {
  askForToken,
  beginSignIn,
  bootSignIn,
  confirmInBrowser,
  pollWith,
  signIn,
} from '../../support/identity/sign-in.ts';

const PEOPLE = 48;
const MOST_WRONG = 10;
const names = Array.from({ length: PEOPLE }, (_, n) => `person-${n}`);

let provider: TestIdentityProvider;
let shared: Awaited<ReturnType<typeof createTestDatabase>>;
let one: TestGateway;
let other: TestGateway;

before(async () => {
  const person = (name: string) => ({ email: `${name}@example.com`, email_verified: true, groups: [] });
  provider = await startIdentityProvider({ people: Object.fromEntries(names.map((name) => [name, person(name)])) });
  shared = await createTestDatabase();
  // The limits of the schema, but for the sign-ins begun: fewer than the office has people.
  const auth = { limits: { device_authorizations: PEOPLE - 8 } };
  one = await bootSignIn({ provider, database_url: shared.url, auth });
  other = await bootSignIn({ provider, database_url: shared.url, auth, public_url: one.url });
});
after(async () => {
  await other?.close();
  await one?.close();
  await shared?.drop();
  await provider?.close();
});

const guess = (gateway: TestGateway, code: string) =>
  fetch(`${gateway.url}/device`, {
    method: 'POST',
    headers: { origin: one.url },
    body: new URLSearchParams({ user_code: code, action: 'approve' }),
    redirect: 'manual',
  });

// In one order: they share the address that is counted.
test('an office behind one address', async (t) => {
  await t.test(
    'signs in, everybody at once, however many they are; who guesses codes among them is held up after ten',
    async () => {
      const half = PEOPLE / 2;
      const at_once = await Promise.all(names.slice(0, half).map((name) => signIn(one.url, name)));
      assert.equal(new Set(at_once.map(({ email }) => email)).size, half);
      // One after the other, more than may be begun and left, each entering the code twice.
      for (const name of names.slice(half)) {
        const begun = await beginSignIn(other.url);
        const seen = await fetch(begun.verification_uri_complete);
        assert.equal(seen.status, 200);
        await confirmInBrowser(one.url, begun.user_code, name);
        assert.equal((await askForToken(other.url, pollWith(begun.device_code))).status, 200, name);
      }

      const waiting = await beginSignIn(one.url);
      const codes = Array.from({ length: 30 }, (_, n) => `BCDFGHJ${'BCDFGHJKLMNPQRSTVWXZ'[n % 20]}`);
      const guesses = await Promise.all(codes.map((code, n) => guess(n % 2 === 0 ? one : other, code)));
      const let_through = guesses.filter(({ status }) => status === 404).length;
      assert.equal(let_through, MOST_WRONG, 'guesses made at once over two replicas');
      const refused = await guess(one, waiting.user_code);
      assert.equal(refused.status, 429, 'nor does a good code get through then');
      const page = await refused.text();
      assert.match(page, /Too many wrong codes were entered from your address\. Try again in \d+ (minutes|seconds)\./);
      assert.ok(Number(refused.headers.get('retry-after')) > 500);
    },
  );

  await t.test('can not leave more sign-ins unfinished than the limit says, and is told when to go on', async () => {
    const statuses: number[] = [];
    let words = '';
    for (let begun = 0; begun < PEOPLE && words === ''; begun++) {
      const response = await fetch(`${one.url}/oauth/device_authorization`, {
        method: 'POST',
        body: new URLSearchParams(),
      });
      statuses.push(response.status);
      if (response.status !== 200) words = ((await response.json()) as { error_description: string }).error_description;
    }
    assert.ok(statuses.length <= PEOPLE - 7, `${statuses.length} were begun`);
    assert.match(words, /nobody finished were begun from your address\. Try again in \d+ minutes\./);
  });
});
