import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { test } from 'node:test';
import { commandBench } from './sign-in/with-gateway.ts';
import { cli } from './support.ts';

const bench = commandBench();

/** A copy of the configuration with another text in it. */
async function changed(name: string, from: string, to: string): Promise<string> {
  const text = await readFile(bench.config_file, 'utf8');
  assert.ok(text.includes(from));
  const file = bench.config_file.replace(/gateway\.yaml$/, name);
  await writeFile(file, text.replace(from, to));
  return file;
}

test('diff --ledger names who is over a new limit by what is in the ledger', async () => {
  await bench.request(await bench.newToken({ user: 'frank@example.com' }));
  const file = await changed(
    'tight.yaml',
    '"routing"',
    '"spend_limits": { "reserve": "worst_case", "defaults": { "user_daily_usd": 0.001 } }, "routing"',
  );
  const { stdout, exit_code } = await cli(['diff', bench.config_file, file, '--ledger', '--exit-code'], {
    env: bench.env,
  });
  assert.equal(exit_code, 1);
  assert.match(stdout, /^Limits\n {2}defaults\.user_daily_usd: is new: 0\.001 USD per user and day\n/);
  assert.match(stdout, /1 user has already spent it today: frank@example\.com \(0\.00\d+ USD\)\n/);
});

test('diff --json is for programs, and nothing to tell is said in words', async () => {
  const file = await changed('wide.yaml', '"*"', 'coder-1');
  const { stdout } = await cli(['diff', bench.config_file, file, '--json'], { env: bench.env });
  assert.deepEqual(JSON.parse(stdout), [{ section: 'models', subject: 'group all', change: 'loses mapped-1' }]);
  const same = await cli(['diff', bench.config_file, bench.config_file, '--exit-code'], { env: bench.env });
  assert.deepEqual([same.exit_code, same.stdout, same.stderr], [0, '', 'Nothing changes for anybody.\n']);
});

test('diff of a configuration with errors shows them and stops', async () => {
  const file = await changed('broken.yaml', '"routing"', '"rooting"');
  const { stdout, stderr, exit_code } = await cli(['diff', bench.config_file, file], { env: bench.env });
  assert.deepEqual([exit_code, stdout], [78, '']);
  assert.match(stderr, /error\[C3001\]: unknown key `rooting`/);
});

test('diff shows the errors of both configurations, and names a file that is not there', async () => {
  const one = await changed('broken-one.yaml', '"routing"', '"rooting"');
  const two = await changed('broken-two.yaml', '"models"', '"modles"');
  const both = await cli(['diff', one, two], { env: bench.env });
  assert.deepEqual([both.exit_code, both.stdout], [78, '']);
  assert.match(
    both.stderr,
    /unknown key `rooting`[\s\S]+broken-one\.yaml cannot be used[\s\S]+unknown key `modles`[\s\S]+broken-two\.yaml cannot/,
  );
  const absent = await cli(['diff', bench.config_file, 'absent.yaml'], { env: bench.env });
  assert.deepEqual([absent.exit_code, absent.stderr], [78, 'appscli: absent.yaml does not exist\n']);
});
