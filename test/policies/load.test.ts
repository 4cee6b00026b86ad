import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { createManagedPolicies } from '../../engine/domain/policies/managed-policies.ts';
import { changedFiles, digestFiles, directoriesToWatch } from '../../engine/edge/gateway/configuration-files.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { loadPaths } from '../../engine/pipeline/load/paths.ts';
import { GATEWAY, type Project, projectOfTest, SHIPPED } from '../load/support/project.ts';
import { stages } from '../load/support/stages.ts';

const options = { stages, env: { UPSTREAM_KEY: 'set' }, environment: 'ignored', shipped_pipelines: SHIPPED } as const;
const POLICY =
  'policy: team\nversion: 1\nsummary: For a team.\nmatch: { groups: [team] }\nsettings: { model: coder-1 }\n';

let project: Project;

function loadProject(files: Record<string, string>, section = 'policies: { managed: {} }\n') {
  project = projectOfTest({ 'gateway.yaml': GATEWAY + section, ...files });
  return load(project.path('gateway.yaml'), options);
}

describe('loading policies', () => {
  it('reads every YAML file of the directory, but hidden ones, tests and other files', async () => {
    const { policies, diagnostics } = await loadProject({
      'policies/team.yaml': POLICY,
      'policies/more.yml': POLICY.replace('team', 'more'),
      'policies/.team.yaml': 'not: a policy',
      'policies/team.test.yaml': 'not: a policy',
      'policies/README.md': '# not a policy',
      'policies/deeper/team.yaml': 'not: a policy',
    });
    assert.deepEqual(diagnostics, []);
    const names = policies.map(({ name }) => name);
    assert.deepEqual(names, ['more', 'team']);
  });

  it('adds the files and the directory to the inputs of a reload', async () => {
    const loaded = await loadProject({ 'policies/team.yaml': POLICY });
    assert.ok(loaded.files.includes(project.path('policies/team.yaml')));
    assert.equal(loaded.policies_directory, project.path('policies'));
    assert.ok(directoriesToWatch(loaded).has(project.path('policies')));
    const before = digestFiles(loaded);
    writeFileSync(project.path('policies/new.yaml'), POLICY);
    assert.deepEqual(changedFiles(before, digestFiles(loaded)), [project.path('policies/new.yaml')]);
  });

  it('reads nothing where policies are not handed out', async () => {
    const off = 'policies: { managed: { enabled: false } }\n';
    const loaded = await loadProject({ 'policies/team.yaml': 'policy: [' }, off);
    assert.deepEqual([loaded.policies, loaded.diagnostics, loaded.policies_directory], [[], [], undefined]);
    assert.deepEqual((await load(project.path('gateway.yaml'), options)).policies, []);
  });

  it('accepts any keys of settings', async () => {
    const text = POLICY.replace(
      '{ model: coder-1 }',
      '{ toString: 1, hasOwnProperty: { length: 2 }, "a b": { "": 3 } }',
    );
    const { diagnostics } = await loadProject({ 'policies/team.yaml': text });
    const codes = diagnostics.map(({ code }) => code);
    assert.deepEqual(codes, ['C1014']);
    const { config, policies } = await loadProject({ 'policies/team.yaml': text.replace('"": 3', 'x: 3') });
    const policy = createManagedPolicies(config!, policies).of({ groups: ['team'], email: '' });
    const settings = policy?.body.slice(policy.body.indexOf('"settings":'));
    assert.equal(settings, '"settings":{"a b":{"x":3},"hasOwnProperty":{"length":2},"toString":1}}');
  });
});

describe('checking paths', () => {
  it('recognizes policies in a directory, alone or with their gateway.yaml', async () => {
    project = projectOfTest({ 'team.yaml': POLICY, 'wrong.yaml': POLICY, 'compose.yaml': 'services: {}\n' });
    const alone = await loadPaths([project.directory], options);
    assert.equal(alone.policies, 2);
    const found = alone.diagnostics.map(({ code, file }) => [code, file]);
    assert.deepEqual(found, [['C2010', project.path('wrong.yaml')]]);
    await loadProject({ 'policies/team.yaml': POLICY });
    const together = await loadPaths([project.directory], options);
    assert.deepEqual([together.policies, together.diagnostics], [1, []]);
  });
});

