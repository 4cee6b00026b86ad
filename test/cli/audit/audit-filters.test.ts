/** Looking for records: by time, person, model, error, and by the rule that decided or would have. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { cli } from '../support.ts';
import { auditBench, REFUSED } from './audit-bench.ts';

const ACCESS = {
  rules: [
    { name: 'no-preview', when: { '===': [{ var: 'principal.project' }, 'payments'] }, message: 'No.' },
    { name: 'office-hours', when: { '===': [{ var: 'principal.project' }, 'search'] }, mode: 'shadow' },
  ],
};

const bench = auditBench({ access: ACCESS });

before(async () => {
  const { write } = bench;
  await write('a', 24 * 20, { user: 'ann@example.com', token_id: 'tok_a' });
  const by_rule = { status: 403, error: 'forbidden', refused_by: 'access rule no-preview' };
  await write('b', 30, { ...REFUSED, ...by_rule, user: 'ann@example.com', stage: 'resolve-route' });
  await write('c', 29, { user: 'bob@example.com', shadow: ['access:no-preview', 'spend:few'], route_rule: 'large' });
  const by_limit = { status: 429, error: 'spend_limit_exceeded', spend_rule: 'few', stage: 'check-budget' };
  await write('d', 28, { ...REFUSED, ...by_limit, user: 'bob@example.com' });
  const by_stage = { status: 400, error: 'invalid_request', stage: 'refuse-large' };
  await write('e', 27, { ...REFUSED, ...by_stage, user: 'ann@example.com', model: 'mapped-1' });
  await write('f', 26, {
    user: 'cleo@example.com',
    shadow: ['refuse-large'],
    model: 'x 1  403  ann',
    losses: ['seed'],
  });
  await write('0', 25, { ...REFUSED, user: null, model: null, status: 401, error: 'credential_invalid' });
  await write('1', 24, { user: 'ann@example.com', status: 529, cost_usd: undefined, sends: 2 });
  await write('2', 1, { user: 'ann@example.com', aborted: true, shadow: [] });
});
const tail = (...arguments_: string[]) =>
  cli(['audit', 'tail', ...arguments_, '--config', bench.config_file], { env: bench.env });

/** The letters of the records that are found, oldest first. */
async function found(...arguments_: string[]): Promise<string> {
  const { stdout, stderr, exit_code } = await tail(...arguments_, '--json');
  assert.equal(exit_code, 0, stderr);
  const lines = stdout.split('\n').filter(Boolean);
  return lines.map((line) => JSON.parse(line).request_id[0]).join('');
}

