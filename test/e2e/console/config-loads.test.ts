/** What a running gateway records of the configurations it loads, and of rules in shadow mode. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { after, before, test } from 'node:test';
import type { TestGateway } from '../../support/gateway.ts';
import { startIdentityProvider, type TestIdentityProvider } from '../../support/identity/identity-provider.ts';
import { bootSignIn, signIn } from '../../support/identity/sign-in.ts';
import {
  answerJson,
  message,
  type ScriptedUpstream,
  startUpstream,
} from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask } from '../support/client.ts';

const PLANTED = 'sk-planted-93bfa1c07d';

/** Its position is reported, so it is written in lines. */
const ROUTING = `routing:
  default_upstream: main
  rules:
    - name: small-ones
      when: { '===': [{ var: request.model }, coder-1] }
      mode: shadow
      upstream: spare
`;

let provider: TestIdentityProvider;
let upstream: ScriptedUpstream;
let gateway: TestGateway;
let token: string;
let yaml: string;

before(async () => {
  provider = await startIdentityProvider();
  upstream = await startUpstream();
  upstream.script = answerJson(message());
  gateway = await bootSignIn({ provider, upstream_url: upstream.url, auth: { admin_groups: ['admins'] } });
  token = (await signIn(gateway.url, 'anna')).access_token;
  const { routing: _, ...sections } = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  const [main] = sections.upstreams;
  sections.upstreams = [main, { ...main, name: 'spare' }];
  yaml = Object.entries(sections)
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    .join('');
});
after(async () => {
  await gateway?.close();
  await upstream?.close();
  await provider?.close();
});

// biome-ignore lint/suspicious/noExplicitAny: parsed JSON
async function get(path: string): Promise<any> {
  const response = await fetch(`${gateway.url}/admin/api/config${path}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  assert.equal(response.status, 200, path);
  return response.json();
}

/** Loads another configuration, and returns its record. */
async function reloadWith(text: string) {
  const before = await loadAfter(0);
  await writeFile(gateway.config_file, text);
  await gateway.reload();
  return loadAfter(before.id);
}

/** The newest load, once it is another than the one before. */
async function loadAfter(id: number) {
  return until('the load is written down', async () => {
    const [load] = (await get('/loads?limit=1')).loads;
    return load?.id > id && load;
  });
}

test('records a start, a reload and a failed reload, with rules in words, and without a secret', async () => {
  await loadAfter(0);
  const { loads } = await get('/loads');
  const start = loads.at(-1);
  assert.deepEqual([start.cause, start.failed, start.changed], ['start', false, []]);
  const loaded = await reloadWith(`${yaml}${ROUTING}# new\n`);
  assert.deepEqual([loaded.cause, loaded.failed, loaded.changed], ['signal', false, ['gateway.yaml']]);
  const { rules, files } = await get(`/versions/${loaded.version}`);
  const { text, ...rule } = rules.find(({ name }: { name: string }) => name === 'small-ones');
  const first_line = yaml.split('\n').length + 3;
  const lines = { line: first_line, first_line, last_line: first_line + 3 };
  assert.deepEqual(rule, {
    kind: 'routing',
    name: 'small-ones',
    mode: 'shadow',
    effect: 'goes to spare',
    file: 'gateway.yaml',
    ...lines,
  });
  assert.match(text, /request\.model/);
  assert.equal(files[0].name, 'gateway.yaml');
  assert.ok(files.some(({ name }: { name: string }) => name === 'appscli/pipelines/model-requests.yaml'));

  const failed = await reloadWith(`${yaml.replace('"TEST_UPSTREAM_KEY"', `"${PLANTED}"`)}${ROUTING}`);
  assert.deepEqual([failed.failed, failed.config_hash], [true, null]);
  assert.notEqual(failed.version, loaded.version);
  assert.ok(failed.errors > 0);
  const state = await until('the replica reports it', async () => {
    const now = await get('');
    return now.replicas[0]?.failing_since !== null && now;
  });
  assert.deepEqual([state.version, state.failing.id], [loaded.version, failed.id]);
  const diff = await get(`/diff?from=${loaded.version}&to=${failed.version}`);
  assert.deepEqual(
    diff.files.map(({ name, change }: { name: string; change: string }) => [name, change]),
    [['gateway.yaml', 'changed']],
  );
  for (const shown of [failed, diff, await get(`/versions/${failed.version}`)]) {
    assert.doesNotMatch(JSON.stringify(shown), new RegExp(PLANTED));
  }
});

test('a rule in shadow mode is counted with its matching requests', async () => {
  await reloadWith(yaml + ROUTING);
  const { status } = await ask(gateway.url, gateway.token);
  assert.equal(status, 200);
  const [rule] = await until('the audit record is written', async () => {
    const { rules } = await get('/shadow-rules');
    return rules[0]?.requests === 1 && rules;
  });
  assert.deepEqual([rule.recorded_as, rule.upstreams], ['routing:small-ones', [{ upstream: 'main', requests: 1 }]]);
  assert.match(rule.patch, /^- {6}mode: shadow$/m);
});
