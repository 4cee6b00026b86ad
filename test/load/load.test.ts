import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { StageError } from '../../engine/api.ts';
import type { Diagnostic } from '../../engine/base/source/diagnostics/diagnostic.ts';
import { type LoadOptions, load } from '../../engine/pipeline/load/index.ts';
import { GATEWAY, pipelineYaml, projectOfTest, SHIPPED } from './support/project.ts';
import { stages } from './support/stages.ts';

/** What an upstream of type vendor supports by default. */
const SUPPORTS = {
  ...{ prompt_cache_1h: true, count_tokens: true, stream_usage: true, max_tokens_0: false, request_encodings: [] },
  ...{ unproven_reasoning: false, unsigned_reasoning: true },
};

const OPTIONS: LoadOptions = {
  stages,
  env: { UPSTREAM_KEY: 'value-of-the-key' },
  environment: 'required',
  shipped_pipelines: SHIPPED,
};

async function loadProject(files: Readonly<Record<string, string>> = {}, options: Partial<LoadOptions> = {}) {
  const created = projectOfTest({ 'gateway.yaml': GATEWAY, ...files });
  const loaded = await load(created.path('gateway.yaml'), { ...OPTIONS, ...options });
  return { ...loaded, created };
}

const codesOf = (diagnostics: readonly Diagnostic[]) => diagnostics.map(({ code }) => code);

/** The configuration of files that must have no mistakes. */
async function configOf(files: Readonly<Record<string, string>> = {}) {
  const { config, diagnostics, created } = await loadProject(files);
  const errors = diagnostics.filter(({ severity }) => severity === 'error');
  assert.deepEqual(errors, []);
  return { config: config!, created };
}

/** An upstream beside the one of GATEWAY. */
async function upstreamOf(entry: string) {
  const { config } = await configOf({ 'gateway.yaml': GATEWAY.replace('upstreams:\n', `upstreams:\n  - ${entry}\n`) });
  return config.upstreams[0]!;
}

function assertFrozen(value: unknown, path = '$'): void {
  if (typeof value !== 'object' || value === null) return;
  assert.ok(Object.isFrozen(value), `${path} is not frozen`);
  for (const [key, child] of Object.entries(value)) {
    if (key !== 'definition') assertFrozen(child, `${path}.${key}`);
  }
}

