import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { StageError } from '../../../engine/api.ts';
import type { Changing } from '../../../engine/audit/admin-changes.ts';
import { listChanges } from '../../../engine/audit/admin-changes.ts';
import { systemClock } from '../../../engine/kit/clock.ts';
import type { Database } from '../../../engine/store/database.ts';
import { drainUpstream, listDrained, resumeUpstream } from '../../../engine/upstreams/states/drained-upstreams.ts';
import { type OpenUpstreamStates, openUpstreamStates } from '../../../engine/upstreams/states/open-upstream-states.ts';
import { quietLog, type TestStore, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { upstream } from './scene.ts';

let store: TestStore;
let away = false;
const opened: OpenUpstreamStates[] = [];
useTestStore((given) => {
  store = given;
});
after(() => Promise.all(opened.map((states) => states.close())));

/** The database of a replica, which is away when the test says so. */
function reaching(database: Database): Database {
  return {
    ...database,
    async query(name, text, values) {
      if (away) throw new StageError('store_unavailable', 'The test says that the database is away.');
      return database.query(name, text, values);
    },
  };
}

/** Another replica of the gateway; it reads nothing by itself unless it is told to. */
async function replica() {
  const logs: { message: string; fields: object }[] = [];
  const info = (fields: object, message: string) => void logs.push({ message, fields });
  const states = openUpstreamStates({
    upstreams: [upstream('main'), upstream('spare')],
    database: reaching(await store.another()),
    clock: systemClock,
    log: { ...quietLog, info },
    every: () => () => {},
  });
  opened.push(states);
  await states.attempted;
  return { states, logs };
}

const by = (): Changing => {
  return { database: store.database, clock: systemClock, actor: { kind: 'person', name: 'ops@example.com' } };
};

const isDrained = ({ states }: { states: OpenUpstreamStates }) => states.closed('main', 'm')?.because === 'drained';

describe('an upstream that is drained', () => {
  it('gets no new requests at any replica, nor at one that starts later, until it is resumed', async () => {
    const [one, two] = [await replica(), await replica()];
    assert.ok(!isDrained(one) && !isDrained(two));
    await drainUpstream(by(), 'main', 'new account');
    await until('it is announced: nobody reads by itself', () => isDrained(one) && isDrained(two));
    const three = await replica();
    assert.ok(isDrained(three), 'known when the start goes on');
    const { drained } = three.states.list()[0]!;
    assert.equal(drained?.by, 'ops@example.com');
    assert.equal(drained?.reason, 'new account');
    assert.deepEqual(drained, (await listDrained(store.database)).get('main'));
    assert.deepEqual(one.logs, [{ message: 'upstreams that get no new requests', fields: { drained: ['main'] } }]);

    await resumeUpstream(by(), 'main', undefined);
    await until('it is announced', () => [one, two, three].every((each) => !isDrained(each)));
  });

  it('stays drained while the database is away, and what was missed is read when it is back', async () => {
    await drainUpstream(by(), 'main', undefined);
    const one = await replica();
    away = true;
    try {
      await one.states.catchUp();
      assert.ok(isDrained(one));
      await resumeUpstream(by(), 'main', undefined);
      await one.states.catchUp();
      assert.ok(isDrained(one), 'what it read last holds');
    } finally {
      away = false;
    }
    await one.states.catchUp();
    assert.ok(!isDrained(one));
  });

  it('is in the list of changes, with who and why, before and after', async () => {
    await drainUpstream(by(), 'gone', 'first');
    await drainUpstream(by(), 'gone', 'second');
    const { reason, by: who } = await resumeUpstream(
      { ...by(), actor: { kind: 'command', name: 'me@host' } },
      'gone',
      'done',
    );
    assert.deepEqual([reason, who], ['second', 'ops@example.com']);
    const changes = (await listChanges(store.database, { limit: 3 })).map(
      ({ actor, action, subject, before, after }) => {
        return [actor.name, action, subject, before?.reason, before?.drained_by, after];
      },
    );
    assert.deepEqual(changes, [
      ['me@host', 'upstream.resume', 'gone', 'second', 'ops@example.com', { reason: 'done' }],
      ['ops@example.com', 'upstream.drain', 'gone', 'first', 'ops@example.com', { reason: 'second' }],
      ['ops@example.com', 'upstream.drain', 'gone', undefined, undefined, { reason: 'first' }],
    ]);
  });

  it('cannot be resumed when it is not drained', async () => {
    await assert.rejects(resumeUpstream(by(), 'main', undefined), /the upstream "main" is not drained/);
    assert.equal((await listDrained(store.database)).has('main'), false);
  });

  it('is not drained through a session that has ended', async () => {
    const ended = { ...by(), session_id: 'ses_gone' };
    await assert.rejects(drainUpstream(ended, 'main', undefined), { code: 'credential_revoked' });
    await assert.rejects(resumeUpstream(ended, 'main', undefined), { code: 'credential_revoked' });
    assert.equal((await listDrained(store.database)).has('main'), false);
  });
});

describe('what a replica sees of an upstream', () => {
  const show = ({ states }: { states: OpenUpstreamStates }, effect: 'failure' | 'success' | 'limited', model = 'm') => {
    const trial = states.begin('main', model);
    trial.tell(effect, 'status 529', effect === 'limited' ? 30 : undefined);
    trial.leave();
  };

  it('is heard by others, which do not tell it on', async () => {
    const [one, two] = [await replica(), await replica()];
    for (const model of ['m', 'n']) show(two, 'success', model);
    for (let n = 0; n < 5; n++) show(one, 'failure');
    await until('the other has heard', () => two.states.closed('main', 'm') !== undefined);
    const there = two.states.closed('main', 'm')!;
    const here = one.states.closed('main', 'm')!;
    assert.equal(there.because, 'open');
    assert.equal(there.last, 'status 529');
    assert.ok(Math.abs(there.until! - here.until!) < 1000);
    // The second message waits for its time.
    show(one, 'limited', 'n');
    await until('the next message', () => two.states.closed('main', 'n')?.because === 'limited');
    assert.ok(Math.abs(one.states.closed('main', 'm')!.until! - here.until!) < 1000, 'not told back');
  });

  it('is not believed where it makes no sense', async () => {
    const one = await replica();
    const before = one.states.list();
    const told = [
      ...['', 'null', '{', '[]', '{"told":1}', '{"from":"x","told":[null,1,"x",{}]}'],
      JSON.stringify({ from: 'x', told: [{ kind: 'drained', upstream: 'main', ms: 1e6 }] }),
      JSON.stringify({ from: 'x', told: [{ kind: 'unreachable', upstream: 'main', ms: -5 }] }),
      JSON.stringify({ from: 'x', told: [{ kind: 'unreachable', upstream: 'main', ms: 'long' }] }),
      JSON.stringify({ from: 'x', told: [{ kind: 'unreachable', upstream: 'other', ms: 1000 }] }),
      JSON.stringify({ from: 'x', told: [{ kind: 'credential', upstream: 'spare', ms: 1e12 }] }),
    ];
    for (const payload of told) {
      await store.database.query('test_notify', "select pg_notify('appscli_upstreams', $1)", [payload]);
    }
    await until('the last is heard', () => one.states.closed('spare', 'm') !== undefined);
    assert.ok(one.states.closed('spare', 'm')!.until! <= Date.now() + 60_000);
    assert.deepEqual(one.states.list()[0], before[0]);
  });

  it('is worth nothing while the database is away, and harms nothing', async () => {
    const one = await replica();
    away = true;
    try {
      for (let n = 0; n < 5; n++) show(one, 'failure');
      assert.equal(one.states.closed('main', 'm')?.because, 'open');
    } finally {
      away = false;
    }
  });
});
