/**
 * The whole gate: `npm run verify`. Types, lint, the console (the slow tests open its build), the quick and the slow tests, and `check` over what is shipped; stops at the first failure.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';

process.chdir(join(import.meta.dirname, '..'));

const npx = (command: string, ...args: string[]) => ({ command: `node_modules/.bin/${command}`, args });
const node = (...args: string[]) => ({ command: process.execPath, args });

const steps = [
  { title: 'Types', ...npx('tsc', '-p', 'tsconfig.json') },
  { title: 'Console', ...node('engine/edge/console/build.mjs') },
  { title: 'Types of the console', ...npx('tsc', '-p', 'engine/edge/console/tsconfig.json') },
  { title: 'Lint', ...npx('biome', 'check', '--error-on-warnings', '.') },
  { title: 'Generated files', ...node('schemas/generate.ts', '--check') },
  { title: 'Quick tests', ...node('test/run.ts') },
  { title: 'Slow tests', ...node('test/run.ts', 'slow') },
  { title: 'Check', ...node('engine/bin/appscli.js', 'check', '--config', 'examples/demo/gateway.yaml') },
];

for (const { title, command, args } of steps) {
  console.log(`\n== ${title}`);
  const { status, error } = spawnSync(command, args, { stdio: 'inherit' });
  if (error !== undefined) console.error(error.message);
  if (status !== 0) {
    console.error(`\n== ${title} failed`);
    process.exit(status ?? 1);
  }
}
console.log('\n== All passed');