const gateway = (destinations: string) => `
server: { listen: "127.0.0.1:8080", public_url: "https://gateway.example.com/", profile: names.yaml }
upstreams: [{ name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }]
models: [{ id: coder-1, pricing: { input: 3, output: 15 } }]
routing: { default_upstream: main }
policies: { managed: { default_policy: standard } }
telemetry: { forward_to: [${destinations}] }
`;
const NAMES = 'header_prefix: vendor\nclients: { messages: { feature_prefix: CODER } }\n';

const written = (name: string, rest: string) => `policy: ${name}\nversion: 1\nsummary: A policy.\n${rest}`;

async function served(policies: Record<string, string>, groups: readonly string[] = []) {
  project = projectOfTest({
    'gateway.yaml': gateway('{ url: https://otel.example.com, metrics: true, logs: true, traces: true }'),
    'names.yaml': NAMES,
    ...Object.fromEntries(
      Object.entries(policies).map(([name, rest]) => [`policies/${name}.yaml`, written(name, rest)]),
    ),
  });
  const loaded = await load(project.path('gateway.yaml'), options);
  const found = loaded.diagnostics.map(({ code, message }) => [code, message]);
  assert.deepEqual(found, []);
  const { settings } = createManagedPolicies(loaded.config!, loaded.policies).of({ groups, email: '' })!;
  return settings as { env: Record<string, string> };
}

describe('a policy with telemetry', () => {
  it("sets the profile's variables: without texts, and without values that users would have to approve", async () => {
    const settings = await served({ standard: 'telemetry: [metrics, logs]\nsettings: { model: coder-1 }\n' });
    assert.deepEqual(settings, {
      model: 'coder-1',
      env: {
        CODER_ENABLE_TELEMETRY: '1',
        OTEL_METRICS_EXPORTER: 'otlp',
        OTEL_LOGS_EXPORTER: 'otlp',
        OTEL_TRACES_EXPORTER: 'none',
        OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
        OTEL_LOG_USER_PROMPTS: '0',
        OTEL_LOG_ASSISTANT_RESPONSES: '0',
        OTEL_LOG_TOOL_DETAILS: '0',
        OTEL_LOG_TOOL_CONTENT: '0',
        OTEL_LOG_RAW_API_BODIES: '0',
      },
    });
  });

  it("keeps the policy's own settings", async () => {
    const { env } = await served({
      standard:
        'telemetry: [metrics]\nsettings: { env: { OTEL_METRIC_EXPORT_INTERVAL: "10000", OTEL_LOGS_EXPORTER: console } }\n',
    });
    assert.equal(env.OTEL_METRIC_EXPORT_INTERVAL, '10000');
    assert.equal(env.OTEL_LOGS_EXPORTER, 'console');
    assert.equal(env.OTEL_METRICS_EXPORTER, 'otlp');
  });

  it('decides over those below it, also when it switches telemetry off', async () => {
    const policies = {
      standard: 'telemetry: [metrics, logs]\nsettings: {}\n',
      traced: 'match: { groups: [traced] }\ntelemetry: [traces]\nsettings: {}\n',
      silent: 'match: { groups: [silent] }\ntelemetry: []\nsettings: {}\n',
    };
    const traced = await served(policies, ['traced']);
    const env_of_traced = [
      traced.env.OTEL_METRICS_EXPORTER,
      traced.env.OTEL_TRACES_EXPORTER,
      traced.env.CODER_ENHANCED_TELEMETRY_BETA,
    ];
    assert.deepEqual(env_of_traced, ['none', 'otlp', '1']);
    assert.equal((await served(policies, ['silent'])).env.CODER_ENABLE_TELEMETRY, '0');
  });

  it('sets nothing where it does not speak of telemetry', async () => {
    assert.deepEqual(await served({ standard: 'settings: { model: coder-1 }\n' }), { model: 'coder-1' });
  });
});
