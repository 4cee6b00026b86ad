import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { test } from 'node:test';
import { defineStage, type StageDefinition } from '../../../engine/api.ts';
import { type CheckOptions, runCheck } from '../../../engine/edge/cli/check.ts';
import type { LiveCheck } from '../../../engine/edge/doctor/host/live/probe.ts';
import { stages as shipped } from '../../../stages/index.ts';
import { createProject, GATEWAY, pipelineYaml } from '../../load/support/project.ts';
import { collectingContext } from '../support.ts';

type Given = Partial<CheckOptions> & {
  readonly env?: NodeJS.ProcessEnv;
  readonly stages?: readonly StageDefinition[];
  readonly found?: LiveCheck[];
};

async function check(paths: readonly string[], { env, stages = shipped, found, ...options }: Given = {}) {
  const { context, data, info } = collectingContext();
  const given = { ...context, env: env ?? { UPSTREAM_KEY: 'set' }, stages: async () => stages };
  const ask = async () => found ?? [];
  const exit_code = await runCheck(given, { paths, format: 'text', live: found !== undefined, ...options }, ask);
  return { exit_code, data: data(), info: info() };
}

const checkText = (text: string, given?: Given) =>
  check([createProject({ 'gateway.yaml': text }).path('gateway.yaml')], given);

test('a configuration without mistakes is ok, and the check lists its scope; explanations are optional', async () => {
  const { exit_code, data, info } = await checkText(GATEWAY);
  assert.deepEqual({ exit_code, data }, { exit_code: 0, data: '' });
  assert.match(info, /^ok: [1-9]\d* pipelines, 1 model, 1 upstream\n$/);
  const { info: more } = await checkText(GATEWAY, { verbose: true });
  assert.match(more, /^spend limits: none, so spending is unbounded\nmemory for bodies: /);
  assert.ok(more.endsWith(`\n\n${info}`), more);
});

test('the verdict is the last line, whatever the findings', async () => {
  const { path } = createProject({
    'gateway.yaml': GATEWAY,
    'broken.yaml': GATEWAY.replace('listen', 'lissten'),
    'without-models.yaml': GATEWAY.replace(/^models:\n(?: .*\n)+/m, ''),
  });
  const there: LiveCheck = { name: 'database', ok: true, what: 'answers', duration_ms: 1 };
  const away: LiveCheck = { name: 'upstream main', ok: false, what: 'refused', help: 'start it', duration_ms: 1 };
  const cases: readonly [string, Given, number, RegExp][] = [
    ['gateway.yaml', {}, 0, /^ok: \d+ pipelines, 1 model, 1 upstream$/],
    ['gateway.yaml', { found: [there] }, 0, /^ok: .*; live: 1 of 1 services are ok$/],
    ['gateway.yaml', { found: [there, away] }, 1, /^failed: .*; live: 1 of 2 services are ok$/],
    ['gateway.yaml', { env: {} }, 0, /^ok: .*; 1 warning$/],
    ['gateway.yaml', { env: {}, denyWarnings: true }, 1, /^failed: .*; 1 warning$/],
    ['without-models.yaml', {}, 0, /^ok: \d+ pipelines, models by the lists of upstreams, 1 upstream$/],
    ['broken.yaml', {}, 1, /^1 error; see appscli explain C3001$/],
    ['broken.yaml', { found: [there] }, 1, /^1 error; live: skipped because of errors; see appscli explain C3001$/],
  ];
  for (const [file, options, expected, verdict] of cases) {
    for (const verbose of [false, true]) {
      const { exit_code, info } = await check([], { config: path(file), verbose, ...options });
      for (const line of info.split('\n')) assert.ok(line.length <= 80, line);
      const last = info
        .trimEnd()
        .split(/\n(?! )/)
        .at(-1)!;
      assert.match(last.replace(/\n +/g, ' '), verdict);
      assert.equal(exit_code, expected, last);
    }
  }
});

