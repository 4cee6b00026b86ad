import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import type { UpstreamState } from '../../../engine/contract/forwarding.ts';
import { createBreaker } from '../../../engine/upstreams/states/breaker.ts';
import { tellUpstreams } from '../../../engine/upstreams/states/upstream-states.ts';
import { bytesInUse } from '../../support/heap.ts';
import { times } from '../../support/times.ts';
import { BREAKER, openScene, upstream } from './scene.ts';

describe('the breaker of a model at an upstream', () => {
  it('opens after five failures in a row, for that model at that upstream alone', () => {
    const { show, closed } = openScene();
    show('failure', { times: 4 });
    assert.equal(closed(), undefined);
    show('failure', { detail: 'status 529' });
    assert.deepEqual(closed(), { because: 'open', until: 1_005_000, last: 'status 529' });
    assert.equal(closed('main', 'other'), undefined);
    assert.equal(closed('spare'), undefined);
  });

  it('opens when half of at least twenty requests of the last 30 seconds failed', () => {
    const { show, closed, clock } = openScene();
    for (let pair = 0; pair < 9; pair++) {
      show('success');
      show('failure');
    }
    assert.equal(closed(), undefined);
    clock.advance(31_000);
    for (let pair = 0; pair < 9; pair++) {
      show('success');
      show('failure');
    }
    assert.equal(closed(), undefined, 'the old ones no longer count');
    show('success');
    show('failure');
    assert.equal(closed()?.because, 'open');
  });

  describe('by who saw it fail', () => {
    /** Attempts in turn, each as `caller request`, or with `+` before it where it succeeds. */
    function after(seen: string, settings: Partial<typeof BREAKER> = {}) {
      const scene = openScene([upstream('main', { breaker: settings })]);
      for (const word of seen.split(' ')) {
        const [, ok, caller, request] = /^(\+?)([a-z])(\d*)$/.exec(word)!;
        const trial = scene.states.begin('main', 'm', { caller: caller!, request: Number(request) });
        trial.tell(ok ? 'success' : 'failure', 'status 500');
        trial.leave(ok ? 'whole' : undefined);
        if (scene.states.closed('main', 'm') !== undefined) break;
      }
      return (
        [
          { caller: 'a', request: 1 },
          { caller: 'a', request: 99 },
          { caller: 'z', request: 99 },
        ] as const
      )
        .map((by) => scene.states.closed('main', 'm', by)?.because ?? 'passes')
        .join(' ');
    }

    // Of `a` request 1, another one of `a`, one of somebody else.
    for (const [seen, outcome, why] of [
      ['a1 a1 a1 a1 a1', 'open passes passes', 'one request opens it for that request'],
      ['a1 a2 a3 a4 a5', 'open open passes', 'one caller opens it for that caller'],
      ['a1 a2 a3 a4 b1', 'passes passes passes', 'a caller counts for three of five'],
      ['a1 a2 a3 a4 a5 b1', 'open open passes', 'a caller counts for three of five'],
      ['a1 a2 a3 b1 b2', 'open open open', 'two callers open it for all'],
      ['a1 b1 c1 d1 e1', 'open open open', 'five callers open it for all'],
      ['a1 a2 a3 a4 a5 +z1', 'passes passes passes', 'somebody is served'],
      ['a1 a2 a3 +z1 b1 b2', 'passes passes passes', 'somebody is served in between'],
    ] as const) {
      it(`${seen}: ${why}`, () => assert.equal(after(seen), outcome));
    }

    it('keeps few requests of a caller whose all fail, where nobody is kept away', async () => {
      const { states } = openScene([upstream('main', { breaker: { mode: 'shadow' } })]);
      const fail = (request: number) => {
        const trial = states.begin('main', 'm', { caller: 'a', request });
        trial.tell('failure', 'status 500');
        trial.leave();
      };
      const before = await bytesInUse();
      for (let request = 0; request < 100_000; request++) fail(request);
      const { heap } = await bytesInUse();
      assert.ok(heap - before.heap < 1_000_000, `${heap - before.heap}`);
      assert.equal(states.closed('main', 'm'), undefined);
    });

    it('lets one request of the caller at a time through once the time is over, and closes as soon as one succeeds', () => {
      const { states, clock } = openScene();
      const begin = (request: number) => states.begin('main', 'm', { caller: 'a', request });
      const waits = () => {
        const until = states.closed('main', 'm', { caller: 'a' })?.until;
        return until === undefined ? undefined : until - clock.now();
      };
      for (let request = 0; request < 5; request++) begin(request).tell('failure');
      assert.equal(waits(), 5000);
      clock.advance(5000);
      const first = begin(5);
      assert.equal(waits(), 1000, 'one is trying');
      first.tell('failure');
      assert.equal(waits(), 10_000, 'for longer the second time');
      clock.advance(10_000);
      begin(6).tell('success');
      assert.equal(waits(), undefined);
      begin(7).tell('failure');
      assert.equal(waits(), undefined, 'it counts anew');
    });

    it('counts the share of failures without the caller of whom most failed', () => {
      const rounds = (round: string) => Array.from({ length: 20 }, () => round).join(' ');
      assert.equal(after(rounds('+z1 a1 +y1')), 'passes passes passes');
      assert.equal(after(rounds('+z1 a1 b1 c1 d1').replaceAll('d1', 'd1 +y1')), 'open open open');
    });

    it('is opened again by a try in vain of two callers, and by one for its caller', () => {
      const { states, clock } = openScene();
      const show = (caller: string, request: number, effect: 'failure' | 'success') => {
        const trial = states.begin('main', 'm', { caller, request });
        trial.tell(effect, 'status 500');
        trial.leave();
      };
      const closedFor = (caller: string) => states.closed('main', 'm', { caller })?.because;
      for (const [caller, request] of [
        ['a', 1],
        ['a', 2],
        ['a', 3],
        ['b', 1],
        ['b', 2],
      ] as const)
        show(caller, request, 'failure');
      clock.advance(5000);
      show('a', 4, 'failure');
      assert.deepEqual([closedFor('a'), closedFor('b')], ['open', undefined]);
      show('b', 3, 'failure');
      assert.deepEqual([closedFor('a'), closedFor('b'), closedFor('c')], ['open', 'open', 'open']);
    });
  });

  it('lets one request at a time through once its time is over, and closes when two of them succeeded', () => {
    const { show, closed, waits, states, clock } = openScene();
    show('failure', { times: 5 });
    clock.advance(4999);
    assert.equal(waits(), 1);
    clock.advance(1);
    assert.equal(closed(), undefined);
    const first = states.begin('main', 'm');
    assert.equal(waits(), 1000, 'one is trying');
    first.tell('success');
    assert.equal(closed(), undefined, 'the next may try');
    const second = states.begin('main', 'm');
    assert.equal(waits(), 1000);
    second.tell('success');
    assert.equal(closed(), undefined);
    const both = [states.begin('main', 'm'), states.begin('main', 'm')];
    assert.equal(closed(), undefined, 'it is closed: all pass');
    for (const trial of [first, second, ...both]) trial.leave();
  });

  it('is not moved by requests that began before it opened', () => {
    const { show, waits, states, clock } = openScene();
    const early = Array.from({ length: 10 }, () => states.begin('main', 'm'));
    show('failure', { times: 5 });
    clock.advance(1000);
    for (const [index, trial] of early.entries()) trial.tell(index % 2 === 0 ? 'success' : 'failure');
    assert.equal(waits(), 4000);
  });

  it('may be tried sooner when a request that went there as the last resort succeeds', () => {
    const { show, waits, closed } = openScene();
    show('failure', { times: 5 });
    show('failure');
    assert.equal(waits(), 5000, 'one that fails changes nothing');
    show('success');
    assert.equal(closed(), undefined);
    show('success');
    show('failure', { times: 4 });
    assert.equal(closed(), undefined, 'it is closed, and counts from nothing');
  });

  it('gets its weight back over ten seconds after closing', () => {
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

  it('only tells in shadow mode, and does not exist where it is off', () => {
    const { show, closed, states, logged } = openScene([
      upstream('main', { breaker: { mode: 'shadow' } }),
      upstream('spare', { breaker: { mode: 'off' } }),
    ]);
    for (const to of ['main', 'spare']) {
      show('failure', { times: 30, to });
      show('unreachable', { times: 30, to });
      show('credential', { times: 3, to });
      assert.equal(closed(to), undefined);
      assert.equal(states.share(to, 'm'), 1);
    }
    const told = states
      .list()
      .map(({ upstream, upstream_model, state, shadow }) => [upstream, upstream_model, state, shadow]);
    assert.deepEqual(told, [
      ['main', undefined, 'credential', true],
      ['main', 'm', 'open', true],
      ['spare', undefined, 'closed', undefined],
    ]);
    const shadow = 'it is used all the same (breaker.mode: shadow)';
    assert.deepEqual(
      logged.map(({ level, message }) => [level, message]),
      [
        ['warn', `an upstream fails for this model; ${shadow}`],
        ['warn', `no connection can be made to an upstream; ${shadow}`],
        ['error', `an upstream refuses the credential of the gateway; ${shadow}`],
        ['info', 'an upstream serves again'],
      ],
    );
  });
});

describe('the breaker of connections', () => {
  it('opens for all models, and closes again when anything is answered twice', () => {
    const { show, closed, clock } = openScene();
    show('unreachable', { times: 3, detail: 'ECONNREFUSED' });
    show('unreachable', { times: 2, model: 'other', detail: 'ECONNREFUSED' });
    assert.deepEqual(closed('main', 'third'), { because: 'open', until: 1_005_000, last: 'ECONNREFUSED' });
    clock.advance(5000);
    show('failure');
    show('limited', { model: 'other' }, 60);
    assert.equal(closed('main', 'third'), undefined);
    assert.equal(closed(), undefined);
  });

  it('is not the one of a model: no connection does not count for it', () => {
    const { show, closed, clock } = openScene();
    show('failure', { times: 4 });
    show('unreachable', { times: 5 });
    clock.advance(5000);
    show('success', { times: 2, model: 'other' });
    assert.equal(closed(), undefined);
  });
});

describe('the breaker of a credential', () => {
  it('opens at once for every model and for every upstream with that credential at that address, and says so as an error', () => {
    const base_url = 'https://api.example.com';
    const { show, closed, clock, logged } = openScene([
      upstream('main', { base_url }),
      upstream('twin', { base_url }),
      upstream('other-key', { base_url, api_key_env: 'OTHER' }),
    ]);
    show('credential', { detail: 'status 401' });
    const expected = { because: 'credential', until: 1_060_000, last: 'status 401' };
    assert.deepEqual(closed('main', 'any'), expected);
    assert.deepEqual(closed('twin', 'any'), expected);
    assert.equal(closed('other-key'), undefined);
    assert.deepEqual(logged, [
      {
        level: 'error',
        message: 'an upstream refuses the credential of the gateway; it is left out until it may be tried again',
        fields: {
          upstream: 'main',
          credential: 'KEY',
          last: 'status 401',
          until: '1970-01-01T00:17:40.000Z',
        },
      },
    ]);
    clock.advance(60_000);
    assert.equal(closed(), undefined);
    show('credential', { detail: 'status 401' });
    assert.equal(closed()?.until, 1_120_000);
    assert.equal(logged.length, 1, 'told once');
    clock.advance(60_000);
    show('success');
    assert.equal(closed('twin'), undefined);
    assert.equal(logged[1]?.message, 'an upstream takes the credential again');
  });

  it('does not open when one request of many is forbidden', () => {
    const { show, closed, clock } = openScene();
    for (let round = 0; round < 10; round++) {
      show('success');
      show('permission', { times: 2, detail: 'status 403' });
      clock.advance(1000);
    }
    assert.equal(closed(), undefined);
    show('permission', { detail: 'status 403' });
    assert.equal(closed()?.because, 'credential', 'the third in a row');
  });

  it('opens at the first request that is forbidden when the credential has not worked for 30 seconds', () => {
    const fresh = openScene();
    fresh.show('permission');
    assert.equal(fresh.closed()?.because, 'credential');
    const later = openScene();
    later.show('success');
    later.clock.advance(30_000);
    later.show('permission');
    assert.equal(later.closed(), undefined);
    later.clock.advance(1);
    later.show('permission');
    assert.equal(later.closed()?.because, 'credential');
  });
});

describe('the time in which an upstream has no room (429)', () => {
  it('lasts as long as it was told, for that model, and is no failure', () => {
    const { show, closed, waits, clock } = openScene();
    show('limited', { times: 30, detail: 'status 429' }, 7);
    assert.deepEqual(closed(), { because: 'limited', until: 1_007_000, last: 'status 429' });
    assert.equal(closed('main', 'other'), undefined);
    show('limited', {}, 2);
    assert.equal(waits(), 7000, 'a shorter one does not end it');
    clock.advance(7000);
    assert.equal(closed(), undefined);
  });

  it('lasts a second where nothing was told, and doubles up to 30 until something is served', () => {
    const { show, waits, clock } = openScene();
    const lengths = [];
    for (let round = 0; round < 7; round++) {
      show('limited');
      const ms = waits()!;
      lengths.push(ms / 1000);
      clock.advance(ms);
    }
    assert.deepEqual(lengths, [1, 2, 4, 8, 16, 30, 30]);
    show('success');
    show('limited');
    assert.equal(waits(), 1000);
  });

  it('doubles once for requests that were under way together', () => {
    const { waits, states, clock } = openScene();
    const together = Array.from({ length: 50 }, () => states.begin('main', 'm'));
    for (const trial of together) trial.tell('limited', 'status 429');
    assert.equal(waits(), 1000);
    clock.advance(1000);
    states.begin('main', 'm').tell('limited');
    assert.equal(waits(), 2000);
  });

  it('ends when a request that began after it is served, not by one from before', () => {
    const { show, closed, states } = openScene();
    const early = states.begin('main', 'm');
    show('limited', {}, 60);
    early.tell('success');
    assert.equal(closed()?.because, 'limited');
    show('success');
    assert.equal(closed(), undefined);
  });

  it('is told in the log once a minute, however often the account is limited and served in turn', () => {
    const { show, clock, logged } = openScene();
    for (let round = 0; round < 100; round++) {
      show('limited', { detail: 'status 429' }, 1);
      show('success');
      clock.advance(1000);
    }
    assert.deepEqual(
      logged.map(({ level, message }) => [level, message]),
      Array(2).fill([
        'info',
        'an upstream has no room for the account of the gateway (429); it is left out until it may be tried again',
      ]),
    );
  });

  it('is at most an hour, and holds in shadow mode too', () => {
    const { show, waits } = openScene([upstream('main', { breaker: { mode: 'shadow' } })]);
    show('limited', {}, 1e9);
    assert.equal(waits(), 3_600_000);
  });
});

describe('what is known of upstreams', () => {
  it('remembers for five minutes that a model is missing, or until the configuration is loaded again', () => {
    const { show, closed, states, clock } = openScene();
    show('model_missing', { detail: 'status 404' });
    assert.deepEqual(closed(), { because: 'model_missing', until: 1_300_000, last: 'status 404' });
    assert.equal(closed('main', 'other'), undefined);
    states.use([upstream('main')]);
    assert.equal(closed(), undefined);
    show('model_missing');
    clock.advance(300_000);
    assert.equal(closed(), undefined);
  });

  it('tells of several things that speak against an upstream the one that lasts longest', () => {
    const { show, closed } = openScene();
    show('failure', { times: 5 });
    assert.equal(closed()?.because, 'open');
    show('limited', {}, 30);
    assert.equal(closed()?.because, 'limited');
    show('credential');
    assert.equal(closed()?.because, 'credential');
    show('model_missing');
    assert.equal(closed()?.because, 'model_missing');
  });

  it('counts requests under way from begin to leave, however often they leave', () => {
    const { states } = openScene();
    const trials = [states.begin('main', 'm'), states.begin('main', 'other')];
    assert.equal(states.active('main'), 2);
    trials[0]!.tell('success');
    assert.equal(states.active('main'), 2);
    trials[0]!.leave();
    trials[0]!.leave();
    assert.equal(states.active('main'), 1);
    assert.equal(states.active('spare'), 0);
    assert.equal(states.active('unknown'), 0);
  });

  it('lets three requests at once be sent again, or a fifth of those under way', () => {
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

  it('knows where a session is at home for as long as its prompts are kept there', () => {
    const { states, clock } = openScene();
    states.settle('session', 'spare', 300);
    clock.advance(299_999);
    assert.equal(states.home('session'), 'spare');
    states.settle('session', 'main', 3600);
    clock.advance(300_001);
    assert.equal(states.home('session'), 'main');
    clock.advance(3_300_000);
    assert.equal(states.home('session'), undefined);
  });

  it('forgets at a reload what belonged to upstreams that are gone or at another address, and keeps the rest', () => {
    const { show, closed, states } = openScene([upstream('main'), upstream('spare'), upstream('third')]);
    for (const to of ['main', 'spare', 'third']) show('failure', { times: 5, to });
    for (const to of ['main', 'spare', 'third']) states.settle(`at ${to}`, to, 300);
    const running = states.begin('third', 'm');
    states.use([upstream('main'), upstream('spare', { base_url: 'https://elsewhere.example.com' })]);
    assert.equal(closed('main')?.because, 'open');
    assert.equal(closed('spare'), undefined);
    assert.equal(closed('third'), undefined);
    assert.deepEqual(
      ['main', 'third'].map((to) => states.home(`at ${to}`)),
      ['main', undefined],
    );
    running.tell('failure');
    running.leave();
    assert.deepEqual(
      states.list().map(({ upstream, state }) => [upstream, state]),
      [
        ['main', 'closed'],
        ['main', 'open'],
        ['spare', 'closed'],
      ],
    );
  });

  it('takes changed settings at a reload', () => {
    const { show, closed, states } = openScene();
    show('failure', { times: 4 });
    states.use([
      upstream('main', { breaker: { failures: 2, open_seconds: 50 }, retry_budget: { percent: 0, least: 0 } }),
    ]);
    show('failure');
    assert.equal(closed()?.until, 1_050_000);
    assert.equal(states.takeRetry('main'), undefined);
    states.use([upstream('main', { breaker: { mode: 'off' } })]);
    assert.equal(closed(), undefined);
  });

  it('is drained for as long as it is said to be, also across reloads', () => {
    const { closed, states } = openScene();
    const drained = { by: 'ops@example.com', reason: 'maintenance', at: 999_000 };
    states.setDrained(new Map([['main', drained]]));
    assert.deepEqual(closed(), { because: 'drained', until: undefined, last: undefined });
    states.use([upstream('main')]);
    assert.equal(closed()?.because, 'drained');
    assert.deepEqual(states.list(), [{ upstream: 'main', state: 'drained', active: 0, drained }]);
    states.setDrained(new Map());
    assert.equal(closed(), undefined);
  });

  it('says once in the log that it opened, not each time it opens again, and once that it serves again', () => {
    const { show, clock, logged } = openScene();
    show('failure', { times: 50, detail: 'status 500' });
    for (let round = 0; round < 5; round++) {
      clock.advance(60_000);
      show('failure');
    }
    clock.advance(60_000);
    show('success', { times: 2 });
    assert.deepEqual(
      logged.map(({ level, message, fields }) => [level, message, fields.upstream, fields.last ?? fields.seconds]),
      [
        ['warn', 'an upstream fails for this model; it is left out until it may be tried again', 'main', 'status 500'],
        ['info', 'an upstream serves again', 'main', 360],
      ],
    );
  });
});

describe('what other processes saw of upstreams', () => {
  it('is told each time an upstream opens or is limited', () => {
    const { show, clock, troubles } = openScene();
    show('failure', { times: 5 });
    clock.advance(5000);
    show('failure');
    show('limited', { to: 'spare', detail: 'status 429' }, 3);
    show('credential', { to: 'spare', detail: 'status 401' });
    show('unreachable', { times: 5, detail: 'ECONNRESET' });
    assert.deepEqual(troubles, [
      { kind: 'open', upstream: 'main', upstream_model: 'm', until: 1_005_000, last: 'status 500', failing_ms: 0 },
      { kind: 'open', upstream: 'main', upstream_model: 'm', until: 1_015_000, failing_ms: 0 },
      { kind: 'limited', upstream: 'spare', upstream_model: 'm', until: 1_008_000, last: 'status 429' },
      { kind: 'credential', upstream: 'spare', credential: 'KEY', until: 1_065_000, last: 'status 401', failing_ms: 0 },
      { kind: 'unreachable', upstream: 'main', until: 1_010_000, last: 'ECONNRESET', failing_ms: 0 },
    ]);
  });

  it('is heeded for upstreams that are known here, for ten seconds at most, and not told on', () => {
    const { closed, waits, states, troubles } = openScene();
    states.heed({ kind: 'open', upstream: 'main', upstream_model: 'm', until: 1_004_000, last: 'status 529' });
    assert.deepEqual(closed(), { because: 'open', until: 1_004_000, last: 'status 529' });
    states.heed({ kind: 'credential', upstream: 'main', until: 9_999_999_999 });
    assert.equal(waits(), 10_000);
    states.heed({ kind: 'unreachable', upstream: 'spare', until: 1_002_000 });
    assert.equal(waits('spare', 'any'), 2000);
    states.heed({ kind: 'limited', upstream: 'spare', upstream_model: 'm', until: 9_999_999_999 });
    assert.equal(waits('spare'), 60_000, 'what is limited is limited for all');
    states.heed({ kind: 'open', upstream: 'unknown', upstream_model: 'm', until: 1_002_000 });
    for (let n = 0; n < 1000; n++) {
      states.heed({ kind: 'open', upstream: 'main', upstream_model: `made up ${n}`, until: 1_002_000 });
    }
    assert.ok(states.list().length <= 204, `${states.list().length}`);
    assert.deepEqual(troubles, []);
  });

  it('never shortens nor lengthens what is known here, and what is over is not heeded', () => {
    const { show, closed, waits, states, clock } = openScene();
    show('failure', { times: 5 });
    states.heed({ kind: 'open', upstream: 'main', upstream_model: 'm', until: 1_001_000 });
    states.heed({ kind: 'open', upstream: 'main', upstream_model: 'm', until: 1_009_000 });
    assert.equal(waits(), 5000);
    clock.advance(5000);
    states.heed({ kind: 'open', upstream: 'main', upstream_model: 'm', until: 1_004_000 });
    assert.equal(closed(), undefined);
  });

  it('is not believed where something succeeded here since it began to fail there', () => {
    const { show, closed, states, clock } = openScene();
    const seen = { upstream: 'main', upstream_model: 'm', until: 1_009_000 };
    show('success');
    clock.advance(300);
    for (const kind of ['open', 'unreachable', 'credential'] as const) states.heed({ ...seen, kind, failing_ms: 300 });
    assert.equal(closed(), undefined);
    states.heed({ ...seen, kind: 'open', failing_ms: 299 });
    assert.equal(closed()?.because, 'open');
  });

  it('is not believed for five minutes after it turned out to be wrong here', () => {
    const { show, closed, states, clock } = openScene();
    const hear = () => {
      const until = clock.now() + 60_000;
      for (const kind of ['open', 'unreachable', 'credential'] as const) {
        states.heed({ kind, upstream: 'main', upstream_model: 'm', until });
      }
    };
    hear();
    assert.notEqual(closed(), undefined);
    clock.advance(10_000);
    assert.equal(closed(), undefined, 'it is tried here');
    show('success', { times: 2 });
    clock.advance(5000);
    hear();
    assert.equal(closed(), undefined);
    clock.advance(300_000);
    hear();
    assert.notEqual(closed(), undefined);
  });

  it('tells for how long nothing had succeeded', () => {
    const { show, clock, troubles } = openScene();
    show('success');
    clock.advance(500);
    for (let n = 0; n < 5; n++) {
      show('failure');
      clock.advance(100);
    }
    clock.advance(5100);
    show('failure');
    assert.deepEqual(
      troubles.map(({ failing_ms }) => failing_ms),
      [400, 200],
    );
  });
});

const until = Date.parse('2027-01-31T08:00:05Z');
const later = until + 60_000;

for (const [what, states, told] of [
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
    'breakers that only tell say so',
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
  test(what, () => assert.deepEqual(tellUpstreams(states), told));
}

const SETTINGS = { ...BREAKER, failures: 3, requests_min: 1000 };

/** The same breaker, written as plainly as it goes: only failures in a row open it. */
class Model {
  state: 'closed' | 'open' = 'closed';
  until = 0;
  openings = 0;
  in_a_row = 0;
  successes = 0;
  era = 0;
  trying: { readonly since: number } | undefined;
  open_ms = 0;

  passes(now: number): boolean {
    if (this.state === 'closed') return true;
    return now >= this.until && (this.trying === undefined || now - this.trying.since >= this.open_ms);
  }
  open(now: number): void {
    this.open_ms = Math.min(5000 * 2 ** this.openings, 60_000);
    this.state = 'open';
    this.until = now + this.open_ms;
    this.openings += 1;
    this.in_a_row = 0;
    this.successes = 0;
    this.trying = undefined;
    this.era += 1;
  }
  end(era: number, ok: boolean, now: number): void {
    if (era !== this.era) return;
    if (this.state === 'closed') {
      this.in_a_row = ok ? 0 : this.in_a_row + 1;
      if (this.in_a_row === 3) this.open(now);
    } else if (!ok) {
      if (now >= this.until) this.open(now);
    } else {
      this.until = Math.min(this.until, now);
      this.successes += 1;
      if (this.successes < 2) return;
      this.state = 'closed';
      this.openings = 0;
      this.era += 1;
    }
  }
}

type Step =
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'begin' }
  | { readonly do: 'end'; readonly which: number; readonly shows: 'success' | 'failure' | 'nothing' };

const steps = fc.array(
  fc.oneof(
    {
      weight: 2,
      arbitrary: fc.record({
        do: fc.constant('wait' as const),
        ms: fc.constantFrom(1, 999, 2500, 5000, 10_000, 61_000),
      }),
    },
    { weight: 4, arbitrary: fc.record({ do: fc.constant('begin' as const) }) },
    {
      weight: 4,
      arbitrary: fc.record({
        do: fc.constant('end' as const),
        which: fc.nat(20),
        shows: fc.constantFrom('success', 'failure', 'failure', 'nothing'),
      }),
    },
  ),
  { maxLength: 80 },
) as fc.Arbitrary<Step[]>;

function play(
  run: readonly Step[],
  check: (breaker: ReturnType<typeof createBreaker>, model: Model, now: number) => void,
) {
  let latest = 0;
  let now = 1_000_000;
  const told: string[] = [];
  const breaker = createBreaker(SETTINGS, {
    latest: () => latest,
    random: () => 0.5,
    onOpen: () => told.push('open'),
    onReopen: () => {},
    onClose: () => told.push('close'),
  });
  const model = new Model();
  const trials: { n: number; era: number; tries: Model['trying'] }[] = [];
  for (const step of run) {
    if (step.do === 'wait') now += step.ms;
    if (step.do === 'begin') {
      latest += 1;
      const tries = model.state === 'open' && model.passes(now) ? { since: now } : undefined;
      if (tries !== undefined) model.trying = tries;
      trials.push({ n: latest, era: model.era, tries });
      breaker.begin(latest, now);
    }
    if (step.do === 'end' && trials.length > 0) {
      const [trial] = trials.splice(step.which % trials.length, 1) as [(typeof trials)[number]];
      if (step.shows === 'success') breaker.succeed(trial.n, now);
      if (step.shows === 'failure') breaker.fail(trial.n, now, undefined);
      if (step.shows !== 'nothing') model.end(trial.era, step.shows === 'success', now);
      breaker.release(trial.n);
      if (trial.tries !== undefined && model.trying === trial.tries) model.trying = undefined;
    }
    check(breaker, model, now);
  }
  return told;
}

describe('a breaker, whatever happens to it', () => {
  it('does what a plain model of it does', () => {
    fc.assert(
      fc.property(steps, (run) => {
        play(run, (breaker, model, now) => {
          assert.equal(breaker.until(now) === undefined, model.passes(now));
          assert.equal(breaker.phase(now) === 'closed', model.state === 'closed');
          if (model.state === 'open' && now < model.until) assert.equal(breaker.until(now), model.until);
        });
      }),
      { numRuns: times(500) },
    );
  });

  it('always lets requests through again after its longest time, once nobody is under way', () => {
    fc.assert(
      fc.property(steps, (run) => {
        play(run, (breaker, _model, now) => assert.equal(breaker.until(now + 120_000), undefined));
      }),
      { numRuns: times(200) },
    );
  });

  it('tells opening and closing in turn', () => {
    fc.assert(
      fc.property(steps, (run) => {
        const told = play(run, () => {});
        for (const [index, word] of told.entries()) assert.equal(word, index % 2 === 0 ? 'open' : 'close');
      }),
      { numRuns: times(200) },
    );
  });

  it('stays open for its time, 20 percent more or less, and never longer than the longest', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 0, max: 8 }), (chance, times) => {
        let until = 0;
        const opens = (at: number) => {
          until = at;
        };
        const around = { latest: () => 0, random: () => chance, onOpen: opens, onReopen: opens, onClose() {} };
        const breaker = createBreaker(SETTINGS, around);
        let now = 0;
        let length = 0;
        for (let n = 1; n <= 3 + times; n++) {
          now = until;
          breaker.fail(n, now, undefined);
          length = until - now;
        }
        const expected = Math.min(5 * 2 ** times, 60) * 1000;
        assert.ok(length >= expected * 0.8 - 1e-6 && length <= Math.min(expected * 1.2, 60_000) + 1e-6, `${length}`);
      }),
    );
  });
});
