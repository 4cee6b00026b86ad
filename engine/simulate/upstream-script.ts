import type { ServerResponse } from 'node:http';
import type { Clock } from '../contract/services.ts';
import type { CaseEvent, CaseUpstream, CaseUpstreams, HeaderWishes, JsonObject } from '../load/tests/test-case.ts';
import { definitionOfPath } from '../protocols/definitions.ts';
import { EVENT_STREAM, type Exchange, sse } from './upstream.ts';

/** Headers that are wished for, as names and values in turn. */
export function presentHeaders(headers: HeaderWishes = {}): string[] {
  return Object.entries(headers).flatMap(([name, value]) => (value === null ? [] : [name, value]));
}

function eventText(event: CaseEvent): string {
  if (typeof event === 'string') return `data: ${event}\n\n`;
  const { type } = event;
  return typeof type === 'string' ? sse({ ...event, type }) : `data: ${JSON.stringify(event)}\n\n`;
}

/** What is sent of an answer, piece by piece: half of a body that is cut. */
function chunksOf({ json, text, events, fails }: CaseUpstream): string[] {
  if (events !== undefined) return events.map(eventText);
  const body = text ?? (json === undefined ? '' : JSON.stringify(json));
  return [fails === 'cut' ? body.slice(0, body.length / 2) : body];
}

/** An answer in the place of a status that an upstream fails with: an error, as the protocol of the path has them. */
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
  // Whether an upstream takes connections is decided anew for each request.
  res.shouldKeepAlive = false;
  res.writeHead(status, own.includes('content-type') ? own : [...type, ...own]);
}

/** What a test says of its upstreams. */
export interface UpstreamWishes {
  /** What every upstream does, if `upstreams` is absent. */
  readonly upstream?: CaseUpstream | undefined;
  readonly upstreams?: CaseUpstreams | undefined;
}

/** The upstreams of one request, as its test has them; delays pass on its clock. */
export class UpstreamScripts {
  /** Grows with everything that happens. */
  activity = 0;
  /** What the upstream that answered last was to send, when nothing cut it short. */
  body: Buffer = Buffer.alloc(0);
  /** Upstreams that were asked although nothing is said of them. */
  readonly unscripted: string[] = [];
  readonly #wishes: UpstreamWishes;
  readonly #names: readonly string[];
  readonly #clock: Clock;
  readonly #asked = new Map<string, number>();
  readonly #waiting = new Set<ServerResponse>();
  readonly #unanswered = Promise.withResolvers<void>();

  /** @param names of the upstreams, by the number with which their paths begin. */
  constructor(wishes: UpstreamWishes, names: readonly string[], clock: Clock) {
    this.#wishes = wishes;
    this.#names = names;
    this.#clock = clock;
  }

  /** Whether an upstream that has a request will do nothing before time passes. */
  get waits(): boolean {
    return this.#waiting.size > 0;
  }

  /** Resolves when an upstream has a request and does not answer it. */
  get unanswered(): Promise<void> {
    return this.#unanswered.promise;
  }

  /** Whether the upstream with this number takes no connection now; that counts as one of its requests. */
  isClosed(index: number): boolean {
    const name = this.#names[index]!;
    if (this.#scriptOf(name).fails !== 'refuse') return false;
    this.#countOne(name);
    return true;
  }

  /** Does with a request what the test says. */
  async answer(exchange: Exchange): Promise<void> {
    const { received, res, socket } = exchange;
    const name = this.#names[Number(/^\/(\d+)/.exec(received.url)?.[1])] ?? '';
    const script = failureAt(received.url, this.#scriptOf(name));
    this.#countOne(name);
    res.once('close', () => this.#goOn(res));
    const { events, fails, delay_seconds = 0, pause_seconds = 0 } = script;
    await this.#pass(delay_seconds, res);
    if (res.destroyed) return;
    if (fails === 'reset') return void socket.resetAndDestroy();
    if (fails === 'hang' && events === undefined) {
      this.#unanswered.resolve();
      return this.#wait(res);
    }
    const chunks = chunksOf(script);
    this.body = Buffer.from(chunks.join(''));
    writeHead(exchange, script);
    for (const [index, chunk] of chunks.entries()) {
      if (index > 0) await this.#pass(pause_seconds, res);
      if (res.destroyed) return;
      await new Promise((resolve) => res.write(chunk, resolve));
    }
    if (fails === 'hang') this.#wait(res);
    // A reset could overtake what was written before it.
    else if (fails === 'cut') socket.destroy();
    else res.end();
  }

  #scriptOf(name: string): CaseUpstream {
    const { upstream = {}, upstreams } = this.#wishes;
    if (upstreams === undefined) return upstream;
    const scripts = Object.hasOwn(upstreams, name) ? ([upstreams[name]!].flat() as CaseUpstream[]) : [];
    return scripts[Math.min(this.#asked.get(name) ?? 0, scripts.length - 1)] ?? {};
  }

  #countOne(name: string): void {
    const { upstreams } = this.#wishes;
    if (upstreams !== undefined && !Object.hasOwn(upstreams, name)) this.unscripted.push(name);
    this.#asked.set(name, (this.#asked.get(name) ?? 0) + 1);
    this.activity++;
  }

  #wait(res: ServerResponse): void {
    if (res.destroyed) return;
    this.#waiting.add(res);
    this.activity++;
  }

  #goOn(res: ServerResponse): void {
    if (this.#waiting.delete(res)) this.activity++;
  }

  #pass(seconds: number, res: ServerResponse): Promise<void> {
    if (seconds === 0) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wait(res);
    this.#clock.after(seconds * 1000, () => {
      this.#goOn(res);
      resolve();
    });
    return promise;
  }
}
