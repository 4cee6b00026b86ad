import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'node:test';
import { createManagedPolicies } from '../../../engine/identity/policies/managed-policies.ts';
import { load } from '../../../engine/load/index.ts';
import { createProject, type Project, SHIPPED } from '../../load/support/project.ts';
import { stages } from '../../load/support/stages.ts';

const options = { stages, env: { UPSTREAM_KEY: 'set' }, environment: 'ignored', shipped_pipelines: SHIPPED } as const;

const gateway = (destinations: string) => `
server: { listen: "127.0.0.1:8080", public_url: "https://gateway.example.com/", profile: names.yaml }
upstreams: [{ name: main, type: vendor, base_url: https://api.example.com, api_key_env: UPSTREAM_KEY }]
models: [{ id: coder-1, pricing: { input: 3, output: 15 } }]
routing: { default_upstream: main }
policies: { managed: { default_policy: standard } }
telemetry: { forward_to: [${destinations}] }
`;
const NAMES = 'header_prefix: vendor\nclients: { messages: { feature_prefix: CODER } }\n';

const policy = (name: string, rest: string) => `policy: ${name}\nversion: 1\nsummary: A policy.\n${rest}`;

/** What people of some groups get, by policies. */
async function served(policies: Record<string, string>, groups: readonly string[] = []) {
  project = createProject({
    'gateway.yaml': gateway('{ url: https://otel.example.com, metrics: true, logs: true, traces: true }'),
    'names.yaml': NAMES,
    ...Object.fromEntries(
      Object.entries(policies).map(([name, rest]) => [`policies/${name}.yaml`, policy(name, rest)]),
    ),
  });
  const loaded = await load(project.path('gateway.yaml'), options);
  assert.deepEqual(
    loaded.diagnostics.map(({ code, message }) => [code, message]),
    [],
  );
  const { settings } = createManagedPolicies(loaded.config!, loaded.policies).of({ groups, email: '' })!;
  return settings as { env: Record<string, string> };
}

let project: Project;

describe('a policy with telemetry', () => {
  afterEach(() => project.remove());

  it('sets the variables by the names of the profile: without texts, and without what each person would have to approve', async () => {
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

  it('leaves alone what the policy itself sets', async () => {
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
    assert.deepEqual(
      [traced.env.OTEL_METRICS_EXPORTER, traced.env.OTEL_TRACES_EXPORTER, traced.env.CODER_ENHANCED_TELEMETRY_BETA],
      ['none', 'otlp', '1'],
    );
    project.remove();
    assert.equal((await served(policies, ['silent'])).env.CODER_ENABLE_TELEMETRY, '0');
  });

  it('sets nothing where it does not speak of telemetry', async () => {
    assert.deepEqual(await served({ standard: 'settings: { model: coder-1 }\n' }), { model: 'coder-1' });
  });
});
