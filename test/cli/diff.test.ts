/** What requests of the past would have met under another configuration, by their audit records. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { before, describe, it, test } from 'node:test';
import { ask } from '../e2e/support/client.ts';
import { bootGateway } from '../support/gateway.ts';
import { startUpstream } from '../support/model-provider/scripted-upstream.ts';
import { until } from '../support/until.ts';
import { auditBench } from './audit/audit-bench.ts';
import { commandBench } from './command-bench.ts';
import { cli } from './support.ts';

const SPARE = { name: 'spare', base_url: 'http://127.0.0.1:9', api_key_env: 'TEST_UPSTREAM_KEY' };
const MAIN = { ...SPARE, name: 'main' };
const bench = auditBench({
  upstreams: [MAIN, SPARE],
  facts: { headers: ['x-team'] },
  token_groups: [
    { name: 'all', models: ['*'] },
    { name: 'interns', models: ['mapped-*'] },
  ],
});

type Sections = Record<string, unknown>;

before(async () => {
  const { write } = bench;
  const all = { groups: ['all'], token_group: 'all' };
  const ann = { ...all, user: 'ann@example.com', project: 'payments' };
  const bob = { ...all, user: 'bob@example.com', project: 'payments', body_bytes: 2000 };
  for (let i = 0; i < 12; i += 1) await write('a', 2 + i, ann);
  for (let i = 0; i < 3; i += 1) await write('b', 2 + i, bob);
  await write('c', 5, { ...all, user: 'cleo@example.com', body_bytes: 90_000, model: 'mapped-1' });
  await write('d', 6, { ...all, user: 'dora@example.com', seen: { 'request.headers.x-team': 'red' } });
  await write('e', 7, { user: null, status: 401, error: 'credential_invalid', model: null });
  await write('f', 8, { user: 'ian@example.com', groups: ['interns'], token_group: 'interns', model: 'mapped-1' });
  await write('0', 24 * 10, ann);
});

/** Writes the configuration with other sections beside it. */
async function changed(name: string, sections: Sections): Promise<string> {
  const config = JSON.parse(await readFile(bench.config_file, 'utf8'));
  const file = bench.config_file.replace(/gateway\.yaml$/, name);
  await writeFile(file, JSON.stringify({ ...config, ...sections }));
  return file;
}

async function diff(name: string, sections: Sections, ...options: string[]) {
  const file = await changed(`${name}.yaml`, sections);
  return cli(['diff', bench.config_file, file, '--audit', '7d', ...options], { env: bench.env });
}

/** What is told of requests, without how many there were, which is the same each time but for one line. */
async function told(name: string, sections: Sections): Promise<readonly [changes: string, sum: string]> {
  const { stdout, stderr, exit_code } = await diff(name, sections);
  assert.equal(exit_code, 0, stderr);
  for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line);
  const [, requests = ''] = stdout.split('Past requests, by the audit log\n');
  const [changes = '', sum = ''] = requests.split(/ {2}18 requests since \d{4}-\d\d-\d\d \d\d:\d\d UTC: /);
  assert.ok(sum.endsWith(REST), stdout);
  return [changes, sum.slice(0, -REST.length)];
}

const REST = `
    1 more from unknown callers
    limits and other stages were not evaluated; --ledger checks limits
`;

const rule = (more: object) => ({
  access: { rules: [{ name: 'no-payments', when: { '===': [{ var: 'principal.project' }, 'payments'] }, ...more }] },
});

