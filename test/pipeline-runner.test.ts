import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { missing } from './support/pipeline-expect.ts';
import { openPipelineRunner } from './support/pipeline-runner.ts';
import { readPipelineTest } from './support/pipeline-test-file.ts';

let directory: string;
before(async () => {
  directory = await mkdtemp(join(tmpdir(), 'appscli-pipeline-tests-'));
});
after(() => rm(directory, { recursive: true, force: true }));

async function write(lines: readonly string[]): Promise<string> {
  const file = join(directory, 'health.test.yaml');
  await writeFile(file, `${lines.join('\n')}\n`);
  return file;
}

const CASE = ['pipeline: health', 'cases:', '  - name: lives', '    request: { method: GET, path: /healthz }'];

describe('a pipeline test file', () => {
  const broken: readonly (readonly [mistake: string, lines: readonly string[], message: RegExp])[] = [
    ['a misspelt key', [...CASE, '    expcet: { status: 200 }'], /^health\.test\.yaml:5:5: unknown key.*expcet/m],
    ['a wrong type', [...CASE, '    expect: { status: "200" }'], /^health\.test\.yaml:5:23: /m],
    ['a fact that does not exist', [...CASE, '    expect: { facts: { request.modle: x } }'], /:5:24: .*request\.modle/],
    ['a stage that does not exist', [...CASE, '    expect: { runs: [authentikate] }'], /:5:22: .*authentikate/],
    ['nothing to expect', [...CASE, '    expect: {}'], /^health\.test\.yaml:5:/m],
    [
      'two bodies',
      [...CASE.slice(0, 3), '    request: { json: {}, text: "" }', '    expect: { status: 200 }'],
      /:4:26: .*"json" and "text"/,
    ],
    [
      'a client that leaves at no moment',
      [...CASE.slice(0, 3), '    request: { leaves: during_answer }', '    expect: { status: 200 }'],
      /:4:16: .*cannot leave.*fails: hang/,
    ],
    [
      'two cases of one name',
      [...CASE, '    expect: { status: 200 }', ...CASE.slice(2), '    expect: { status: 200 }'],
      /:6:11: two cases are called "lives"/,
    ],
    [
      "another pipeline's name",
      ['pipeline: models', ...CASE.slice(1), '    expect: { status: 200 }'],
      /:1:11: .*"models".*another pipeline's file/,
    ],
  ];
  for (const [mistake, lines, message] of broken) {
    it(`is refused for ${mistake}, with file, line and column`, async () => {
      const file = await write(lines);
      assert.throws(() => readPipelineTest(file), { message });
    });
  }

  it('lists all mistakes at once', async () => {
    const file = await write([...CASE, '    expcet: {}', '    upstraem: {}']);
    assert.throws(() => readPipelineTest(file), { message: /expcet.*\n.*upstraem/ });
  });
});

describe('the comparison', () => {
  it('lets mappings hold more than wanted, and lists not', () => {
    assert.deepEqual(missing({ a: { b: 1 } }, { a: { b: 1, c: 2 }, d: 3 }, ''), []);
    assert.deepEqual(missing([{ a: 1 }], [{ a: 1, b: 2 }], ''), []);
    assert.equal(missing([1], [1, 2], '').length, 1);
    assert.equal(missing([1], { 0: 1 }, '').length, 1);
  });

  it('points at what is different', () => {
    assert.deepEqual(missing({ a: [{ b: 'x' }] }, { a: [{ b: 'y' }] }, '/expect/json'), [
      { pointer: '/expect/json/a/0/b', problem: 'expected "x", found "y"' },
    ]);
  });

  it('tells nothing, null and the text apart', () => {
    assert.equal(missing(null, undefined, '').length, 1);
    assert.equal(missing('1', 1, '').length, 1);
    assert.deepEqual(missing(null, null, ''), []);
  });
});

describe('a case that does not hold', () => {
  it('fails with the line of every expectation that is wrong, and what the client got', async () => {
    const file = await write([
      ...CASE,
      '    expect:',
      '      status: 503',
      '      headers:',
      '        cache-control: no-store',
      '        retry-after: "1"',
      '      json:',
      '        status: unavailable',
      '      contains: [database]',
      '      lacks: [checks]',
      '      facts: { request.path: /readyz }',
      '      runs: [report-health, forward]',
      '      skips: [report-health]',
      '      ledger: {}',
      '      upstream: {}',
      '      events: [ping]',
    ]);
    const runner = await openPipelineRunner(readPipelineTest(file), '/healthz');
    const error = await runner.run(0).then(
      () => assert.fail('the case held'),
      (reason: Error) => reason,
    );
    await runner.close();
    const told = error.message.split('\n');
    assert.equal(told[0], 'not as expected:');
    assert.deepEqual(
      told.slice(1, -1).map((line) => line.replace(/^(\S+: \S+:).*/, '$1')),
      [
        'health.test.yaml:6: expect/status:',
        'health.test.yaml:9: expect/headers/retry-after:',
        'health.test.yaml:11: expect/json/status:',
        'health.test.yaml:19: expect/events:',
        'health.test.yaml:12: expect/contains/0:',
        'health.test.yaml:13: expect/lacks/0:',
        'health.test.yaml:18: expect/upstream:',
        'health.test.yaml:14: expect/facts/request.path:',
        'health.test.yaml:15: expect/runs/1:',
        'health.test.yaml:16: expect/skips/0:',
        'health.test.yaml:17: expect/ledger:',
      ],
    );
    assert.match(told.at(-1)!, /^the client got status 200, body \{"status":"ok"/);
  });
});
