/** The states of upstreams while requests pass, fail and are rejected there, on a stopped clock. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import type { AttemptEffect, UpstreamState } from '../../../engine/base/contract/forwarding.ts';
import { type Incident, summarizeUpstreams } from '../../../engine/domain/upstreams/states/upstream-states.ts';
import { bytesInUse } from '../../support/heap.ts';
import { type BREAKER, openScene, upstream } from './scene.ts';

const EFFECTS: Readonly<Record<string, AttemptEffect>> = {
  ok: 'success',
  fail: 'failure',
  gone: 'unreachable',
  401: 'credential',
  403: 'permission',
  404: 'model_missing',
  429: 'limited',
};

/**
 * Plays a script. `fail*5`: five failures; `429:7`: a limit for 7 s; `begin` and `end-ok`: a request that takes its time; `+5000`:
 * time goes by; `heard-open:4000`: another replica's message; `reload`; `?open:5000`: why requests do not pass, and for how long;
 * `?`: they pass. `@other` is another model, `@spare/m` another upstream.
 */
function play(script: string, upstreams = [upstream('main'), upstream('spare')]) {
  const { show, unavailable, waits, states, clock, incidents } = openScene(upstreams);
  const begun: ReturnType<typeof states.begin>[] = [];
  for (const word of script.trim().split(/\s+/)) {
    const parts = /^([^:*@]*)(?::(-?\d+))?(?:\*(\d+))?(?:@(?:(\w+)\/)?(\w+))?$/.exec(word);
    const [, what = '', value, count = '1', to = 'main', model = 'm'] = parts!;
    const end = EFFECTS[what.replace('end-', '')]!;
    for (let n = 0; n < Number(count); n++) {
      if (what.startsWith('?')) {
        const [because = '', ms] = [unavailable(to, model)?.because, waits(to, model)];
        assert.equal(`?${because}${ms === undefined ? '' : `:${ms}`}`, word.replace(/@.*/, ''), `${word} in ${script}`);
      } else if (what.startsWith('+')) clock.advance(Number(what));
      else if (what === 'begin') begun.push(states.begin(to, model));
      else if (what.startsWith('end-')) {
        begun[0]!.report(end);
        begun.shift()!.leave();
      } else if (what === 'reload') states.use(upstreams);
      else if (what.startsWith('heard-')) {
        const kind = what.slice('heard-'.length) as Incident['kind'];
        states.heed({ kind, upstream: to, upstream_model: model, until: clock.now() + Number(value) });
      } else show(end, { to, model }, value === undefined ? undefined : Number(value));
    }
  }
  return incidents;
}

const SHADOW = [upstream('main', { breaker: { mode: 'shadow' } })];
const TURNS = 'ok fail '.repeat(9);

