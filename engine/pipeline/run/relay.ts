import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { StageError } from '../../base/contract/errors.ts';
import type { Timer } from '../../base/contract/services.ts';
import type { Relay, ResponseConverter, ResponseEvent } from '../../base/contract/stage.ts';
import type { UpstreamResponse } from '../../base/contract/upstream-response.ts';
import { decompressor } from '../../base/kit/decompressor.ts';
import { isEventStream, isPlain } from '../../base/kit/media-type.ts';
import { WholeEvents } from '../../base/kit/net/whole-events.ts';
import { definitionFor, keepAliveOf } from '../../domain/protocols/definitions.ts';
import { endsWithError } from '../../domain/protocols/read-error.ts';
import { endSaidIn } from '../../domain/protocols/stop-reasons.ts';
import { Silence } from './answer.ts';
import { makeConverter, type RequestContext } from './context.ts';
import { passedHeaders, reasonPhrase, UpstreamHead } from './headers.ts';
import { createObserver, type Observer } from './observe.ts';
import { behind, makeRewriter, RewriteFailure } from './rewriting.ts';

/** Turns an upstream's bytes into those of the client. */
interface ResponseTransform {
  /** Whether the head goes out before there are bytes for the client; otherwise the first of them bring it. */
  readonly head_first: boolean;
  write(chunk: Buffer): void;
  /** The upstream has ended: well, or behind what is whole, and then what it began to say is left out. */
  end(is_well: boolean): void;
  /** Whether the client has its end, which may be an error, should nothing more come, however the upstream ends it. */
  hasEnd(): boolean;
  /** The client takes nothing more for now. */
  pause(): void;
  resume(): void;
  /** Tells the client that a silent stream is alive; absent where nothing can be added to the stream. */
  keepAlive?(): void;
  /** Lets go of what it holds; nothing is written any more. */
  close(): void;
}

/** Where a transform writes to, and whom it tells how it ended. */
interface ResponseSink {
  send(bytes: Buffer | string): void;
  /** Everything was sent; `last` comes behind it. */
  done(last?: Buffer | string): void;
  /** The bytes could not be converted. */
  fail(error: unknown): void;
  /** Waits until `listen` is called back before more is taken from the upstream. */
  hold(listen: (resume: () => void) => void): void;
}

/**
 * Opens the way for a response whose head the `response` hooks have seen: through the converter that a stage wants, or as
 * the bytes are. Raises upstream_invalid for an encoding that cannot be converted, and what making the converter raises.
 */
function openTransform(
  ctx: RequestContext,
  upstream: UpstreamResponse,
  head: UpstreamHead,
  sink: ResponseSink,
): ResponseTransform {
  const translator = makeConverter(ctx, head);
  const rewriter = makeRewriter(ctx, head);
  const converter = rewriter === undefined ? translator : behind(translator, rewriter);
  const inflate = converter && prepare(upstream.headers['content-encoding'], head);
  const to_events = isEventStream(head.get('content-type'));
  // Proxies before us that keep an answer until it is complete let a stream through for this, whatever the upstream's own say.
  if (to_events) head.set('x-accel-buffering', 'no');
  const events = to_events && isOpen(head) ? new WholeEvents(sink.send, ctx.room()) : undefined;
  if (events !== undefined) ctx.endEvents = (error) => endOf(ctx, events, converter, error);
  const from_events = isEventStream(upstream.headers['content-type']);
  const bounded = converter === undefined || from_events ? converter : counted(ctx, converter);
  const transform = createTransform(bounded, inflate, events, from_events, sink);
  const keep_alive = keepAliveOf(ctx.pipeline.spec.match.protocol);
  if (events === undefined || keep_alive === undefined) return transform;
  return {
    ...transform,
    keepAlive() {
      if (!events.inside) sink.send(keep_alive);
    },
  };
}

/** Whether events can be added to the end: compressed ones cannot be read, and a stated length would be exceeded. */
function isOpen(head: UpstreamHead): boolean {
  return isPlain(head.get('content-encoding')) && head.get('content-length') === undefined;
}

