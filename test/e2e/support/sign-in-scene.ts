/** Sign-in for the tests of a file: an identity provider, an upstream, gateways on one database, and users' actions. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, beforeEach } from 'node:test';
import { type FrozenClock, frozenClock } from '../../../engine/base/kit/clock.ts';
import { createTestDatabase } from '../../support/database.ts';
import type { TestGateway } from '../../support/gateway.ts';
import {
  type IdentityProviderOptions,
  PEOPLE,
  startIdentityProvider,
  type TestIdentityProvider,
} from '../../support/identity/identity-provider.ts';
import {
  askForToken,
  beginSignIn,
  bootSignIn,
  confirmInBrowser,
  pollWith,
  refreshWith,
  signIn,
} from '../../support/identity/sign-in.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { startRelay, type TcpRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { send } from './client.ts';

type Boot = Omit<Parameters<typeof bootSignIn>[0], 'provider' | 'upstream_url' | 'clock'>;
// biome-ignore lint/suspicious/noExplicitAny: a test changes what it likes
type Change = (config: any) => void;

const LIMITS = { device_authorizations: 1000, code_submissions: 1000, window_seconds: 600 };

/**
 * Gives the tests of a file what they sign users in with. Before each of them the provider is up, has its initial users
 * and no tokens, and the upstream returns a complete message.
 * @param options.frozen whether the gateways have a stopped clock, `clock`.
 * @param options.replicas gateways on one database; the second is `other`, at the public URL of the first.
 * @param options.relayed whether they reach it by `way`, which can be cut.
 */
export function useSignInScene(
  options: Boot & {
    readonly people?: IdentityProviderOptions;
    readonly frozen?: boolean;
    readonly replicas?: 1 | 2;
    readonly relayed?: boolean;
  } = {},
) {
  const { people, frozen = false, replicas = 1, relayed = false, auth, ...boot } = options;
  const closing: (() => unknown)[] = [];
  let provider: TestIdentityProvider;
  let upstream: ScriptedUpstream;
  let clock: FrozenClock;
  let database: Awaited<ReturnType<typeof createTestDatabase>>;
  let way: TcpRelay;
  let first_config: string;
  const gateways: TestGateway[] = [];

  before(async () => {
    provider = await startIdentityProvider(people);
    closing.push(() => provider.close());
    upstream = await startUpstream();
    closing.push(() => upstream.close());
    clock = frozenClock(Date.now());
    database = await createTestDatabase();
    closing.push(() => database.drop());
    const url = new URL(database.url);
    if (relayed) {
      way = await startRelay(Number(url.port));
      closing.push(() => way.stop());
      url.port = String(way.port);
    }
    while (gateways.length < replicas) {
      const gateway = await bootSignIn({
        database_url: url.href,
        ...boot,
        provider,
        upstream_url: upstream.url,
        auth: { limits: LIMITS, ...auth },
        ...(frozen && { clock }),
        ...(gateways[0] && { public_url: gateways[0].url }),
      });
      gateways.push(gateway);
      closing.push(() => gateway.close());
    }
    first_config = await readFile(gateways[0]!.config_file, 'utf8');
  });
  after(async () => {
    for (const close of closing.reverse()) await close();
  });
  beforeEach(() => {
    provider.setMode('up');
    provider.people.clear();
    for (const [sub, person] of Object.entries(people?.people ?? PEOPLE)) {
      provider.people.set(sub, structuredClone(person));
    }
    provider.only_in_userinfo.clear();
    provider.forgetEverything();
    provider.requests.length = 0;
    upstream.requests.length = 0;
    upstream.script = answerJson(message());
  });

  const [one, other] = [0, 1].map((n) => () => gateways[n]!) as [() => TestGateway, () => TestGateway];
  const use = (token: string, path = '/v1/models', at = one()) =>
    send(at.url, { method: 'GET', path, headers: ['authorization', `Bearer ${token}`] });
  const api = async (token: string, method: string, path: string, body?: object, at = one()) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${at.url}/admin/api/${path}`, { method, headers, ...sent });
    // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever is in there
    return { status: response.status, ...((await response.json()) as any) };
  };

  return {
    get provider() {
      return provider;
    },
    get upstream() {
      return upstream;
    },
    get clock() {
      return clock;
    },
    get way() {
      return way;
    },
    get database_url() {
      return database.url;
    },
    get gateway() {
      return one();
    },
    get other() {
      return other();
    },
    get gateways(): readonly TestGateway[] {
      return gateways;
    },
    /** Requests a path with a credential. */
    use,
    statusOf: async (token: string, at = one()) => (await use(token, '/v1/models', at)).status,
    /** Ids of the models a credential may use. */
    modelsOf: async (token: string, at = one()): Promise<string[]> =>
      (await use(token, '/v1/models?limit=1000', at)).json().data.map(({ id }: { id: string }) => id),
    /** Waits until a credential is rejected. */
    refused: (token: string, at = one()) =>
      until('the token is rejected', async () => {
        const response = await use(token, '/v1/models', at);
        return response.status === 401 && response;
      }),
    /** Requests the admin API at `path`; the fields of its response, with its status. */
    api,
    /** Creates an access token as the user of a session does. */
    async ownToken(session_token: string, name = 'own'): Promise<string> {
      const { token, ...response } = await api(session_token, 'POST', 'tokens', { name, group: 'all' });
      assert.match(token ?? '', /^gw_/, JSON.stringify(response));
      return token;
    },
    signIn: (sub: string, at = one()) => signIn(at.url, sub),
    /** Tries to sign in: returns the final page, and the device's response. */
    async trySignIn(sub: string, at: Pick<TestGateway, 'url'> = one()) {
      const begun = await beginSignIn(at.url);
      const page = await confirmInBrowser(at.url, begun.user_code, sub);
      return { ...begun, page, ...(await askForToken(at.url, pollWith(begun.device_code))) };
    },
    renew: (refresh_token: string, at = one()) => askForToken(at.url, refreshWith(refresh_token)),
    revoke: (token: string, at = one()) =>
      fetch(`${at.url}/oauth/revoke`, { method: 'POST', body: new URLSearchParams({ token }) }),
    /** Puts the first configuration in force, after a change. */
    async configure(change: Change = () => {}): Promise<void> {
      const config = JSON.parse(first_config);
      change(config);
      await writeFile(one().config_file, JSON.stringify(config));
      await one().reload();
      assert.ok(!one().logs.at(-1)?.includes('the reload failed'), one().logs.at(-2));
    },
  };
}
