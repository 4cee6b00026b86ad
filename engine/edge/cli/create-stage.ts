import { join } from 'node:path';
import { printableLines } from '../../base/kit/text/printable.ts';
import { isName } from '../../pipeline/load/stage-definition.ts';
import type { CommandRow } from './commands.ts';
import type { CommandContext } from './context.ts';
import { EXIT_OK, usageError } from './exit-codes.ts';
import { enterDirectory, isTaken, programPath, stagesTsconfig, writeNewFiles } from './new-files.ts';
import { option } from './options.ts';

/** Says that the files beside it are ES modules. */
const MODULE_MARKER = join('stages', 'package.json');

function nextSteps(name: string, directory: string, env: NodeJS.ProcessEnv): string {
  return `
Make it known in gateway.yaml:

stages:
  - ./stages/${name}.ts

Say there where it runs, for the clients of every API:

all_pipelines:
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
async function createStage(
  { terminal, env, stages }: CommandContext,
  { name, directory }: { readonly name: string; readonly directory: string },
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

/** The module of a new stage: small, complete, and with one of everything most stages need. */
export function stageSource(name: string): string {
  return `import { defineStage, StageError } from 'appscli';

export default defineStage({
  name: '${name}',
  version: 1,
  summary: 'Refuses requests that come without a certain header.',
  // A JSON Schema. An option that does not stand here is an error, and every option has a description.
  options: {
    type: 'object',
    additionalProperties: false,
    required: ['header'],
    properties: {
      header: {
        type: 'string',
        pattern: '^[a-z0-9-]+$',
        description: 'Name of the header, in lower case.',
      },
    },
  },
  examples: [{ title: 'Ask for a ticket', yaml: '- stage: ${name}\\n  options: { header: x-ticket }' }],
  // Facts it reads (or writes: \`writes\`) and errors it raises. What is not declared cannot be used.
  reads: ['request.id'],
  raises: ['invalid_request'],
  // Runs once per load. What all requests share belongs here, what belongs to one request into \`ctx.state\`.
  create({ header }, { log }) {
    return {
      request(ctx) {
        if (ctx.headers[header] !== undefined) return undefined;
        log.info({ request_id: ctx.get('request.id'), header }, 'a request came without its header');
        throw new StageError('invalid_request', \`Send the header \${header} along.\`);
      },
    };
  },
});
`;
}

function stageTestSource(name: string): string {
  return `import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openStage } from 'appscli/testing';
import stage from './${name}.ts';

const options = { header: 'x-ticket' };
const facts = { 'request.id': 'request-1' };

test('lets a request with the header pass', async () => {
  const { hooks, request } = openStage(stage, { options });
  const ctx = request({ facts, headers: { 'x-ticket': 'T-1' } });
  assert.equal(await hooks.request?.(ctx), undefined);
});

test('refuses a request without the header, and says which one it is', async () => {
  const { hooks, request, log } = openStage(stage, { options });
  await assert.rejects(async () => hooks.request?.(request({ facts })), {
    name: 'StageError',
    code: 'invalid_request',
    message: 'Send the header x-ticket along.',
  });
  assert.deepEqual(log[0]?.fields, { request_id: 'request-1', header: 'x-ticket' });
});
`;
}

/** `appscli create`. */
export const commands: readonly CommandRow[] = [
  {
    name: 'stage',
    about: 'write stages/NAME.ts and its test, and say how to use it',
    arguments: [['<name>', 'its name in pipelines: lower-case words joined by dashes']],
    options: [option('--directory <directory>', 'where gateway.yaml is').default('.')],
    examples: ['appscli create stage require-ticket'],
    run: createStage,
  },
];
