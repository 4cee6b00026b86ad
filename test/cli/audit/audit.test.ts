import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, describe, it, test } from 'node:test';
import { until } from '../../support/until.ts';
import { assertNarrow, assertRefused } from '../at-gateway.ts';
import { commandBench } from '../command-bench.ts';
import { cli, jsonLines } from '../support.ts';
import { auditBench, REFUSED } from './audit-bench.ts';

const commands = commandBench();

const ACCESS = {
  rules: [
    { name: 'no-preview', when: { '===': [{ var: 'principal.project' }, 'payments'] }, message: 'No.' },
    { name: 'office-hours', when: { '===': [{ var: 'principal.project' }, 'search'] }, mode: 'shadow' },
  ],
};

const bench = auditBench({ access: ACCESS, spend_limits: { time_zone: 'Pacific/Kiritimati' } });

const DAY = new Date(Date.now() - 20 * 24 * 3_600_000).toISOString().slice(0, 10);

before(async () => {
  const { write } = bench;
  const after_midnight = Date.parse(`${DAY}T01:00:00+14:00`);
  await write('a', (Date.now() - after_midnight) / 3_600_000, { user: 'ann@example.com', token_id: 'tok_a' });
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

async function found(...arguments_: string[]): Promise<string> {
  const ended = await tail(...arguments_, '--json');
  assert.equal(ended.exit_code, 0, ended.stderr);
  return jsonLines(ended)
    .map(({ request_id }) => request_id[0])
    .join('');
}

describe('audit tail', () => {
  it('finds by time, user, model, token, status, error and rule, also in shadow mode; all of which must match', async () => {
    assert.equal(await found(), 'abcdef012');
    assert.equal(await found('-n', '2'), '12');
    assert.equal(await found('--since', '7d'), 'bcdef012');
    assert.equal(await found('--since', '7d', '--until', '25h'), 'bcdef0');
    assert.equal(await found('--since', DAY), 'abcdef012');
    assert.equal(await found('--until', DAY), '', "a date is midnight in the gateway's time zone");
    assert.equal(await found('--user', 'Ann@Example.com'), 'abe12');
    assert.equal(await found('--user', 'bob@example.com', '--user', 'cleo@example.com'), 'cdf');
    assert.equal(await found('--model', 'mapped-1'), 'e');
    assert.equal(await found('--user', 'bob@example.com', '--model', 'mapped-1'), '');
    assert.equal(await found('--token', 'tok_a'), 'a');
    assert.equal(await found('--status', '4xx'), 'bde0');
    assert.equal(await found('--status', '529', '--user', 'ann@example.com'), '1');
    assert.equal(await found('--error'), 'bde01');
    assert.equal(await found('--error', 'forbidden'), 'b');
    assert.equal(await found('--error', 'forbidden', '--error', 'invalid_request', '--user', 'ann@example.com'), 'be');
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

  it('shows what rejected a request, and what matched in shadow mode, within 80 columns', async () => {
    const { stdout } = await tail('--since', '7d');
    const printed = stdout
      .replaceAll(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/gm, 'TIME')
      .replaceAll(/\b([0-9a-f])[0-9a-f]{7}-[0-9a-f-]{27}/g, '$1');
    assert.equal(
      printed,
      `TIME  403 forbidden  ann@example.com  coder-1
    Rejected: the access rule no-preview does not let the caller use coder-1.
    3 ms, id b
TIME  200  bob@example.com  coder-1 at main by rule large
    in shadow mode: access:no-preview, spend:few
    0.0042 USD, 310 ms, id c
TIME  429 spend_limit_exceeded  bob@example.com  coder-1
    Rejected by the limit few: the request would exceed a spend limit.
    3 ms, id d
TIME  400 invalid_request  ann@example.com  mapped-1
    Rejected by the stage refuse-large: a field is missing or of the wrong type
      (invalid_request).
    3 ms, id e
TIME  200  cleo@example.com  "x 1  403  ann" at main
    in shadow mode: refuse-large
    translation: seed
    0.0042 USD, 310 ms, id f
TIME  401 credential_invalid  unknown caller  messages
    Rejected: the credential is malformed or unknown (credential_invalid).
    3 ms, id 0
TIME  529  ann@example.com  coder-1 at main
    main responded 529, and the client got that error.
    sent 2 times
    310 ms, id 1
TIME  200  ann@example.com  coder-1 at main
    The client disconnected after 310 ms, before the end of the response.
    0.0042 USD, 310 ms, id 2
`,
    );
    for (const line of stdout.split('\n')) assert.ok(line.length <= 80, line);
  });

  it('shows callers with their requests and rejections', async () => {
    const { stdout } = await tail('--since', '7d', '--rule', 'no-preview', '--rule', 'refuse-large', '--users');
    assert.match(
      stdout,
      /^USER +REQUESTS +REJECTED +LAST \(UTC\)\nann@example\.com +2 +2 +\S+ \S+\nbob@example\.com +1 +0 .+\ncleo@example\.com +1 +0 .+\n$/,
    );
    const json = await tail('--since', '7d', '--rule', 'no-preview', '--user', 'bob@example.com', '--users', '--json');
    const { person, requests, refused } = JSON.parse(json.stdout);
    assert.deepEqual([person, requests, refused], ['bob@example.com', 1, 0]);
  });

  it('names where nothing fits, and where there is more', async () => {
    const nothing = await tail('--rule', 'no-prevew', '--since', '2d', '--model', 'coder-2');
    assert.deepEqual([nothing.exit_code, nothing.stdout], [0, '']);
    assert.match(nothing.stderr, /^No matching record since \d{4}-\d\d-\d\d \d\d:\d\d\.\n$/);
    const rest = await tail('--user', 'ann@example.com', '-n', '2');
    assert.equal(rest.stderr, 'There are more records; try -n 10.\n');
  });

  it('rejects meaningless options', async () => {
    await assertRefused(tail, [
      ['--error spend_limit_exceded', /did you mean `spend_limit_exceeded`\?/],
      ['--status 4', /Expected a status such as 403, or a class such as 4xx/],
      ['--user ann', /Expected an e-mail address/],
      ['--since monday', /Expected a duration such as 7d, 12h or 90m, or a date/],
      ['--since 1d --until 2d', /--since must be before --until/],
      ['--follow --until 1d', /--follow' cannot be used with option '--until/],
    ]);
  });
});

test('audit tail --follow prints new matching records until Ctrl-C', async () => {
  const token = await commands.newToken({ user: 'judy@example.com' });
  const other = await commands.newToken({ user: 'mona@example.com' });
  const tail = commands.start('audit', 'tail', '-n', '0', '--follow', '--json', '--user', 'judy@example.com');
  // It follows from the moment it has connected, which only its first record shows.
  const seen = await until('the tail prints a new record', async () => {
    await commands.request(other);
    await commands.request(token);
    return tail.stdout().includes('judy@example.com');
  });
  assert.equal(seen, true);
  tail.process.kill('SIGINT');
  const { exit_code, stdout } = await tail.ended;
  assert.equal(exit_code, 0);
  assert.doesNotMatch(stdout, /mona@example\.com/);
});

test('a reader that disconnects ends a command quietly', async () => {
  await commands.request(await commands.newToken({ user: 'kim@example.com' }));
  const tail = commands.start('audit', 'tail', '-n', '1000', '--follow', '--json');
  await until('the tail prints', () => tail.stdout() !== '');
  tail.process.stdout!.destroy();
  const token = await commands.newToken({ user: 'kim@example.com' });
  await until('the tail has ended', async () => {
    await commands.request(token);
    return tail.process.exitCode !== null;
  });
  assert.equal(tail.process.exitCode, 0);
  assert.equal(tail.stderr(), '');
});

test('audit changes lists actors and actions in 80 columns, oldest first', async () => {
  const user = 'somebody-with-a-long-name@department.example.com';
  const arguments_ = ['--user', user, '--group', 'all', '--name', 'a long name of a device', '--team', 'search'];
  const created = await commands.succeed('tokens', 'create', ...arguments_, '--json');
  const { id, token } = JSON.parse(created.stdout);
  await commands.succeed('tokens', 'rotate', id);
  const { stdout } = await commands.succeed('audit', 'changes');
  assertNarrow(stdout);
  assert.match(stdout, new RegExp(`^20\\S+Z  token\\.create  ${id}\\n    \\S+@\\S+ at the command line made `, 'm'));
  assert.match(
    stdout.replace(/\s+/g, ' '),
    /token\.rotate tok_\w+ \S+@\S+ at the command line replaced the access token tok_\w+ by tok_\w+; the old one works until 20/,
  );
  assert.ok(stdout.indexOf('token.create') < stdout.indexOf('token.rotate'));
  assert.ok(!stdout.includes(token.slice(3, 12)));
});

test('audit changes --json prints one object per line, up to a count, from a moment on', async () => {
  for (const name of ['a', 'b', 'c']) {
    await commands.succeed('tokens', 'create', '--user', 'x@example.com', '--group', 'all', '--name', name);
  }
  const changes = jsonLines(await commands.succeed('audit', 'changes', '-n', '2', '--json'));
  const names = changes.map(({ after }) => after.name);
  assert.deepEqual(names, ['b', 'c']);
  const later = await commands.succeed('audit', 'changes', '--since', '2100-01-01');
  assert.equal(later.stderr, 'No matching changes.\n');
});

test("audit changes begins a day in the gateway's time zone, as the console does", async () => {
  await commands.gateway.database.query(
    'test_change',
    `insert into admin_changes (at, actor_kind, actor, action, subject)
     values ('2099-01-31T12:00:00Z', 'gateway', 'sign-in', 'person.suspend', 'eve@example.com')`,
    [],
  );
  const config = JSON.parse(await readFile(commands.config_file, 'utf8'));
  const config_file = join(dirname(commands.config_file), 'kiritimati.json');
  await writeFile(config_file, JSON.stringify({ ...config, spend_limits: { time_zone: 'Pacific/Kiritimati' } }));
  const since = ['audit', 'changes', '--since', '2099-02-01', '--json'];
  const { stdout } = await cli([...since, '--config', config_file], { env: commands.env });
  assert.equal(JSON.parse(stdout).subject, 'eve@example.com');
  assert.equal((await commands.succeed(...since)).stdout, '');
});

test('audit changes finds changes by actor and target', async () => {
  for (const user of ['ida@example.com', 'jon@example.com']) {
    await commands.succeed('tokens', 'create', '--user', user, '--group', 'all', '--name', 'desk');
  }
  await commands.succeed('tokens', 'revoke', '--user', 'ida@example.com', '--name', 'desk');
  const actions = async (...filter: string[]) =>
    jsonLines(await commands.succeed('audit', 'changes', '--json', ...filter)).map(({ action }) => action);
  assert.deepEqual(await actions('--subject', 'ida@example.com'), ['token.create', 'token.revoke']);
  assert.deepEqual(await actions('--subject', 'ida@example.com', '--action', 'token.revoke'), ['token.revoke']);
  assert.deepEqual(await actions('--subject', 'ida@example.com', '--actor', 'nobody@example.com'), []);
  await assertRefused(commands.run, [
    ['audit changes --action token.revok', /argument 'token\.revok' is invalid\. Did you mean token\.revoke\?/],
    [
      'audit changes --action nope',
      /Expected one of the \d+ that --help lists, such as token\.create\. \(see appscli /,
    ],
  ]);
});