describe('gateway.yaml', () => {
  test('has the documented defaults', async () => {
    const { config, created } = await configOf();
    assert.deepEqual(config.database, { embedded: { data_dir: join(created.directory, '.appscli/postgres') } });
    assert.deepEqual(config.server.limits, {
      body_bytes: 33_554_432,
      header_bytes: 262_144,
      buffered_bytes: 536_870_912,
      requests_per_principal: 1024,
      connections: 10_000,
      connections_per_principal: 512,
      json_depth: 128,
      json_values: 500_000,
    });
    assert.deepEqual(config.server.timeouts, {
      commit_seconds: 1,
      connect_seconds: 10,
      first_byte_seconds: 120,
      non_streaming_first_byte_seconds: 600,
      idle_seconds: 300,
      drain_seconds: 25,
      request_head_seconds: 20,
      request_body_seconds: 60,
      request_silence_seconds: 30,
    });
    assert.deepEqual(config.server.profile, { header_prefix: 'vendor' });
    assert.deepEqual(config.token_groups, [{ name: 'all', models: ['*'] }]);
    const [upstream] = config.upstreams;
    assert.deepEqual(upstream?.protocols, ['messages']);
    assert.deepEqual(upstream?.supports, SUPPORTS);
    const [model] = config.models;
    const supports = { tools: true, images: true, thinking: 'adaptive', sampling: true, prompt_cache_1h: true };
    assert.deepEqual([model?.aliases, model?.supports], [[], supports]);
    assert.equal(model?.context_window, 200_000);
    assert.deepEqual([model?.max_output_tokens, model?.default_output_tokens], [64_000, 64_000]);
    assert.deepEqual(model?.assumed, ['context_window', ...Object.keys(supports).map((key) => `supports.${key}`)]);
    assert.deepEqual(config.routing.rules, []);
    assert.equal(config.spend_limits, undefined);
  });

  test('assumes the window as the output limit of a model without one, and requests 8192 tokens or a quarter', async () => {
    for (const [context_window, most, unasked] of [
      [undefined, 200_000, 8192],
      [1_000_000, 1_000_000, 8192],
      [16_000, 16_000, 4000],
      [2, 2, 1],
    ]) {
      const window = context_window === undefined ? '' : `context_window: ${context_window}`;
      const { config } = await configOf({ 'gateway.yaml': GATEWAY.replace('max_output_tokens: 64000', window) });
      const [model] = config.models;
      assert.deepEqual([model?.max_output_tokens, model?.default_output_tokens], [most, unasked]);
      assert.ok(model?.assumed.includes('max_output_tokens'));
    }
  });

  test('assumes that a compat upstream speaks both protocols and counts no tokens, by default', async () => {
    const compat = 'name: compat, type: compat, base_url: "https://other.example.com/v1"';
    const both = await upstreamOf(`{ ${compat} }`);
    assert.deepEqual(both.protocols, ['chat', 'responses']);
    assert.equal(both.supports.count_tokens, false);
    const one = await upstreamOf(`{ ${compat}, protocols: [responses], supports: { stream_usage: false } }`);
    assert.deepEqual(one.protocols, ['responses']);
    assert.deepEqual(one.supports, { ...SUPPORTS, count_tokens: false, stream_usage: false });
  });

  test('infers from the address whether an upstream rejects unsigned thinking blocks, by default', async () => {
    const takesUnsigned = async (base_url: string, supports = '{}') => {
      const entry = `{ name: other, type: vendor, base_url: "${base_url}", supports: ${supports} }`;
      return (await upstreamOf(entry)).supports.unsigned_reasoning;
    };
    for (const url of ['https://api.anthropic.com', 'https://eu.services.ai.azure.com/anthropic'])
      assert.equal(await takesUnsigned(url), false, url);
    for (const url of ['http://gpu:8080', 'https://compatible.example/anthropic', 'https://anthropic.com.example'])
      assert.equal(await takesUnsigned(url), true, url);
    assert.equal(await takesUnsigned('https://api.anthropic.com', '{ unproven_reasoning: true }'), true);
    assert.equal(await takesUnsigned('http://relay:8080', '{ unproven_reasoning: false }'), false);
  });

  test('has defaults for spend limits only if the section exists', async () => {
    const { config, created } = await configOf({
      'gateway.yaml': `${GATEWAY}spend_limits: { defaults: { user_daily_usd: 50 } }\n`,
    });
    assert.deepEqual(config.spend_limits, {
      defaults: { user_daily_usd: 50 },
      lease: 'on',
      on_exceeded: 'deny',
      on_store_error: 'deny',
      store_timeout_seconds: 2,
      spool_dir: join(created.directory, '.appscli/spool'),
      reserve: 'typical',
      overshoot_percent: 10,
      status: 429,
      time_zone: 'UTC',
      rules: [],
    });
  });

  test('makes every path absolute, starting at its own directory', async () => {
    const tls = 'server:\n  tls: { cert_file: gateway.yaml, key_file: ./gateway.yaml }';
    const more = 'database: { embedded: { data_dir: data } }\npipelines: own\n';
    const { config, created } = await configOf({
      'gateway.yaml': `${GATEWAY.replace('server:', tls)}\n${more}`,
      'own/mine.yaml': pipelineYaml(),
    });
    const file = created.path('gateway.yaml');
    assert.deepEqual(config.server.tls, { cert_file: file, key_file: file });
    assert.equal(config.database.embedded?.data_dir, created.path('data'));
    assert.equal(config.pipelines, created.path('own'));
  });

  test('keeps shadow rules, names unnamed rules by their position, and normalizes their upstreams', async () => {
    const { config } = await configOf({
      'gateway.yaml': `${GATEWAY}  rules:
    - { group: research, upstream: main, mode: shadow }
    - { group: interns, upstreams: [{ upstream: main, weight: 1 }] }
`,
    });
    const main = [{ upstream: 'main', order: 1, weight: 1 }];
    assert.deepEqual(config.routing.rules, [
      { group: 'research', name: 'routing.rules[0]', upstreams: main, mode: 'shadow' },
      { group: 'interns', name: 'routing.rules[1]', upstreams: main, mode: 'enforce' },
    ]);
  });

  test('has its named rules expanded in routing and spend rules', async () => {
    const { config } = await configOf({
      'gateway.yaml': `${GATEWAY}  rules:
    - { when: { and: [{ rule: is-intern }, { var: request.stream }] }, upstream: main }
spend_limits:
  rules: [{ name: interns, when: { rule: is-intern }, scope: user, window: day, limit_usd: 5 }]
rules:
  is-intern: { in: [interns, { var: principal.groups }] }
`,
    });
    const is_intern = { in: ['interns', { var: 'principal.groups' }] };
    assert.deepEqual(config.routing.rules[0]?.when, { and: [is_intern, { var: 'request.stream' }] });
    assert.deepEqual(config.spend_limits?.rules[0]?.when, is_intern);
    assert.ok(!('rules' in config));
  });

  test('is frozen all the way down, as the shipped pipelines are, without values of environment variables', async () => {
    const { created: _created, ...loaded } = await loadProject();
    assertFrozen(loaded.config);
    assertFrozen(loaded.pipelines);
    assert.equal(loaded.pipelines.map(({ name }) => name).join(), 'messages');
    assert.doesNotMatch(JSON.stringify(loaded), /value-of-the-key/);
  });
});

