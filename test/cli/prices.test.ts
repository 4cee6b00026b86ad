import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { ask } from '../e2e/support/client.ts';
import { ledgerRow } from '../e2e/support/state.ts';
import { useGateway } from '../e2e/support/use-gateway.ts';
import { createProject } from '../load/support/project.ts';
import { type ConfigSections, gatewayConfig } from '../support/gateway.ts';
import { answerJson, message } from '../support/model-provider/scripted-upstream.ts';
import { assertNarrow, assertRefused } from './at-gateway.ts';
import { cli } from './support.ts';

const SIZES = { context_window: 200_000, max_output_tokens: 64_000 };
const PRICED = { ...SIZES, id: 'coder-1', pricing: { input: 3, output: 15, server_tools: { web_search: 10 } } };
const UNPRICED = { ...SIZES, id: 'unpriced-1' };
const UNKNOWN = { input: 10, output: 50 };

const { upstream, gateway } = useGateway({
  models: [PRICED, UNPRICED, { ...PRICED, id: 'old-1' }],
  token_groups: [{ name: 'all', models: ['*'] }],
  prices: { unknown_model: UNKNOWN },
});
before(async () => {
  const used = {
    input_tokens: 1000,
    output_tokens: 10,
    server_tool_use: { web_search_requests: 3, web_fetch_requests: 2 },
  };
  upstream.script = answerJson(message(used));
  for (const model of ['coder-1', 'coder-1', 'unpriced-1', 'old-1']) {
    const { headers } = await ask(gateway.url, gateway.token, { model });
    await ledgerRow(gateway.database, String(headers['x-gateway-request-id']));
  }
});

async function prices(sections: ConfigSections, ...arguments_: readonly string[]) {
  const project = createProject({ 'gateway.yaml': JSON.stringify(gatewayConfig(upstream.url, sections), null, 2) });
  return cli(['prices', ...arguments_, '--config', project.path('gateway.yaml')], { env: gateway.env });
}

const ALL_PRICED: ConfigSections = {
  models: [{ ...PRICED, pricing: { ...PRICED.pricing, server_tools: { web_search: 10, web_fetch: 0 } } }, UNPRICED],
  token_groups: [{ name: 'all', models: ['*'] }],
  prices: {
    unknown_model: UNKNOWN,
    rows: [
      { models: ['unpriced-1', 'old-1'], pricing: { ...UNKNOWN, server_tools: { web_search: 10, web_fetch: 1 } } },
    ],
  },
};

const WANTING: ConfigSections = {
  models: [PRICED, UNPRICED],
  token_groups: [{ name: 'all', models: ['*'] }],
  prices: { unknown_model: UNKNOWN },
};

test('prices check finds nothing where everything that was used has a price', async () => {
  const { exit_code, stdout, stderr } = await prices(ALL_PRICED, 'check');
  assert.equal(exit_code, 0, stdout + stderr);
  assert.match(stdout, /^All usage has a price: checked 4 requests to 3 models since \d{4}-\d\d-\d\d\./);
  assertNarrow(stdout);
});

test('prices check names models and tools without a price, and exits 1', async () => {
  const { exit_code, stdout, stderr } = await prices(WANTING, 'check');
  assert.equal(exit_code, 1, stderr);
  assertNarrow(stdout);
  const words = stdout.replace(/\s+/g, ' ');
  for (const expected of [
    'Models without their own price, charged at prices.unknown_model: unpriced-1 at main: 1 request of 0.0105 USD, the last on ',
    'Models that gateway.yaml no longer has: old-1 at main: 1 request of 0.03315 USD, the last on ',
    'Used tools without a price, charged nothing: ',
    'web_fetch of coder-1 at main: 4 uses in 2 requests, the last on ',
    'web_search of unpriced-1 at main: 3 uses in 1 request',
    'Some prices are missing: checked 4 requests to 3 models',
  ]) {
    assert.ok(words.includes(expected), `${expected}\n${stdout}`);
  }
});

