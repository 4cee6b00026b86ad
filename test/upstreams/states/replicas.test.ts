import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { StageError } from '../../../engine/api.ts';
import { everyInBackground, type FrozenClock, frozenClock, systemClock } from '../../../engine/base/kit/clock.ts';
import { REPLICA } from '../../../engine/base/kit/process/gateway-process.ts';
import type { Database } from '../../../engine/base/store/database.ts';
import type { Changing } from '../../../engine/domain/audit/admin-changes.ts';
import {
  createIncidentKeeper,
  drainUpstream,
  incidentsElsewhere,
  type KeptIncident,
  listDrained,
  listIncidents,
  type OpenUpstreamStates,
  openUpstreamStates,
  resumeUpstream,
} from '../../../engine/domain/upstreams/states/shared-states.ts';
import { quietLog, useTestStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';
import { openScene, upstream } from './scene.ts';

let away = false;
const opened: OpenUpstreamStates[] = [];
// Before the store: they write a last time.
after(() => Promise.all(opened.map((states) => states.close())));
const { store } = useTestStore();

/** The database of a replica, which is away on a test's command. */
function reaching(database: Database): Database {
  return {
    ...database,
    async query(name, text, values) {
      if (away) throw new StageError('store_unavailable', 'The database is away in this test.');
      return database.query(name, text, values);
    },
  };
}

/** Another replica of the gateway, which tells of its incidents; it reads nothing by itself unless it is told to. */
async function replica() {
  const logs: { message: string; fields: object }[] = [];
  const info = (fields: object, message: string) => void logs.push({ message, fields });
  const states = openUpstreamStates({
    upstreams: [upstream('main'), upstream('spare')],
    database: reaching(await store.another()),
    clock: systemClock,
    log: { ...quietLog, info },
    every: (ms, task) => (ms === 1000 ? everyInBackground(ms, task) : () => {}),
  });
  opened.push(states);
  await states.attempted;
  return { states, logs };
}

const by = (): Changing => {
  return { database: store.database, clock: systemClock, actor: { kind: 'person', name: 'ops@example.com' } };
};

const isDrained = ({ states }: { states: OpenUpstreamStates }) =>
  states.unavailable('main', 'm')?.because === 'drained';

describe('a drained upstream', () => {
  it('gets no new requests at any replica, nor at one that starts later, until it is resumed', async () => {
    const [one, two] = [await replica(), await replica()];
    assert.ok(!isDrained(one) && !isDrained(two));
    await drainUpstream(by(), 'main', 'new account');
    await until('it is announced: no replica reads by itself', () => isDrained(one) && isDrained(two));
    const three = await replica();
    assert.ok(isDrained(three), 'known when the start continues');
    const { drained } = three.states.list()[0]!;
    assert.equal(drained?.by, 'ops@example.com');
    assert.equal(drained?.reason, 'new account');
    assert.deepEqual(drained, (await listDrained(store.database)).get('main'));
    assert.deepEqual(one.logs, [{ message: 'drained upstreams get no new requests', fields: { drained: ['main'] } }]);

    await resumeUpstream(by(), 'main', undefined);
    await until('it is announced', () => [one, two, three].every((each) => !isDrained(each)));
  });

  it('stays drained while the database is away, and missed changes are read when it is back', async () => {
    await drainUpstream(by(), 'main', undefined);
    const one = await replica();
    away = true;
    try {
      await one.states.catchUp();
      assert.ok(isDrained(one));
      await resumeUpstream(by(), 'main', undefined);
      await one.states.catchUp();
      assert.ok(isDrained(one), 'its last read applies');
    } finally {
      away = false;
    }
    await one.states.catchUp();
    assert.ok(!isDrained(one));
  });

  it('is not drained through a session that has ended', async () => {
    const ended = { ...by(), session_id: 'ses_gone' };
    await assert.rejects(drainUpstream(ended, 'main', undefined), { code: 'credential_revoked' });
    await assert.rejects(resumeUpstream(ended, 'main', undefined), { code: 'credential_revoked' });
    assert.equal((await listDrained(store.database)).has('main'), false);
  });
});

describe("a replica's view of an upstream", () => {
  const show = ({ states }: { states: OpenUpstreamStates }, effect: 'failure' | 'success' | 'limited', model = 'm') => {
    const handle = states.begin('main', model);
    handle.report(effect, 'status 529', effect === 'limited' ? 30 : undefined);
    handle.leave();
  };

  it('reaches others, which do not forward it', async () => {
    const [one, two] = [await replica(), await replica()];
    for (const model of ['m', 'n']) show(two, 'success', model);
    for (let n = 0; n < 5; n++) show(one, 'failure');
    await until('the other has heard', () => two.states.unavailable('main', 'm') !== undefined);
    const there = two.states.unavailable('main', 'm')!;
    const here = one.states.unavailable('main', 'm')!;
    assert.equal(there.because, 'open');
    assert.equal(there.last, 'status 529');
    assert.ok(Math.abs(there.until! - here.until!) < 1000);
    show(one, 'limited', 'n');
    await until('the next message', () => two.states.unavailable('main', 'n')?.because === 'limited');
    assert.ok(Math.abs(one.states.unavailable('main', 'm')!.until! - here.until!) < 1000, 'not sent back');
  });

  it('is ignored if implausible', async () => {
    const one = await replica();
    const before = one.states.list();
    const hints = [
      { kind: 'drained', upstream: 'main', ms: 1e6 },
      { kind: 'unreachable', upstream: 'main', ms: -5 },
      { kind: 'unreachable', upstream: 'main', ms: 'long' },
      { kind: 'unreachable', upstream: 'other', ms: 1000 },
      { kind: 'credential', upstream: 'spare', ms: 1e12 },
    ];
    const shown = ['', 'null', '{', '[]', '1', ...hints.map((hint) => JSON.stringify({ from: 'x', ...hint }))];
    for (const payload of shown) {
      await store.database.query('test_notify', "select pg_notify('appscli_upstreams', $1)", [payload]);
    }
    await until('the last is heard', () => one.states.unavailable('spare', 'm') !== undefined);
    assert.ok(one.states.unavailable('spare', 'm')!.until! <= Date.now() + 60_000);
    assert.deepEqual(one.states.list()[0], before[0]);
  });
});

const NOON = Date.parse('2027-01-31T12:00:00Z');

/** States with recorded incidents, on a stopped clock of which every scene has its own day. */
let days = 0;
function scene() {
  days += 1;
  const clock = frozenClock(NOON + days * 86_400_000);
  const keeper = createIncidentKeeper({ database: store.database, clock, log: quietLog, every: () => () => {} });
  const { states, show } = openScene(undefined, { clock, onIncident: keeper.note, onRecovery: keeper.end });
  return { clock, keeper, states, show, began: new Date(clock.now()) };
}

const of = async (clock: FrozenClock) => {
  const all = await listIncidents(store.database, { limit: 100 });
  return all.filter(({ began_at }) => Math.abs(began_at.getTime() - clock.now()) < 3_600_000);
};

describe('causes that exclude an upstream', () => {
  it('is written down once, with how often it was tried in vain, until it serves again', async () => {
    const { clock, keeper, show, began } = scene();
    show('failure', { times: 5 });
    await keeper.flush();
    const [{ id: _, ...incident }] = (await of(clock)) as [KeptIncident];
    assert.deepEqual(incident, {
      replica: REPLICA,
      kind: 'open',
      upstream: 'main',
      upstream_model: 'm',
      began_at: began,
      until: new Date(began.getTime() + 5000),
      ended_at: null,
      times: 1,
      last: 'status 500',
    });
    clock.advance(5000);
    show('failure');
    clock.advance(10_000);
    show('success', { times: 2 });
    const ended = new Date(clock.now());
    await keeper.flush();
    const all = await of(clock);
    const found = all.map(({ times, ended_at }) => [times, ended_at]);
    assert.deepEqual(found, [[2, ended]]);
  });

  it('is one window where the account is rejected and served in turn', async () => {
    const { clock, keeper, show } = scene();
    for (let n = 0; n < 20; n++) {
      show('limited', {}, 2);
      clock.advance(3000);
      show('success');
    }
    clock.advance(120_000);
    show('limited', {}, 2);
    await keeper.flush();
    const [second, first] = await of(clock);
    assert.equal(first!.times, 20);
    assert.equal(first!.ended_at!.getTime() - first!.began_at.getTime(), 60_000);
    assert.deepEqual([second!.times, second!.ended_at], [1, null]);
  });

  it('is not written where another replica reported it, nor when that is over', async () => {
    const { clock, keeper, states, show } = scene();
    states.heed({ kind: 'open', upstream: 'main', upstream_model: 'm', until: clock.now() + 5000, failing_ms: 1000 });
    assert.equal(states.unavailable('main', 'm')?.because, 'open');
    clock.advance(5000);
    show('success', { times: 2 });
    assert.equal(states.unavailable('main', 'm'), undefined);
    show('failure', { times: 5 });
    await keeper.flush();
    const all = await of(clock);
    assert.equal(all.length, 1);
    assert.equal(all[0]!.ended_at, null);
  });

  it('is reported of other replicas for as long as it lasts there, in pages', async () => {
    const { clock, keeper, show } = scene();
    const now = new Date(clock.now());
    for (const [n, replica] of ['other 1', 'other 2', REPLICA].entries()) {
      await store.database.query(
        'test_incident',
        `insert into upstream_incidents (replica, kind, upstream, began_at, until, ended_at, times, last)
         values ($1, 'unreachable', 'spare', $2, $3, $4, 1, null)`,
        [replica, now, new Date(now.getTime() + 60_000), n === 0 ? now : null],
      );
    }
    const elsewhere = await incidentsElsewhere(store.database, now);
    const found = elsewhere.map(({ replica }) => replica);
    assert.deepEqual(found, ['other 2']);
    assert.deepEqual(await incidentsElsewhere(store.database, new Date(now.getTime() + 60_000)), []);
    const page = await listIncidents(store.database, { upstream: 'spare', limit: 2 });
    const rest = await listIncidents(store.database, { upstream: 'spare', limit: 2, before: page[1]!.id });
    const paged = [...page, ...rest].map(({ replica }) => replica);
    assert.deepEqual(paged, [REPLICA, 'other 2', 'other 1']);
    // Time passes until all of these are too old.
    clock.advance(31 * 86_400_000);
    show('failure', { times: 5 });
    await keeper.flush();
    assert.deepEqual(await listIncidents(store.database, { upstream: 'spare', limit: 9 }), []);
  });
});