describe('mistakes', () => {
  test('of all files and passes are reported at once, sorted by position', async () => {
    const { config, diagnostics } = await loadProject({
      'gateway.yaml': `${GATEWAY.replace('listen', 'lissten').replace('default_upstream: main', 'default_upstream: mian')}pipelines: pipelines\n`,
      'pipelines/mine.yaml': pipelineYaml('  - stage: list-modles'),
      'pipelines/other.yaml': 'pipeline: other\n\tversion: 1\n',
    });
    assert.equal(config, undefined);
    const found = diagnostics.map(({ code, line }) => `${code} ${line}`);
    assert.deepEqual(found, ['C3001 2', 'C4004 15', 'C4001 6', 'C1008 2']);
  });

  test('beside an unknown key are reported too, unless they follow from it', async () => {
    const reported = async (files: Readonly<Record<string, string>>) =>
      (await loadProject(files)).diagnostics.map(({ code, pointer }) => `${code} ${pointer}`);
    const upstream = (entry: string) => ({
      'gateway.yaml': GATEWAY.replace('upstreams:\n', `upstreams:\n  - ${entry}\n`),
    });
    assert.deepEqual(await reported(upstream('{ nme: a, api_key_env: UPSTREAM_KEY }')), [
      'C3002 /upstreams/0',
      'C3001 /upstreams/0/nme',
    ]);
    const empty = '{ name: a, colour: red, base_url: , api_key_env: UPSTREAM_KEY }';
    assert.deepEqual(await reported(upstream(empty)), ['C3001 /upstreams/0/colour', 'C3003 /upstreams/0/base_url']);
    const flat = GATEWAY.replace('{ input: 3, output: 15 }', '{ input: 3 }\n    output: 15');
    assert.deepEqual(await reported({ 'gateway.yaml': flat }), ['C3001 /models/0/output']);
    const entry = '  - { stage: list-modles, colour: red }\n';
    const text = pipelineYaml().replace('stages:\n', `stages:\n${entry}`);
    const own = { 'gateway.yaml': `${GATEWAY}pipelines: pipelines\n`, 'pipelines/mine.yaml': text };
    assert.deepEqual(await reported(own), ['C4001 /stages/0/stage', 'C3001 /stages/0/colour']);
  });

  test('in the order of very many routing rules are found', async () => {
    const team = (i: number) => `{ "===": [{ var: principal.team }, t${i}] }`;
    const rule = (when: string) => `    - { upstream: main, when: ${when} }\n`;
    const many = Array.from({ length: 150 }, (_, i) => rule(team(i))).join('');
    const last = rule(`{ and: [${team(3)}, { var: request.stream }] }`);
    const { diagnostics } = await loadProject({ 'gateway.yaml': `${GATEWAY}  rules:\n${many}${last}` });
    assert.deepEqual(
      diagnostics.map(({ code, pointer }) => `${code} ${pointer}`),
      ['W7017 /routing/rules/150'],
    );
  });

  test('in the `check` of a stage are reported, not thrown', async () => {
    const [first, ...rest] = stages;
    const faulty = { ...first!, check: () => assert.fail('no such luck') };
    const { diagnostics } = await loadProject({}, { stages: [faulty, ...rest] });
    assert.deepEqual(codesOf(diagnostics), ['C4002']);
    assert.match(diagnostics[0]?.message ?? '', /no such luck/);
  });
});