for (const [what, script, upstreams] of [
  [
    'a breaker opens after five failures in a row, for that model at that upstream',
    'fail*4 ? fail ?open:5000 ?@other ?@spare/m',
  ],
  [
    'it opens when half of at least twenty requests of the last 30 seconds failed',
    `${TURNS} ? +31000 ${TURNS} ? ok fail ?open:5000`,
  ],
  [
    'it lets one request at a time through once its time is over, and closes when two of them succeeded',
    'fail*5 +4999 ?open:1 +1 ? begin ?open:1000 end-ok ? begin ?open:1000 end-ok ? begin*2 ?',
  ],
  [
    'it is not moved by requests that began before it opened',
    `begin*10 fail*5 +1000 ${'end-ok end-fail '.repeat(5)} ?open:4000`,
  ],
  [
    'it may be tried sooner when a request that went there as the last resort succeeds',
    'fail*6 ?open:5000 ok ? ok fail*4 ?',
  ],
  [
    'the breaker of connections opens for all models, and closes when anything is answered twice',
    'gone*3 gone*2@other ?open:5000@third +5000 fail 429:60@other ?@third ?',
  ],
  ['no connection is no failure of a model', 'fail*4 gone*5 +5000 ok*2@other ?'],
  [
    'a credential is not at fault when one request of many is forbidden',
    `${'ok 403*2 +1000 '.repeat(10)} ? 403 ?credential:60000`,
  ],
  ['it is at the first one forbidden where it never worked', '403 ?credential:60000'],
  ['and where it has not worked for 30 seconds', 'ok +30000 403 ? +1 403 ?credential:60000'],
  [
    'a limit lasts as long as reported, for that model, and is no failure',
    '429:7*30 ?limited:7000 ?@other 429:2 ?limited:7000 +7000 ?',
  ],
  [
    'it lasts a second by default, and doubles up to 30 until a request is served',
    `${[1, 2, 4, 8, 16, 30, 30].map((s) => `429 ?limited:${s}000 +${s}000`).join(' ')} ok 429 ?limited:1000`,
  ],
  [
    'it doubles once for requests that were under way together',
    'begin*50 end-429*50 ?limited:1000 +1000 429 ?limited:2000',
  ],
  [
    'it ends when a request that began after it is served, not by one from before',
    'begin 429:60 end-ok ?limited:60000 ok ?',
  ],
  ['it is at most an hour, and holds in shadow mode too', '429:1000000000 ?limited:3600000', SHADOW],
  [
    'a missing model is remembered for five minutes, or until the configuration is loaded again',
    '404 ?model_missing:300000 ?@other reload ? 404 +300000 ?',
  ],
  [
    'of several causes the longest is reported',
    'fail*5 ?open:5000 429:30 ?limited:30000 401 ?credential:60000 404 ?model_missing:300000',
  ],
  [
    'what another replica saw is heeded for ten seconds at most, a limit for a minute',
    'heard-open:4000 ?open:4000 heard-credential:9999999 ?credential:10000 heard-unreachable:2000@spare/m ?open:2000@spare/any heard-limited:9999999@spare/m ?limited:60000@spare/m',
  ],
  [
    'it never shortens nor lengthens what is known here, and what is over is not heeded',
    'fail*5 heard-open:1000 heard-open:9000 ?open:5000 +5000 heard-open:-1000 ?',
  ],
  [
    'it is not believed for five minutes after it turned out to be wrong here',
    ['open', 'unreachable', 'credential']
      .map(
        (kind) =>
          `heard-${kind}:60000 ?${kind === 'credential' ? kind : 'open'}:10000 +10000 ? ok*2 +5000 heard-${kind}:60000 ? +300000 heard-${kind}:60000 ?${kind === 'credential' ? kind : 'open'}:10000 +300000 ok*2 +1`,
      )
      .join(' '),
  ],
] as const) {
  test(what, () => void play(script, upstreams && [...upstreams]));
}

test('messages between replicas: when an upstream opens or is limited, why, and since when nothing succeeded', () => {
  const logged = play('fail*5 +5000 fail 429:3@spare/m 401@spare/m gone*5');
  assert.deepEqual(logged, [
    { kind: 'open', upstream: 'main', upstream_model: 'm', until: 1_005_000, last: 'status 500', failing_ms: 0 },
    { kind: 'open', upstream: 'main', upstream_model: 'm', until: 1_015_000, failing_ms: 0 },
    { kind: 'limited', upstream: 'spare', upstream_model: 'm', until: 1_008_000, last: 'status 500' },
    { kind: 'credential', upstream: 'spare', credential: 'KEY', until: 1_065_000, last: 'status 500', failing_ms: 0 },
    { kind: 'unreachable', upstream: 'main', until: 1_010_000, last: 'status 500', failing_ms: 0 },
  ]);
  const failing = play(`ok +500 ${'fail +100 '.repeat(5)} +5100 fail`);
  const found = failing.map(({ failing_ms }) => failing_ms);
  assert.deepEqual(found, [400, 200]);
  const received = play('heard-open:4000 heard-limited:4000 heard-credential:4000');
  assert.deepEqual(received, [], 'and never what they received');
});

