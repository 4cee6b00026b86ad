import type { Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import type { Clock, Timer } from '../../contract/services.ts';
import type { UpstreamResponse } from '../../contract/upstream-response.ts';
import { decompressor } from '../../kit/decompressor.ts';
import { isPlain } from '../../kit/media-type.ts';
import { errorOfEvent } from '../../protocols/read-error.ts';

/** The beginning of a response, read before anybody is given any of it. */
export interface Beginning {
  readonly chunks: readonly Buffer[];
  /**
   * Why no more was held back: what was waited for is there; the response ended or broke before; nothing came for too long; it took so
   * long, or became so much, that it is passed on.
   */
  readonly by: 'complete' | 'ended' | 'broken' | 'silent' | 'enough';
  readonly event?: { readonly name: string; readonly data: string };
}

/** How much of a response is held back. */
export interface HoldOptions {
  /** What is waited for: any bytes, the first event, the first event that is no greeting, or the end. */
  readonly until: 'bytes' | 'event' | 'content' | 'end';
  readonly silence_seconds: number;
  readonly seconds: number;
  readonly greeting_seconds: number;
  readonly bytes_max: number;
  readonly events_max: number;
  readonly clock: Clock;
}

/** A response whose beginning is read. */
export interface Holding {
  readonly done: Beginning | undefined;
  readonly beginning: Promise<Beginning>;
  cancel(): void;
}

/** Reads the beginning of a response; the rest stays in it, with its back-pressure. */
export function holdBeginning(response: UpstreamResponse, options: HoldOptions): Holding {
  const hold = new Hold(response, options);
  hold.start();
  return hold;
}

const ignore = (): void => {};

class Hold implements Holding {
  done: Beginning | undefined;
  readonly #response: UpstreamResponse;
  readonly #options: HoldOptions;
  #resolve: ((beginning: Beginning) => void) | undefined;
  readonly #chunks: Buffer[] = [];
  readonly #timers: Timer[] = [];
  #feed: ((chunk: Buffer) => void) | undefined;
  /** Reads what came last as an event: some servers leave out the blank line behind it. */
  #flush: (() => void) | undefined;
  #inflate: Duplex | undefined;
  #size = 0;
  #events = 0;
  #over = false;

  constructor(response: UpstreamResponse, options: HoldOptions) {
    this.#response = response;
    this.#options = options;
  }

  get beginning(): Promise<Beginning> {
    if (this.done !== undefined) return Promise.resolve(this.done);
    return new Promise((resolve) => {
      this.#resolve = resolve;
    });
  }

  cancel(): void {
    this.end('broken');
  }

  start(): void {
    const { until, silence_seconds, seconds, clock } = this.#options;
    if (until === 'event' || until === 'content') this.#listenForEvents();
    const response = this.#response;
    response.on('data', this.#take);
    response.on('end', this.#onEnd);
    response.on('error', this.#onBroken);
    response.on('close', this.#onBroken);
    // What has come by now is often all that is waited for.
    response.resume();
    if (this.#over) return;
    this.#timers.push(clock.after(silence_seconds * 1000, () => this.end('silent')));
    if (seconds < silence_seconds) this.#timers.push(clock.after(seconds * 1000, () => this.end('enough')));
  }

  end(by: Beginning['by'], event?: Beginning['event']): void {
    if (this.#over) return;
    this.#over = true;
    for (const timer of this.#timers) timer.close();
    const response = this.#response;
    response.pause();
    response.off('data', this.#take);
    response.off('end', this.#onEnd);
    response.off('error', this.#onBroken);
    response.off('close', this.#onBroken);
    // Whoever reads on listens a moment later.
    response.on('error', ignore);
    this.#inflate?.destroy();
    const chunks = this.#chunks;
    this.done = event === undefined ? { chunks, by } : { chunks, by, event };
    this.#resolve?.(this.done);
  }

  readonly #onEnd = (): void => {
    const end = () => {
      this.#flush?.();
      this.end(this.#options.until === 'end' ? 'complete' : 'ended');
    };
    if (this.#inflate === undefined) end();
    // What came last is still being read.
    else this.#inflate.on('end', end).end();
  };

  readonly #onBroken = (): void => {
    if (!this.#response.readableEnded) this.end('broken');
  };

  readonly #take = (chunk: Buffer): void => {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    this.#timers[0]?.refresh();
    if (this.#options.until === 'bytes') this.end('complete');
    else if (this.#size > this.#options.bytes_max) this.end('enough');
    else this.#feed?.(chunk);
  };

  #listenForEvents(): void {
    const decoder = new StringDecoder('utf8');
    const parser = createParser({ onEvent: (event) => this.#onEvent(event) });
    const read = (chunk: Buffer) => {
      if (!this.#over) parser.feed(decoder.write(chunk));
    };
    this.#flush = () => {
      if (!this.#over) parser.feed(`${decoder.end()}\n\n`);
    };
    const encoding = this.#response.headers['content-encoding'];
    if (isPlain(encoding)) {
      this.#feed = read;
      return;
    }
    this.#inflate = decompressor(encoding!);
    // What cannot be read is not for us to judge.
    const giveUp = () => this.end('enough');
    this.#inflate?.on('data', read).on('error', giveUp);
    this.#feed = this.#inflate === undefined ? giveUp : (chunk) => void this.#inflate!.write(chunk);
  }

  /** Some greetings repeat the request: what is told by name is not parsed. */
  #isPassed(name: string, data: string): boolean {
    if (this.#options.until !== 'content') return false;
    return GREETINGS.has(name) || (isGreeting(data) && errorOfEvent(name, data) === undefined);
  }

  #onEvent({ event: name = 'message', data }: EventSourceMessage): void {
    if (this.#over || name === 'ping') return;
    const event = { name, data };
    if (!this.#isPassed(name, data)) {
      this.end('complete', event);
      return;
    }
    const { events_max, greeting_seconds, clock } = this.#options;
    this.#events += 1;
    if (this.#events >= events_max) this.end('enough');
    else if (this.#events === 1) this.#timers.push(clock.after(greeting_seconds * 1000, () => this.end('enough')));
  }
}

/** Types of events that say that an answer will come, and nothing of it: of Messages, and of Responses. */
export const GREETINGS: ReadonlySet<unknown> = new Set([
  'message_start',
  'ping',
  'response.created',
  'response.queued',
  'response.in_progress',
]);

/** Events that open a part of an answer: of Messages, and of Responses. What they open may be empty. */
const OPENINGS: ReadonlySet<unknown> = new Set([
  'content_block_start',
  'response.output_item.added',
  'response.content_part.added',
  'response.reasoning_summary_part.added',
]);

/** Parts that are empty when they are opened; a call says which tool. */
const EMPTY_PARTS: ReadonlySet<unknown> = new Set([
  'text',
  'thinking',
  'message',
  'reasoning',
  'output_text',
  'summary_text',
]);

interface Part {
  readonly type?: unknown;
  readonly text?: unknown;
  readonly thinking?: unknown;
  readonly content?: unknown;
}

interface Chunk {
  readonly type?: unknown;
  readonly content_block?: Part;
  readonly item?: Part;
  readonly part?: Part;
  readonly choices?: readonly {
    readonly delta?: Readonly<Record<string, unknown>>;
    readonly finish_reason?: unknown;
  }[];
}

const isNothing = (value: unknown) =>
  value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0);

/** Whether an event of a stream greets: some upstreams begin so, and then fail. */
export function isGreeting(data: string): boolean {
  let chunk: Chunk | null;
  try {
    chunk = JSON.parse(data) as Chunk | null;
  } catch {
    return false;
  }
  if (GREETINGS.has(chunk?.type)) return true;
  if (OPENINGS.has(chunk?.type)) return isEmptyPart(chunk?.content_block ?? chunk?.item ?? chunk?.part);
  const choices = chunk?.choices;
  if (!Array.isArray(choices)) return false;
  return choices.every(({ delta = {}, finish_reason }) => {
    return (
      isNothing(finish_reason) && Object.entries(delta).every(([key, value]) => key === 'role' || isNothing(value))
    );
  });
}

function isEmptyPart(part: Part | undefined): boolean {
  if (part === undefined || part === null || !EMPTY_PARTS.has(part.type)) return false;
  return isNothing(part.text) && isNothing(part.thinking) && isNothing(part.content);
}
