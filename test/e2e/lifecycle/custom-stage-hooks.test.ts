/** Faulty custom stages around a forwarded request: their effects on a response, and in the background. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ResponseHead, StageContext } from '../../../engine/base/contract/stage.ts';
import { projectOfTest } from '../../load/support/project.ts';
import { UPSTREAM_KEY } from '../../support/gateway.ts';
import { answerChunks, messageEvents } from '../../support/model-provider/scripted-upstream.ts';
import { until } from '../../support/until.ts';
import { ask, type Response, send } from '../support/client.ts';
import { recordOf } from '../support/odd.ts';
import { openProcessScene } from '../support/process-scene.ts';
import { useGateway } from '../support/use-gateway.ts';

const WATCHER = `
import { defineStage, StageError } from 'appscli';
export default defineStage({
  name: 'watcher', version: 1, summary: 'Fails where the request says.',
  options: { type: 'object', additionalProperties: false, properties: { as: { type: 'string', description: 'Its name.' } } },
  examples: [], raises: ['forbidden'],
  create({ as }) {
    const is = (ctx, fault) => ctx.headers['x-fault'] === as + ' ' + fault;
    const fail = () => { throw new Error('thrown on purpose'); };
    return {
      response(ctx, head) {
        if (is(ctx, 'refusal')) throw new StageError('forbidden', 'The answer is not for you.');
        if (is(ctx, 'keeps')) globalThis.kept = { head };
        if (is(ctx, 'response')) fail();
        if (is(ctx, 'trap')) throw new Proxy({}, { getPrototypeOf: fail });
        if (is(ctx, 'header')) head.set('x-broken', 'a\\r\\nb: c');
        if (is(ctx, 'framing header')) head.set('content-length', '3');
        if (is(ctx, 'replaced header')) head.replaceAll('x-', { 'x-fine': 'a', 'x-broken': 'a\\r\\nb: c' });
        if (is(ctx, 'everything replaced')) head.replaceAll('', {});
        if (is(ctx, 'status')) head.status = 999;
        if (is(ctx, 'async response')) return Promise.reject(new Error('thrown on purpose'));
        head.set('x-watcher-' + as, 'here');
      },
      event(ctx, event) {
        if (is(ctx, 'keeps')) globalThis.kept.ctx = ctx;
        if (is(ctx, 'keeps')) return { get then() { return fail(); } };
        if (is(ctx, 'event')) fail();
        if (is(ctx, 'async event')) return Promise.reject(new Error('thrown on purpose'));
        if (is(ctx, 'change event')) event.data = '{"usage":{"input_tokens":1,"output_tokens":1}}';
      },
      finish(ctx) { if (is(ctx, 'finish')) fail(); },
      close: () => new Promise(() => {}),
    };
  },
});
`;

const LAST = `
import { defineStage } from 'appscli';
export default defineStage({
  name: 'last', version: 1, place: 'finally', summary: 'Fails where the request says.', timeout_seconds: 0.05,
  options: { type: 'object', additionalProperties: false, properties: {} }, examples: [],
  create: () => ({
    finally(ctx) {
      if (ctx.headers['x-fault'] === 'last looks') globalThis.seenByAStage = JSON.stringify(ctx.headers);
      if (ctx.headers['x-fault'] === 'last throws') throw new Error('thrown on purpose');
      if (ctx.headers['x-fault'] === 'last throws an unreadable error') {
        throw Object.defineProperty(new Error('odd'), 'stack', { get() { throw new Error('thrown by a getter'); } });
      }
      if (ctx.headers['x-fault'] === 'last hangs') return new Promise(() => {});
      if (ctx.headers['x-fault'] === 'last strays') {
        void Promise.reject(new Error('a stray promise'));
        setTimeout(() => { throw new Error('a stray timer'); }, 1);
      }
    },
  }),
});
`;

const PIPELINE = `
pipeline: messages
version: 2
summary: Forwards Messages requests past faulty stages.
match: { methods: [POST], paths: [/v1/messages], protocol: messages }
stages:
  - stage: authenticate
  - stage: read-body
  - stage: resolve-route
  - stage: check-budget
  - stage: meter-usage
  - { stage: watcher, id: strict, timeout_seconds: 0.5, options: { as: strict } }
  - { stage: watcher, id: lenient, fail_closed: false, timeout_seconds: 0.5, options: { as: lenient } }
  - { stage: watcher, id: shadowed, mode: shadow, options: { as: shadowed } }
  - { stage: reject, id: no-tests, mode: shadow, when: { "===": [{ var: request.client.name }, tests] }, options: { error: forbidden } }
  - stage: forward
on_error:
  - { id: hide, mode: shadow, stage: reject, options: { error: overloaded } }
finally:
  - { stage: last, id: never, mode: shadow }
  - stage: last
  - stage: audit
`;

const project = projectOfTest({ 'watcher.js': WATCHER, 'last.js': LAST, 'messages.yaml': PIPELINE });
const stages = [project.path('watcher.js'), project.path('last.js')];
const { gateway, upstream } = useGateway({ pipelines: project.directory, stages });

const fault = (text: string, agent = 'other/1'): Promise<Response> =>
  ask(gateway.url, gateway.token, {}, ['x-fault', text, 'user-agent', agent]);

async function failureOf(response: Response): Promise<Record<string, unknown>> {
  const id = response.headers['x-gateway-request-id'];
  return await until('the failure is in the log', () =>
    gateway.logs
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .find((record) => record.request_id === id && String(record.text).startsWith('a stage failed')),
  );
}

describe('a failing response hook', () => {
  const odd = ['framing header', 'replaced header', 'everything replaced', 'status', 'trap'];
  for (const what of ['response', 'header', ...odd, 'async response']) {
    test(`(${what}) fails the request, and nothing of the response gets out`, async () => {
      const response = await fault(`strict ${what}`);
      assert.equal(response.status, 500);
      assert.equal(response.json().error.stage, 'strict');
      assert.equal((await failureOf(response)).stage, 'strict');
    });

    test(`(${what}) of a stage that is not fail_closed changes nothing`, async () => {
      const response = await fault(`lenient ${what}`);
      assert.equal(response.status, 200);
      assert.equal(response.headers['x-watcher-strict'], 'here');
      assert.equal(response.headers['x-broken'], undefined);
      assert.equal(response.headers['content-length'], String(response.body.length));
      assert.equal((await failureOf(response)).stage, 'lenient');
    });
  }
});

for (const who of ['strict', 'lenient']) {
  test(`rejecting a response is no failure: the client gets the error (${who})`, async () => {
    const response = await fault(`${who} refusal`);
    assert.equal(response.status, 403);
    assert.equal(response.json().error.code, 'forbidden');
    const { error, error_stage, stage } = await recordOf(gateway, response);
    assert.deepEqual([error, error_stage ?? stage], ['forbidden', who]);
  });
}

test('a retained response or event is useless once the hook is over, however that ended', async () => {
  await failureOf(await fault('lenient keeps'));
  const { head, ctx } = (globalThis as unknown as { kept: { head: ResponseHead; ctx: StageContext } }).kept;
  assert.throws(() => head.set('x-late', '1'), /the hook has ended/);
  assert.throws(() => head.remove('x-late'), /the hook has ended/);
  assert.throws(() => ctx.state, /the hook has ended/);
});

describe('a failure after the response', () => {
  for (const what of ['event', 'finish', 'async event']) {
    test(`(${what}) is in the log under the stage's name and changes nothing`, async () => {
      const response = await fault(`strict ${what}`);
      assert.equal(response.status, 200);
      const failure = await failureOf(response);
      assert.equal(failure.stage, 'strict');
      assert.equal(failure.text, `a stage failed in its ${what.replace('async ', '')} hook`);
    });
  }

  test('(event, at every event of a stream) is logged once', async () => {
    upstream.script = answerChunks(messageEvents());
    const response = await ask(gateway.url, gateway.token, { stream: true }, ['x-fault', 'strict event']);
    assert.equal(response.text, messageEvents().join(''));
    await recordOf(gateway, response);
    const id = response.headers['x-gateway-request-id'];
    const failures = gateway.logs.filter((line) => line.includes(`"${id}"`) && line.includes('a stage failed'));
    assert.equal(failures.length, 1);
  });

  for (const what of ['throws', 'throws an unreadable error', 'hangs']) {
    test(`(finally ${what}) leaves the stages behind it alone`, async () => {
      const response = await fault(`last ${what}`);
      assert.equal(response.status, 200);
      assert.equal((await failureOf(response)).stage, 'last');
      assert.equal((await recordOf(gateway, response)).status, 200);
    });
  }
});

test('a stage sees the headers that the client sent, never the credential of the upstream', async () => {
  assert.equal((await fault('last looks')).status, 200);
  const seen = await until('the stage has looked', () => (globalThis as { seenByAStage?: string }).seenByAStage);
  assert.ok(!seen.includes(UPSTREAM_KEY));
  assert.equal(JSON.parse(seen).host, new URL(gateway.url).host);
});

test('a stage that changes an event changes it for itself only', async () => {
  const plain = await recordOf(gateway, await fault('nothing'));
  const changed = await recordOf(gateway, await fault('strict change event'));
  assert.equal(changed.input_tokens, plain.input_tokens);
  assert.ok(Number(plain.input_tokens) > 1);
});

describe('shadow mode', () => {
  test('runs no stage, and records the entries whose guard matched', async () => {
    const response = await fault('shadowed response', 'tests/1');
    assert.equal(response.status, 200);
    assert.equal(response.headers['x-watcher-shadowed'], undefined);
    assert.deepEqual((await recordOf(gateway, response)).shadow, ['shadowed', 'no-tests', 'never']);
    assert.deepEqual((await recordOf(gateway, await fault('nothing'))).shadow, ['shadowed', 'never']);
  });

  test('of an on_error clause leaves the error unchanged', async () => {
    const response = await fault('strict response');
    assert.equal(response.status, 500);
    assert.ok(((await recordOf(gateway, response)).shadow as string[]).includes('hide'));
  });
});

test('background work of a stage fails without ending the gateway', async () => {
  const scene = await openProcessScene({
    sections: () => ({ stages, pipelines: 'pipelines' }),
    files: {
      'pipelines/stray.yaml': `
pipeline: stray
version: 1
summary: Leaves something running.
match: { methods: [GET], paths: [/stray], protocol: none }
stages:
  - { stage: reject, options: { error: forbidden } }
finally:
  - stage: last
`,
    },
  });
  try {
    const running = await scene.start();
    await send(running.url, { method: 'GET', path: '/stray', headers: ['x-fault', 'last strays'] });
    await until('all failures are in the log', () =>
      [/stray promise/, /stray timer/].every((one) => one.test(running.output())),
    );
    for (const line of running
      .output()
      .split('\n')
      .filter((text) => /stray /.test(text))) {
      const record = JSON.parse(line);
      assert.equal(record.stage, 'last');
      assert.equal(record.msg, 'a stage failed in the background');
    }
    assert.equal((await send(running.url, { method: 'GET', path: '/healthz' })).status, 200);
  } finally {
    await scene.close();
  }
});
