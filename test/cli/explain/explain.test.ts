import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';
import { ownDirectory } from '../../support/own-directory.ts';
import { assertNarrow, assertRefused } from '../at-gateway.ts';
import { cli } from '../support.ts';

const CONFIG = `server:
  listen: 127.0.0.1:8080
  public_url: https://gateway.example.com
upstreams:
  - { name: main, base_url: "https://api.example.com/root", api_key_env: UPSTREAM_KEY }
  - { name: spare, base_url: "https://spare.example.com", auth_token_env: SPARE_TOKEN }
models:
  - { id: coder-1, upstream_ids: { spare: coder-1@2026 }, pricing: { input: 3, output: 15 } }
token_groups:
  - { name: engineers, models: ["*"] }
  - { name: research, models: ["*"] }
routing:
  default_upstream: main
  rules:
    - name: large-to-spare
      group: research
      when: { ">": [{ var: request.body_bytes }, 100] }
      upstream: spare
    - { name: never-asked, group: research, upstream: main }
spend_limits:
  reserve: worst_case
  defaults: { user_daily_usd: 5 }
pipelines: pipelines
`;

const PIPELINE = `pipeline: messages
version: 2
summary: Refuses bodies above a kilobyte.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
rules:
  is-large: { ">": [{ var: request.body_bytes }, 1000] }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: reject
    id: refuse-large
    when: { rule: is-large }
    options: { error: invalid_request, message: Too large. }
  - stage: resolve-route
  - stage: check-budget
  - stage: meter-usage
  - stage: forward
finally:
  - stage: audit
`;

const directory = ownDirectory();

