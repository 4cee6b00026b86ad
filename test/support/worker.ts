/**
 * A process that runs test files one after the other, as `test/run.ts` hands them out. What they import is loaded and
 * compiled once, which takes longer than most of them run. Each is a suite, so that its hooks are its own.
 * @module
 */
import { once } from 'node:events';
import { suite } from 'node:test';
import { pathToFileURL } from 'node:url';
import { endFile } from './file-end.ts';

async function nextFile(): Promise<string | undefined> {
  process.send!('next');
  const [file] = (await once(process, 'message')) as [string];
  return file === '' ? undefined : file;
}

for (let file = await nextFile(); file !== undefined; file = await nextFile()) {
  const { href } = pathToFileURL(file);
  await suite(file, async () => void (await import(href)));
  await endFile();
}
process.disconnect();
