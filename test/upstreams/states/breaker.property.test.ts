import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { createBreaker } from '../../../engine/upstreams/states/breaker.ts';
import { times } from '../../support/times.ts';
import { BREAKER } from './scene.ts';

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
