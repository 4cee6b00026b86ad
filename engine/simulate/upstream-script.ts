import type { Clock } from '../contract/services.ts';
import type { CaseEvent, CaseUpstream, HeaderWishes } from '../load/tests/test-case.ts';
import { EVENT_STREAM, type Exchange, type Script, sse } from './upstream.ts';

/** Headers that are wished for, as names and values in turn. */
export function presentHeaders(headers: HeaderWishes = {}): string[] {
  return Object.entries(headers).flatMap(([name, value]) => (value === null ? [] : [name, value]));
}

function eventText(event: CaseEvent): string {
  if (typeof event === 'string') return `data: ${event}\n\n`;
  const { type } = event;
  return typeof type === 'string' ? sse({ ...event, type }) : `data: ${JSON.stringify(event)}\n\n`;
}

function chunksOf({ json, text, events }: CaseUpstream): string[] {
  if (events !== undefined) return events.map(eventText);
  return [text ?? (json === undefined ? '' : JSON.stringify(json))];
}

/** The bytes of a scripted answer, when nothing cuts it short. */
export function scriptedBody(upstream: CaseUpstream): Buffer {
  return Buffer.from(chunksOf(upstream).join(''));
}

function writeHead({ res }: Exchange, { status = 200, headers, events }: CaseUpstream): void {
  const own = presentHeaders(headers);
  const type = events ? EVENT_STREAM : ['content-type', 'application/json'];
  res.writeHead(status, own.includes('content-type') ? own : [...type, ...own]);
}

/**
 * The script of a case; delays pass on its clock. `onWait` is told when the upstream has nothing more to do until time
 * passes.
 */
export function createScript(upstream: CaseUpstream, clock: Clock, onWait: (waits: boolean) => void): Script {
  const { events, fails, delay_seconds = 0, pause_seconds = 0 } = upstream;
  const pass = (seconds: number) =>
    new Promise<void>((resolve) => {
      if (seconds === 0) return resolve();
      onWait(true);
      clock.after(seconds * 1000, () => {
        onWait(false);
        resolve();
      });
    });
  return async (exchange) => {
    const { res, socket } = exchange;
    await pass(delay_seconds);
    if (fails === 'reset' && events === undefined) return void socket.resetAndDestroy();
    if (fails === 'hang' && events === undefined) return onWait(true);
    writeHead(exchange, upstream);
    for (const [index, chunk] of chunksOf(upstream).entries()) {
      if (index > 0) await pass(pause_seconds);
      if (res.destroyed) return;
      await new Promise((resolve) => res.write(chunk, resolve));
    }
    if (fails === 'hang') onWait(true);
    // A reset could overtake what was written before it.
    else if (fails === 'reset') socket.destroy();
    else res.end();
  };
}