test('a stage that cannot be created is a finding at its entry, unless it needs a secret that is unknown here', async () => {
  const odd = (create: string) => `import { defineStage } from 'appscli';
const options = { type: 'object', additionalProperties: false, properties: {} };
export default defineStage({ name: 'odd', version: 1, summary: 'Odd.', options, examples: [], create: ${create} });
`;
  for (const [create, problem] of [
    ["() => { throw new Error('no disk'); }", 'no disk'],
    ['() => undefined', 'its `create` returns no hooks'],
    ["(_, { secret }) => { throw new Error(secret('KEY')); }", undefined],
    ['() => ({ finish() {} })', undefined],
  ] as const) {
    const { path } = createProject({
      'gateway.yaml': `${GATEWAY}pipelines: own\nstages: [odd.mjs]\n`,
      'own/mine.yaml': pipelineYaml('  - stage: odd\n  - stage: respond'),
      'odd.mjs': odd(create),
    });
    const { exit_code, data } = await check([path('gateway.yaml')], { format: 'json' });
    const { diagnostics } = JSON.parse(data) as { diagnostics: { code: string; line: number; message: string }[] };
    assert.deepEqual(
      [exit_code, diagnostics.map(({ code, line, message }) => [code, line, message])],
      problem === undefined ? [0, []] : [1, [['C4002', 6, `the stage "odd" cannot be created: ${problem}`]]],
    );
  }
});

const TEST_FILE = `pipeline: messages
cases:
  - name: is served
    request: { json: { model: coder-1, max_tokens: 10, messages: [] } }
    expect: { status: 200, runs: [forward] }
`;

test('the tests beside gateway.yaml and its pipelines are checked with it', async () => {
  const files = {
    'gateway.yaml': `${GATEWAY}pipelines: pipelines\n`,
    'gateway.test.yaml': TEST_FILE,
    'pipelines/messages.test.yaml': TEST_FILE,
    // Of another configuration, or of none.
    'elsewhere/messages.test.yaml': 'cases: 5\n',
    'staging.test.yaml': 'cases: 5\n',
  };
  const sound = createProject(files);
  const config = sound.path('gateway.yaml');
  for (const { exit_code, data, info } of [await check([config]), await check([], { config })]) {
    assert.deepEqual([exit_code, data], [0, '']);
    assert.match(info, /^ok: .*, 2 test files\n/);
  }
  const wrong = createProject({
    ...files,
    'gateway.test.yaml': TEST_FILE.replace('expect', 'expct'),
    'pipelines/messages.test.yaml': TEST_FILE.replace('[forward]', '[forwrd]'),
  });
  const { exit_code, data } = await check([], { config: wrong.path('gateway.yaml') });
  assert.equal(exit_code, 1);
  assert.match(data, /error\[C3001\]: unknown key `expct`\n +--> .*gateway\.test\.yaml:5/);
  const other = createProject({ ...files, 'gateway.test.yaml': TEST_FILE.replace('[forward]', '[forwrd]') });
  assert.match(
    (await check([], { config: other.path('gateway.yaml') })).data,
    /^error\[C8003\]: the pipeline "messages" has no stage "forwrd"\n +--> .*gateway\.test\.yaml:5[\s\S]+did you mean `forward`\?/,
  );
});

test('a test file alone is checked with the gateway.yaml that it would run with', async () => {
  const wrong = TEST_FILE.replace('    request:', '    caller: { group: al }\n    request:').replace(
    '[forward]',
    '[forwrad]',
  );
  const { path } = createProject({
    'gateway.yaml': GATEWAY,
    'gateway.test.yaml': wrong,
    'pipelines/messages.test.yaml': wrong,
    'broken/gateway.yaml': 'server: 1\n',
    'broken/gateway.test.yaml': wrong,
  });
  for (const file of ['gateway.test.yaml', 'pipelines/messages.test.yaml']) {
    const { exit_code, data, info } = await check([path(file)]);
    assert.equal(exit_code, 1);
    assert.match(data, /the pipeline "messages" has no stage "forwrad"/);
    assert.match(info, /^\n[12] errors?; /);
  }
  assert.equal((await check([path('broken/gateway.test.yaml')])).data, '');
});

