import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { before, describe, test } from 'node:test';
import { bootGateway, gatewayConfig, type TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn, signIn } from '../../support/identity/sign-in.ts';
import { type ModelProvider, startModelProvider } from '../../support/model-provider/model-provider.ts';
import { answerJson, type Script } from '../../support/model-provider/scripted-upstream.ts';
import { startCollector } from '../../support/telemetry/collector.ts';
import { until } from '../../support/until.ts';
import { closing, use } from '../../support/use.ts';
import { bearer, messagesBody, send } from '../support/client.ts';

/** A provider of models, and its descriptions of them. */
interface Provider extends ModelProvider {
  list: Script;
  /** How often its list was requested. */
  asked_for_list: number;
}

const LISTED = 'claude-sonnet-4-5-20250929';
const listOf = (...ids: readonly string[]) =>
  answerJson({ data: ids.map((id) => ({ type: 'model', id })), has_more: false });

async function startProvider(): Promise<Provider> {
  const model_provider = await startModelProvider();
  const { upstream } = model_provider;
  const response = upstream.script;
  const provider: Provider = Object.assign(model_provider, {
    list: listOf(LISTED, 'claude-haiku-4-5'),
    asked_for_list: 0,
  });
  upstream.script = (exchange) => {
    if (!exchange.received.url.startsWith('/v1/models')) return response(exchange);
    provider.asked_for_list += 1;
    return provider.list(exchange);
  };
  return provider;
}

const VERSION = ['anthropic-version', '2023-06-01'];

const ASKED = {
  messages: (model: string) => ['/v1/messages', messagesBody({ model })],
  chat: (model: string) => [
    '/v1/chat/completions',
    JSON.stringify({ model, max_tokens: 64, messages: [{ role: 'user', content: 'Say hello.' }] }),
  ],
  responses: (model: string) => ['/v1/responses', JSON.stringify({ model, input: 'Say hello.' })],
} as const;

type Api = keyof typeof ASKED;

function ask({ url }: TestGateway, token: string, api: Api, model: string) {
  const [path, body] = ASKED[api](model) as [string, string];
  return send(url, { path, body, headers: bearer(token, VERSION) });
}

async function idsOf({ url }: TestGateway, token: string): Promise<string[]> {
  const response = await send(url, { method: 'GET', path: '/v1/models?limit=1000', headers: bearer(token) });
  return response.json().data.map(({ id }: { id: string }) => id);
}

/** Sections that the configuration of the specification does not have. */
const ABSENT = { models: undefined, token_groups: undefined };

