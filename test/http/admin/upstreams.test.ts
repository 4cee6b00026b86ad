import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { drain, list, resume } from '../../../engine/cli/upstreams/upstreams.ts';
import { backendOf, failure } from '../../cli/tokens/backend-at-gateway.ts';
import { type AdminBench, useAdminApi } from './support.ts';

let bench: AdminBench;
useAdminApi(
  (opened) => {
    bench = opened;
  },
  undefined,
  undefined,
  { each: true },
);

const PATH = '/admin/api/upstreams';
const AT = '2026-03-10T12:00:00.000Z';

const ask = async (status: number, who: string, method: string, path = '', body?: object) => {
  const answer = await bench.ask(who, method, PATH + path, body);
  assert.equal(answer.status, status, JSON.stringify(answer.body));
  return answer.body;
};

function show(effect: 'failure' | 'credential', times = 1, to = 'main'): void {
  for (let n = 0; n < times; n++) {
    const trial = bench.states.begin(to, 'coder-1');
    trial.tell(effect, 'status 529');
    trial.leave();
  }
}

const as_it_should_be = {
  configured: true,
  state: 'closed',
  until: null,
  last_failure: null,
  in_flight: 0,
  breaker: 'enforce',
  drained: null,
  models: [],
  elsewhere: [],
};
const route = (name: string, order: number, is_last: boolean) => ({ name, order, weight: 1, is_last });
const of_main = [route('both', 1, false), route('default', 1, true)];
const of_spare = [route('both', 2, false)];