function put(name: string, text: string): void {
  const file = join(directory, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

put('gateway.yaml', CONFIG);
put('pipelines/messages.yaml', PIPELINE);

const explain = (...arguments_: string[]) => cli(['explain', ...arguments_], { cwd: directory });

function request(name: string, size: number, more: object = {}): string {
  const body = { model: 'coder-1', max_tokens: 10, messages: [{ role: 'user', content: 'x'.repeat(size) }], ...more };
  put(name, JSON.stringify(body));
  return name;
}

describe('explain', () => {
  it('without a word shows all pipelines with their stages within 80 columns', async () => {
    const { stdout, exit_code, stderr } = await explain();
    assert.equal(exit_code, 0, stderr);
    const lines = stdout.split('\n');
    const names = lines.flatMap((line) => /^[a-z][a-z-]+(?= {2})/.exec(line) ?? []);
    assert.equal(names.length, 9);
    assert.match(stdout.replace(/\s+/g, ' '), / messages authenticate, .*refuse-large\?, .*; Finally: audit/);
    assertNarrow(stdout);
  });

  it('shows a pipeline with the guard in words and the line of every entry', async () => {
    const { stdout } = await explain('messages');
    assertNarrow(stdout);
    assert.match(stdout, /^messages, version 2: pipelines\/messages\.yaml$/m);
    assert.match(stdout, /^ {2}3 {2}refuse-large +reject@1 +request\.body_bytes > 1000 +:10$/m);
    const { stdout: json } = await explain('messages', '--json');
    const { entries } = JSON.parse(json);
    assert.deepEqual(entries[2].when, { '>': [{ var: 'request.body_bytes' }, 1000] });
    assert.deepEqual([entries[7].list, entries[7].id, entries[7].order], ['finally', 'audit', 1]);
  });

  it('lists every rule after expansion, with where it comes from', async () => {
    const { stdout } = await explain('rules');
    assert.match(
      stdout,
      /1 {2}large-to-spare goes to spare\n +when .*research.* and\n? *request\.body_bytes > 100\n +gateway\.yaml:15\n/,
    );
    assert.match(stdout, /3 {2}default goes to main\n +gateway\.yaml:13\n/);
    assert.match(stdout, /defaults\.user_daily_usd at most 5 USD per user and day \(UTC\)\n +gateway\.yaml:22\n/);
    assert.match(
      stdout,
      /messages\/refuse-large rejects: 400 invalid_request\n +when request\.body_bytes > 1000\n +pipelines\/messages\.yaml:12\n/,
    );
  });

  it('takes a request through without sending it: rules, values, limits, and what would be sent', async () => {
    const file = request('large.json', 200);
    const { stdout, stderr } = await explain(file, '--user', 'ann@example.com', '--group', 'research', '--json');
    const run = JSON.parse(stdout || stderr);
    const skipped = run.stages.filter(({ fate }: { fate: string }) => fate === 'skipped');
    assert.deepEqual([skipped.length, skipped[0].id], [1, 'refuse-large']);
    assert.deepEqual(run.stages[2].guard.held, false);
    assert.ok(run.stages[2].guard.reasons[0].saw['request.body_bytes'] > 200);
    const rules = run.routing.map(
      (rule: Record<string, unknown>) => `${rule.name} ${rule.held} ${rule.after_decision}`,
    );
    assert.deepEqual(rules, ['large-to-spare true false', 'never-asked true true']);
    assert.equal(run.facts['route.upstream'], 'spare');
    const [{ rule, key, room }] = run.limits;
    assert.deepEqual([rule, key, room], ['defaults.user_daily_usd', 'ann@example.com', true]);
    assert.deepEqual([run.sent.url, run.sent.unchanged], ['https://spare.example.com/v1/messages', false]);
    assert.equal(Object.fromEntries(run.sent.headers).authorization, 'Bearer, the value of SPARE_TOKEN');
    assert.equal(run.answer, undefined);
  });

  it('reports changes of the body, and no secret of an upstream that takes its key in two headers', async () => {
    const headers = 'headers: { x-team: search, x-api-token: { value_env: SPARE_HEADER } }';
    const compat = `type: compat, protocols: [chat], base_url: "https://spare.example.com/v1", api_key_env: SPARE_KEY, ${headers}`;
    const spare = 'base_url: "https://spare.example.com", auth_token_env: SPARE_TOKEN';
    const shipped = CONFIG.replace('pipelines: pipelines\n', '');
    put('compat.yaml', shipped.replace(spare, compat));
    const file = request('to-compat.json', 200, { stream: true });
    const given = ['--group', 'research', '--config', 'compat.yaml'];
    const { stdout: passed } = await explain(file, ...given, '--path', '/v1/chat/completions');
    assert.match(passed, /authorization: Bearer, the value of SPARE_KEY\n {2}x-api-key: the value of SPARE_KEY\n/);
    assert.match(passed, / {2}x-team: search\n {2}x-api-token: the value of SPARE_HEADER\n/);
    assert.match(passed, /bytes, with stream_options, model rewritten\n/);
    const { stdout: translated } = await explain(file, ...given);
    assert.match(
      translated,
      /POST https:\/\/spare\.example\.com\/v1\/chat\/completions [\s\S]*bytes, serialised again\n/,
    );
  });

  it('reports the response of the gateway itself if it would not forward the request', async () => {
    const file = request('huge.json', 5000);
    const { stdout } = await explain(file, '--group', 'engineers');
    assert.match(stdout, /3 {2}refuse-large runs\n +yes: request\.body_bytes > 1000 \(request\.body_bytes is 50\d\d\)/);
    assert.match(stdout, /Response of the gateway itself\n {2}400 invalid_request\n {2}Too large\.\n$/);
    assert.doesNotMatch(stdout, /Request to the upstream/);
    const expensive = request('expensive.json', 10, { max_tokens: 200_000 });
    put('tight.yaml', CONFIG.replace('user_daily_usd: 5', 'user_daily_usd: 1'));
    const refused = await explain(expensive, '--group', 'engineers', '--config', 'tight.yaml');
    assert.match(refused.stdout, /defaults\.user_daily_usd .* 1 +0 +3\.\d+ +NO$/m);
    assert.match(refused.stdout, /429 spend_limit_exceeded/);
    put('broken.json', '{"model": ');
    const broken = await explain('broken.json', '--group', 'engineers');
    assert.match(broken.stdout, /400 invalid_json/);
  });

  it('takes a request as it was seen, without its connection and its credential', async () => {
    const headers = { Host: 'gateway.example.com', Authorization: 'Bearer secret-of-somebody', 'X-Trace': 'seen' };
    const json = { model: 'coder-1', max_tokens: 10, messages: [] };
    put('seen.json', JSON.stringify({ method: 'post', path: '/v1/messages?beta=true', headers, json }));
    const { stdout, stderr } = await explain('seen.json', '--group', 'engineers', '--json');
    const { sent } = JSON.parse(stdout || stderr);
    assert.equal(sent.url, 'https://api.example.com/root/v1/messages?beta=true');
    const { host, 'x-trace': trace } = Object.fromEntries(sent.headers);
    assert.deepEqual([host, trace], ['api.example.com', 'seen']);
    assert.doesNotMatch(stdout, /secret-of-somebody/);
  });

  it('claims nothing about a response that does not exist', async () => {
    const clauses = 'on_error:\n  - { stage: reject, id: any, options: { error: overloaded } }\nfinally:';
    put('answering/messages.yaml', PIPELINE.replace('finally:', clauses));
    put('answering.yaml', CONFIG.replace('pipelines: pipelines', 'pipelines: answering'));
    const given = ['--group', 'engineers', '--config', 'answering.yaml', '--json'];
    const { stdout } = await explain(request('sent.json', 1), ...given);
    const run = JSON.parse(stdout);
    const later = Object.keys(run.facts).filter((path) => /^(outcome|error|upstream|usage)\./.test(path));
    assert.deepEqual(later, []);
    assert.equal(run.stages.find(({ id }: { id: string }) => id === 'any').fate, 'unreached');
    const refused = JSON.parse((await explain(request('refused.json', 5000), ...given)).stdout);
    assert.deepEqual([refused.answer.error, refused.answer.status], ['overloaded', 503]);
  });

  it('distinguishes a stage in shadow mode that was not reached from one that would have run', async () => {
    put('shadows/messages.yaml', PIPELINE.replace('    options: { error', '    mode: shadow\n$&'));
    put('shadows.yaml', CONFIG.replace('pipelines: pipelines', 'pipelines: shadows'));
    const given = ['--group', 'engineers', '--config', 'shadows.yaml'];
    const held = await explain(request('held.json', 2000), ...given);
    assert.match(held.stdout, /3 {2}refuse-large is skipped, in shadow mode\n +yes: request\.body_bytes > 1000/);
    assert.match(held.stdout, /Shadow rules that match\n {2}refuse-large\n/);
    put('empty.json', '');
    const broken = await explain('empty.json', ...given);
    assert.match(broken.stdout, /3 {2}refuse-large is not reached\n/);
  });

  it('asks no limits where nothing is charged', async () => {
    const rule = '  rules:\n    - { name: few, scope: team, window: day, limit_usd: 3 }\n';
    const counting = CONFIG.replace('{ name: main, ', '{ name: main, supports: { count_tokens: true }, ');
    put('team.yaml', counting.replace('pipelines: pipelines\n', rule));
    const file = request('charge.json', 1);
    const given = ['--group', 'engineers', '--config', 'team.yaml'];
    const charged = await explain(file, ...given);
    assert.match(charged.stdout, /few matches: 3 USD per team and day, and the caller has no team\n/);
    assert.match(charged.stdout, /spend\.reserved_nano_usd = 0\.\d+ USD/);
    const counted = await explain(file, ...given, '--path', '/v1/messages/count_tokens');
    assert.match(counted.stdout, /Request to the upstream/);
    assert.doesNotMatch(counted.stdout, /Spend rules|Limits|few/);
  });

  it('tries rules on headers, agents and names of tokens', async () => {
    const file = request('headers.json', 1);
    const rules = [
      { name: 'no-red', when: { '===': [{ var: 'request.headers.x-team' }, 'red'] } },
      { name: 'no-background', when: { '===': [{ var: 'request.agent' }, 'background'] } },
      { name: 'no-ci', when: { '===': [{ var: 'principal.token.name' }, 'ci'] } },
    ];
    const config = `${CONFIG}facts: { headers: [x-team] }\naccess: { rules: ${JSON.stringify(rules)} }\n`;
    put('headers.yaml', config);
    const reported = (...more: string[]) =>
      explain(file, '--group', 'engineers', '--config', 'headers.yaml', ...more).then(({ stdout }) => stdout);
    assert.doesNotMatch(await reported(), / holds: rejects|request\.agent = |token\.name = /);
    assert.match(
      await reported('--header', 'X-Team: red'),
      /^Pipeline messages\n {7}request\.headers\.x-team = "red"\n[\s\S]+\n {2}1 {2}no-red matches: rejects: 403 forbidden\n/,
    );
    assert.match(
      await reported('--header', 'x-app: cli-bg', '--header', 'x-team: blue'),
      /request\.agent = "background"[\s\S]+\n {2}2 {2}no-background matches: rejects/,
    );
    assert.match(
      await reported('--token-name', 'ci'),
      /principal\.token\.name = "ci"[\s\S]+\n {2}3 {2}no-ci matches: rejects/,
    );
    const both = /--token-name <name>' cannot be used with option '--signed-in'/;
    await assertRefused(explain, [[`${file} --signed-in --token-name ci`, both]]);
  });

  it('reports in one line which stage cannot be created, and why', async () => {
    put('odd/gateway.yaml', `${CONFIG}stages: [odd.mjs]\n`);
    put('odd/pipelines/messages.yaml', PIPELINE.replace('  - stage: read', '  - stage: odd\n$&'));
    const options = "{ type: 'object', additionalProperties: false, properties: {} }";
    const create = "() => { throw new Error('no disk'); }";
    const definition = `{ name: 'odd', version: 1, summary: 'Odd.', options: ${options}, examples: [], create: ${create} }`;
    put('odd/odd.mjs', `import { defineStage } from 'appscli';\nexport default defineStage(${definition});\n`);
    const given = [join(directory, request('small.json', 1)), '--group', 'research'];
    const { exit_code, stdout, stderr } = await cli(['explain', ...given], { cwd: join(directory, 'odd') });
    assert.deepEqual([exit_code, stdout], [78, '']);
    assert.match(stderr, /^appscli: the stage "odd" \(.*messages\.yaml:9\) cannot be created: no disk\n$/);
  });

  it('reports in one line what is missing or misspelt', async () => {
    const file = request('small.json', 1);
    mkdirSync(join(directory, 'a-folder'));
    await assertRefused(explain, [
      [file, /no token group; use --group engineers or research/],
      [`${file} --group nobody`, /unknown token group nobody/],
      [`${file} --group research --path /v2`, /no pipeline serves POST \/v2; name another path/],
      [`${file} --group research --region eu`, /--region needs .*region_header/],
      ['a-folder', /file or term a-folder/],
      ['mesages', /did you mean `messages`\?/],
    ]);
  });
});
