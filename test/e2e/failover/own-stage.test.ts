/** A stage of the operator's own that acts before each attempt, in a pipeline without money and translation. */
import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'node:test';
import { projectOfTest } from '../../load/support/project.ts';
import { answers, type Call, type FaultServer, servedBy, serves } from '../../support/model-provider/fault-server.ts';
import { textIn } from '../streams/streams.ts';
import type { Response } from '../support/client.ts';
import { recordOf } from '../support/odd.ts';
import { useSeveral } from './several.ts';

const TIME_LIMIT_SECONDS = 60;

const STAGE = `
import { defineStage, StageError } from 'appscli';
export default defineStage({
  name: 'per-upstream', version: 1, summary: 'Names the upstream in the body.',
  options: { type: 'object', additionalProperties: false, properties: { as: { type: 'string', description: 'Its name.' } } },
  examples: [], reads: ['route.upstream'], raises: ['forbidden'], needs: ['raw-body', 'rewrite-body'],
  create: ({ as }, { clock }) => ({
    attempt(ctx) {
      const upstream = ctx.get('route.upstream');
      const fault = ctx.headers['x-fault'] ?? '';
      const is = (what) => fault === as + ' ' + what + ' ' + upstream;
      if (is('refuses') || fault === as + ' refuses all') throw new StageError('forbidden', 'Not there.');
      if (is('raises')) throw new StageError('not_found', 'Not declared.');
      if (is('writes')) ctx.body.replace('{oops');
      if (is('throws')) throw new Error('thrown on purpose');
      if (is('hangs')) {
        globalThis.onOwnStageHangs();
        return new Promise(() => {});
      }
      if (fault === as + ' waits') return new Promise((resolve) => setImmediate(resolve)).then(() => ctx.body.rewrite('metadata', { user_id: as + ' ' + upstream }));
      if (is('rewrites late')) {
        setImmediate(() => { try { ctx.body.rewrite('metadata', { user_id: 'late' }); } catch {} });
        return;
      }
      if (as === 'strict') ctx.body.rewrite('metadata', { user_id: as + ' ' + upstream });
    },
  }),
});
`;

const PIPELINE = `
pipeline: messages
version: 2
summary: Forwards Messages requests, whatever they cost.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: resolve-route
  - { stage: per-upstream, id: strict, timeout_seconds: ${TIME_LIMIT_SECONDS}, options: { as: strict } }
  - { stage: per-upstream, id: lenient, fail_closed: false, timeout_seconds: ${TIME_LIMIT_SECONDS}, options: { as: lenient } }
  - stage: forward
finally:
  - stage: audit
`;

describe('a stage of your own that acts before each attempt', () => {
  const { directory, path } = projectOfTest({ 'per-upstream.js': STAGE, 'messages.yaml': PIPELINE });
  const config = { pipelines: directory, stages: [path('per-upstream.js')] };
  const several = useSeveral({ count: 2, config, upstreams: { breaker: { mode: 'off' } } });
  let seen: string[];
  beforeEach(() => {
    // Reported by the stage, in this process.
    Object.assign(globalThis, { onOwnStageHangs: () => setImmediate(() => several.advance(TIME_LIMIT_SECONDS + 1)) });
    seen = [];
    const watching = (play: (call: Call) => void | Promise<void>) => (call: Call) => {
      const { metadata } = JSON.parse(call.received.body.toString());
      seen.push(`${call.upstream}: ${metadata?.user_id}`);
      return play(call);
    };
    const [a, b] = several.faults as [FaultServer, FaultServer];
    a.plays.set('a', watching(answers(500)));
    b.plays.set('b', watching(serves));
  });

  const ask = (fault = 'none') => several.ask(fault, { metadata: { user_id: 'client' } }, ['x-fault', fault]);
  const served = (got: Response) => textIn('messages', got.json());
  test('writes a body for each upstream, always from the original', async () => {
    const got = await ask();
    assert.equal(served(got), servedBy('b'));
    assert.deepEqual(seen, ['a: strict a', 'b: strict b']);
    assert.deepEqual((await recordOf(several.gateway, got)).rewrites, ['metadata']);
    assert.equal(served(await ask('lenient waits')), servedBy('b'));
    assert.deepEqual(seen.slice(2), ['a: lenient a', 'b: lenient b']);
  });

  test('keeps the request from an upstream by an error that it declares, and the next one serves', async () => {
    const got = await ask('strict refuses a');
    assert.equal(served(got), servedBy('b'));
    assert.deepEqual(seen, ['b: strict b']);
    assert.deepEqual((await recordOf(several.gateway, got)).dropped, ['a: stage']);
  });

  test('is the response, with its error, where it excludes the only upstream left', async () => {
    const got = await ask('strict refuses all');
    assert.equal(got.status, 403);
    assert.equal(got.json().error.code, 'forbidden');
    assert.deepEqual(seen, []);
    assert.deepEqual((await recordOf(several.gateway, got)).dropped, ['a: stage', 'b: stage']);
  });

  for (const what of ['throws', 'hangs', 'raises what it does not declare', 'writes what is no JSON']) {
    const [word] = what.split(' ');
    test(`ends the request when it ${what}, and is named`, async () => {
      const got = await ask(`strict ${word} b`);
      assert.equal(got.status, 500);
      assert.equal(got.json().error.stage, 'strict');
      assert.deepEqual(seen, ['a: strict a']);
      assert.equal((await ask(`strict ${word} a`)).status, 500);
      assert.deepEqual(seen, ['a: strict a']);
    });

    test(`is skipped when it ${what} and is not fail_closed`, async () => {
      const got = await ask(`lenient ${word} a`);
      assert.equal(served(got), servedBy('b'));
      assert.deepEqual(seen, ['a: strict a', 'b: strict b']);
    });
  }

  test('cannot use its input once it has returned', async () => {
    await ask('lenient rewrites late a');
    assert.deepEqual(seen, ['a: strict a', 'b: strict b']);
  });
});