/** Takes off the head what no longer holds of converted bytes. */
function prepare(encoding: string | undefined, head: UpstreamHead): Duplex | undefined {
  head.remove('content-length');
  if (isPlain(encoding)) return undefined;
  const inflate = decompressor(encoding!);
  if (inflate === undefined) {
    const problem =
      'The upstream compressed its answer in a way the gateway cannot read, although it was asked not to.';
    throw new StageError('upstream_invalid', problem);
  }
  head.remove('content-encoding');
  return inflate;
}

function endOf(
  ctx: RequestContext,
  { inside, latest }: WholeEvents,
  converter: ResponseConverter | undefined,
  error: StageError,
): string {
  // What was broken off inside an event ends there, and the client's parser begins anew.
  const between = inside ? '\n\n' : '';
  try {
    const own = converter?.fail?.(error);
    if (own !== undefined) return between + own;
  } catch {
    // The converter is what failed; the engine's own words do as well.
  }
  const { protocol } = ctx.pipeline.spec.match;
  const stream = {
    request_id: ctx.peek('request.id')!,
    model: ctx.peek('request.model') ?? '',
    created_at: Math.floor(ctx.peek('request.received_at')! / 1000),
    said: latest,
  };
  return between + definitionFor(protocol, ctx).errors.breakOff(error, stream);
}

/** A converter that keeps a whole document, whose bytes are counted. Raises overloaded where they have no room. */
function counted(ctx: RequestContext, converter: ResponseConverter): ResponseConverter {
  const room = ctx.room();
  let size = 0;
  return {
    ...converter,
    write(chunk) {
      size += chunk.length;
      if (!room.hold(size)) throw noRoom();
      return converter.write(chunk);
    },
  };
}

function noRoom(): StageError {
  const problem = 'The gateway has no room for the answer, which it must hold as a whole to change it.';
  return new StageError('overloaded', problem, { headers: { 'retry-after': '1' } });
}

/** Whether the events that were let through last say that the answer is whole, or what went wrong with it. */
function saysEnd(events: WholeEvents | undefined): boolean {
  if (events === undefined || events.inside) return false;
  const { latest } = events;
  return endSaidIn(latest) === 'whole' || endsWithError(latest);
}

/** The way through a converter, or without one as the bytes are. */
function createTransform(
  converter: ResponseConverter | undefined,
  inflate: Duplex | undefined,
  events: WholeEvents | undefined,
  from_events: boolean,
  sink: ResponseSink,
): ResponseTransform {
  let over = false;
  let is_well = true;
  const attempt = (convert: () => Buffer | string): Buffer | string | undefined => {
    try {
      return convert();
    } catch (error) {
      over = true;
      sink.fail(error);
      return undefined;
    }
  };
  const emit = (bytes: Buffer | string | undefined) => {
    if (bytes === undefined || bytes.length === 0) return;
    if (events === undefined) sink.send(bytes);
    else if (typeof bytes === 'string') events.pushText(bytes);
    else events.push(bytes);
  };
  const convert = (chunk: Buffer) => {
    if (!over) emit(converter === undefined ? chunk : attempt(() => converter.write(chunk)));
  };
  const finish = () => {
    if (over) return;
    const last = converter && attempt(() => converter.end());
    if (over) return;
    if (events === undefined) return sink.done(last);
    emit(last);
    if (is_well) events.end();
    sink.done();
  };
  inflate?.on('data', convert).on('end', finish);
  inflate?.on('error', () => {
    if (over) return;
    over = true;
    sink.fail(new StageError('upstream_invalid', 'The upstream compressed its answer wrongly; it cannot be read.'));
  });
  return {
    head_first: converter === undefined || (from_events && events !== undefined),
    write(chunk) {
      if (inflate === undefined) convert(chunk);
      else if (!over && !inflate.write(chunk)) sink.hold((resume) => inflate.once('drain', resume));
    },
    end(well) {
      is_well = well;
      if (inflate === undefined) finish();
      else inflate.end();
    },
    hasEnd: () => !over && (converter?.hasEnd?.() ?? saysEnd(events)),
    pause: () => void inflate?.pause(),
    resume: () => void inflate?.resume(),
    close() {
      over = true;
      inflate?.destroy();
    },
  };
}

