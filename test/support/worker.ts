/**
 * A process that runs test files one after the other, as `test/run.ts` hands them out. What they import is loaded and
 * compiled once, which takes longer than most of them run. Each is a suite, so that its hooks are its own.
 */
import { once } from 'node:events';
import { flushCompileCache } from 'node:module';
import type { Socket } from 'node:net';
import { suite } from 'node:test';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { endFile, endProcess } from './file-end.ts';
import { SEED } from './random.ts';
import { times } from './times.ts';

const LOAD_MS = 60_000;
const END_MS = 30_000;

fc.configureGlobal({ seed: SEED, numRuns: times(40) });

// The report of a run has the message of such an error, and not its stack.
process.on('uncaughtExceptionMonitor', ({ stack }) => console.error(stack));

async function nextFile(): Promise<string | undefined> {
  process.send!('next');
  const [file] = (await once(process, 'message')) as [string];
  return file === '' ? undefined : file;
}

/** Ends the process with a message where the test runner would wait for ever. The returned function stops it. */
function failLater(milliseconds: number, why: () => string): NodeJS.Timeout {
  return setTimeout(() => {
    console.error(why());
    process.exit(1);
  }, milliseconds);
}

/** The file after which a handle was first seen; Node.js has no public list of handles. */
const seen = new Map<object, string>();
const handles = () => (process as unknown as { _getActiveHandles(): object[] })._getActiveHandles();

/** The handles that keep this process from ending, with their file. */
function leftOpen(): string {
  const open = handles().flatMap((handle) => {
    const { remoteAddress, remotePort } = handle as Partial<Socket>;
    const file = seen.get(handle) ?? 'what ends the process';
    return remotePort === undefined ? [] : [`a connection to ${remoteAddress}:${remotePort} of ${file}`];
  });
  return `tests left open: ${[process.getActiveResourcesInfo().join(', '), ...open].join('; ')}`;
}

for (let file = await nextFile(); file !== undefined; file = await nextFile()) {
  const { href } = pathToFileURL(file);
  await suite(file, async () => {
    const waiting = failLater(LOAD_MS, () => `${file} was not loaded within ${LOAD_MS / 1000} seconds`);
    await import(href).finally(() => clearTimeout(waiting));
  });
  await endFile();
  for (const handle of handles()) if (!seen.has(handle)) seen.set(handle, file);
  // The programs that tests start need not compile it again. Node.js itself would write it down only as this process ends.
  flushCompileCache();
}
process.disconnect();
setTimeout(() => {
  console.error(leftOpen());
  process.exitCode = 1;
  // The failures are printed once nothing keeps the process.
  for (const handle of handles()) (handle as Partial<Socket>).unref?.();
  failLater(END_MS, leftOpen).unref();
}, END_MS).unref();
await endProcess();