describe('upstreams', () => {
  test('are listed with what the replica asked knows of them', async () => {
    const running = bench.states.begin('main', 'coder-1');
    show('failure', 5);
    const { replica, upstreams } = await ask(200, 'root', 'GET');
    assert.match(replica, new RegExp(`^\\S+ ${process.pid}$`));
    const open = {
      upstream_model: 'coder-1',
      state: 'open',
      until: '2026-03-10T12:00:05.000Z',
      last_failure: 'status 529',
    };
    assert.deepEqual(upstreams, [
      { name: 'main', ...as_it_should_be, in_flight: 1, models: [open], routes: of_main },
      { name: 'spare', ...as_it_should_be, routes: of_spare },
    ]);
    running.leave();
  });

  test('are drained with a reason, which every list tells, and resumed', async () => {
    const drained = { by: 'root@example.com', at: AT, reason: 'new account' };
    const done = await ask(200, 'root', 'POST', '/spare/drain', { reason: ' new account ' });
    assert.deepEqual(done, {
      upstream: { name: 'spare', ...as_it_should_be, state: 'drained', drained, routes: of_spare },
      routes_without_upstream: [],
    });
    const { upstreams } = await ask(200, 'chief', 'GET');
    assert.deepEqual(upstreams[1].drained, drained);
    assert.deepEqual(upstreams[0].routes, [route('both', 1, true), route('default', 1, true)]);
    const both = await ask(200, 'root', 'POST', '/main/drain');
    assert.deepEqual(both.routes_without_upstream, ['both', 'default']);
    await ask(200, 'root', 'POST', '/main/resume');
    const resumed = await ask(200, 'chief', 'POST', '/spare/resume');
    assert.deepEqual(resumed, {
      upstream: { name: 'spare', ...as_it_should_be, routes: of_spare },
      was_drained: drained,
    });
    const { changes } = (await bench.ask('root', 'GET', '/admin/api/changes?limit=4')).body;
    const told = changes.map(
      ({ actor, action, subject }: { actor: { name: string }; action: string; subject: string }) => {
        return [actor.name, action, subject];
      },
    );
    assert.deepEqual(told, [
      ['chief@example.com', 'upstream.resume', 'spare'],
      ['root@example.com', 'upstream.resume', 'main'],
      ['root@example.com', 'upstream.drain', 'main'],
      ['root@example.com', 'upstream.drain', 'spare'],
    ]);
  });

  test('are for administrators and for service tokens with the scope', async () => {
    for (const [method, path] of [
      ['GET', ''],
      ['POST', '/main/drain'],
      ['POST', '/main/resume'],
    ] as const) {
      await ask(403, 'alice', method, path);
    }
    const make = async (scope: string) => {
      const wish = { name: 'ops', scopes: [scope] };
      return (await bench.ask('root', 'POST', '/admin/api/service-tokens', wish)).body.token as string;
    };
    const [reads, writes, other] = [
      await make('upstreams:read'),
      await make('upstreams:write'),
      await make('limits:write'),
    ];
    await ask(200, reads, 'GET');
    await ask(403, reads, 'POST', '/main/drain');
    await ask(403, other, 'POST', '/main/drain');
    const { upstream } = await ask(200, writes, 'POST', '/main/drain');
    assert.match(upstream.drained.by, /^service ops \(svc_/);
    await ask(200, writes, 'POST', '/main/resume');
    await ask(403, writes, 'GET');
  });

  test('that are not there, or not drained, are said to be so', async () => {
    const { error } = await ask(404, 'root', 'POST', '/mian/drain', {});
    assert.match(error.message, /there is no upstream "mian": did you mean `main`\?/i);
    await ask(404, 'root', 'POST', '/mian/resume');
    assert.match((await ask(409, 'root', 'POST', '/main/resume')).error.message, /"main" is not drained/);
    await ask(400, 'root', 'POST', '/main/drain', { reason: 'two\nlines' });
    await ask(400, 'root', 'POST', '/main/drain', { because: 'x' });
    assert.equal((await ask(200, 'root', 'GET')).upstreams[0].drained, null);
  });

  test('that are drained and no longer in gateway.yaml are listed, and can be resumed', async () => {
    await bench.database.query(
      'test_drain',
      "insert into drained_upstreams (name, drained_at, drained_by) values ('old', $1, 'ana@example.com')",
      [AT],
    );
    const drained = { by: 'ana@example.com', at: AT, reason: null };
    const unknown = { state: 'drained', in_flight: null, breaker: null };
    const { upstreams } = await ask(200, 'root', 'GET');
    assert.deepEqual(upstreams[2], {
      name: 'old',
      ...as_it_should_be,
      ...unknown,
      configured: false,
      drained,
      routes: [],
    });
    const { upstream } = await ask(200, 'root', 'POST', '/old/resume');
    assert.deepEqual([upstream.configured, upstream.state, upstream.drained], [false, 'unknown', null]);
  });

  test('are told while the database is away as this replica knew them last', async () => {
    bench.states.setDrained(new Map([['spare', { by: 'ana@example.com', at: Date.parse(AT), reason: 'known' }]]));
    await bench.withoutStore(async () => {
      const { upstreams } = await ask(200, 'root', 'GET');
      assert.equal(upstreams[1].drained.reason, 'known');
    });
    bench.states.setDrained(new Map());
  });

  test('are listed, drained and resumed by commands at a gateway', async () => {
    const { context, said, printed } = commands();
    const place = { config: 'gateway.yaml', baseUrl: bench.url };
    show('credential', 1, 'spare');
    show('failure', 5);
    assert.equal(await drain(context, 'main', { ...place, reason: 'slow' }), 0);
    assert.equal(
      said(),
      'Drained "main": it gets no new requests until "appscli upstreams resume" is run. The route default has no other upstream: such requests are refused. ',
    );
    assert.equal(await list(context, place), 0);
    assert.match(
      printed(),
      /^UPSTREAM +MODEL +STATE +UNTIL +IN FLIGHT +LAST FAILURE +BY +REASON\nmain +drained +0 +root@\S+ +slow\n/,
    );
    assert.match(printed(), /\nspare +credential +2026-03-10T\S+ +0 +status 529\n/);
    assert.match(said(), / As the replica \S+ \d+ sees them; others may differ, except in what is drained\. $/);
    assert.equal(await resume(context, 'main', place), 0);
    assert.match(said(), / Resumed "main", which was drained by root@example\.com: slow\. $/);
    assert.equal((await failure(resume(context, 'main', place))).exit_code, 1);
  });
});

/** Commands of an administrator, and what they print: texts for people in one line. */
function commands() {
  const backend = backendOf('root', bench.url);
  return {
    context: backend.context,
    said: () => backend.info().replace(/\s+/g, ' '),
    printed: () => backend.data(),
  };
}
