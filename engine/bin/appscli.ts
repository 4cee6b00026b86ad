import { main } from '../edge/cli/main.ts';
import { createProgram } from '../edge/cli/program.ts';

await main(process.argv.slice(2), {
  create: createProgram,
  env: process.env,
  stages: async () => (await import('../../stages/index.ts')).stages,
});