describe('a breaker by who saw the upstream fail', () => {
  /** Attempts in turn, each as `caller request`, or with `+` before it where it succeeds. */
  function after(seen: string, settings: Partial<typeof BREAKER> = {}) {
    const scene = openScene([upstream('main', { breaker: settings })]);
    for (const word of seen.split(' ')) {
      const [, ok, caller, request] = /^(\+?)([a-z])(\d*)$/.exec(word)!;
      const handle = scene.states.begin('main', 'm', { caller: caller!, request: Number(request) });
      handle.report(ok ? 'success' : 'failure', 'status 500');
      handle.leave(ok ? 'whole' : undefined);
      if (scene.states.unavailable('main', 'm') !== undefined) break;
    }
    const passes = (caller: string, request: number) =>
      scene.states.unavailable('main', 'm', { caller, request })?.because ?? 'passes';
    return [passes('a', 1), passes('a', 99), passes('z', 99)].join(' ');
  }

  // Of `a` request 1, another one of `a`, one of another caller.
  for (const [seen, outcome, why] of [
    ['a1 a1 a1 a1 a1', 'open passes passes', 'one request opens it for that request'],
    ['a1 a2 a3 a4 a5', 'open open passes', 'one caller opens it for that caller'],
    ['a1 a2 a3 a4 b1', 'passes passes passes', 'a caller counts for three of five'],
    ['a1 a2 a3 a4 a5 b1', 'open open passes', 'a caller counts for three of five'],
    ['a1 a2 a3 b1 b2', 'open open open', 'two callers open it for all'],
    ['a1 b1 c1 d1 e1', 'open open open', 'five callers open it for all'],
    ['a1 a2 a3 a4 a5 +z1', 'passes passes passes', 'a caller is served'],
    ['a1 a2 a3 +z1 b1 b2', 'passes passes passes', 'a caller is served in between'],
  ] as const) {
    it(`${seen}: ${why}`, () => assert.equal(after(seen), outcome));
  }

  it('keeps few requests of a caller whose requests all fail, where no caller is kept away', async () => {
    const { states, show } = openScene([upstream('main', { breaker: { mode: 'shadow' } })]);
    const before = await bytesInUse();
    for (let request = 0; request < 100_000; request++) show('failure', { by: { caller: 'a', request } });
    const { heap } = await bytesInUse();
    assert.ok(heap - before.heap < 1_000_000, `${heap - before.heap}`);
    assert.equal(states.unavailable('main', 'm'), undefined);
  });

  it('admits one request of the caller at a time once the time is over, and closes as soon as one succeeds', () => {
    const { states, clock } = openScene();
    const begin = (request: number) => states.begin('main', 'm', { caller: 'a', request });
    const waits = () => {
      const until = states.unavailable('main', 'm', { caller: 'a' })?.until;
      return until === undefined ? undefined : until - clock.now();
    };
    for (let request = 0; request < 5; request++) begin(request).report('failure');
    assert.equal(waits(), 5000);
    clock.advance(5000);
    const first = begin(5);
    assert.equal(waits(), 1000, 'one is trying');
    first.report('failure');
    assert.equal(waits(), 10_000, 'for longer the second time');
    clock.advance(10_000);
    begin(6).report('success');
    assert.equal(waits(), undefined);
    begin(7).report('failure');
    assert.equal(waits(), undefined, 'it counts anew');
  });

  it('counts the share of failures without the caller with the most', () => {
    const rounds = (round: string) => Array.from({ length: 20 }, () => round).join(' ');
    assert.equal(after(rounds('+z1 a1 +y1')), 'passes passes passes');
    assert.equal(after(rounds('+z1 a1 b1 c1 d1').replaceAll('d1', 'd1 +y1')), 'open open open');
  });

  it('is opened again by a try in vain of two callers, and by one for its caller', () => {
    const { states, clock, show } = openScene();
    const fail = (by: string) => show('failure', { by: { caller: by[0]!, request: Number(by[1]) } });
    const unavailableFor = (caller: string) => states.unavailable('main', 'm', { caller })?.because;
    for (const by of ['a1', 'a2', 'a3', 'b1', 'b2']) fail(by);
    clock.advance(5000);
    fail('a4');
    assert.deepEqual([unavailableFor('a'), unavailableFor('b')], ['open', undefined]);
    fail('b3');
    assert.deepEqual([unavailableFor('a'), unavailableFor('b'), unavailableFor('c')], ['open', 'open', 'open']);
  });
});