describe("the specification's configuration, with addresses and variables filled in", () => {
  const provider = use(startProvider);
  const spare = use(startProvider);
  const identity = use(startIdentityProvider);
  const collector = use(startCollector);

  before(() => {
    spare.list = listOf('claude-opus-4-5');
  });
  const gateway = use(() =>
    bootSignIn({
      provider: identity,
      oidc: { allowed_groups: ['engineering'] },
      auth: { session: undefined },
      env: { SPARE_TOKEN: 'spare-token-81c2', OTLP_HEADERS: 'x-collector=7f' },
      config: {
        ...ABSENT,
        policies: { managed: { enabled: true, default_policy: 'default' } },
        telemetry: { otlp: { endpoint: collector.url, headers_env: 'OTLP_HEADERS' } },
        upstreams: [
          { name: 'main', type: 'vendor', base_url: provider.url, api_key_env: 'TEST_UPSTREAM_KEY' },
          { name: 'spare', type: 'vendor', base_url: spare.url, auth_token_env: 'SPARE_TOKEN' },
        ],
        routing: {
          default_upstream: 'main',
          rules: [{ group: 'engineering', upstream: 'spare', models: ['claude-opus-*'] }],
        },
        spend_limits: { defaults: { user_daily_usd: 50, team_monthly_usd: 2000 }, on_exceeded: 'deny' },
      },
    }),
  );

  const ledger = async () => {
    const rows = await gateway.database.query<{ model: string; upstream: string; cost: string }>(
      'read',
      "select model, upstream, cost_nano_usd::text as cost from ledger where kind = 'request' and upstream = 'main' order by model desc",
      [],
    );
    return rows.map(({ model, upstream, cost }) => [model, upstream, Number(cost) > 0]);
  };

  test('serves every signed-in user through all three APIs, each request with its price', async () => {
    const { access_token } = await signIn(gateway.url, 'anna');
    for (const api of ['messages', 'chat', 'responses'] as const) {
      for (const model of [LISTED, 'claude-sonnet-4-5']) {
        const response = await ask(gateway, access_token, api, model);
        assert.equal(response.status, 200, `${api} ${model}: ${response.text}`);
        assert.match(response.text, /Hello there, world\./);
        assert.equal(provider.asked.at(-1)?.body.model, model, "it gets the client's name of the model");
      }
    }
    const rows = await until('six requests are settled', async () => {
      const found = await ledger();
      return found.length === 6 && found.every(([, , is_priced]) => is_priced) ? found : undefined;
    });
    const thrice = (model: string) => Array.from({ length: 3 }, () => [model, 'main', true]);
    assert.deepEqual(rows, [...thrice(LISTED), ...thrice('claude-sonnet-4-5')]);
  });

  test("follows its routing rules, and lists the upstreams' models", async () => {
    const { access_token } = await signIn(gateway.url, 'anna');
    assert.equal((await ask(gateway, access_token, 'chat', 'claude-opus-4-5')).status, 200);
    assert.equal(spare.asked.at(-1)?.body.model, 'claude-opus-4-5');
    assert.deepEqual((await idsOf(gateway, access_token)).toSorted(), ['claude-haiku-4-5', 'claude-opus-4-5', LISTED]);
    // In the token group `all`, but not in the group of the rule.
    assert.deepEqual((await idsOf(gateway, gateway.token)).toSorted(), ['claude-haiku-4-5', LISTED]);
    const other = await ask(gateway, gateway.token, 'messages', 'claude-opus-4-5');
    assert.equal(other.status, 404);
    assert.match(other.json().error.message, /the upstream "main" of this request does not serve it/);
  });

  test('rejects everything else with the line to write', async () => {
    const { access_token } = await signIn(gateway.url, 'anna');
    for (const api of ['messages', 'chat', 'responses'] as const) {
      const response = await ask(gateway, access_token, api, 'coder-1');
      assert.equal(response.status, 404, response.text);
      const { error } = response.json();
      assert.match(
        error.message,
        /^Model not found: "coder-1"; the price catalogue \(\d{4}-\d\d-\d\d\) has no price for it\./,
      );
      assert.match(error.message, /list it in gateway\.yaml under `models`, with its price, together with/);
    }
    const unlisted = await ask(gateway, access_token, 'messages', 'claude-sonnet-4-6');
    assert.equal(unlisted.status, 404);
    assert.match(unlisted.json().error.message, /no upstream available to you lists it/);
    const reported = [
      ...new Set(gateway.logs.filter((line) => line.includes('a request for an unknown model was rejected'))),
    ];
    assert.equal(reported.length, 2);
    assert.match(reported[0]!, /\{ id: coder-1, pricing: \{ input: \.\.\., output: \.\.\. \} \}/);
    assert.match(reported[1]!, /\{ id: claude-sonnet-4-6 \}/);
  });

  test('shows no credential anywhere', () => {
    const said = gateway.logs.join('\n');
    for (const secret of ['spare-token-81c2', gateway.env.TEST_UPSTREAM_KEY!]) assert.ok(!said.includes(secret));
    assert.equal(spare.upstream.lists[0]?.headers.authorization, 'Bearer spare-token-81c2');
  });
});

