/**
 * The program in the package that a gateway serves at `/client.tgz`. `engine/console/build.mjs` makes one file of it that runs on
 * Node.js 20.
 * @module
 */
import './node-20.ts';
import { createClientProgram, environmentOf } from '../cli/client-program.ts';
import { main } from '../cli/main.ts';
import { packageGateway } from '../kit/package-root.ts';

const gateway = packageGateway();

await main(process.argv.slice(2), {
  create: createClientProgram,
  env: environmentOf(process.env, gateway),
  gateway,
  stages: async () => [],
});