/** Silence after which a stream is said to be alive: shorter than what clients and proxies before them take for dead. */
const KEEP_ALIVE_SECONDS = 15;

interface RelayHooks {
  /** Called once, just before the head is sent. */
  onHead(head: UpstreamHead): void;
  /** Absent when no stage observes. */
  onEvent?: (event: ResponseEvent) => void;
}

/**
 * Streams an upstream response to the client: bytes as they come or as a stage's converter makes them, back-pressure both
 * ways, observers fed with what the upstream sent. When the client goes away (`ctx.aborted`), what is still to come is only
 * observed, within the request's drain limits. Resolves when the last byte was handed to the socket, or nobody waits for
 * more. Raises upstream_failed, upstream_timeout and what a converter raises; whether the head was sent by
 * then, `res.headersSent` tells.
 */
export function relayResponse(ctx: RequestContext, relay: Relay, hooks: RelayHooks): Promise<void> {
  return new Promise((resolve, reject) => new Transfer(ctx, relay, hooks, { resolve, reject }).start());
}

/** How a transfer ends. */
interface Conclusion {
  resolve(): void;
  reject(error: unknown): void;
}

/** One response on its way from the upstream to the client. */
class Transfer {
  readonly #ctx: RequestContext;
  readonly #relay: Relay;
  readonly #hooks: RelayHooks;
  readonly #conclusion: Conclusion;
  readonly #res: ServerResponse;
  readonly #upstream: UpstreamResponse;
  readonly #observer: Observer | undefined;
  readonly #silence: Silence;
  #quiet: Timer | undefined;
  #head: UpstreamHead | undefined;
  #transform: ResponseTransform | undefined;
  /** How many must be ready before more is taken from the upstream. */
  #waiting_for = 0;
  /** Incremented when the client goes away: callbacks of what was waited for until then are void. */
  #generation = 0;
  #client_waits = false;
  /** The last bytes of an answer of which all has come: its end goes out with them. */
  #unsent: Buffer | string | undefined;
  /** Whether the head has left, with bytes behind it. */
  #wrote = false;
  #draining = false;
  #inspected = false;
  #ended = false;
  #settled = false;
  /** What was read before has gone its way; what comes still has not begun to. */
  #started = false;

  constructor(ctx: RequestContext, relay: Relay, hooks: RelayHooks, conclusion: Conclusion) {
    this.#ctx = ctx;
    this.#relay = relay;
    this.#hooks = hooks;
    this.#conclusion = conclusion;
    this.#res = ctx.call.res;
    this.#upstream = relay.response;
    const { headers } = relay.response;
    const { 'content-type': type, 'content-encoding': encoding } = headers;
    this.#observer = hooks.onEvent && createObserver(type, encoding, hooks.onEvent, ctx.room());
    ctx.unread = hooks.onEvent !== undefined && this.#observer === undefined;
    this.#silence = new Silence(ctx.clock, relay, (error) => this.#onSilence(error));
  }

