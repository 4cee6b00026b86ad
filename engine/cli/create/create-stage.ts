import { join } from 'node:path';
import { printableLines } from '../../kit/text/printable.ts';
import { isName } from '../../load/stage-definition.ts';
import type { CommandContext } from '../context.ts';
import { EXIT_OK, usageError } from '../exit-codes.ts';
import { enterDirectory, isTaken, programPath, writeNewFiles } from '../new-files.ts';
import { stagesTsconfig } from '../stages-project.ts';
import { stageSource, stageTestSource } from './stage-template.ts';

/** Says that the files beside it are ES modules. */
const MODULE_MARKER = join('stages', 'package.json');

function nextSteps(name: string, directory: string, env: NodeJS.ProcessEnv): string {
  return `
Make it known in gateway.yaml:

stages:
  - ./stages/${name}.ts

Say there where it runs, for the clients of every API:

everywhere:
  insert:
    - after: authenticate
      stages:
        - stage: ${name}
          options: { header: x-ticket }

Then:

${enterDirectory(directory)}${programPath(directory, env).line}  node --test stages/${name}.test.ts
  appscli check
`;
}

/**
 * `appscli create stage`: writes a stage that works and its test, and prints what to add to gateway.yaml.
 * Raises StartError, without having written anything, for a name that can't be used and for a file that exists.
 */
export async function createStage(
  { terminal, env, stages }: CommandContext,
  name: string,
  { directory }: { readonly directory: string },
): Promise<number> {
  if (!isName(name)) {
    throw usageError(
      `${JSON.stringify(name)} cannot be the name of a stage: lower-case words joined by dashes, such as require-ticket`,
    );
  }
  if ((await stages()).some((stage) => stage.name === name)) {
    throw usageError(`${name} is the name of a shipped stage; call yours something else, such as own-${name}`);
  }
  const files: Record<string, string> = {
    [join('stages', `${name}.ts`)]: stageSource(name),
    [join('stages', `${name}.test.ts`)]: stageTestSource(name),
  };
  // `npm init` makes a directory one of CommonJS, in which neither file would run.
  if (!isTaken(join(directory, MODULE_MARKER))) files[MODULE_MARKER] = '{ "type": "module" }\n';
  if (!isTaken(join(directory, 'tsconfig.json'))) files['tsconfig.json'] = stagesTsconfig(directory);
  await writeNewFiles(directory, files);
  terminal.data(printableLines(Object.keys(files).map((file) => join(directory, file))));
  terminal.info(nextSteps(name, directory, env));
  return EXIT_OK;
}
