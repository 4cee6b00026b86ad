import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { before, describe, it, test } from 'node:test';
import { assertNarrow } from './at-gateway.ts';
import { auditBench } from './audit/audit-bench.ts';
import { commandBench } from './command-bench.ts';
import { cli } from './support.ts';

const bench = auditBench({ facts: { headers: ['x-team'] } });

before(async () => {
  const { write } = bench;
  const all = { groups: ['all'], token_group: 'all' };
  const ann = { ...all, user: 'ann@example.com', project: 'payments' };
  await write('a', 2, ann);
  await write('a', 3, ann);
  await write('b', 4, { ...ann, user: 'bob@example.com' });
  await write('c', 5, { ...all, user: 'cleo@example.com' });
  await write('e', 7, { user: null, status: 401, error: 'credential_invalid', model: null });
  await write('0', 24 * 10, ann);
});

describe('diff --audit', () => {
  const NO_PAYMENTS = { name: 'no-payments', when: { '===': [{ var: 'principal.project' }, 'payments'] } };

  async function diff(sections: object, ...options: string[]) {
    const config = JSON.parse(await readFile(bench.config_file, 'utf8'));
    const file = bench.config_file.replace(/gateway\.yaml$/, 'changed.yaml');
    await writeFile(file, JSON.stringify({ ...config, ...sections }));
    return cli(['diff', bench.config_file, file, '--audit', '7d', ...options], { env: bench.env });
  }

  it('reports whom a new rule would have rejected', async () => {
    const { stdout, stderr, exit_code } = await diff({ access: { rules: [NO_PAYMENTS] } });
    assert.equal(exit_code, 0, stderr);
    assertNarrow(stdout);
    const [, requests = ''] = stdout.split('Past requests, by the audit log\n');
    assert.equal(
      requests.replace(/since \d{4}-\d\d-\d\d \d\d:\d\d UTC/, 'since TIME'),
      `  access rule no-payments: rejects 3 requests of 2 people (403 forbidden)
    ann@example.com 2, bob@example.com 1
  4 requests since TIME: 3 differ, 1 unchanged
    1 more from unknown callers
    limits and other stages were not evaluated; --ledger checks limits
`,
    );
  });

  it('is for programs, too, and what is as before is no finding', async () => {
    const { stdout, exit_code } = await diff({ access: { rules: [NO_PAYMENTS] } }, '--json', '--exit-code');
    assert.equal(exit_code, 1);
    const changes = JSON.parse(stdout).filter(({ section }: { section: string }) => section === 'requests');
    assert.deepEqual(changes[0].people, [
      { person: 'ann@example.com', requests: 2 },
      { person: 'bob@example.com', requests: 1 },
    ]);
    assert.deepEqual([changes[0].requests, changes.length], [3, 2]);
    const same = await diff({}, '--exit-code');
    assert.equal(same.exit_code, 0, same.stdout);
    assert.match(same.stdout, /^Past requests.*\n {2}4 requests since .*: 4 unchanged\n/);
  });
});

const commands = commandBench();

async function edited(name: string, from: string, to: string): Promise<string> {
  const text = await readFile(commands.config_file, 'utf8');
  const file = commands.config_file.replace(/gateway\.yaml$/, name);
  await writeFile(file, text.replace(from, to));
  return file;
}

test('diff --ledger lists who is over a new limit by the ledger', async () => {
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

test('diff --json is for programs, and an empty diff is reported in words', async () => {
  const file = await edited('wide.yaml', '"*"', 'coder-1');
  const { stdout } = await cli(['diff', commands.config_file, file, '--json'], { env: commands.env });
  assert.deepEqual(JSON.parse(stdout), [{ section: 'models', subject: 'group all', change: 'loses mapped-1' }]);
  const same = await cli(['diff', commands.config_file, commands.config_file, '--exit-code'], { env: commands.env });
  assert.deepEqual([same.exit_code, same.stdout, same.stderr], [0, '', 'No changes.\n']);
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
