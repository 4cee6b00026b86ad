import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { runShutdown } from '../../engine/edge/gateway/signals.ts';
import { collectingLog, type RunningCommand, start } from '../cli/support.ts';
import { ownDirectory } from '../support/own-directory.ts';
import { until } from '../support/until.ts';

const SIGNALS = new URL('../../engine/edge/gateway/signals.ts', import.meta.url).href;
const directory = ownDirectory();

/** Runs something until a signal; `body` is what `start` does, and may call `say`. */
async function runUntilSignal(name: string, body: string, terminal_gone = 'undefined'): Promise<RunningCommand> {
  const file = join(directory, `${name}.mjs`);
  await writeFile(
    file,
    `import { runUntilSignal } from '${SIGNALS}';
     const say = (text) => process.stdout.write(text + '\\n');
     const log = { debug() {}, info: (_, text) => say(text), warn() {}, error: (_, text) => say(text) };
     const wait = setInterval(() => {}, 1000);
     const closable = { async close() { say('closed'); clearInterval(wait); } };
     process.exitCode = await runUntilSignal(async () => { ${body} }, log, ${terminal_gone});`,
  );
  const running = start(process.execPath, [file]);
  await until('it has started', () => running.stdout().includes('begun'));
  return running;
}

const RELOADS = `say('begun'); return { ...closable, reload: async () => say('reloaded') };`;
/** Goes on when a signal is on its way, whatever would be done by then. */
const startsUntil = (signal: string) =>
  `say('begun'); await new Promise((resolve) => process.once('${signal}', () => setImmediate(resolve)));`;

/** Sends a signal, after which it is closed and ends well. */
async function endsBy(signal: NodeJS.Signals, { process: child, ended }: RunningCommand): Promise<void> {
  child.kill(signal);
  const { exit_code, stdout } = await ended;
  assert.equal(exit_code, 0);
  assert.match(stdout, /\nstopping.*\nclosed\nstopped\n$/);
}

const hasReloaded = (running: RunningCommand, times: number) =>
  until(`it has reloaded ${times} times`, () => running.stdout().split('reloaded').length === times + 1);

test('a signal during the start takes effect after it', async () => {
  await endsBy('SIGINT', await runUntilSignal('early', `${startsUntil('SIGINT')} return closable;`));
  const running = await runUntilSignal('early-reload', `${startsUntil('SIGHUP')} ${RELOADS}`);
  running.process.kill('SIGHUP');
  await hasReloaded(running, 1);
  await endsBy('SIGTERM', running);
});

test('SIGHUP from a closed terminal stops, also a reloadable service', async () => {
  await endsBy('SIGHUP', await runUntilSignal('gone', RELOADS, '() => true'));
});

test('the same signal from terminal, npm and launcher counts once', async () => {
  // It is closed when all of them have come: one that meets a process on its way out is for the system to handle.
  const running = await runUntilSignal(
    'same',
    `const all = new Promise((resolve) => process.once('SIGUSR2', resolve));
     say('begun');
     return { close: () => all.then(() => closable.close()) };`,
  );
  for (let i = 0; i < 3; i++) running.process.kill('SIGINT');
  running.process.kill('SIGUSR2');
  assert.equal((await running.ended).exit_code, 0);
});

test('a second signal ends the process at once, whatever is still to be closed', async () => {
  const running = await runUntilSignal('second', `say('begun'); return { close: () => new Promise(() => {}) };`);
  // One within half a second counts as the first.
  await until('the process has ended', () => {
    running.process.kill('SIGTERM');
    return running.process.exitCode !== null;
  });
  assert.equal((await running.ended).exit_code, 143);
});

test('the same signal once more, after all is closed, changes nothing, and nothing left open keeps the process', async () => {
  const running = await runUntilSignal('late', `say('begun'); setInterval(() => {}, 1000); return closable;`);
  running.process.kill('SIGINT');
  await until('it has stopped', () => running.stdout().includes('stopped'));
  running.process.kill('SIGINT');
  assert.equal((await running.ended).exit_code, 0);
});

test('an uncaught error is logged, closes what runs, and ends in exit code 1', async () => {
  for (const mishap of ['throw new Error()', 'Promise.reject(new Error())']) {
    const running = await runUntilSignal('mishap', `say('begun'); setImmediate(() => { ${mishap} }); return closable;`);
    const { exit_code, stdout } = await running.ended;
    assert.equal(exit_code, 1);
    assert.match(stdout, /unhandled error.*\nclosed\n/);
  }
});

test('closes everything in the given order, one after the other', async () => {
  const order: string[] = [];
  const step = (name: string) => ({
    name,
    seconds: 1,
    async close() {
      order.push(`${name} begins`);
      await new Promise((resolve) => setImmediate(resolve));
      order.push(`${name} ends`);
    },
  });
  await runShutdown([step('server'), step('database')], collectingLog().log);
  assert.deepEqual(order, ['server begins', 'server ends', 'database begins', 'database ends']);
});

test('a part that fails or never ends is logged, and the next ones are closed all the same', async () => {
  const { log, lines } = collectingLog();
  let closed = false;
  const atOnce = () => {
    throw new Error('at once');
  };
  const close = async () => {
    closed = true;
  };
  await runShutdown(
    [
      { name: 'broken', seconds: 1, close: () => Promise.reject(new Error('no')) },
      { name: 'hasty', seconds: 1, close: atOnce },
      { name: 'stuck', seconds: 0.01, close: () => new Promise(() => {}) },
      { name: 'last', seconds: 1, close },
    ],
    log,
  );
  assert.equal(closed, true);
  const parts = lines.map(({ part }) => part);
  assert.deepEqual(parts, ['broken', 'hasty', 'stuck']);
});
