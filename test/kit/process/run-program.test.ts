import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { type ProgramRun, runProgram } from '../../../engine/base/kit/process/run-program.ts';
import { until } from '../../support/until.ts';

const run = (command: ProgramRun['command'], more: Partial<ProgramRun> = {}) =>
  runProgram({ command, env: { PATH: process.env.PATH }, seconds: 60, bytes_max: 1000, ...more });

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    // One that has ended is there until its parent asks how.
    return !(existsSync(`/proc/${pid}/stat`) && readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z '));
  } catch {
    return false;
  }
}

describe('a third-party program', { skip: process.platform === 'win32' && 'the lines are for sh' }, () => {
  test('returns its output and exit status', async () => {
    const end = await run({ line: 'echo out; echo err >&2; exit 3' });
    assert.deepEqual(end, { ending: 'exit', exit_code: 3, stdout: 'out\n', stderr: 'err\n' });
  });

  test('gets an empty standard input, and only the given variables', async () => {
    const end = await run({ line: 'cat; echo "$SECRET."' }, { env: { PATH: process.env.PATH, SECRET: 'told' } });
    assert.equal(end.stdout, 'told.\n');
  });

  test('that is missing is reported, whether a shell looks for it or not', async () => {
    assert.equal((await run({ program: '/nowhere/helper', args: [] })).ending, 'no_start');
    assert.equal((await run({ line: 'echo a\0b' })).ending, 'no_start');
    assert.equal((await run({ program: 'echo', args: ['x'.repeat(4_000_000)] })).ending, 'no_start');
    assert.equal((await run({ line: '/nowhere/helper' })).exit_code, 127);
  });

  test('that does not end is ended', async () => {
    const { ending, exit_code } = await run({ line: 'sleep 600' }, { seconds: 0.1 });
    assert.deepEqual([ending, exit_code], ['too_late', undefined]);
  });

  test('is ended when its caller has enough', async () => {
    const stop = new AbortController();
    const ended = run({ line: 'sleep 600' }, { signal: stop.signal });
    stop.abort();
    assert.equal((await ended).ending, 'stopped');
    assert.equal((await run({ line: 'sleep 600' }, { signal: stop.signal })).ending, 'stopped');
  });

  test('that leaves a child behind has it ended', async () => {
    const { ending, stdout } = await run({ line: 'sleep 600 >/dev/null 2>&1 & echo $!' });
    assert.equal(ending, 'exit');
    const left_behind = Number(stdout);
    assert.ok(left_behind > 1, `the shell printed ${stdout}`);
    await until('it has ended', () => !isRunning(left_behind));
  });

  test('that leaves a child with its output open is not waited for', async () => {
    const { ending, stdout } = await run({ line: 'sleep 600 & echo told' });
    assert.deepEqual([ending, stdout], ['exit', 'told\n']);
  });

  test('that prints endlessly is ended, and only the requested output is kept', async () => {
    const { ending, stdout } = await run({ program: 'yes', args: [] });
    assert.equal(ending, 'too_large');
    assert.equal(stdout.length, 1000);
  });
});
