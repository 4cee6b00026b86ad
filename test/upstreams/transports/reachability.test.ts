import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { frozenClock } from '../../../engine/kit/clock.ts';
import { createReachability } from '../../../engine/upstreams/transports/reachability.ts';

/** A connection that is being made until `emit('connect')`. */
class Connecting extends EventEmitter {
  error: Error | undefined;
  destroy(error: Error): void {
    this.error = error;
    this.emit('close');
  }
}

const CONNECT_SECONDS = 10;

function open() {
  const clock = frozenClock(0);
  const reachability = createReachability({ connect_seconds: CONNECT_SECONDS, clock });
  let ready = 0;
  const connect = () => {
    const socket = new Connecting();
    const refusal = reachability.watch(socket as unknown as Socket, () => ready++);
    return { socket, refusal };
  };
  return { clock, connect, ready: () => ready };
}

test('a connection may take its time while nothing is known', () => {
  const { clock, connect, ready } = open();
  const { socket } = connect();
  clock.advance(9999);
  assert.equal(socket.error, undefined);
  socket.emit('connect');
  clock.advance(60_000);
  assert.deepEqual([socket.error, ready()], [undefined, 1]);
});

test('after one that was not made in time a single request tries for a second, the others are refused at once', () => {
  const { clock, connect } = open();
  const first = connect();
  clock.advance(10_000);
  assert.match(String(first.socket.error), /no connection in time/);
  const probe = connect();
  assert.ok(connect().refusal);
  clock.advance(1000);
  assert.ok(probe.socket.error);
  assert.equal(connect().refusal, undefined, 'the next one tries');
});

test('a connection that is made ends it at once, and so does time', () => {
  const { clock, connect } = open();
  connect();
  clock.advance(10_000);
  connect().socket.emit('connect');
  const [one, two] = [connect(), connect()];
  assert.deepEqual([one.refusal, two.refusal], [undefined, undefined]);
  clock.advance(10_000);
  clock.advance(30_000);
  const later = connect();
  clock.advance(9000);
  assert.deepEqual([later.refusal, later.socket.error], [undefined, undefined]);
});

test('a probe that is given up makes room for the next', () => {
  const { clock, connect } = open();
  connect();
  clock.advance(10_000);
  connect().socket.emit('close');
  assert.equal(connect().refusal, undefined);
});