describe('audit tail', () => {
  it('finds by time, person, model, token and status, all of which must hold', async () => {
    assert.equal(await found(), 'abcdef012');
    assert.equal(await found('-n', '2'), '12');
    assert.equal(await found('--since', '7d'), 'bcdef012');
    assert.equal(await found('--since', '7d', '--until', '25h'), 'bcdef0');
    assert.equal(await found('--user', 'Ann@Example.com'), 'abe12');
    assert.equal(await found('--user', 'bob@example.com', '--user', 'cleo@example.com'), 'cdf');
    assert.equal(await found('--model', 'mapped-1'), 'e');
    assert.equal(await found('--user', 'bob@example.com', '--model', 'mapped-1'), '');
    assert.equal(await found('--token', 'tok_a'), 'a');
    assert.equal(await found('--status', '4xx'), 'bde0');
    assert.equal(await found('--status', '529', '--user', 'ann@example.com'), '1');
  });

  it('finds what was refused or failed, by its code where one is given', async () => {
    assert.equal(await found('--error'), 'bde01');
    assert.equal(await found('--error', 'forbidden'), 'b');
    assert.equal(await found('--error', 'forbidden', '--error', 'invalid_request', '--user', 'ann@example.com'), 'be');
  });

  it('finds what a rule refused, and what it would have refused in shadow mode', async () => {
    assert.equal(await found('--rule', 'no-preview'), 'bc');
    assert.equal(await found('--rule', 'access:no-preview'), 'bc');
    assert.equal(await found('--rule', 'few'), 'cd');
    assert.equal(await found('--rule', 'refuse-large'), 'ef');
    assert.equal(await found('--rule', 'messages/refuse-large'), 'ef');
    assert.equal(await found('--rule', 'responses/refuse-large'), '');
    assert.equal(await found('--rule', 'large'), 'c');
    assert.equal(await found('--rule', 'few', '--rule', 'refuse-large'), 'cdef');
    assert.equal(await found('--shadow'), 'cf');
    assert.equal(await found('--shadow', 'few'), 'c');
    assert.equal(await found('--shadow', 'access:no-preview', '--user', 'cleo@example.com'), '');
    assert.equal(await found('--rule', 'no-preview', '--error'), 'b');
  });

  it('tells what refused a request, and what held in shadow mode, within 80 columns', async () => {
    const { stdout } = await tail('--since', '7d');
    const told = stdout
      .replaceAll(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/gm, 'TIME')
      .replaceAll(/\b([0-9a-f])[0-9a-f]{7}-[0-9a-f-]{27}/g, '$1');
    assert.equal(
      told,
      `TIME  403  ann@example.com  coder-1
    refused by access rule no-preview (forbidden)
    3 ms, id b
TIME  200  bob@example.com  coder-1 at main by rule large
    in shadow mode: access:no-preview, spend:few
    0.0042 USD, 310 ms, id c
TIME  429  bob@example.com  coder-1
    refused by limit few (spend_limit_exceeded)
    3 ms, id d
TIME  400  ann@example.com  mapped-1
    refused by stage refuse-large (invalid_request)
    3 ms, id e
TIME  200  cleo@example.com  "x 1  403  ann" at main
    in shadow mode: refuse-large
    translation: seed
    0.0042 USD, 310 ms, id f
TIME  401  unknown caller  messages
    refused (credential_invalid)
    3 ms, id 0
TIME  529  ann@example.com  coder-1 at main
    main answered so
    sent 2 times
    310 ms, id 1
TIME  200  ann@example.com  coder-1 at main
    the client went away
    0.0042 USD, 310 ms, id 2
`,
    );
    for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line);
  });

  it('tells who sent them, how many and how many were refused', async () => {
    const { stdout } = await tail('--since', '7d', '--rule', 'no-preview', '--rule', 'refuse-large', '--who');
    assert.match(
      stdout,
      /^WHO +REQUESTS +REFUSED +LAST \(UTC\)\nann@example\.com +2 +2 +\S+ \S+\nbob@example\.com +1 +0 .+\ncleo@example\.com +1 +0 .+\n$/,
    );
    const json = await tail('--since', '7d', '--rule', 'no-preview', '--user', 'bob@example.com', '--who', '--json');
    const { person, requests, refused } = JSON.parse(json.stdout);
    assert.deepEqual([person, requests, refused], ['bob@example.com', 1, 0]);
  });

  it('says where nothing fits, and which names gateway.yaml does not have', async () => {
    const nothing = await tail('--rule', 'no-prevew', '--since', '2d', '--model', 'coder-2');
    assert.equal(nothing.exit_code, 0);
    assert.equal(nothing.stdout, '');
    assert.match(
      nothing.stderr,
      /^No record since \d{4}-\d\d-\d\d \d\d:\d\d fits\.\ngateway\.yaml has no model coder-2: did you mean `coder-1`\?\ngateway\.yaml has no rule or limit no-prevew: did you mean `no-preview`\?\n$/,
    );
    // It may be a stage of a pipeline, which is not looked at.
    const stage = await tail('--rule', 'refuse-tables');
    assert.match(stage.stderr, /has no rule or limit refuse-tables: if it is no stage either, /);
    const rest = await tail('--user', 'ann@example.com', '-n', '2');
    assert.equal(rest.stderr, 'There are more; try -n 10.\n');
  });

  it('refuses options that mean nothing', async () => {
    const refused: readonly [options: string[], message: RegExp][] = [
      [['--error', 'spend_limit_exceded'], /did you mean `spend_limit_exceeded`\?/],
      [['--status', '4'], /Write a status such as 403, or a class of them: 4xx/],
      [['--user', 'ann'], /Write an e-mail address/],
      [['--since', 'monday'], /Write 7d, 12h or 90m for a time ago, or a date/],
      [['--since', '1d', '--until', '2d'], /--since must be before --until/],
      [['--follow', '--until', '1d'], /--follow' cannot be used with option '--until/],
    ];
    for (const [options, message] of refused) {
      const { exit_code, stderr, stdout } = await tail(...options);
      assert.deepEqual([exit_code, stdout], [64, ''], stderr);
      assert.match(stderr, message);
    }
  });
});
