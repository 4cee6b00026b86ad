/** Bodies on their way in: whole whatever their pieces, counted while they are held, given up when they are too much or too late. */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { frozenClock } from '../../engine/kit/clock.ts';
import { BodyBudget, HeldBytes } from '../../engine/run/holdings.ts';
import { receiveBody } from '../../engine/run/receive-body.ts';
import { times } from '../support/times.ts';

const LIMITS = { max_bytes: 300_000, total_seconds: 10, silence_seconds: 4 };

/** A request whose body comes in these pieces; without them it stays open. */
function requestOf(pieces: readonly Buffer[] | undefined, length?: number): IncomingMessage & Readable {
  const stream = pieces === undefined ? new Readable({ read() {} }) : Readable.from(pieces, { objectMode: false });
  const headers = length === undefined ? {} : { 'content-length': String(length) };
  return Object.assign(stream, { headers }) as unknown as IncomingMessage & Readable;
}

const sum = (pieces: readonly Buffer[]) => pieces.reduce((size, { length }) => size + length, 0);

/** Pieces with memory of their own, as they come off the network. */
const pieces = fc
  .array(fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 90_000 })), { maxLength: 12 })
  .map((sizes) => sizes.map((size, i) => Buffer.alloc(size, 65 + i)));

describe('a body', () => {
  it('is what was sent, however it is cut, and what it takes is counted', async () => {
    await fc.assert(
      fc.asyncProperty(pieces, fc.boolean(), async (sent, declared) => {
        const budget = new BodyBudget(10_000_000, 10_000_000);
        const room = new HeldBytes(budget, 'ana');
        const whole = Buffer.concat(sent);
        const req = requestOf(sent, declared ? whole.length : undefined);
        if (whole.length > LIMITS.max_bytes) {
          await assert.rejects(receiveBody(req, LIMITS, room, frozenClock(0)), { code: 'body_too_large' });
        } else {
          const body = await receiveBody(req, LIMITS, room, frozenClock(0));
          assert.ok(body.equals(whole));
          assert.ok(budget.held_bytes >= whole.length && budget.held_bytes <= Math.max(65_536, 2 * whole.length));
          room.release();
        }
        assert.equal(budget.held_bytes, 0);
      }),
      { numRuns: times(30) },
    );
  });

  it('that has no room is refused, and leaves nothing behind', async () => {
    await fc.assert(
      fc.asyncProperty(pieces, fc.boolean(), fc.integer({ min: 0, max: 400_000 }), async (sent, declared, limit) => {
        const budget = new BodyBudget(limit, limit);
        const room = new HeldBytes(budget, 'ana');
        const size = sum(sent);
        const received = receiveBody(requestOf(sent, declared ? size : undefined), LIMITS, room, frozenClock(0));
        const outcome = await received.catch((error) => error.code);
        if (typeof outcome === 'string') assert.ok(['overloaded', 'body_too_large'].includes(outcome));
        else assert.equal(outcome.length, size);
        room.release();
        assert.equal(budget.held_bytes, 0);
      }),
      { numRuns: times(30) },
    );
  });

  it('of a declared length takes its room before it is read, and from its own share', () => {
    const budget = new BodyBudget(1000, 400);
    const ana = new HeldBytes(budget, 'ana');
    ana.take(300);
    assert.throws(() => new HeldBytes(budget, 'ana').take(200), { code: 'rate_limit_exceeded' });
    const ben = new HeldBytes(budget, 'ben');
    ben.take(700);
    assert.throws(() => new HeldBytes(budget, 'eve').take(1), { code: 'overloaded' });
    ben.release();
    assert.equal(budget.held_bytes, 300);
    assert.equal(ben.hold(10), false);
  });

  it('of a connection that has closed before anybody reads it is given up at once', async () => {
    const budget = new BodyBudget(1000, 1000);
    const req = requestOf(undefined, 500);
    req.destroy();
    await new Promise((resolve) => req.on('close', resolve));
    await assert.rejects(receiveBody(req, LIMITS, new HeldBytes(budget, 'ana'), frozenClock(0)), { code: 'bad_http' });
    assert.equal(budget.held_bytes, 0);
  });

  for (const [what, every_ms, says] of [
    ['silent', undefined, /No byte of the request body arrived for 4 seconds/],
    ['slow', 1000, /not complete after 10 seconds/],
  ] as const) {
    it(`that is ${what} is given up in time`, async () => {
      const clock = frozenClock(0);
      const budget = new BodyBudget(1000, 1000);
      const req = requestOf(undefined, 500);
      const received = receiveBody(req, LIMITS, new HeldBytes(budget, 'ana'), clock);
      const outcome = received.then(
        () => undefined,
        (error) => error,
      );
      for (let ms = 0; ms < 12_000; ms += 1000) {
        if (every_ms !== undefined) req.push(Buffer.from(' '));
        await new Promise((resolve) => setImmediate(resolve));
        clock.advance(1000);
      }
      const error = await outcome;
      assert.equal(error?.code, 'request_timeout');
      assert.match(error.message, says);
      assert.equal(budget.held_bytes, 0);
    });
  }
});