test('an upstream regains its weight over ten seconds after closing', () => {
  const { show, states, clock } = openScene();
  assert.equal(states.share('main', 'm'), 1);
  show('failure', { times: 5 });
  clock.advance(5000);
  show('success', { times: 2 });
  assert.equal(states.share('main', 'm'), 0.1);
  clock.advance(5000);
  assert.equal(states.share('main', 'm'), 0.5);
  assert.equal(states.share('main', 'other'), 1);
  clock.advance(5000);
  assert.equal(states.share('main', 'm'), 1);
});

test('a breaker only reports in shadow mode, and does not exist where it is off', () => {
  const { show, unavailable, states, lines } = openScene([
    upstream('main', { breaker: { mode: 'shadow' } }),
    upstream('spare', { breaker: { mode: 'off' } }),
  ]);
  for (const to of ['main', 'spare']) {
    show('failure', { times: 30, to });
    show('unreachable', { times: 30, to });
    show('credential', { times: 3, to });
    assert.equal(unavailable(to), undefined);
    assert.equal(states.share(to, 'm'), 1);
  }
  const published = states
    .list()
    .map(({ upstream, upstream_model, state, shadow }) => [upstream, upstream_model, state, shadow]);
  assert.deepEqual(published, [
    ['main', undefined, 'credential', true],
    ['main', 'm', 'open', true],
    ['spare', undefined, 'closed', undefined],
  ]);
  const shadow = 'it still gets requests (breaker.mode: shadow)';
  assert.deepEqual(lines(), [
    `warn an upstream fails for this model; ${shadow}`,
    `warn no connection can be made to an upstream; ${shadow}`,
    `error an upstream rejects the credential of the gateway; ${shadow}`,
    'info an upstream serves again',
  ]);
});

test("a credential's breaker opens at once for every model and upstream with that credential at that address, and logs an error", () => {
  const base_url = 'https://api.example.com';
  const { show, unavailable, clock, logged } = openScene([
    upstream('main', { base_url }),
    upstream('twin', { base_url }),
    upstream('other-key', { base_url, api_key_env: 'OTHER' }),
  ]);
  show('credential', { detail: 'status 401' });
  const expected = { because: 'credential', until: 1_060_000, last: 'status 401' };
  assert.deepEqual(unavailable('main', 'any'), expected);
  assert.deepEqual(unavailable('twin', 'any'), expected);
  assert.equal(unavailable('other-key'), undefined);
  assert.deepEqual(logged, [
    {
      level: 'error',
      message:
        'an upstream rejects the credential of the gateway; requests go to other upstreams until it is tried again',
      fields: { upstream: 'main', credential: 'KEY', last: 'status 401', until: '1970-01-01T00:17:40.000Z' },
    },
  ]);
  clock.advance(60_000);
  assert.equal(unavailable(), undefined);
  show('credential', { detail: 'status 401' });
  assert.equal(unavailable()?.until, 1_120_000);
  assert.equal(logged.length, 1, 'reported once');
  clock.advance(60_000);
  show('success');
  assert.equal(unavailable('twin'), undefined);
  assert.equal(logged[1]?.message, 'an upstream accepts the credential again');
});

test('a limit is logged once a minute, however often the account is limited and served in turn', () => {
  const { show, clock, lines } = openScene();
  for (let round = 0; round < 100; round++) {
    show('limited', { detail: 'status 429' }, 1);
    show('success');
    clock.advance(1000);
  }
  const line = 'info an upstream rate-limits the gateway (429); requests go to other upstreams until it is tried again';
  assert.deepEqual(lines(), [line, line]);
});

