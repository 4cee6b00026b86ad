import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { defineStage, type StageDefinition, type StageHooks } from '../../engine/api.ts';
import type { Protocol } from '../../engine/base/contract/protocol.ts';
import type { Loaded, PipelineSpec, StageEntry } from '../../engine/base/source/spec.ts';
import { openStage, stageConfig } from '../../engine/edge/simulate/stage-harness.ts';
import { buildPlan } from '../../engine/pipeline/run/plan.ts';

const position = { file: 'pipelines/mine.yaml', line: 7, column: 5 };

function stage(create: () => unknown, more: Partial<StageDefinition> = {}): StageDefinition {
  return {
    ...defineStage({
      name: 'odd',
      version: 1,
      summary: 'Does something odd.',
      options: { type: 'object', additionalProperties: false, properties: {} },
      examples: [],
      create: create as () => StageHooks,
    }),
    ...more,
  };
}

function entry(definition: StageDefinition, more: Partial<StageEntry> = {}): StageEntry {
  return { id: definition.name, definition, options: {}, mode: 'enforce', fail_closed: true, position, ...more };
}

function plan(stages: readonly StageEntry[], protocol: Protocol | 'none' = 'none') {
  const { services, clock, log } = openStage(stage(() => ({})));
  const pipeline: PipelineSpec = {
    name: 'mine',
    version: 1,
    summary: 'A pipeline.',
    file: position.file,
    match: { methods: ['GET'], paths: ['/mine'], protocol },
    limits: {},
    rules: [],
    stages,
    on_error: [],
    finally: [],
  };
  const loaded = { config: stageConfig(), pipelines: [pipeline] } as unknown as Loaded;
  return { build: () => buildPlan(loaded, services), clock, log };
}

describe('a stage that cannot be created', () => {
  const throwsText = () => {
    throw 'text';
  };
  const cases: readonly (readonly [what: string, create: () => unknown, reason: RegExp, terminal?: true])[] = [
    ['throws', () => assert.fail('no disk'), /cannot be created: no disk/],
    ['throws no error', throwsText, /it threw a string, not an Error/],
    ['returns nothing', () => undefined, /returns no hooks/],
    ['is asynchronous', async () => assert.fail('later'), /returns a promise, not hooks/],
    ['misspells a hook', () => ({ requst() {} }), /returns "requst", which is not a hook; the hooks are request, /],
    ['returns a hook that is none', () => ({ request: true }), /returns a hook "request" that is not a function/],
    ['never answers', () => ({}), /returns no `request` hook/, true],
    ['is never called', () => ({ finally() {} }), /needs `place: 'finally'`/],
  ];
  for (const [what, create, reason, terminal = false] of cases) {
    test(`because it ${what} is reported with its position`, () => {
      const { build } = plan([entry(stage(create, { terminal }))]);
      assert.throws(build, { message: reason });
      assert.throws(build, { message: /^the stage "odd" \(pipelines\/mine\.yaml:7\)/ });
    });
  }

  const failing = stage(() => assert.fail('no disk'));

  test('closes those created before it', async () => {
    const closed = Promise.withResolvers<void>();
    const opened = stage(() => ({ close: () => closed.resolve() }));
    assert.throws(plan([entry(opened), entry(failing, { id: 'second' })]).build, /"second"/);
    await closed.promise;
  });

  test('is not created in shadow mode', () => {
    plan([entry(failing, { mode: 'shadow' })]).build();
  });
});

describe('closing a plan', () => {
  test('waits for a stage up to its timeout, and names it', async () => {
    const stuck = stage(() => ({ close: () => new Promise(() => {}) }));
    const { build, clock, log } = plan([entry(stuck, { timeout_seconds: 3 })]);
    const closing = build().close();
    await Promise.resolve();
    clock.advance(3000);
    await closing;
    const [{ message, fields } = assert.fail(), ...more] = log;
    assert.deepEqual([message, (fields as { stage?: string }).stage, more], ['a stage failed to close', 'odd', []]);
  });

  test('closes the others when one throws', async () => {
    let closed = 0;
    const throws = stage(() => ({ close: () => assert.fail('stuck') }));
    const closes = stage(() => ({ close: () => void closed++ }));
    const { build, log } = plan([entry(throws), entry(closes, { id: 'second' })]);
    await build().close();
    assert.equal(closed, 1);
    assert.equal(log.length, 1);
  });
});

test('a stage without the capability gets no database services', () => {
  for (const service of ['ledger', 'tokens', 'audit']) {
    const create = (_options: never, services: { [name: string]: object }) => ({
      first: (services[service] as { then: unknown }).then,
    });
    const uses = stage(create as unknown as () => unknown);
    assert.throws(plan([entry(uses)]).build, new RegExp(`services\\.${service} needs the capability "database"`));
  }
});

test('the store needs of a pipeline for models follow from the facts its stages write for every request', () => {
  const writing = (fact: 'principal.id' | 'spend.reserved_nano_usd', more: Partial<StageEntry> = {}) => {
    const definition = stage(() => ({ request() {} }), { writes: [fact] });
    return entry(definition, more);
  };
  const needs = (stages: readonly StageEntry[], protocol: Protocol | 'none' = 'chat') =>
    plan(stages, protocol).build().store_needs;
  const callers = writing('principal.id');
  const reservations = writing('spend.reserved_nano_usd');
  assert.deepEqual(needs([callers, reservations]), [{ callers: true, reservations: true }]);
  assert.deepEqual(needs([]), [{ callers: false, reservations: false }]);
  assert.deepEqual(needs([callers], 'none'), []);
  const only_callers = [{ callers: true, reservations: false }];
  for (const for_some of [{ mode: 'shadow' }, { when: { '===': [1, 2] } }] as const)
    assert.deepEqual(needs([callers, writing('spend.reserved_nano_usd', for_some)]), only_callers);
});