test('json is one document on standard output and nothing else', async () => {
  const { data, info } = await checkText(GATEWAY, { format: 'json' });
  assert.deepEqual(JSON.parse(data), {
    errors: 0,
    warnings: 0,
    diagnostics: [],
    spend_limits: [
      { passed_by_at_most_usd: null, limits: [], most_expensive_request_usd: null, not_bounded: ['all spending'] },
    ],
    memory: [{ bodies_at_most_bytes: 704 * 1024 * 1024, connections_at_most_bytes: 10_000 * 40 * 1024 }],
  });
  assert.equal(info, '');
});

test('a directory is searched for configuration; other YAML files are passed over', async () => {
  const { directory } = createProject({
    'gateway.yaml': `${GATEWAY}pipelines: own\n`,
    'own/mine.yaml': pipelineYaml('  - stage: list-modles'),
    'unused/other.yaml': pipelineYaml('  - stage: list-models', 'Other Name'),
    'unused/fragments/stop.yaml': 'fragment: stop\nversion: 0\nsummary: S.\nstages: [{ stage: reject }]\n',
    'compose.yaml': 'services: {}\n',
    'broken-notes.yaml': 'a: [1\n',
    'unused/tabs.yaml': 'pipeline: tabs\n\tversion: 1\n',
    'node_modules/x/gateway.yaml': 'nonsense: true\n',
  });
  const { data, exit_code } = await check([directory]);
  assert.equal(exit_code, 1);
  assert.deepEqual(
    [...data.matchAll(/^error\[(\w+)\].*\n.* ([\w./-]+):\d+:\d+$/gm)].map(([, code, file]) => [
      code,
      file?.slice(directory.length + 1),
    ]),
    [
      ['C4001', 'own/mine.yaml'],
      ['C3005', 'unused/fragments/stop.yaml'],
      ['C3006', 'unused/other.yaml'],
      ['C1008', 'unused/tabs.yaml'],
    ],
  );
});

test('a pipeline can be checked by itself, and a missing file given by name is a finding', async () => {
  const { path } = createProject({ 'mine.yaml': pipelineYaml('  - stage: report-health') });
  const { exit_code, info } = await check([path('mine.yaml')]);
  assert.deepEqual([exit_code, info], [0, 'ok: 1 pipeline\n']);
  const missing = await check([path('missing.yaml')]);
  assert.equal(missing.exit_code, 1);
  assert.match(missing.data, /error\[C1001\]/);
});

test('a pipeline by itself is checked with the gateway.yaml above it, not with another one', async () => {
  const { path } = createProject({
    'a/gateway.yaml': GATEWAY.replaceAll('main', 'alpha'),
    'b/gateway.yaml': GATEWAY.replaceAll('main', 'beta'),
    'a/more/mine.yaml': pipelineYaml(
      '  - { stage: check-region, options: { upstream: alpha } }\n  - stage: report-health',
    ),
  });
  const regions = defineStage({
    name: 'check-region',
    version: 1,
    summary: 'Names an upstream.',
    options: {
      type: 'object',
      additionalProperties: false,
      properties: { upstream: { type: 'string', description: 'An upstream.', 'x-ref': 'upstream' } },
    },
    examples: [],
    create: () => ({}),
  });
  const { exit_code, data } = await check([path('b'), path('a')], { stages: [...shipped, regions] });
  assert.deepEqual({ exit_code, data }, { exit_code: 0, data: '' });
});

test('links are followed, also in circles, and one that leads nowhere is a finding', async () => {
  const { directory, path } = createProject({ 'real/gateway.yaml': GATEWAY, '..data/gateway.yaml': GATEWAY });
  symlinkSync(path('..data/gateway.yaml'), path('gateway.yaml'));
  symlinkSync(directory, path('real/up'));
  assert.equal((await check([directory])).exit_code, 0);
  symlinkSync(path('gone.yaml'), path('gateway.yml'));
  const { exit_code, data } = await check([directory]);
  assert.equal(exit_code, 1);
  assert.match(data, /^error\[C1001\]: the file does not exist\n {2}--> \S+gateway\.yml\n$/);
});

test('a pipe is not read, as that might never end', async () => {
  const { path } = createProject({});
  execFileSync('mkfifo', [path('gateway.yaml')]);
  const { data } = await check([path('gateway.yaml')]);
  assert.match(data, /error\[C1002\]: the file cannot be read: it is a pipe, a socket or a device/);
});

