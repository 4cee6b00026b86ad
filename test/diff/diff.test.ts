/** What a new configuration changes for whom: two whole configurations, the sentences about their difference. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { describeChanges } from '../../engine/cli/diff.ts';
import type { Usable } from '../../engine/diff/change.ts';
import { diffConfigurations } from '../../engine/diff/index.ts';
import { load } from '../../engine/load/index.ts';
import type { SpendingRow } from '../../engine/services/spending.ts';
import { stages } from '../../stages/index.ts';
import { createProject } from '../load/support/project.ts';

const BASE = `server:
  listen: 127.0.0.1:8080
  public_url: https://gateway.example.com
upstreams:
  - { name: main, base_url: "https://api.example.com", api_key_env: UPSTREAM_KEY, region: us }
  - { name: spare, base_url: "https://eu.example.com", api_key_env: SPARE_KEY, region: eu }
models:
  - { id: coder-1, family: coder, pricing: { input: 3, output: 15 } }
  - { id: coder-2, family: coder, pricing: { input: 3, output: 15 } }
  - { id: mini-1, family: mini, pricing: { input: 1, output: 5 } }
token_groups:
  - { name: engineers, models: ["*"] }
  - { name: research, families: [coder] }
  - { name: interns, families: [mini] }
routing:
  default_upstream: main
  rules:
    - { name: research-to-spare, group: research, models: ["coder-*"], upstream: spare }
spend_limits:
  reserve: worst_case
  defaults: { user_daily_usd: 50, team_monthly_usd: 2000 }
`;

async function loadText(files: Record<string, string>): Promise<Usable & { remove(): void }> {
  const project = createProject(files);
  const { config, pipelines, policies, diagnostics } = await load(project.path('gateway.yaml'), {
    stages,
    env: {},
    environment: 'ignored',
  });
  assert.ok(config, JSON.stringify(diagnostics));
  return { config, pipelines, policies, directory: project.directory, remove: project.remove };
}

/** The lines `appscli diff` prints for a change of the base configuration. */
async function told(
  change: (base: string) => string,
  more: {
    base?: string;
    base_files?: Record<string, string>;
    files?: Record<string, string>;
    spending?: readonly SpendingRow[];
  } = {},
): Promise<string[]> {
  const { base = BASE, base_files, files, spending } = more;
  const text = change(base);
  assert.notEqual(`${text}${JSON.stringify(files)}`, base, 'the change changes nothing');
  const before = await loadText({ 'gateway.yaml': base, ...base_files });
  const after = await loadText({ 'gateway.yaml': text, ...files });
  const changes = await diffConfigurations(before, after, spending && (async () => spending));
  before.remove();
  after.remove();
  return describeChanges(changes, 80);
}

const replace = (from: string | RegExp, to: string) => (text: string) => text.replace(from, to);

