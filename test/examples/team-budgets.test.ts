/** The example with budgets for teams, on a database and an upstream of this machine; its README is pasted line by line. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { cli } from '../cli/support.ts';
import { answerJson, startUpstream } from '../support/model-provider/scripted-upstream.ts';
import { blocksOf, REPOSITORY } from '../support/readme-blocks.ts';
import { until } from '../support/until.ts';
import { use } from '../support/use.ts';
import { startExample } from './support.ts';

const EXAMPLE = 'examples/team-budgets';
const USAGE = { input_tokens: 1000, output_tokens: 500 };

const upstream = use(() =>
  startUpstream(answerJson({ id: 'msg_1', type: 'message', role: 'assistant', usage: USAGE })),
);
const example = use(() =>
  startExample('team-budgets', [
    ['base_url: https://api.example.com', `base_url: ${upstream.url}`],
    // Whenever the tests run, it is not that time yet.
    ['from: 2027-01-01', 'from: 9999-01-01'],
  ]),
);

/** What a shell that stands in the example calls. */
const PROGRAM = '../../node_modules/.bin/appscli';

/** Runs a line as that shell would. */
async function paste(line: string) {
  const words = line
    .replace(/ +#.*$/, '')
    .match(/"[^"]*"|\S+/g)!
    .map((word) => word.replaceAll('"', ''));
  assert.equal(words.shift(), PROGRAM);
  assert.doesNotMatch(words.join(''), /[$`'\\|&;<>*?]/, 'what only a shell understands');
  const ended = await cli(words, { cwd: example.directory, env: example.env });
  for (const printed of `${ended.stdout}${ended.stderr}`.split('\n')) assert.ok(printed.length <= 80, printed);
  return ended;
}

async function newToken(user: string, group: string, ...more: readonly string[]): Promise<string> {
  const options = ['--user', user, '--group', group, '--name', 'laptop', ...more];
  const { stdout, stderr } = await cli(['tokens', 'create', ...options], { cwd: example.directory, env: example.env });
  assert.match(stdout, /^gw_\w+\n$/, stderr);
  return stdout.trim();
}

async function request(token: string, model: string) {
  const response = await fetch(`${example.gateway.url}/v1/messages`, {
    method: 'POST',
    headers: { 'x-api-key': token, 'content-type': 'application/json' },
    body: JSON.stringify({ model, max_tokens: 1000, messages: [{ role: 'user', content: 'Hi' }] }),
  });
  const body = (await response.json()) as { error?: Record<string, unknown> };
  return { status: response.status, headers: response.headers, error: body.error ?? {} };
}

test('every command of its README has the described result', async () => {
  const token = await newToken('ana@example.com', 'staff', '--team', 'search');
  for (const model of ['coder-1', 'coder-small-1']) assert.equal((await request(token, model)).status, 200);
  // A client has its response before the request is settled.
  await until('both requests are settled', async () => {
    const { stdout } = await paste(`${PROGRAM} limits list --user ana@example.com`);
    return stdout.includes('0.014 USD spent, 399.986 left');
  });
  const [, blocks] = blocksOf(`${EXAMPLE}/README.md`, 'sh');
  const lines = blocks!.text.split('\n').filter((line) => line.startsWith(PROGRAM));
  assert.ok(lines.length > 5);
  const reports = new Map<string, string>();
  for (const line of lines) {
    const [, command] = /appscli ((?:[a-z]+ ?){1,2})/.exec(line)!;
    const { exit_code, stdout, stderr } = await paste(line);
    // The bill is of days without any request here.
    assert.equal(exit_code, command!.trim() === 'ledger reconcile' ? 1 : 0, `${line}\n${stdout}${stderr}`);
    reports.set(command!.trim(), stdout + stderr);
  }
  const holds = (command: string, words: RegExp) => assert.match(reports.get(command) ?? '', words);
  holds('limits list', /^user ana@example\.com per month: 400 USD\n {4}0\.014 USD spent, 399\.986 left/m);
  holds('limits grant', /^user ana@example\.com per day: 70 USD$/m);
  holds('limits set', /^team search per month: 3000 USD$/m);
  holds('usage', /^search\n {2}\d{4}-\d\d +2 +2000 +1000 +0 +0 +0\.014000\n/m);
  holds('ledger verify', /^The ledger adds up: compared \d+ counters with \d+ ledger rows of 0\.\d+ USD/);
  holds('ledger reconcile', /^2 lines of 2 disagree, 2 only in the bill\.$/m);
  holds('prices check', /^All usage has a price: checked \d requests to 2 models/);
  holds('audit changes', /limit\.grant .*limit\.set +team search per month\n.* to 3000\s+USD\n/s);

  // And what its last sentence says of a price that was wrong.
  const prose = await readFile(join(REPOSITORY, EXAMPLE, 'README.md'), 'utf8');
  const [, reprice] = /`node_modules\/\.bin\/appscli (ledger reprice [^`]+)`/.exec(prose)!;
  const right = (await readFile(join(example.directory, 'gateway.yaml'), 'utf8')).replace('input: 3\n', 'input: 4\n');
  await writeFile(join(example.directory, 'right.yaml'), right);
  const command_line = `${PROGRAM} ${reprice!.replace('2026-11-01', '1d')} --config right.yaml`;
  assert.match((await paste(command_line)).stdout, /coder-1 .* \+0\.00\d000\n(?:.*\n)+Nothing was written/);
  assert.match((await paste(`${command_line} --yes`)).stdout, /^Wrote \d adjusting rows?, \+0\.00\d000 USD/m);
  assert.match((await paste(`${PROGRAM} ledger verify`)).stdout, /^The ledger adds up/);
});

test('a contractor has the smaller month, and is rejected with a remedy when it is spent', async () => {
  const token = await newToken('lee@example.com', 'contractors');
  const { status, headers } = await request(token, 'coder-1');
  assert.equal(status, 200);
  assert.equal(headers.get('vendor-ratelimit-unified-overage-status'), 'allowed');
  const { stdout: limits } = await paste(`${PROGRAM} limits list --user lee@example.com`);
  assert.match(limits, /^user lee@example\.com per month: 100 USD$/m);
  await paste(`${PROGRAM} limits set --user lee@example.com --window month --usd 0.005`);
  const refused = await request(token, 'coder-small-1');
  assert.equal(refused.status, 429);
  const { code, limit_usd, window, message } = refused.error;
  assert.deepEqual({ code, limit_usd, window }, { code: 'spend_limit_exceeded', limit_usd: 0.005, window: 'month' });
  assert.match(String(message), /Ask in the channel ai-platform for a grant\./);
});