describe('the state of upstreams', () => {
  it('counts requests under way from begin to leave, however often they leave', () => {
    const { states } = openScene();
    const handles = [states.begin('main', 'm'), states.begin('main', 'other')];
    assert.equal(states.active('main'), 2);
    handles[0]!.report('success');
    assert.equal(states.active('main'), 2);
    handles[0]!.leave();
    handles[0]!.leave();
    assert.equal(states.active('main'), 1);
    assert.equal(states.active('spare'), 0);
    assert.equal(states.active('unknown'), 0);
  });

  it('allows three concurrent retries, or a fifth of the requests in flight', () => {
    const { states } = openScene();
    const taken = [1, 2, 3].map(() => states.takeRetry('main'));
    assert.ok(taken.every((giveBack) => giveBack !== undefined));
    assert.equal(states.takeRetry('main'), undefined);
    taken[0]!();
    taken[0]!();
    assert.ok(states.takeRetry('main'));
    assert.equal(states.takeRetry('main'), undefined);
    for (let n = 0; n < 20; n++) states.begin('main', 'm');
    assert.ok(states.takeRetry('main'), 'four of twenty');
    assert.equal(states.takeRetry('main'), undefined);
  });

  it('keeps the affinity of a session as long as its prompts are cached', () => {
    const { states, clock } = openScene();
    states.remember('session', 'spare', 300);
    clock.advance(299_999);
    assert.equal(states.affinity('session'), 'spare');
    states.remember('session', 'main', 3600);
    clock.advance(300_001);
    assert.equal(states.affinity('session'), 'main');
    clock.advance(3_300_000);
    assert.equal(states.affinity('session'), undefined);
  });

  it('drops at a reload the state of upstreams that are removed or at another address, and keeps the rest', () => {
    const { show, unavailable, states } = openScene([upstream('main'), upstream('spare'), upstream('third')]);
    for (const to of ['main', 'spare', 'third']) show('failure', { times: 5, to });
    for (const to of ['main', 'spare', 'third']) states.remember(`at ${to}`, to, 300);
    const running = states.begin('third', 'm');
    states.use([upstream('main'), upstream('spare', { base_url: 'https://elsewhere.example.com' })]);
    assert.equal(unavailable('main')?.because, 'open');
    assert.equal(unavailable('spare'), undefined);
    assert.equal(unavailable('third'), undefined);
    assert.deepEqual([states.affinity('at main'), states.affinity('at third')], ['main', undefined]);
    running.report('failure');
    running.leave();
    const found = states.list().map(({ upstream, state }) => `${upstream} ${state}`);
    assert.deepEqual(found, ['main closed', 'main open', 'spare closed']);
  });

  it('applies changed settings at a reload', () => {
    const { show, unavailable, states } = openScene();
    show('failure', { times: 4 });
    states.use([
      upstream('main', { breaker: { failures: 2, open_seconds: 50 }, retry_budget: { percent: 0, min: 0 } }),
    ]);
    show('failure');
    assert.equal(unavailable()?.until, 1_050_000);
    assert.equal(states.takeRetry('main'), undefined);
    states.use([upstream('main', { breaker: { mode: 'off' } })]);
    assert.equal(unavailable(), undefined);
  });

  it('is drained until further notice, also across reloads', () => {
    const { unavailable, states } = openScene();
    const drained = { by: 'ops@example.com', reason: 'maintenance', at: 999_000 };
    states.setDrained(new Map([['main', drained]]));
    assert.deepEqual(unavailable(), { because: 'drained', until: undefined, last: undefined });
    states.use([upstream('main')]);
    assert.equal(unavailable()?.because, 'drained');
    assert.deepEqual(states.list(), [{ upstream: 'main', state: 'drained', active: 0, drained }]);
    states.setDrained(new Map());
    assert.equal(unavailable(), undefined);
  });

  it('logs once that it opened, not each time it opens again, and once that it serves again', () => {
    const { show, clock, logged, lines } = openScene();
    show('failure', { times: 50, detail: 'status 500' });
    for (let round = 0; round < 5; round++) {
      clock.advance(60_000);
      show('failure');
    }
    clock.advance(60_000);
    show('success', { times: 2 });
    assert.deepEqual(lines(), [
      'warn an upstream fails for this model; requests go to other upstreams until it is tried again',
      'info an upstream serves again',
    ]);
    const [opened, closed] = logged.map(({ fields }) => fields);
    assert.deepEqual([opened!.upstream, opened!.last, closed!.seconds], ['main', 'status 500', 360]);
  });
});

