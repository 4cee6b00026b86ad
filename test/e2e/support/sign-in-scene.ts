/** Sign-in for the tests of a file: an identity provider, an upstream, gateways on one database, and users' actions. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { beforeEach } from 'node:test';
import { frozenClock } from '../../../engine/base/kit/clock.ts';
import { createTestDatabase } from '../../support/database.ts';
import type { TestGateway } from '../../support/gateway.ts';
import {
  type IdentityProviderOptions,
  PEOPLE,
  startIdentityProvider,
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
import { answerJson, message, startUpstream } from '../../support/model-provider/scripted-upstream.ts';
import { startRelay } from '../../support/tcp-relay.ts';
import { until } from '../../support/until.ts';
import { use } from '../../support/use.ts';
import { send } from './client.ts';

type Boot = Omit<Parameters<typeof bootSignIn>[0], 'provider' | 'upstream_url'>;
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
  const provider = use(() => startIdentityProvider(people));
  const upstream = use(startUpstream);
  const clock = frozenClock(Date.now());
  const database = use(createTestDatabase, ({ drop }) => drop());
  const portOf = (url: string) => Number(new URL(url).port);
  const way = use(
    () => startRelay(portOf(database.url)),
    (relay) => relay.stop(),
  );
  let first_config: string | undefined;

  const start = (public_url?: string) => {
    const url = new URL(database.url);
    if (relayed) url.port = String(way.port);
    const at = { provider, upstream_url: upstream.url, ...(frozen && { clock }), ...(public_url && { public_url }) };
    return bootSignIn({ database_url: url.href, ...boot, ...at, auth: { limits: LIMITS, ...auth } });
  };
  const gateway = use(() => start());
  const other = replicas === 2 ? use(() => start(gateway.url)) : gateway;
  const gateways = [gateway, other].slice(0, replicas);
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

  const useToken = (token: string, path = '/v1/models', at = gateway) =>
    send(at.url, { method: 'GET', path, headers: ['authorization', `Bearer ${token}`] });
  const api = async (token: string, method: string, path: string, body?: object, at = gateway) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${at.url}/admin/api/${path}`, { method, headers, ...sent });
    // biome-ignore lint/suspicious/noExplicitAny: tests look at whatever is in there
    return { status: response.status, ...((await response.json()) as any) };
  };

  return {
    ...{ provider, upstream, clock, way, gateway, other, gateways },
    get database_url() {
      return database.url;
    },
    /** Requests a path with a credential. */
    use: useToken,
    statusOf: async (token: string, at = gateway) => (await useToken(token, '/v1/models', at)).status,
    /** Ids of the models a credential may use. */
    modelsOf: async (token: string, at = gateway): Promise<string[]> =>
      (await useToken(token, '/v1/models?limit=1000', at)).json().data.map(({ id }: { id: string }) => id),
    /** Waits until a credential is rejected. */
    refused: (token: string, at = gateway) =>
      until('the token is rejected', async () => {
        const response = await useToken(token, '/v1/models', at);
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
    signIn: (sub: string, at = gateway) => signIn(at.url, sub),
    /** Tries to sign in: returns the final page, and the device's response. */
    async trySignIn(sub: string, at: Pick<TestGateway, 'url'> = gateway) {
      const begun = await beginSignIn(at.url);
      const page = await confirmInBrowser(at.url, begun.user_code, sub);
      return { ...begun, page, ...(await askForToken(at.url, pollWith(begun.device_code))) };
    },
    renew: (refresh_token: string, at = gateway) => askForToken(at.url, refreshWith(refresh_token)),
    revoke: (token: string, at = gateway) =>
      fetch(`${at.url}/oauth/revoke`, { method: 'POST', body: new URLSearchParams({ token }) }),
    /** Puts the first configuration in force, after a change. */
    async configure(change: Change = () => {}): Promise<void> {
      first_config ??= await readFile(gateway.config_file, 'utf8');
      const config = JSON.parse(first_config);
      change(config);
      await writeFile(gateway.config_file, JSON.stringify(config));
      await gateway.reload();
      assert.ok(!gateway.logs.at(-1)?.includes('the reload failed'), gateway.logs.at(-2));
    },
  };
}
