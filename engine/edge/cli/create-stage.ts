import { join } from 'node:path';
import { printableLines } from '../../base/kit/text/printable.ts';
import { isName } from '../../pipeline/load/stage-definition.ts';
import { type CommandContext, type CommandRow, EXIT_OK, option, usageError } from './commands.ts';
import { enterDirectory, isTaken, programPath, stagesTsconfig, writeNewFiles } from './new-files.ts';

const MODULE_MARKER = join('stages', 'package.json');

function nextSteps(name: string, directory: string, env: NodeJS.ProcessEnv): string {
  return `
Register it in gateway.yaml:

stages:
  - ./stages/${name}.ts

Insert it there into the pipelines of every API:

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

/** Writes a working stage and its test, all or nothing. Raises StartError for an invalid name or an existing file. */
async function createStage(
  { terminal, env, stages }: CommandContext,
  { name, directory }: { readonly name: string; readonly directory: string },
): Promise<number> {
  if (!isName(name)) {
    throw usageError(
      `${JSON.stringify(name)} is not a valid stage name: use lower-case words joined by dashes, such as require-ticket`,
    );
  }
  if ((await stages()).some((stage) => stage.name === name)) {
    throw usageError(`${name} is a shipped stage; use another name, such as own-${name}`);
  }
  const files: Record<string, string> = {
    [join('stages', `${name}.ts`)]: stageSource(name),
    [join('stages', `${name}.test.ts`)]: stageTestSource(name),
  };
  // `npm init` creates a CommonJS package, in which neither file would run.
  if (!isTaken(join(directory, MODULE_MARKER))) files[MODULE_MARKER] = '{ "type": "module" }\n';
  if (!isTaken(join(directory, 'tsconfig.json'))) files['tsconfig.json'] = stagesTsconfig(directory);
  await writeNewFiles(directory, files);
  terminal.data(printableLines(Object.keys(files).map((file) => join(directory, file))));
  terminal.info(nextSteps(name, directory, env));
  return EXIT_OK;
}

export function stageSource(name: string): string {
  return `import { defineStage, StageError } from 'appscli';

export default defineStage({
  name: '${name}',
  version: 1,
  summary: 'Rejects requests without a certain header.',
  // A JSON Schema. Unknown options are errors, and every option has a description.
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
  // Facts it reads (or writes: \`writes\`) and errors it raises. Undeclared ones cannot be used.
  reads: ['request.id'],
  raises: ['invalid_request'],
  // Runs once per load: keep shared state here, and the state of one request in \`ctx.state\`.
  create({ header }, { log }) {
    return {
      request(ctx) {
        if (ctx.headers[header] !== undefined) return undefined;
        log.info({ request_id: ctx.get('request.id'), header }, 'rejected a request without the header');
        throw new StageError('invalid_request', \`Send the header \${header}.\`);
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

test('passes a request with the header', async () => {
  const { hooks, request } = openStage(stage, { options });
  const ctx = request({ facts, headers: { 'x-ticket': 'T-1' } });
  assert.equal(await hooks.request?.(ctx), undefined);
});

test('rejects a request without the header, and names it', async () => {
  const { hooks, request, log } = openStage(stage, { options });
  await assert.rejects(async () => hooks.request?.(request({ facts })), {
    name: 'StageError',
    code: 'invalid_request',
    message: 'Send the header x-ticket.',
  });
  assert.deepEqual(log[0]?.fields, { request_id: 'request-1', header: 'x-ticket' });
});
`;
}

export const commands: readonly CommandRow[] = [
  {
    name: 'stage',
    about: 'write stages/NAME.ts with a test, and print how to use it',
    arguments: [['<name>', 'name in pipelines: lower-case words joined by dashes']],
    options: [option('--directory <directory>', 'directory of gateway.yaml').default('.')],
    examples: ['appscli create stage require-ticket'],
    run: createStage,
  },
];