test("another replica's report counts for upstreams and models that are known here, or few", () => {
  const { states } = openScene();
  states.heed({ kind: 'open', upstream: 'unknown', upstream_model: 'm', until: 1_002_000 });
  for (let n = 0; n < 1000; n++) {
    states.heed({ kind: 'open', upstream: 'main', upstream_model: `made up ${n}`, until: 1_002_000 });
  }
  assert.ok(states.list().length <= 204, `${states.list().length}`);
});

test("another replica's report is ignored where a request succeeded here since it began to fail there", () => {
  const { show, unavailable, states, clock } = openScene();
  const seen = { upstream: 'main', upstream_model: 'm', until: 1_009_000 };
  show('success');
  clock.advance(300);
  for (const kind of ['open', 'unreachable', 'credential'] as const) states.heed({ ...seen, kind, failing_ms: 300 });
  assert.equal(unavailable(), undefined);
  states.heed({ ...seen, kind: 'open', failing_ms: 299 });
  assert.equal(unavailable()?.because, 'open');
});

const until = Date.parse('2027-01-31T08:00:05Z');
const later = until + 60_000;

for (const [what, states, expected] of [
  ['one that is well is closed', [{ upstream: 'main', state: 'closed' }], { main: { state: 'closed' } }],
  [
    'an upstream that cannot be reached says until when, and not why',
    [{ upstream: 'main', state: 'open', until, last: 'ECONNREFUSED 10.0.0.7:443' }],
    { main: { state: 'open', until: '2027-01-31T08:00:05.000Z' } },
  ],
  [
    'models are counted and not named',
    [
      { upstream: 'main', state: 'closed' },
      { upstream: 'main', upstream_model: 'secret-1', state: 'limited', until },
      { upstream: 'main', upstream_model: 'secret-2', state: 'open', until: later },
      { upstream: 'main', upstream_model: 'secret-3', state: 'open', until },
    ],
    { main: { state: 'open', until: '2027-01-31T08:00:05.000Z', models: 2 } },
  ],
  [
    'what holds of an upstream as a whole comes before what holds of a model',
    [
      { upstream: 'main', upstream_model: 'secret-1', state: 'credential' },
      { upstream: 'main', state: 'half_open', until },
    ],
    { main: { state: 'half_open', until: '2027-01-31T08:00:05.000Z' } },
  ],
  [
    'report-only breakers are marked',
    [{ upstream: 'main', state: 'open', until, shadow: true }],
    { main: { state: 'open', until: '2027-01-31T08:00:05.000Z', mode: 'shadow' } },
  ],
  [
    'a drained one is drained whatever else',
    [
      { upstream: 'main', state: 'open', until },
      { upstream: 'main', state: 'drained' },
      { upstream: 'spare', state: 'closed' },
    ],
    { main: { state: 'drained' }, spare: { state: 'closed' } },
  ],
] as const satisfies readonly (readonly [string, readonly UpstreamState[], object])[]) {
  test(what, () => assert.deepEqual(summarizeUpstreams(states), expected));
}

test('a breaker stays open for its time, 20 percent more or less, and never longer than the longest', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 0, max: 8 }), (chance, tries) => {
      const { show, waits, clock } = openScene(undefined, { random: () => chance });
      show('failure', { times: 5 });
      for (let n = 0; n < tries; n++) {
        clock.advance(waits()! + 1);
        show('failure');
      }
      const expected = Math.min(5 * 2 ** tries, 60) * 1000;
      const found = waits()!;
      assert.ok(found >= expected * 0.8 - 1e-6 && found <= Math.min(expected * 1.2, 60_000) + 1e-6, `${found}`);
    }),
  );
});