test('prices check reports the same as JSON, and only since --since', async () => {
  const { exit_code, stdout } = await prices(WANTING, 'check', '--json');
  assert.equal(exit_code, 1);
  const { ok, requests, models, used } = JSON.parse(stdout);
  assert.deepEqual([ok, requests, models], [false, 4, 3]);
  const { last_at, ...unpriced } = used.find((each: { problem: string }) => each.problem === 'unknown_model');
  assert.ok(Date.parse(last_at) > 0);
  assert.deepEqual(unpriced, {
    model: 'unpriced-1',
    upstream: 'main',
    tool: null,
    requests: 1,
    uses: 0,
    cost_usd: '0.0105',
    problem: 'unknown_model',
  });
  const later = JSON.parse((await prices(WANTING, 'check', '--since', '2100-01-01', '--json')).stdout);
  assert.deepEqual([later.ok, later.used, later.requests], [true, [], 0]);
});

const SHOWN: ConfigSections = {
  ...WANTING,
  upstreams: [
    { name: 'main', base_url: 'https://a.example.com', api_key_env: 'TEST_UPSTREAM_KEY' },
    { name: 'contract', base_url: 'https://b.example.com', api_key_env: 'TEST_UPSTREAM_KEY', price_multiplier: 0.85 },
  ],
  prices: {
    unknown_model: UNKNOWN,
    rows: [
      {
        models: ['coder-*'],
        upstream: 'contract',
        from: '2026-01-01',
        until: '2027-01-01',
        pricing: { input: 2, output: 9, long_context: { above_input_tokens: 200_000, input: 4, output: 18 } },
      },
    ],
  },
};

test('prices show prints the price of each model at each upstream, and its origin', async () => {
  const { exit_code, stdout, stderr } = await prices(SHOWN, 'show', '--at', '2026-06-01');
  assert.equal(exit_code, 0, stderr);
  assertNarrow(stdout);
  assert.deepEqual(stdout.trimEnd().split('\n'), [
    'MODEL, UPSTREAM  INPUT  OUTPUT  CACHE R    W 5M  W 1H  UNTIL       SOURCE',
    'coder-1',
    '  main               3      15      0.3    3.75     6              models',
    '  contract         1.7    7.65     0.17   2.125   3.4  2027-01-01  rows[0]',
    '    > 200000       3.4    15.3     0.34    4.25   6.8',
    'unpriced-1',
    '  main              10      50        1    12.5    20              unknown_model',
    '  contract         8.5    42.5     0.85  10.625    17              unknown_model',
    '',
    'TOOL        MODEL    UPSTREAM  USD PER 1,000 USES',
    'web_search  coder-1  main                      10',
  ]);
});

test('prices show prints the price of service tiers, speeds and regions, alone and together', async () => {
  const pricing = {
    input: 5,
    output: 25,
    service_tiers: { flex: { input: 1, output: 5 } },
    speeds: { fast: { multiplier: 2 } },
  };
  const sections = { models: [{ ...PRICED, pricing }], token_groups: [{ name: 'all', models: ['*'] }] };
  const { exit_code, stdout, stderr } = await prices(sections, 'show');
  assert.equal(exit_code, 0, stderr);
  assert.deepEqual(stdout.trimEnd().split('\n'), [
    'MODEL, UPSTREAM  INPUT  OUTPUT  CACHE R  W 5M  W 1H  SOURCE',
    'coder-1',
    '  main               5      25      0.5  6.25    10  models',
    '    fast            10      50        1  12.5    20',
    '    flex             1       5      0.1  1.25     2',
    '    flex, fast       2      10      0.2   2.5     4',
  ]);
  const [{ served }] = JSON.parse((await prices(sections, 'show', '--json')).stdout);
  assert.deepEqual(
    served.map(({ service_tier, speed, output_usd }: Record<string, string>) => [service_tier, speed, output_usd]),
    [
      [undefined, 'fast', '50'],
      ['flex', undefined, '5'],
      ['flex', 'fast', '10'],
    ],
  );
});

