import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { createProject } from '../load/support/project.ts';
import { gatewayConfig } from '../support/gateway.ts';
import { commandBench } from './command-bench.ts';
import { cli, type Ended } from './support.ts';

const STANDARD = `policy: standard
version: 1
summary: What everybody gets.
settings:
  model: coder-1
  permissions:
    allow: [a, b]
    deny:
      - "Read(.env)"
  env: {}
`;

const TEAM = `policy: team
version: 3
summary: For a team.
match: { groups: [team], email_domains: [partner.example] }
priority: 5
settings:
  availableModels: [mapped]
  permissions:
    allow: [c]
    deny: [WebFetch, "Read(.env)"]
  "odd key": "a text that is too long for a place beside it, with a \\e"
`;

const bench = commandBench();
const policies = { managed: { default_policy: 'standard', directory: 'policies' } };
const project = createProject({
  'gateway.yaml': JSON.stringify(gatewayConfig('http://127.0.0.1:9', { policies })),
  'policies/standard.yaml': STANDARD,
  'policies/team.yaml': TEAM,
});

function run(...arguments_: readonly string[]): Promise<Ended> {
  return cli(['policy', ...arguments_], { cwd: project.directory, env: bench.env });
}

async function succeed(...arguments_: readonly string[]): Promise<Ended> {
  const ended = await run(...arguments_);
  assert.equal(ended.exit_code, 0, ended.stderr);
  return ended;
}

