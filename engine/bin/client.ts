/**
 * The program in the package that a gateway serves at `/client.tgz`. `engine/edge/console/build.mjs` bundles it into one file for
 * Node.js 20.
 * @module
 */
import './node-20.ts';
import { packageGateway } from '../base/kit/package-root.ts';
import { createClientProgram, environmentOf } from '../edge/cli/client-program.ts';
import { main } from '../edge/cli/main.ts';

const gateway = packageGateway();

await main(process.argv.slice(2), {
  create: createClientProgram,
  env: environmentOf(process.env, gateway),
  gateway,
  stages: async () => [],
});
