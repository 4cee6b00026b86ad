import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Controller } from '../../../engine/upstreams/transports/connection.ts';
import { ReceivedAnswer } from '../../../engine/upstreams/transports/received-answer.ts';
import { times } from '../../support/times.ts';

const KEPT_BYTES = 65_536;

/** A connection that gives the chunks it has until it is paused, also while it is told to go on. */
function connection(chunks: Buffer[], last: 'end' | 'break') {
  let paused = false;
  let told = false;
  const controller = {
    rawHeaders: [],
    pause() {
      paused = true;
    },
    resume() {
      paused = false;
      give(Infinity);
    },
    abort() {},
  } as unknown as Controller;
  const answer = new ReceivedAnswer(controller, 200, {}, 'OK');
  const give = (most: number) => {
    for (let i = 0; i < most && !paused; i++) {
      const chunk = chunks.shift();
      if (chunk !== undefined) answer.take(chunk);
      else if (!told) {
        told = true;
        if (last === 'end') answer.end();
        else answer.break(new Error('broken'));
      } else return;
    }
  };
  return { answer, give, is_paused: () => paused };
}

describe('an answer', () => {
  test('is told whole, in order and once, and its end last, whenever its reader pauses', () => {
    const sizes = fc.array(fc.constantFrom(1, 1000, KEPT_BYTES), { minLength: 1, maxLength: 8 });
    const steps = fc.array(fc.constantFrom('give', 'pause', 'resume'), { maxLength: 30 });
    const pauses = fc.array(fc.boolean(), { maxLength: 12 });
    fc.assert(
      fc.property(sizes, steps, pauses, fc.constantFrom('end', 'break'), (all, script, pausing, last) => {
        const chunks = all.map((size, i) => Buffer.alloc(size, i));
        const sent = Buffer.concat(chunks);
        const { answer, give } = connection(chunks, last);
        const received: Buffer[] = [];
        const ends: string[] = [];
        let at = 0;
        answer.on('data', (chunk: Buffer) => {
          assert.deepEqual(ends, []);
          received.push(chunk);
          if (pausing[at++]) answer.pause();
        });
        answer.on('end', () => void ends.push('end'));
        answer.on('error', () => void ends.push('error'));
        answer.on('close', () => void ends.push('close'));
        for (const step of script) {
          if (step === 'give') give(1);
          else if (step === 'pause') answer.pause();
          else answer.resume();
        }
        for (let i = 0; i < 40; i++) {
          give(1);
          answer.resume();
        }
        assert.ok(Buffer.concat(received).equals(sent));
        assert.deepEqual(ends, last === 'end' ? ['end'] : ['error', 'close']);
      }),
      { numRuns: times(300) },
    );
  });

  test('that nobody reads holds its connection back, and one that is given up tells nothing more', () => {
    const { answer, give, is_paused } = connection([Buffer.alloc(KEPT_BYTES), Buffer.alloc(1)], 'end');
    give(1);
    assert.equal(is_paused(), true);
    let told = 0;
    answer.on('data', () => told++);
    answer.on('end', () => told++);
    answer.destroy();
    answer.resume();
    give(9);
    assert.deepEqual([told, answer.destroyed], [0, true]);
  });
});