const NO_DATABASE = { TEST_DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none' };

describe('policy show', () => {
  it('prints which policies apply and why, and where every part comes from, in 80 columns', async () => {
    const { stdout } = await succeed('show', '--user', 'Ann@example.com', '--group', 'other', '--group', 'team');
    const lines = stdout.split('\n');
    assert.ok(lines.every((line) => line.length <= 80));
    assert.deepEqual(lines, [
      'ann@example.com (in other, team) gets these policies, later ones override:',
      '',
      'POLICY    BECAUSE             FILE',
      'standard  the default policy  policies/standard.yaml',
      'team      member of team      policies/team.yaml',
      '',
      'Mappings merge by key, deny lists are united, everything else is replaced:',
      '',
      'model: coder-1      # policies/standard.yaml:5',
      'permissions:',
      '  allow:',
      '    - c             # policies/team.yaml:9',
      '  deny:',
      '    - "Read(.env)"  # policies/standard.yaml:9',
      '    - WebFetch      # policies/team.yaml:10',
      'env: {}             # policies/standard.yaml:10',
      'availableModels:',
      '  - mapped          # policies/team.yaml:7',
      '# policies/team.yaml:11',
      '"odd key": "a text that is too long for a place beside it, with a \\u001b"',
      '',
      'models: mapped-1 (by team)',
      lines.at(-2)!,
      '',
    ]);
    assert.match(lines.at(-2)!, /^checksum sha256:[0-9a-f]{64}$/);
  });

  it('reports the same as JSON', async () => {
    const shown = JSON.parse((await succeed('show', '--user', 'x@Partner.example', '--group', 'a', '--json')).stdout);
    assert.deepEqual(
      shown.policies.map(({ name, because }: { name: string; because: object }) => [name, because]),
      [
        ['standard', { by: 'default' }],
        ['team', { by: 'email_domain', email_domain: 'partner.example' }],
      ],
    );
    assert.deepEqual(shown.models, ['mapped-1']);
    assert.deepEqual(shown.settings.permissions, { allow: ['c'], deny: ['Read(.env)', 'WebFetch'] });
    assert.equal(shown.origins['/permissions/deny/0'], 'policies/standard.yaml:9');
    assert.equal(shown.origins['/permissions/deny/1'], 'policies/team.yaml:10');
    assert.match(shown.checksum, /^sha256:/);
  });

  it('knows the groups of the last sign-in', async () => {
    await bench.newToken({ user: 'bob@example.com' });
    await bench.gateway.database.query(
      'test_sign_in',
      'update principals set groups = $2, signed_in_at = $3 where id = $1',
      ['user:bob@example.com', ['team'], new Date('2026-03-10T12:00:00Z')],
    );
    const { stdout } = await succeed('show', '--user', 'BOB@example.com');
    assert.match(stdout.replaceAll(/\s+/g, ' '), /^bob@example\.com \(in team, as of .* 2026-03-10 12:00 UTC\) gets/);
    assert.match(stdout, /team +member of team/);
    const stranger = await succeed('show', '--user', 'nobody@example.com');
    assert.match(stranger.stdout, /^nobody@example\.com \(in no group: never signed in\)/);
    assert.doesNotMatch(stranger.stdout, /team/);
  });

  it('needs no database when the groups are named, and reports when it needs one', async () => {
    const options = { cwd: project.directory, env: { ...bench.env, ...NO_DATABASE } };
    const named = await cli(['policy', 'show', '--user', 'a@example.com', '--group', 'team'], options);
    assert.equal(named.exit_code, 0, named.stderr);
    const unnamed = await cli(['policy', 'show', '--user', 'a@example.com'], options);
    assert.deepEqual([unnamed.exit_code, unnamed.stdout], [69, '']);
    assert.match(unnamed.stderr, /cannot read the groups of a@example\.com.*\. Name the groups with --group/);
  });

  it('exits with 1 when no policy is meant for someone', async () => {
    const policies = { managed: { directory: 'policies' } };
    const config = JSON.stringify(gatewayConfig('http://127.0.0.1:9', { policies }));
    writeFileSync(project.path('without.yaml'), config);
    const who = ['--user', 'a@example.com', '--group', 'x', '--config', 'without.yaml'];
    const nothing = await run('show', ...who);
    assert.deepEqual([nothing.exit_code, nothing.stdout], [1, '']);
    assert.equal(nothing.stderr, 'No managed policy applies to a@example.com (in x).\n');
    const json = await run('show', ...who, '--json');
    assert.equal(json.exit_code, 1);
    assert.deepEqual(JSON.parse(json.stdout).policies, []);
  });

  it('rejects a wrong command line', async () => {
    for (const words of [[], ['--user', 'ann'], ['--user', 'a@example.com', '--group', ' ']])
      assert.equal((await run('show', ...words)).exit_code, 64, words.join(' '));
  });
});

describe('policy list', () => {
  it('prints every policy and whom it is meant for', async () => {
    const { stdout } = await succeed('list');
    assert.deepEqual(stdout.split('\n'), [
      'POLICY    PRIORITY  FOR                     SUMMARY',
      'standard            all users               What everybody gets.',
      'team             5  team, @partner.example  For a team.',
      '',
    ]);
    const listed = JSON.parse((await succeed('list', '--json')).stdout);
    assert.deepEqual(listed[1], {
      name: 'team',
      version: 3,
      summary: 'For a team.',
      is_default: false,
      match: { groups: ['team'], email_domains: ['partner.example'] },
      priority: 5,
      file: 'policies/team.yaml',
    });
  });
});

describe('explain of a request', () => {
  const explain = (...caller: readonly string[]) =>
    cli(['explain', 'request.json', '--json', ...caller], { cwd: project.directory, env: bench.env });

  it('reports the policy that keeps the model from its caller, by token or by sign-in', async () => {
    const request = { model: 'coder-1', max_tokens: 5, messages: [{ role: 'user', content: 'hello' }] };
    writeFileSync(project.path('request.json'), JSON.stringify(request));
    for (const caller of [['--group', 'all'], ['--signed-in']]) {
      const refused = JSON.parse((await explain(...caller, '--member-of', 'x', '--member-of', 'team')).stdout);
      assert.equal(refused.answer.error, 'model_not_found');
      assert.match(refused.answer.message, /the policy "team" does not list it/);
      const sent = JSON.parse((await explain(...caller, '--member-of', 'x')).stdout);
      assert.equal(sent.sent.upstream, 'main');
      assert.equal(sent.facts['principal.kind'], caller[0] === '--signed-in' ? 'session' : 'access_token');
    }
  });
});