describe('pipelines', () => {
  test('of the operator are added, or replace shipped ones by name', async () => {
    const { pipelines, diagnostics, created } = await loadProject({
      'gateway.yaml': `${GATEWAY}pipelines: own\n`,
      'own/mine.yaml': pipelineYaml(),
      'own/messages.yaml': `${pipelineYaml('  - stage: list-models', 'messages').replace('/mine', '/v1/messages')}allow: { W7100: Meant so. }\n`,
      'own/mine.test.yaml': 'not: a pipeline\n',
      'own/notes.txt': 'not yaml either',
    });
    assert.deepEqual(diagnostics, []);
    const files = Object.fromEntries(pipelines.map(({ name, file }) => [name, file]));
    assert.deepEqual(files, { messages: created.path('own/messages.yaml'), mine: created.path('own/mine.yaml') });
  });

  test('have options with defaults, expanded rules and positions', async () => {
    const { pipelines, diagnostics } = await loadProject({
      'gateway.yaml': `${GATEWAY}pipelines: own\n`,
      'own/mine.yaml': `${pipelineYaml(`  - stage: mirror
    when: { and: [{ rule: is-post }, true] }
  - stage: list-models`)}rules:
  is-post: { "===": [{ var: request.method }, POST] }
on_error:
  - { errors: [forbidden], stage: reject, options: { error: forbidden } }
  - { stage: reject, options: { error: internal_error } }
`,
    });
    assert.ok(diagnostics.every(({ severity }) => severity === 'warning'));
    const mine = pipelines.find(({ name }) => name === 'mine')!;
    const [mirror] = mine.stages;
    assert.deepEqual(mirror?.options, { port: 514 });
    assert.deepEqual(mirror?.when, { and: [{ '===': [{ var: 'request.method' }, 'POST'] }, true] });
    assert.deepEqual([mirror?.position.line, mirror?.position.column], [6, 12]);
    const clauses = mine.on_error.map(({ id, errors }) => `${id} ${errors}`);
    assert.deepEqual(clauses, ['on-error-1 forbidden', 'on-error-2 undefined']);
  });

  test('get the stages of a fragment with parameters, outer guard and outer id', async () => {
    const { pipelines, diagnostics } = await loadProject({
      'gateway.yaml': `${GATEWAY}pipelines: own\n`,
      'own/mine.yaml': pipelineYaml(`  - stage: read-body
  - id: images
    use: fragments/refuse-large
    when: { var: request.stream }
    with: { max_bytes: 1000 }
  - stage: list-models`),
    });
    assert.deepEqual(diagnostics, []);
    const { id, options, when, position } = pipelines.find(({ name }) => name === 'mine')!.stages[1]!;
    assert.equal(id, 'images/refuse-large');
    assert.deepEqual(options, { error: 'body_too_large', message: 'The request is too large.' });
    assert.deepEqual(when, { and: [{ var: 'request.stream' }, { '>': [{ var: 'request.body_bytes' }, 1000] }] });
    assert.match(position.file, /fragments\/refuse-large\.yaml$/);
  });

  const fragment = (name: string, entry: string) =>
    `fragment: ${name}\nversion: 1\nsummary: Other.\nstages: [${entry}]\n`;

  test('prefer a fragment of their own directory to a shipped one', async () => {
    const { pipelines } = await loadProject({
      'gateway.yaml': `${GATEWAY}pipelines: own\n`,
      'own/mine.yaml': pipelineYaml('  - use: fragments/refuse-large'),
      'own/fragments/refuse-large.yaml': fragment('refuse-large', '{ stage: list-models }'),
    });
    const mine = pipelines.find(({ name }) => name === 'mine');
    assert.equal(mine?.stages.map(({ id }) => id).join(), 'list-models');
  });
});

describe('stages of the operator', () => {
  const STAGE = `import { answerJson, defineStage, StageError } from 'appscli';

export default defineStage({
  name: 'refuse-politely',
  version: 1,
  summary: 'Refuses.',
  options: { type: 'object', additionalProperties: false, properties: {} },
  examples: [],
  terminal: true,
  raises: ['forbidden'],
  create: () => ({
    request() {
      throw new StageError('forbidden', 'Sorry.');
    },
  }),
});
`;

  for (const file of ['own/stages/polite.ts', 'polite.mjs']) {
    test(`in ${file} are loaded, can be named, and raise the engine's own errors`, async () => {
      const { pipelines, diagnostics, files, created, config } = await loadProject({
        'gateway.yaml': `${GATEWAY}pipelines: own\nstages: [./${file}]\n`,
        'own/mine.yaml': pipelineYaml('  - stage: refuse-politely'),
        [file]: STAGE,
      });
      assert.deepEqual([diagnostics, config?.stages], [[], [created.path(file)]]);
      assert.ok(files.includes(created.path(file)));
      const { definition, options } = pipelines.find(({ name }) => name === 'mine')!.stages[0]!;
      const hooks = definition.create(options, {} as never);
      assert.throws(() => hooks.request?.({} as never), StageError);
    });
  }

  test('that do not load are one finding, with its place: pipelines that use them get none', async () => {
    for (const [text, found, ...place] of [
      ['\nthrow new Error("not today");\n', /^not today$/, 2, 7],
      ['export default {{\n', /Unexpected|Expected/, 1, 17],
    ] as const) {
      const { diagnostics } = await loadProject({
        'gateway.yaml': `${GATEWAY}pipelines: own\nstages: [polite.ts]\n`,
        'own/mine.yaml': pipelineYaml('  - stage: refuse-politely'),
        'polite.ts': text,
      });
      assert.deepEqual(codesOf(diagnostics), ['C4012']);
      const [one] = diagnostics;
      assert.match(one!.found!, found);
      assert.deepEqual([one!.line, one!.column], place);
    }
  });
});