async function moneyOf(spend_limits: string, gateway = GATEWAY): Promise<string> {
  const { info, data } = await checkText(`${gateway}spend_limits: ${spend_limits}\n`, { verbose: true });
  assert.equal(data, '');
  return info.slice(0, info.indexOf('memory for bodies'));
}

test('limits are never exceeded where the worst case is reserved, with what no limit bounds and upstreams that have no bound', async () => {
  assert.match(
    await moneyOf('{ defaults: { user_daily_usd: 5 }, reserve: worst_case }'),
    /^spend limits: exceeded by at most 0 USD\n {2}not bounded: tools .*, where a request does not bound\n {4}their uses or they have no price, fees that do not depend on use\n$/,
  );
  const compat = (name: string, more = '') =>
    `  - { name: ${name}, type: compat, base_url: "https://${name}.example.com/v1", api_key_env: UPSTREAM_KEY${more} }\n`;
  const knows = ', enforces: [max_tokens, max_completion_tokens, max_output_tokens]';
  const gateway = GATEWAY.replace(/(?<=^upstreams:\n)/m, compat('plain') + compat('newer', knows));
  assert.match(
    await moneyOf('{ defaults: { user_daily_usd: 5 }, reserve: worst_case }', gateway),
    /\n {2}treated as unbounded: requests with only max_completion_tokens, at plain\s+\(`enforces`\)\n$/,
  );
  assert.doesNotMatch(await moneyOf('{ defaults: { user_daily_usd: 5 } }', gateway), /unbounded:/);
});

test('limits are exceeded by their share or by one request where the typical cost is reserved', async () => {
  // 200,000 tokens of output at 15 USD per million, and as many written to the cache for an hour at 6.
  const most_expensive = 4.2;
  const limits = '{ reserve: typical, defaults: { user_daily_usd: 5, team_monthly_usd: 2000.5 } }';
  assert.equal(
    await moneyOf(limits),
    `spend limits: exceeded by at most 200.05 USD
  each at most: defaults.team_monthly_usd by 200.05, defaults.user_daily_usd by
    ${most_expensive}
  each by overshoot_percent, or by the most that one request can cost (${most_expensive} USD:
    coder-1 at main) if that is more; the same applies to limits that are set at
    run time; reserve: worst_case makes it 0
  not bounded: tools that the upstream runs, models that a request names beside
    its own, summaries of conversations, fees that do not depend on use
`,
  );
  const { data } = await checkText(`${GATEWAY}spend_limits: ${limits}\n`, { format: 'json' });
  const [{ passed_by_at_most_usd, most_expensive_request_usd, limits: each }] = JSON.parse(data).spend_limits;
  assert.deepEqual([passed_by_at_most_usd, most_expensive_request_usd], [200.05, most_expensive]);
  assert.deepEqual(each, [
    { name: 'defaults.user_daily_usd', passed_by_at_most_usd: most_expensive },
    { name: 'defaults.team_monthly_usd', passed_by_at_most_usd: 200.05 },
  ]);
});

test('limits in shadow mode, on requests or tokens, and during an outage of the database bound no spending', async () => {
  const by_group = '{ name: by-group, scope: user, window: day, limit_usd_by_group: { staff: 90, guests: 1 } }';
  const shadow = '{ name: shadow, scope: team, window: month, limit_usd: 9000, mode: shadow }';
  const groups = "token_groups: [{ name: staff, models: ['*'] }, { name: guests, models: ['*'] }]\n";
  const text = await moneyOf(`{ reserve: typical, rules: [${by_group}, ${shadow}] }`, GATEWAY + groups);
  assert.match(text, /^spend limits: exceeded by at most 9 USD\n {2}each at most: by-group by 9\n/);
  assert.equal(
    await moneyOf('{ rules: [{ name: parallel, scope: user, concurrency: 8, tokens_per_minute: 9 }] }'),
    'spend limits: none in USD, so spending is unbounded\n',
  );
  const limits = (more: string) => `{ reserve: worst_case, defaults: { user_daily_usd: 5 }, ${more} }`;
  assert.match(await moneyOf(limits('on_store_error: allow')), /not bounded: requests during a database outage/);
  assert.doesNotMatch(await moneyOf(limits('on_store_error: deny')), /database/);
});
