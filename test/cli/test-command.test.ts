import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { GATEWAY, PIPELINE, REQUEST, testProject, UPSTREAM } from '../simulate/support.ts';
import { cli, startCli } from './support.ts';

const HOLDS = `
  - name: serves small requests
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200 }
`;
const FAILS = `
  - name: refuses small requests
    ${REQUEST}
    ${UPSTREAM}
    expect:
      status: 429
`;

const run = (cwd: string, ...input: string[]) => cli(['test', ...input], { cwd });

describe('appscli test', () => {
  it('runs the cases below the current directory, and prints their number', async () => {
    const { directory } = testProject(HOLDS);
    const { exit_code, stdout, stderr } = await run(directory);
    assert.equal(stdout, `ok    pipelines/messages.test.yaml${' '.repeat(40)}1 case\n`);
    assert.deepEqual([stderr, exit_code], ['\nok: 1 case in 1 file\n', 0]);
  });

  it('shows an unmet expectation with its place and result, and the work of every stage', async () => {
    const { directory } = testProject(HOLDS + FAILS);
    const { exit_code, stdout, stderr } = await run(directory, 'pipelines');
    const lines = stdout.split('\n');
    assert.deepEqual(lines.slice(1, 8), [
      '',
      '  refuses small requests',
      '    pipelines/messages.test.yaml:13  expect.status',
      '      expected  429',
      '      found     200',
      '  What happened:',
      '  1  authenticate runs',
    ]);
    assert.match(stdout, /^ {7}principal\.id = "user:dev@example\.com",/m);
    assert.match(stdout, /^ {2}\d {2}refuse-large is skipped\n {7}no: request\.body_bytes.*1000/m);
    assert.match(stdout, /^ {2}\d {2}forward runs$/m);
    assert.match(stdout, /^ {5}sent: POST \/base\/v1\/messages to main$/m);
    const long = lines.filter((line) => line.length > 80 && !/^ {7}\S+ = \S+$/.test(line));
    assert.deepEqual(long, []);
    assert.deepEqual([stderr, exit_code], ['\n1 of 2 cases failed\n', 1]);
  });

  it('reports the default response of a case without an upstream', async () => {
    const silent = `
  - name: answers
    ${REQUEST}
    expect: { status: 200, json: { type: message } }
`;
    const { directory } = testProject(silent);
    const { stdout } = await run(directory);
    assert.match(stdout, /^ {4}this case has no `upstream:`, so main returned 200 with an empty body$/m);
    const json = JSON.parse((await run(directory, '--format', 'json')).stdout);
    assert.match(json.cases[0].requests[0].note, /^this case has no `upstream:`/);
    const { directory: refused } = testProject(`
  - name: is refused
    caller: { credential: wrong }
    ${REQUEST}
    expect: { status: 200 }
`);
    assert.doesNotMatch((await run(refused)).stdout, /no `upstream:`/);
  });

  it('names the request of a case that is wrong', async () => {
    const { directory } = testProject(`
  - name: twice
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200 }
    then:
      - expect: { status: 201 }
`);
    assert.match((await run(directory)).stdout, /^ {2}What happened on request 2:$/m);
  });

  it("gives the caller's access token the name from the case", async () => {
    const { directory } = testProject(`
  - name: is refused by the name of its token
    gateway: { access: { rules: [{ name: no-ci, when: { "===": [{ var: principal.token.name }, ci] } }] } }
    caller: { token_name: ci }
    ${REQUEST}
    expect: { status: 403, audit: { token_name: ci } }
  - name: has no name that it was not given
    ${REQUEST}
    ${UPSTREAM}
    expect: { status: 200, audit: { token_name: test } }
`);
    const { stdout, exit_code } = await run(directory);
    assert.equal(exit_code, 0, stdout);
  });

  it('shows every attempt of a request at several upstreams, and why it went to no other', async () => {
    const failing = (fails: string, status: number) =>
      testProject(`
  - name: fails over
    gateway: { routing: { default_upstreams: [main, spare] } }
    ${REQUEST}
    upstreams: { main: { fails: ${fails} }, spare: { json: { type: message } } }
    expect: { status: ${status} }
`).directory;
    const hangs = await run(failing('hang', 200));
    assert.match(hangs.stdout, /^ {5}attempt 1: main: unanswered[^;]*; ended: no time left for another/m);
    const directory = failing('refuse', 502);
    const { stdout } = await run(directory);
    assert.match(
      stdout,
      /^ {5}attempt 1: main: unreachable[^;]*; went to the next upstream: no\s+connection \(next_unreachable\)\n {5}attempt 2: spare: answered, status 200[^;]*; its response went/m,
    );
    const { requests } = JSON.parse((await run(directory, '--format', 'json')).stdout).cases[0];
    assert.deepEqual(
      requests[0].attempts.map((attempt: Record<string, unknown>) => [attempt.upstream, attempt.reason]),
      [
        ['main', 'next_unreachable'],
        ['spare', 'served'],
      ],
    );
  });

  it('ends when it is done, whatever stages of the operator left running', async () => {
    const { directory } = testProject(HOLDS, {
      'gateway.yaml': `${GATEWAY}stages: [stages/ticks.js]\n`,
      'pipelines/messages.yaml': PIPELINE.replace('- stage: authenticate', '- stage: ticks\n  - stage: authenticate'),
      'stages/ticks.js': `
        import { defineStage } from 'appscli';
        setInterval(() => {}, 1000);
        export default defineStage({
          name: 'ticks', version: 1, summary: 'Leaves timers behind.', examples: [],
          options: { type: 'object', additionalProperties: false, properties: {} },
          create: () => ({ request: () => void setInterval(() => {}, 1000) }),
        });`,
    });
    // Whether a process ends needs one.
    const { exit_code, stderr } = await startCli(['test'], { cwd: directory }).ended;
    assert.deepEqual([stderr, exit_code], ['\nok: 1 case in 1 file\n', 0]);
    assert.equal((await startCli(['check'], { cwd: directory }).ended).exit_code, 0);
  });

  it('runs the cases whose name contains a text', async () => {
    const { directory } = testProject(HOLDS + FAILS);
    const { exit_code, stderr } = await run(directory, '--filter', 'Serves');
    assert.deepEqual([stderr, exit_code], ['\nok: 1 case in 1 file\n', 0]);
  });

  it('fails below the required coverage, and lists the rest', async () => {
    const { directory } = testProject(HOLDS);
    const { exit_code, stdout, stderr } = await run(directory, '--min-coverage', '90');
    assert.match(stdout, /^ {2}line 11 {2}guard refuse-large: never true$/m);
    assert.match(stdout, /^ {2}line 20 {2}on_error ask-bob: never entered$/m);
    assert.match(stdout, /^ {2}line 11 {2}routing rule night: never matching$/m);
    assert.deepEqual([stderr, exit_code], ['\ndecision coverage of 36 % is below 90 %\n', 1]);
    assert.equal((await run(directory, '--min-coverage', '36')).exit_code, 0);
  });

  it('tells programs the same as JSON', async () => {
    const { directory } = testProject(HOLDS + FAILS);
    const { exit_code, stdout, stderr } = await run(directory, '--format', 'json');
    const report = JSON.parse(stdout);
    assert.deepEqual([report.passed, report.failed, report.coverage.percent, report.diagnostics], [1, 1, 36, []]);
    const { name, file, line, ok, problems, requests } = report.cases[1];
    assert.deepEqual([name, file, line, ok], ['refuses small requests', 'pipelines/messages.test.yaml', 9, false]);
    assert.deepEqual(problems, [
      { line: 13, column: 15, request: 1, pointer: '/status', expected: '429', found: '200' },
    ]);
    assert.deepEqual([requests[0].status, stderr, exit_code], [200, '', 1]);
  });

  it('shows mistakes of test files and configuration like check does, and runs the rest', async () => {
    const { directory } = testProject(HOLDS, {
      'pipelines/messages.more.test.yaml': 'pipeline: messages\ncases:\n  - name: broken\n    expcet: {}\n',
    });
    const { exit_code, stdout, stderr } = await run(directory);
    assert.match(stdout, /^error\[C3001\]: unknown key `expcet`\n {2}--> pipelines\/messages\.more\.test\.yaml:4:5$/m);
    assert.match(stdout, /^ok {4}pipelines\/messages\.test\.yaml/m);
    assert.match(stderr, /^\d+ errors? in files$/m);
    assert.equal(exit_code, 78);
  });

  it('accepts another gateway.yaml by name', async () => {
    const { directory } = testProject(HOLDS, {
      'other.yaml': 'server: { listen: 127.0.0.1:8080 }\n',
    });
    const { exit_code, stdout } = await run(directory, '--config', 'other.yaml', 'pipelines');
    assert.match(stdout, /--> other\.yaml/);
    assert.equal(exit_code, 78);
  });

  it('reports an empty run, a missing path, or a wrong option', async () => {
    const { directory } = testProject(HOLDS);
    const [none, absent, filter, percent] = await Promise.all([
      run(directory, 'gateway.yaml', '--filter', 'x'),
      run(directory, 'pipelnes'),
      run(directory, '--filter', 'nothing like it'),
      run(directory, '--min-coverage', 'most'),
    ]);
    assert.equal(none.exit_code, 78);
    assert.deepEqual([absent.exit_code, absent.stderr], [64, 'appscli: pipelnes does not exist\n']);
    assert.deepEqual([filter.exit_code, filter.stderr], [1, '\nno tests: no case name contains "nothing like it"\n']);
    assert.equal(percent.exit_code, 64);
    assert.match(percent.stderr, /Expected a number from 0 to 100/);
  });

  it('notes which stage looked for the network that tests do not have', async () => {
    const { directory } = testProject(HOLDS.replace('serves', 'sends'), {
      'stages/phone.js': `import { defineStage } from 'appscli';
export default defineStage({
  name: 'phone', version: 1, summary: 'Calls.', examples: [],
  options: { type: 'object', additionalProperties: false, properties: {} },
  needs: ['network'],
  create: () => ({ async request() { await fetch('https://home.example.com').catch(() => {}); } }),
});
`,
      'pipelines/messages.yaml': PIPELINE.replace('stages:\n', 'stages:\n  - stage: phone\n'),
    });
    const { appendFile } = await import('node:fs/promises');
    await appendFile(`${directory}/gateway.yaml`, 'stages: [stages/phone.js]\n');
    const { exit_code, stdout } = await run(directory);
    assert.match(stdout, /note: phone tried to reach home\.example\.com:443; tests block the network/);
    assert.equal(exit_code, 0);
  });
});
