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

/** The test of a new stage. */
export function stageTestSource(name: string): string {
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
