/**
 * A process that runs test files one after the other, as `test/run.ts` hands them out. What they import is loaded and
 * compiled once, which takes longer than most of them run. Each is a suite, so that its hooks are its own.
 * @module
 */
import { once } from 'node:events';
import { flushCompileCache } from 'node:module';
import { suite } from 'node:test';
import { pathToFileURL } from 'node:url';
import fc from 'fast-check';
import { endFile, endProcess } from './file-end.ts';
import { SEED } from './random.ts';
import { times } from './times.ts';

const LOAD_MS = 60_000;
const END_MS = 30_000;

fc.configureGlobal({ seed: SEED, numRuns: times(40) });

// The report of a run has the words of such an error, and not where it comes from.
process.on('uncaughtExceptionMonitor', ({ stack }) => console.error(stack));

async function nextFile(): Promise<string | undefined> {
  process.send!('next');
  const [file] = (await once(process, 'message')) as [string];
  return file === '' ? undefined : file;
}

/** Ends the process with words where the test runner would wait for ever. Stopped by what it returns. */
function failLater(milliseconds: number, why: () => string): NodeJS.Timeout {
  return setTimeout(() => {
    console.error(why());
    process.exit(1);
  }, milliseconds);
}

for (let file = await nextFile(); file !== undefined; file = await nextFile()) {
  const { href } = pathToFileURL(file);
  await suite(file, async () => {
    const waiting = failLater(LOAD_MS, () => `${file} was not loaded within ${LOAD_MS / 1000} seconds`);
    await import(href).finally(() => clearTimeout(waiting));
  });
  await endFile();
  // The programs that tests start need not compile it again. Node.js itself would write it down only as this process ends.
  flushCompileCache();
}
process.disconnect();
failLater(END_MS, () => `tests left open: ${process.getActiveResourcesInfo().join(', ')}`).unref();
await endProcess();