describe('diff --audit', () => {
  it('tells whom a new rule would have refused', async () => {
    const hit = `
    ann@example.com 12, bob@example.com 3
`;
    assert.deepEqual(await told('rule', rule({})), [
      `  access rule no-payments: refuses 15 requests of 2 people (403 forbidden)${hit}`,
      '15 differ, 3 unchanged',
    ]);
    assert.deepEqual(await told('shadow', rule({ mode: 'shadow' })), [
      `  access rule no-payments, in shadow mode: would refuse 15 requests of 2 people${hit}`,
      '15 differ, 3 unchanged',
    ]);
  });

  it('tells which requests would have gone elsewhere, and to which models', async () => {
    const when = { '>': [{ var: 'request.body_bytes' }, 1000] };
    const routing = { default_upstream: 'main', rules: [{ name: 'large', when, upstream: 'spare' }] };
    assert.deepEqual(await told('route', { routing }), [
      `  coder-1: 3 requests of bob@example.com go to spare instead of main
  mapped-1: 1 request of cleo@example.com goes to spare instead of main
`,
      '4 differ, 14 unchanged',
    ]);
    const in_shadow = { ...routing, rules: [{ ...routing.rules[0], mode: 'shadow' }] };
    assert.deepEqual(await told('route-shadow', { routing: in_shadow }), [
      `  routing rule large, in shadow mode: would send 4 requests of 2 people to spare
    bob@example.com 3, cleo@example.com 1
`,
      '4 differ, 14 unchanged',
    ]);
  });

  it('tells which models people could not use any more', async () => {
    const token_groups = [
      { name: 'all', models: ['*'] },
      { name: 'interns', models: ['coder-*'] },
    ];
    assert.deepEqual(await told('models', { token_groups }), [
      `  model mapped-1: refuses 1 request of ian@example.com (the token group interns
    may not use mapped-1)
`,
      '1 differs, 17 unchanged',
    ]);
  });

  it('counts unknown requests, for which a fact of a rule was not recorded', async () => {
    const when = { '===': [{ var: 'request.headers.x-team' }, 'red'] };
    for (const mode of ['enforce', 'shadow']) {
      const [changes, sum] = await told('header', { access: { rules: [{ name: 'no-red', when, mode }] } });
      const [subject, verb, after] =
        mode === 'shadow' ? [', in shadow mode', 'would refuse', ''] : ['', 'refuses', ' (403 forbidden)'];
      assert.ok(changes.startsWith(`  access rule no-red${subject}: ${verb} 1 request of dora@example.com${after}\n`));
      assert.match(
        changes.replaceAll(/\s+/g, ' '),
        /unknown for 17 requests of 4 people: depends on request\.headers\.x-team, recorded only while a rule uses it/,
      );
      assert.equal(sum, '1 differs, 17 unknown');
    }
    // What else is known may decide alone.
    const and = { and: [{ '===': [{ var: 'principal.project' }, 'payments'] }, when] };
    const [, sum] = await told('and', { access: { rules: [{ name: 'no-red', when: and }] } });
    assert.equal(sum, '3 unchanged, 15 unknown');
  });

  it('is for programs, too, and what is as before is no finding', async () => {
    const { stdout, exit_code } = await diff('rule', rule({}), '--json', '--exit-code');
    assert.equal(exit_code, 1);
    const changes = JSON.parse(stdout).filter(({ section }: { section: string }) => section === 'requests');
    assert.deepEqual(changes[0].people, [
      { person: 'ann@example.com', requests: 12 },
      { person: 'bob@example.com', requests: 3 },
    ]);
    assert.deepEqual([changes[0].requests, changes.length], [15, 2]);
    const same = await diff('same', {}, '--exit-code');
    assert.equal(same.exit_code, 0, same.stdout);
    assert.match(same.stdout, /^Past requests.*\n {2}18 requests since .*: 18 unchanged\n/);
  });

  it('needs a time, and the database', async () => {
    const wrong = await diff('wrong', {}, '--audit', 'monday');
    assert.deepEqual([wrong.exit_code, wrong.stdout], [64, '']);
    assert.match(wrong.stderr, /--audit <since>.*Expected a duration such as 7d, 12h or 90m, or a date/s);
  });
});

