/** What a running gateway records of the configurations it loads, and of rules in shadow mode. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { before, test } from 'node:test';
import { pick } from '../../http/admin/support.ts';
import { until } from '../../support/until.ts';
import { useSignInScene } from '../support/sign-in-scene.ts';

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

const scene = useSignInScene({ auth: { admin_groups: ['admins'] } });
let token: string;
let yaml: string;

before(async () => {
  token = (await scene.signIn('anna')).access_token;
  const { routing: _, ...sections } = JSON.parse(await readFile(scene.gateway.config_file, 'utf8'));
  const [main] = sections.upstreams;
  sections.upstreams = [main, { ...main, name: 'spare' }];
  yaml = Object.entries(sections)
    .map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`)
    .join('');
});

async function get(path: string) {
  const { status, ...body } = await scene.api(token, 'GET', `config${path}`);
  assert.equal(status, 200, path);
  return body;
}

/** Loads another configuration, and returns its record. */
async function reloadWith(text: string) {
  const before = await loadAfter(0);
  await writeFile(scene.gateway.config_file, text);
  await scene.gateway.reload();
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
  const said = { kind: 'routing', name: 'small-ones', mode: 'shadow', effect: 'goes to spare' };
  assert.deepEqual(rule, { ...said, file: 'gateway.yaml', ...lines });
  assert.match(text, /request\.model/);
  assert.equal(files[0].name, 'gateway.yaml');
  assert.ok(pick(files, 'name').includes('appscli/pipelines/model-requests.yaml'));

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
  assert.deepEqual(pick(diff.files, 'name', 'change'), [['gateway.yaml', 'changed']]);
  for (const shown of [failed, diff, await get(`/versions/${failed.version}`)]) {
    assert.doesNotMatch(JSON.stringify(shown), new RegExp(PLANTED));
  }
});