test('prices show has the prices of audio where a model has some', async () => {
  const pricing = { input: 3, output: 15, audio_input: 40, audio_output: 80 };
  const sections = { models: [{ ...PRICED, pricing }], token_groups: [{ name: 'all', models: ['*'] }] };
  const { stdout } = await prices(sections, 'show');
  assert.match(stdout, /W 1H {2}AUDIO IN {2}AUDIO OUT {2}SOURCE\n.*\n {2}main .* 40 +80 {2}models/);
  const [shown] = JSON.parse((await prices(sections, 'show', '--json')).stdout);
  assert.deepEqual([shown.audio_input_usd, shown.audio_output_usd], ['40', '80']);
});

test('prices show takes another day, model or upstream, and prints exact decimals as JSON', async () => {
  const one = ['--at', '2027-01-01', '--model', 'coder-1', '--upstream', 'contract'];
  const { stdout } = await prices(SHOWN, 'show', ...one, '--json');
  assert.deepEqual(JSON.parse(stdout), [
    {
      model: 'coder-1',
      upstream: 'contract',
      source: 'models',
      from: '2027-01-01',
      until: null,
      input_usd: '2.55',
      output_usd: '12.75',
      cache_read_usd: '0.255',
      cache_write_5m_usd: '3.1875',
      cache_write_1h_usd: '5.1',
      server_tools_usd: { web_search: '8.5' },
    },
  ]);
  const old = await prices(SHOWN, 'show', '--model', 'old-1');
  assert.match(old.stdout, /^old-1\n {2}main +10 +50 .* unknown_model$/m);
});

test('prices show with an unknown name is one line and exit code 64', async () => {
  await assertRefused(
    (...words) => prices(SHOWN, 'show', ...words),
    [
      ['--upstream mian', /unknown upstream "mian"; there is main, contract/],
      ['--model x --at someday', /Expected a date or time/],
    ],
  );
  const gone = /the model "gone-1" is not in gateway\.yaml; check the id, or add the model/;
  await assertRefused((...words) => prices({}, 'show', ...words), [['--model gone-1', gone]]);
});

test('prices check lists the prices of gateway.yaml that differ from the catalogue, with their lines', async () => {
  const models = [
    { ...SIZES, id: 'claude-sonnet-4-5', pricing: { input: 2.5, output: 15, cache_read: 0.3 } },
    ...(ALL_PRICED.models as object[]),
  ];
  const { exit_code, stdout, stderr } = await prices({ ...ALL_PRICED, models }, 'check');
  assert.equal(exit_code, 0, stdout + stderr);
  assertNarrow(stdout);
  assert.match(stdout, /claude-sonnet-4-5, input \(line \d+\): 2\.5, in the catalogue 3\n/);
  assert.match(stdout, /Price catalogue: 2\d{3}-\d\d-\d\d, \d+ days? old, not in use here\.\n$/);
  const { other_prices, catalogue } = JSON.parse((await prices({ ...ALL_PRICED, models }, 'check', '--json')).stdout);
  const [{ line, ...other }] = other_prices;
  assert.ok(line > 1);
  assert.deepEqual(other, {
    model: 'claude-sonnet-4-5',
    upstream: 'main',
    kind: 'input',
    source: 'models[0].pricing.input',
    written_usd: 2.5,
    catalogue_usd: 3,
  });
  assert.deepEqual([other_prices.length, catalogue.is_used], [1, false]);
});

test('prices show has the catalogue where gateway.yaml names no models', async () => {
  const sections = { models: undefined, token_groups: undefined };
  const one = await prices(sections, 'show', '--model', 'claude-sonnet-4-5');
  assert.match(one.stdout, /main +3 +15 .*catalogue/);
  const none = await prices(sections, 'show');
  assert.notEqual(none.exit_code, 0);
  assert.match(none.stderr, /name a model: --model ID/);
  const upstreams = [
    { name: 'main', type: 'vendor', base_url: 'https://api.anthropic.com', api_key_env: 'TEST_UPSTREAM_KEY' },
  ];
  const all = await prices({ ...sections, upstreams }, 'show', '--json');
  assert.ok(JSON.parse(all.stdout).some(({ model }: { model: string }) => model === 'claude-opus-4-5'));
  const unknown = await prices(sections, 'show', '--model', 'coder-1');
  assert.match(unknown.stderr, /the model "coder-1" has no price; check the id, or set a price/);
});