test('what a rule looks at already is known not to be set where the record has nothing of it', async (t) => {
  const upstream = await startUpstream();
  t.after(() => upstream.close());
  const when = { '===': [{ var: 'request.headers.x-team' }, 'red'] };
  const access = { rules: [{ name: 'no-red', when, mode: 'shadow' }] };
  const gateway = await bootGateway({ upstream_url: upstream.url, config: { facts: { headers: ['x-team'] }, access } });
  t.after(() => gateway.close());
  assert.equal((await ask(gateway.url, gateway.token)).status, 200);
  const config = JSON.parse(await readFile(gateway.config_file, 'utf8'));
  const file = gateway.config_file.replace(/gateway\.yaml$/, 'enforced.yaml');
  await writeFile(file, JSON.stringify({ ...config, access: { rules: [{ name: 'no-red', when }] } }));
  const sum = await until('the request is in the audit log', async () => {
    const { stdout } = await cli(['diff', gateway.config_file, file, '--audit', '1d'], { env: gateway.env });
    return / {2}1 request since .*: (.*)/.exec(stdout)?.[1];
  });
  assert.equal(sum, '1 unchanged');
});

const commands = commandBench();

/** A copy of the configuration with another text in it. */
async function edited(name: string, from: string, to: string): Promise<string> {
  const text = await readFile(commands.config_file, 'utf8');
  assert.ok(text.includes(from));
  const file = commands.config_file.replace(/gateway\.yaml$/, name);
  await writeFile(file, text.replace(from, to));
  return file;
}

test('diff --ledger names who is over a new limit by what is in the ledger', async () => {
  await commands.request(await commands.newToken({ user: 'frank@example.com' }));
  const file = await edited(
    'tight.yaml',
    '"routing"',
    '"spend_limits": { "reserve": "worst_case", "defaults": { "user_daily_usd": 0.001 } }, "routing"',
  );
  const { stdout, exit_code } = await cli(['diff', commands.config_file, file, '--ledger', '--exit-code'], {
    env: commands.env,
  });
  assert.equal(exit_code, 1);
  assert.match(stdout, /^Limits\n {2}defaults\.user_daily_usd: is new: 0\.001 USD per user and day\n/);
  assert.match(stdout, /1 user has already spent it today: frank@example\.com \(0\.00\d+ USD\)\n/);
});

test('diff --json is for programs, and nothing to tell is said in words', async () => {
  const file = await edited('wide.yaml', '"*"', 'coder-1');
  const { stdout } = await cli(['diff', commands.config_file, file, '--json'], { env: commands.env });
  assert.deepEqual(JSON.parse(stdout), [{ section: 'models', subject: 'group all', change: 'loses mapped-1' }]);
  const same = await cli(['diff', commands.config_file, commands.config_file, '--exit-code'], { env: commands.env });
  assert.deepEqual([same.exit_code, same.stdout, same.stderr], [0, '', 'No changes.\n']);
});

test('diff of a configuration with errors shows them and stops', async () => {
  const file = await edited('broken.yaml', '"routing"', '"rooting"');
  const { stdout, stderr, exit_code } = await cli(['diff', commands.config_file, file], { env: commands.env });
  assert.deepEqual([exit_code, stdout], [78, '']);
  assert.match(stderr, /error\[C3001\]: unknown key `rooting`/);
});

test('diff shows the errors of both configurations, and names a file that is not there', async () => {
  const one = await edited('broken-one.yaml', '"routing"', '"rooting"');
  const two = await edited('broken-two.yaml', '"models"', '"modles"');
  const both = await cli(['diff', one, two], { env: commands.env });
  assert.deepEqual([both.exit_code, both.stdout], [78, '']);
  assert.match(
    both.stderr,
    /unknown key `rooting`[\s\S]+broken-one\.yaml cannot be used[\s\S]+unknown key `modles`[\s\S]+broken-two\.yaml cannot/,
  );
  const absent = await cli(['diff', commands.config_file, 'absent.yaml'], { env: commands.env });
  assert.deepEqual([absent.exit_code, absent.stderr], [78, 'appscli: absent.yaml does not exist\n']);
});
