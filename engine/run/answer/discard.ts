import type { IncomingMessage } from 'node:http';

/** Pause between two pieces that are taken off the network to be thrown away, in milliseconds: about 30 MB per second. */
const PACE_MS = 2;

/** Bodies with more to throw away, each waiting for its turn. */
const waiting: IncomingMessage[] = [];
let timer: NodeJS.Timeout | undefined;

function takeTurn(): void {
  timer = undefined;
  waiting.shift()?.resume();
  schedule();
}

function schedule(): void {
  if (waiting.length > 0 && timer === undefined) timer = setTimeout(takeTurn, PACE_MS);
}

/** Reads the rest of a body that nobody wants, slowly: a crowd of refused bodies must not keep the process busy. */
export function discardBody(req: IncomingMessage): void {
  req.on('data', () => {
    req.pause();
    waiting.push(req);
    schedule();
  });
  req.resume();
}