describe('a gateway without a section `models`', () => {
  const provider = use(startProvider);
  const gateway = use(() => bootGateway({ upstream_url: provider.url, config: ABSENT }));

  const status = async (model: string) => (await ask(gateway, gateway.token, 'messages', model)).status;
  const rewrite = async (sections: object) => {
    await writeFile(gateway.config_file, JSON.stringify(gatewayConfig(provider.url, { ...ABSENT, ...sections })));
    await gateway.reload();
  };
  const askedAgain = async (script: Script) => {
    const before_this = provider.asked_for_list;
    provider.list = script;
    await gateway.reload();
    await until('it gets a request for the list', () => provider.asked_for_list > before_this);
  };

  test('follows the list when it changes', async () => {
    await rewrite({});
    await askedAgain(listOf(LISTED, 'claude-haiku-4-5'));
    await until('the list is in force', async () => (await status(LISTED)) === 200);
    assert.equal(await status('claude-opus-4-5'), 404);
    await askedAgain(listOf('claude-opus-4-5', 'coder-1'));
    await until('the new list is in force', async () => (await status('claude-opus-4-5')) === 200);
    assert.equal(await status(LISTED), 404);
    assert.deepEqual(await idsOf(gateway, gateway.token), ['claude-opus-4-5']);
    const line = gateway.logs.findLast((line) => line.includes('the listed models of an upstream have changed'));
    const { models, added, removed, not_served } = JSON.parse(line!);
    assert.deepEqual([models, added, not_served], [1, ['claude-opus-4-5'], ['coder-1']]);
    assert.deepEqual(removed, [LISTED, 'claude-haiku-4-5']);
  });

  test('checks models that a request names beside its own', async () => {
    provider.list = listOf(LISTED);
    await rewrite({});
    const is_in_force = async () => (await status(LISTED)) === 200 && (await status('claude-opus-4-6')) === 404;
    await until('the list is in force', is_in_force);
    const named = async (model: string) => {
      const body = messagesBody({ model: LISTED, tools: [{ type: 'advisor_20260301', name: 'advisor', model }] });
      return send(gateway.url, { path: '/v1/messages', body, headers: bearer(gateway.token, VERSION) });
    };
    for (const model of ['claude-opus-4-6', 'coder-1'])
      assert.match((await named(model)).text, new RegExp(`tools\\[0\\]\\.model: Model not found: .*${model}`));
    assert.doesNotMatch((await named(LISTED)).text, /Model not found/);
  });

  test('means a model by each of its names, dated or not, and nothing that only begins like it', async () => {
    const opus = 'claude-opus-4-1-20250805';
    const first = 'claude-sonnet-4-20250514';
    provider.list = listOf(LISTED, opus, first, 'claude-opus-4-6', 'claude-haiku-4-5-20251001');
    const config = {
      models: undefined,
      token_groups: [{ name: 'all', models: ['claude-sonnet-4-5', opus, 'claude-sonnet-4-0', 'claude-opus-4-6*'] }],
      access: { rules: [{ name: 'no-opus', models: ['claude-opus-4-1', first], message: 'Ask for it first.' }] },
    };
    await using gateway = closing(await bootGateway({ upstream_url: provider.url, config }));
    const statusOf = async (model: string) => (await ask(gateway, gateway.token, 'messages', model)).status;
    for (const model of [LISTED, 'claude-sonnet-4-5', 'claude-opus-4-6'])
      assert.equal(await statusOf(model), 200, model);
    for (const model of [opus, 'claude-opus-4-1', first, 'claude-sonnet-4-0'])
      assert.equal(await statusOf(model), 403, model);
    for (const model of ['claude-haiku-4-5', 'claude-opus-4-6-fast', 'claude-sonnet-4-5-x'])
      assert.equal(await statusOf(model), 404, model);
    assert.deepEqual(await idsOf(gateway, gateway.token), [LISTED, 'claude-opus-4-6']);
  });
});