  start(): void {
    const upstream = this.#upstream;
    upstream.pause();
    upstream.on('data', (chunk: Buffer) => this.#onData(chunk));
    upstream.on('end', () => this.#onEnd());
    upstream.on('error', () => this.#onUpstreamGone());
    upstream.on('close', () => this.#onUpstreamGone());
    this.#ctx.cancel = this.#cancel;
    this.#ctx.onDrain = this.#drain;
    if (this.#ctx.drain !== undefined) this.#drain();
    else if (this.#relay.inspect === undefined && !this.#open(undefined)) return;
    for (const chunk of this.#relay.begun ?? []) this.#onData(chunk);
    this.#started = true;
    // What happened before anybody listened is not told again.
    if (upstream.readableEnded) this.#onEnd();
    else if (upstream.destroyed) this.#onUpstreamGone();
    else if (this.#waiting_for === 0) upstream.resume();
    if (this.#settled) return;
    this.#silence.begin();
    if (this.#relay.inspect !== undefined || this.#draining) return;
    // Head and first event usually arrive together; one packet is sent for both when they do.
    if (this.#wrote) return;
    setImmediate(() => {
      // What has been sent would be flushed by a write of nothing.
      if (!this.#settled && !this.#wrote && this.#res.headersSent) this.#res.flushHeaders();
    });
  }

  // What these are called from would end the process if they threw, and `finish` would never run.
  #onData(chunk: Buffer): void {
    if (this.#settled) return;
    this.#ctx.relayed_bytes += chunk.length;
    try {
      if (this.#draining) {
        this.#onDrained(chunk);
        return;
      }
      if (this.#transform === undefined && !this.#open(chunk)) return;
      this.#silence.end();
      // What a converter refuses was sent by the upstream all the same, and is on its bill.
      const observe_first = this.#ctx.converts_response;
      if (observe_first) this.#observe(chunk);
      this.#transform!.write(chunk);
      if (!observe_first) this.#observe(chunk);
    } catch (error) {
      this.#fail(error);
    }
  }

  #onDrained(chunk: Buffer): void {
    if (!this.#inspect(chunk)) return;
    this.#silence.end();
    this.#observe(chunk);
    if (!this.#ctx.drain!.take(chunk.length)) this.#stop();
  }

  #onEnd(is_well = true): void {
    if (this.#settled) return;
    try {
      if (this.#draining) {
        if (!this.#inspect(undefined)) return;
        this.#ctx.drained = true;
        this.#settle(() => this.#conclusion.resolve());
        return;
      }
      if (this.#transform === undefined && !this.#open(undefined)) return;
      this.#ended = true;
      this.#transform!.end(is_well);
    } catch (error) {
      this.#fail(error);
    }
  }

  #onUpstreamGone(): void {
    if (this.#settled || this.#ended || this.#endsAsSaid()) return;
    this.#fail(new StageError('upstream_failed', 'The upstream dropped the connection in the middle of its response.'));
  }

  /**
   * An upstream that drops the connection behind its last word, or never closes it, has said everything: an end like others.
   * So has one whose last word was an error.
   */
  #endsAsSaid(): boolean {
    if (this.#draining || this.#transform?.hasEnd() !== true) return false;
    this.#upstream.destroy();
    this.#onEnd(false);
    return true;
  }

  #onSilence(error: StageError): void {
    // Paused means the client takes nothing; otherwise it is the upstream that has fallen silent.
    if (this.#waiting_for > 0 && !this.#draining) this.#res.destroy();
    else if (!this.#endsAsSaid()) this.#fail(error);
  }

  #onQuiet(): void {
    // A head that is not sent may still become an error; a client that takes nothing needs no more of it.
    if (this.#res.headersSent && !this.#client_waits) this.#transform!.keepAlive!();
    this.#quiet!.refresh();
  }

  /** A field: written as a function inside `start` it made every request outlive its scavenges (measured: 50 MiB, 15 us each). */
  readonly #cancel = (reason: StageError): void => {
    if (this.#ctx.aborted || this.#draining) this.#stop();
    else this.#fail(reason);
  };

  /** What still comes is observed and goes nowhere; without observers there is nothing to learn from it. */
  readonly #drain = (): void => {
    this.#draining = true;
    this.#quiet?.close();
    this.#transform?.close();
    this.#generation++;
    this.#waiting_for = 0;
    this.#ctx.drained = this.#ended;
    if (this.#ended || this.#observer === undefined) this.#stop();
    else if (this.#started) this.#upstream.resume();
  };

  /** Ends a transfer that nobody waits for. */
  #stop(): void {
    this.#upstream.destroy();
    this.#settle(() => this.#conclusion.resolve());
  }

  #inspect(first: Buffer | undefined): boolean {
    if (this.#inspected) return true;
    this.#inspected = true;
    const refusal = this.#relay.inspect?.(first);
    if (refusal !== undefined) this.#fail(refusal);
    return refusal === undefined;
  }

  /** Decides over the response when its head is known, and where needed its first bytes. */
  #open(first: Buffer | undefined): boolean {
    const { headers, rawHeaders, statusCode } = this.#upstream;
    if (!this.#inspect(first)) return false;
    try {
      const head = new UpstreamHead(statusCode!, passedHeaders(rawHeaders, headers.connection));
      this.#head = head;
      this.#hooks.onHead(head);
      this.#transform = openTransform(this.#ctx, this.#upstream, head, this.#sink());
      if (this.#transform.head_first) this.#sendHead();
      if (this.#transform.keepAlive)
        this.#quiet = this.#ctx.clock.after(KEEP_ALIVE_SECONDS * 1000, () => this.#onQuiet());
      return true;
    } catch (error) {
      this.#fail(error);
      return false;
    }
  }

  #sink(): ResponseSink {
    return {
      send: (bytes) => this.#send(bytes),
      done: (last) => this.#finish(last),
      fail: (error) => this.#failConverting(error),
      hold: (listen) => this.#waitFor(listen),
    };
  }

  #failConverting(error: unknown): void {
    if (error instanceof RewriteFailure) this.#fail(error.cause, error.stage);
    else this.#fail(error, this.#ctx.conversion?.stage);
  }

  #sendHead(): void {
    if (this.#res.headersSent) return;
    this.#ctx.claimConnection();
    const { status, headers } = this.#head!;
    this.#res.writeHead(status, reasonPhrase(status, this.#upstream.statusMessage), headers);
  }

  #send(bytes: Buffer | string): void {
    if (this.#settled) return;
    try {
      this.#sendHead();
      this.#quiet?.refresh();
      let next: Buffer | string | undefined = bytes;
      if (this.#upstream.complete) {
        next = this.#unsent;
        this.#unsent = bytes;
      }
      if (next === undefined) return;
      this.#wrote = true;
      if (!this.#res.write(next)) this.#waitForClient();
    } catch (error) {
      this.#fail(error);
    }
  }

  #finish(last: Buffer | string | undefined): void {
    if (this.#settled) return;
    try {
      // Converted as a whole, a document has a length to tell.
      if (last !== undefined && !this.#res.headersSent)
        this.#head!.headers.push('content-length', String(Buffer.byteLength(last)));
      this.#sendHead();
      if (last !== undefined) this.#flush();
      this.#res.end(last ?? this.#unsent);
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.#settle(() => this.#conclusion.resolve());
  }

  #flush(): void {
    if (this.#unsent !== undefined) this.#res.write(this.#unsent);
    this.#unsent = undefined;
  }

  #observe(chunk: Buffer): void {
    const observer = this.#observer;
    if (observer !== undefined && !observer.write(chunk)) this.#waitFor((go) => observer.onDrain(go));
  }

  #waitFor(listen: (resume: () => void) => void): void {
    if (this.#waiting_for++ === 0) this.#upstream.pause();
    const generation = this.#generation;
    listen(() => {
      if (generation !== this.#generation) return;
      this.#silence.refresh();
      if (--this.#waiting_for === 0) this.#upstream.resume();
    });
  }

  #waitForClient(): void {
    if (this.#client_waits) return;
    this.#client_waits = true;
    const transform = this.#transform!;
    transform.pause();
    this.#waitFor((go) =>
      this.#res.once('drain', () => {
        this.#client_waits = false;
        transform.resume();
        go();
      }),
    );
  }

  #fail(error: unknown, stage = this.#ctx.stage): void {
    this.#upstream.destroy();
    if (!this.#draining) this.#flush();
    this.#settle(() => {
      // Observers have run in the meantime.
      this.#ctx.stage = stage;
      this.#conclusion.reject(error);
    });
  }

  #settle(conclude: () => void): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#silence.close();
    this.#quiet?.close();
    this.#ctx.cancel = undefined;
    this.#ctx.onDrain = undefined;
    let finished: Promise<boolean> | undefined;
    try {
      this.#transform?.close();
      finished = this.#observer?.end();
    } finally {
      if (finished === undefined) conclude();
      else
        finished.then((is_read) => {
          this.#ctx.unread = !is_read;
          conclude();
        }, conclude);
    }
  }
}