describe('what two configurations differ in', () => {
  it('is nothing when only their looks differ', async () => {
    assert.deepEqual(
      await told(
        (text) =>
          `# a comment\n${text.replace('{ name: interns, families: [mini] }', '{ families: [mini], name: interns }')}`,
      ),
      [],
    );
  });

  it('is told for the groups that gain and lose models', async () => {
    assert.deepEqual(await told(replace('families: [mini]', 'models: [coder-2]')), [
      'Models',
      '  group interns: loses mini-1; gains coder-2',
    ]);
  });

  it('names groups that come and go', async () => {
    assert.deepEqual(await told(replace('name: interns', 'name: students')), [
      'Models',
      '  group interns: is gone: its tokens can use no model any more',
      '  group students: is new, with mini-1',
    ]);
  });

  it('is told for the groups and models whose requests go elsewhere', async () => {
    assert.deepEqual(await told(replace('group: research, models: ["coder-*"]', 'group: interns')), [
      'Routes',
      '  group research for coder-1, coder-2: spare -> main',
      '  group interns for mini-1: main -> spare',
    ]);
  });

  it('tells groups that move together in one line', async () => {
    assert.deepEqual(await told(replace('default_upstream: main', 'default_upstream: spare')), [
      'Routes',
      '  group engineers for coder-1, coder-2, mini-1: main -> spare',
      '  group interns for mini-1: main -> spare',
      '',
      'Other settings',
      '  routing.default_upstream: main -> spare',
    ]);
  });

  it('says under which condition when caller and model alone do not decide', async () => {
    const lines = await told(
      replace(
        'group: research, models: ["coder-*"]',
        'group: research, when: { ">": [{ var: request.body_bytes }, 1000] }',
      ),
    );
    assert.deepEqual(lines.slice(0, 3), [
      'Routes',
      '  group research for coder-1, coder-2: goes elsewhere',
      '    before: spare',
    ]);
    assert.match(lines[3]!, /^ {4}after: spare when .*request\.body_bytes.*1000; otherwise main$/);
    assert.equal(lines.length, 4);
  });

  it('does not tell a rule that leads where requests went anyway, nor one in shadow mode', async () => {
    const rule = (more: string) =>
      replace('rules:\n', `rules:\n    - { name: new, group: interns, upstream: ${more} }\n`);
    assert.deepEqual(await told(rule('main')), []);
    assert.deepEqual(await told(rule('spare, mode: shadow')), []);
  });

  it('is told for limits, with those who are over them already when the ledger is there', async () => {
    const row = (user: string, usd: number, more: Partial<SpendingRow> = {}): SpendingRow => ({
      user,
      team: null,
      project: null,
      token_group: 'engineers',
      model: 'coder-1',
      upstream: 'main',
      cost_nano_usd: usd * 1e9,
      ...more,
    });
    const spending = [
      row('ann@example.com', 15),
      row('ann@example.com', 10, { model: 'mini-1' }),
      row('bob@example.com', 19),
    ];
    assert.deepEqual(await told(replace('user_daily_usd: 50', 'user_daily_usd: 20'), { spending }), [
      'Limits',
      '  defaults.user_daily_usd: 50 USD per user and day -> 20 USD per user and day',
      '    1 user has already spent it today: ann@example.com (25 USD)',
    ]);
  });

  it('counts only those whom a conditional limit can concern', async () => {
    const row = (user: string, token_group: string): SpendingRow => ({
      user,
      team: null,
      project: null,
      token_group,
      model: 'mini-1',
      upstream: 'main',
      cost_nano_usd: 30e9,
    });
    const spending = [row('ann@example.com', 'engineers'), row('ida@example.com', 'interns')];
    const rule =
      '  rules:\n    - { name: few, when: { in: [interns, { var: principal.groups }] }, scope: user, window: day, limit_usd: 20 }\n';
    const lines = await told((text) => text + rule, { spending });
    assert.equal(lines[0], 'Limits');
    assert.match(lines.slice(1, -1).join(' '), /few: is new: 20 USD per user and day\s+when .*interns/);
    assert.equal(lines.at(-1), '    1 user has already spent it today: ida@example.com (30 USD)');
  });

  it('is told for prices and upstreams', async () => {
    const lines = await told((text) =>
      text
        .replace('{ input: 1, output: 5 }', '{ input: 1, output: 6 }')
        .replace('region: eu', 'region: uk')
        .replace('idle', ''),
    );
    assert.deepEqual(lines, [
      'Prices and sizes',
      '  mini-1: output 5 -> 6 USD per million tokens',
      '',
      'Upstreams',
      '  spare: region eu -> uk',
    ]);
  });

  it('is told for pipelines: stages that come, go, move, or treat requests differently', async () => {
    const pipeline = `pipeline: messages
version: 2
summary: Refuses large requests.
match: { methods: [POST], paths: [/v1/messages], surface: messages }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: fail
    id: refuse-large
    when: { ">": [{ var: request.body_bytes }, 1000] }
    options: { error: invalid_request, message: Too large. }
  - stage: resolve-route
  - stage: check-budget
    options: { charge: nothing }
  - stage: meter-usage
  - stage: forward
finally:
  - stage: audit
`;
    const lines = await told((text) => `${text}pipelines: mine\n`, { files: { 'mine/messages.yaml': pipeline } });
    assert.equal(lines[0], 'Pipelines');
    assert.match(lines[1]!, /^ {2}messages: refuse-large is new, before resolve-route, runs when/);
    assert.match(lines.slice(2).join(' '), /check-budget has another charge: full -> nothing$/);
  });

  it('does not tell a limit that only stands at another place in its list', async () => {
    const limits = (more: string) => (text: string) => `${text}  rules:\n${more}${kept}`;
    const kept = '    - { name: kept, scope: model, window: month, limit_usd: 9 }\n';
    const first = '    - { name: first, scope: user, window: month, limit_usd: 7 }\n';
    assert.deepEqual(await told(() => limits(first)(BASE), { base: limits('')(BASE) }), [
      'Limits',
      '  first: is new: 7 USD per user and month',
    ]);
  });

  it('says that a limit begins to count when it is loaded, where nothing counts for it yet', async () => {
    const spending = [
      {
        user: 'ann@example.com',
        team: null,
        project: null,
        token_group: null,
        model: 'coder-1',
        upstream: 'main',
        cost_nano_usd: 30e9,
      },
    ];
    const rule = (scope: string, window: string) => (text: string) =>
      `${text}  rules:\n    - { name: few, scope: ${scope}, window: ${window}, limit_usd: 20 }\n`;
    assert.deepEqual((await told(rule('model', 'month'), { spending })).slice(2), [
      '    1 model has already spent it this month: coder-1 (30 USD); spending counts',
      '      only from when the limit is first in force',
    ]);
    assert.deepEqual((await told(rule('user', 'day'), { spending })).slice(2), [
      '    1 user has already spent it today: ann@example.com (30 USD)',
    ]);
  });

  it('is told for what a model is called, by upstreams and by people', async () => {
    const lines = await told(
      replace(
        'id: coder-2, family: coder',
        'id: coder-2, family: coder, display_name: Two, upstream_ids: { spare: c2 }',
      ),
    );
    assert.deepEqual(lines, [
      'Other settings',
      '  models.coder-2.upstream_ids.spare: nothing -> c2',
      '  models.coder-2.display_name: nothing -> Two',
    ]);
  });

  const OWN = (errors: string, more = '') => `pipeline: mine
version: 1
summary: Of our own.
match: { methods: [POST], paths: [/own], surface: messages }
stages:
  - stage: authenticate
  - stage: fail
    options: { error: forbidden, message: No. }
on_error:
  - { id: kind, errors: ${errors}, stage: fail, options: { error: forbidden } }
finally:
  - stage: audit
${more}`;

  it('is told for the errors that a clause answers', async () => {
    const base_files = { 'mine/mine.yaml': OWN('[forbidden]') };
    const lines = await told((text) => `${text}# other errors\n`, {
      base: `${BASE}pipelines: mine\n`,
      base_files,
      files: { 'mine/mine.yaml': OWN('[forbidden, stage_failed]') },
    });
    assert.deepEqual(lines, ['Pipelines', '  mine: kind answers forbidden, stage_failed; before: forbidden']);
  });

  it('names the options that differ, and no others', async () => {
    const lines = await told((text) => `${text}# other options\n`, {
      base: `${BASE}pipelines: mine\n`,
      base_files: { 'mine/mine.yaml': OWN('[forbidden]') },
      files: { 'mine/mine.yaml': OWN('[forbidden]').replace('message: No.', 'message: Never.') },
    });
    assert.deepEqual(lines, ['Pipelines', '  mine: fail has another message: No. -> Never.']);
  });

  it('does not call a path unserved that another pipeline takes over', async () => {
    const lines = await told((text) => `${text}# another name\n`, {
      base: `${BASE}pipelines: mine\n`,
      base_files: { 'mine/mine.yaml': OWN('[forbidden]') },
      files: { 'mine/other.yaml': OWN('[forbidden]').replace('pipeline: mine', 'pipeline: other') },
    });
    assert.deepEqual(lines, [
      'Pipelines',
      '  mine: is gone: POST /own is served by other',
      '  other: is new: serves POST /own',
    ]);
    const gone = await told((text) => `${text}# none\n`, {
      base: `${BASE}pipelines: mine\n`,
      base_files: { 'mine/mine.yaml': OWN('[forbidden]') },
      files: { 'mine/README': '' },
    });
    assert.deepEqual(gone, ['Pipelines', '  mine: is gone: POST /own is no longer served']);
  });

  it('is nothing for a copy elsewhere, although options name files by their place', async () => {
    const stage = `export default { kind: 'stage', name: 'note', version: 1, summary: 'Notes.', place: 'finally',
      options: { type: 'object', additionalProperties: false, properties: { file: { type: 'string', 'x-path': 'file', description: 'Where.' } } },
      examples: [{ title: 'Note', yaml: '- stage: note' }], reads: [], readsIfSet: [], writes: [], raises: [], needs: [],
      below: [], terminal: false, create: () => ({ finally() {} }) };`;
    const files = {
      'note.js': stage,
      'mine/note.txt': '',
      'package.json': '{ "type": "module" }',
      'mine/mine.yaml': OWN('[forbidden]', '  - stage: note\n    options: { file: ./note.txt }\n'),
    };
    const base = `${BASE}pipelines: mine\nstages: [./note.js]\n`;
    assert.deepEqual(await told((text) => `${text}# a copy\n`, { base, base_files: files, files }), []);
  });

  it('is told for every other key', async () => {
    assert.deepEqual(await told(replace('server:\n', 'server:\n  timeouts: { idle_seconds: 60 }\n')), [
      'Other settings',
      '  server.timeouts.idle_seconds: 300 -> 60',
    ]);
  });
});
