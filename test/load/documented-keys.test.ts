/** Every documented key of gateway.yaml is accepted, and has an effect. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
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
