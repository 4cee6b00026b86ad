import type { ServerResponse } from 'node:http';
import type { Clock } from '../../base/contract/services.ts';
import { definitionOfPath } from '../../domain/protocols/definitions.ts';
import type { CaseEvent, CaseUpstream, HeaderValues, JsonObject, Step } from '../../pipeline/load/tests/test-case.ts';
import { EVENT_STREAM, type Exchange, sse } from './upstream.ts';

/** Headers of a test, as alternating names and values, without absent ones. */
export function presentHeaders(headers: HeaderValues = {}): string[] {
  return Object.entries(headers).flatMap(([name, value]) => (value === null ? [] : [name, value]));
}

function eventText(event: CaseEvent): string {
  if (typeof event === 'string') return `data: ${event}\n\n`;
  const { type } = event;
  return typeof type === 'string' ? sse({ ...event, type }) : `data: ${JSON.stringify(event)}\n\n`;
}

/** Chunks of a response: events, or the body, of which half if it is cut. */
function chunksOf({ json, text, events, fails }: CaseUpstream): string[] {
  if (events !== undefined) return events.map(eventText);
  const body = text ?? (json === undefined ? '' : JSON.stringify(json));
  return [fails === 'cut' ? body.slice(0, body.length / 2) : body];
}

/** Replaces a failure status by an error response in the protocol of the path. */
function failureAt(url: string, script: CaseUpstream): CaseUpstream {
  const { fails, ...rest } = script;
  if (typeof fails !== 'number') return script;
  const message = `The test has this upstream fail with status ${fails}.`;
  const { errors } = definitionOfPath(url);
  const json = errors.write({ status: fails, message, context_overflow: false }, 'req_of_the_test') as JsonObject;
  return { ...rest, status: fails, json };
}

function writeHead({ res }: Exchange, { status = 200, headers, events }: CaseUpstream): void {
  const own = presentHeaders(headers);
  const type = events ? EVENT_STREAM : ['content-type', 'application/json'];
  // A new connection for each request, as an upstream may refuse the next one.
  res.shouldKeepAlive = false;
  res.writeHead(status, own.includes('content-type') ? own : [...type, ...own]);
}

export type UpstreamScripts = ReturnType<typeof openScripts>;

/** Runs a test's upstream scripts, delays on its clock. @param names of the upstreams, by the index that begins their paths */
export function openScripts(
  { upstream = {}, upstreams }: Pick<Step, 'upstream' | 'upstreams'>,
  names: readonly string[],
  clock: Clock,
) {
  const counts = new Map<string, number>();
  const waiting = new Set<ServerResponse>();
  const unanswered = Promise.withResolvers<void>();
  const unscripted: string[] = [];
  let activity = 0;
  let body: Buffer = Buffer.alloc(0);

  function scriptOf(name: string): CaseUpstream {
    if (upstreams === undefined) return upstream;
    const scripts = Object.hasOwn(upstreams, name) ? ([upstreams[name]!].flat() as CaseUpstream[]) : [];
    return scripts[Math.min(counts.get(name) ?? 0, scripts.length - 1)] ?? {};
  }

  function countOne(name: string): void {
    if (upstreams !== undefined && !Object.hasOwn(upstreams, name)) unscripted.push(name);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    activity++;
  }

  function wait(res: ServerResponse): void {
    if (res.destroyed) return;
    waiting.add(res);
    activity++;
  }

  function goOn(res: ServerResponse): void {
    if (waiting.delete(res)) activity++;
  }

  function pass(seconds: number, res: ServerResponse): Promise<void> | undefined {
    if (seconds === 0) return undefined;
    wait(res);
    return new Promise((resolve) => clock.after(seconds * 1000, () => resolve(goOn(res))));
  }

  return {
    activity: () => activity,
    /** Whole body of the last response, even if it was cut. */
    body: () => body,
    unscripted,
    waits: () => waiting.size > 0,
    /** Resolves when an upstream receives a request and hangs. */
    unanswered: unanswered.promise,
    /** Whether the upstream with this index refuses connections now; counts as a request. */
    isClosed(index: number): boolean {
      const name = names[index]!;
      if (scriptOf(name).fails !== 'refuse') return false;
      countOne(name);
      return true;
    },
    async answer(exchange: Exchange): Promise<void> {
      const { received, res, socket } = exchange;
      const name = names[Number(/^\/(\d+)/.exec(received.url)?.[1])] ?? '';
      const script = failureAt(received.url, scriptOf(name));
      countOne(name);
      res.once('close', () => goOn(res));
      const { events, fails, delay_seconds = 0, pause_seconds = 0 } = script;
      await pass(delay_seconds, res);
      if (res.destroyed) return;
      if (fails === 'reset') return void socket.resetAndDestroy();
      if (fails === 'hang' && events === undefined) {
        unanswered.resolve();
        return wait(res);
      }
      const chunks = chunksOf(script);
      body = Buffer.from(chunks.join(''));
      writeHead(exchange, script);
      for (const [index, chunk] of chunks.entries()) {
        if (index > 0) await pass(pause_seconds, res);
        if (res.destroyed) return;
        await new Promise((resolve) => res.write(chunk, resolve));
      }
      if (fails === 'hang') wait(res);
      // A reset could overtake what was written before it.
      else if (fails === 'cut') socket.destroy();
      else res.end();
    },
  };
}
