/** Every documented key of gateway.yaml: accepted with a value of its type, rejected with another. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { renderDiagnostics } from '../../engine/base/source/diagnostics/render.ts';
import { load } from '../../engine/pipeline/load/index.ts';
import { stages } from '../../stages/index.ts';
import { projectOfTest } from './support/project.ts';

/** A file with all of these keys and no other, but for what `policies` and `session` need. */
const FILE = `server:
  listen: 127.0.0.1:8080
  public_url: https://gateway.example.com
auth:
  oidc:
    issuer_url: https://id.example.com
    client_id: gateway
    client_secret_env: OIDC_CLIENT_SECRET
    allowed_groups: [engineering]
  session: { signing_key_env: SESSION_SIGNING_KEY }
database:
  postgres:
    url_env: DATABASE_URL
policies:
  managed:
    enabled: true
    default_policy: standard
telemetry:
  otlp:
    endpoint: https://otel.example.com/v1/traces
    headers_env: OTEL_HEADERS
upstreams:
  - name: main
    type: vendor
    base_url: https://api.example.com
    api_key_env: UPSTREAM_KEY
  - name: spare
    type: vendor
    base_url: https://spare.example.com
    auth_token_env: SPARE_TOKEN
models:
  - { id: coder-1, max_output_tokens: 64000, pricing: { input: 3, output: 15 } }
token_groups:
  - { name: engineers, models: ["*"], members: [engineering] }
routing:
  default_upstream: main
  rules:
    - group: engineers
      upstream: spare
      models: [coder-1]
spend_limits:
  defaults:
    user_daily_usd: 50
    team_monthly_usd: 2000
  on_exceeded: deny
`;

const POLICY = 'policy: standard\nversion: 1\nsummary: For everybody.\nsettings: {}\n';
const VARIABLES = ['OIDC_CLIENT_SECRET', 'DATABASE_URL', 'UPSTREAM_KEY', 'SPARE_TOKEN', 'OTEL_HEADERS'];
const ENV = Object.fromEntries(
  [...VARIABLES, 'SESSION_SIGNING_KEY'].map((name) => [name, `value-of-${name}-that-is-long-enough-for-anything`]),
);

async function loaded(gateway: string) {
  const project = projectOfTest({ 'gateway.yaml': gateway, 'policies/standard.yaml': POLICY });
  const { config, diagnostics, sources } = await load(project.path('gateway.yaml'), {
    stages,
    env: ENV,
    environment: 'required',
  });
  const said = renderDiagnostics(diagnostics, { format: 'text', color: false, sources });
  return { config, diagnostics, said };
}

test('a file with every documented key loads, and each has an effect', async () => {
  const { config, diagnostics, said } = await loaded(FILE);
  assert.deepEqual(
    diagnostics.map(({ code, message }) => `${code} ${message.split(' ')[0]}`),
    [],
    said,
  );
  assert.deepEqual(config?.auth?.oidc?.allowed_groups, ['engineering']);
  const [rule] = config!.routing.rules;
  assert.deepEqual([rule?.group, rule?.models], ['engineers', ['coder-1']]);
});

/** The line of each key, and a value of another type. */
const KEYS: Readonly<Record<string, readonly [line: string, wrong: string]>> = {
  'server.listen': ['listen: 127.0.0.1:8080', 'listen: 8080'],
  'server.public_url': ['public_url: https://gateway.example.com', 'public_url: gateway'],
  'auth.oidc.issuer_url': ['issuer_url: https://id.example.com', 'issuer_url: [id]'],
  'auth.oidc.client_id': ['client_id: gateway', 'client_id: 7'],
  'auth.oidc.client_secret_env': ['client_secret_env: OIDC_CLIENT_SECRET', 'client_secret_env: true'],
  'auth.oidc.allowed_groups': ['allowed_groups: [engineering]', 'allowed_groups: engineering'],
  'database.postgres.url_env': ['url_env: DATABASE_URL', 'url_env: [DATABASE_URL]'],
  'policies.managed.enabled': ['enabled: true', 'enabled: "true"'],
  'policies.managed.default_policy': ['default_policy: standard', 'default_policy: [standard]'],
  'telemetry.otlp.endpoint': ['endpoint: https://otel.example.com/v1/traces', 'endpoint: 4318'],
  'telemetry.otlp.headers_env': ['headers_env: OTEL_HEADERS', 'headers_env: { a: b }'],
  'upstreams[].name': ['name: main', 'name: 1'],
  'upstreams[].type': ['type: vendor', 'type: messages'],
  'upstreams[].base_url': ['base_url: https://api.example.com', 'base_url: api.example.com'],
  'upstreams[].api_key_env': ['api_key_env: UPSTREAM_KEY', 'api_key_env: 1'],
  'upstreams[].auth_token_env': ['auth_token_env: SPARE_TOKEN', 'auth_token_env: 1'],
  'routing.default_upstream': ['default_upstream: main', 'default_upstream: elsewhere'],
  'routing.rules[].group': ['group: engineers', 'group: 1'],
  'routing.rules[].upstream': ['upstream: spare', 'upstream: elsewhere'],
  'routing.rules[].models': ['models: [coder-1]', 'models: coder-1'],
  'spend_limits.defaults.user_daily_usd': ['user_daily_usd: 50', 'user_daily_usd: "50"'],
  'spend_limits.defaults.team_monthly_usd': ['team_monthly_usd: 2000', 'team_monthly_usd: 2000 USD'],
  'spend_limits.on_exceeded': ['on_exceeded: deny', 'on_exceeded: refuse'],
};

describe('a value of another type is rejected at its position', () => {
  for (const [key, [line, wrong]] of Object.entries(KEYS)) {
    test(`in ${key}`, async () => {
      const { diagnostics, said } = await loaded(FILE.replace(line, wrong));
      const errors = diagnostics.filter(({ severity }) => severity === 'error');
      assert.equal(errors.length, 1, said);
      const at = FILE.slice(0, FILE.indexOf(line)).split('\n').length;
      assert.equal(errors[0]!.line, at, said);
    });
  }
});
