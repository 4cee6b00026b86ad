import type { ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { StageError } from '../../base/contract/errors.ts';
import type { Timer } from '../../base/contract/services.ts';
import type { Relay, ResponseConverter, ResponseEvent } from '../../base/contract/stage.ts';
import type { UpstreamResponse } from '../../base/contract/upstream-response.ts';
import { decompressor } from '../../base/kit/decompressor.ts';
import { isEventStream, isPlain } from '../../base/kit/media-type.ts';
import { WholeEvents } from '../../base/kit/net/whole-events.ts';
import { definitionFor, definitionNamed } from '../../domain/protocols/definitions.ts';
import { endsWithError } from '../../domain/protocols/read-error.ts';
import { responseEndIn } from '../../domain/protocols/stop-reasons.ts';
import type { RequestContext } from './context.ts';
import { passedHeaders, REQUEST_ID_HEADER, reasonPhrase, UpstreamHead } from './headers.ts';
import { createObserver, type Observer } from './observe.ts';
import { chainConverters, makeRewriter, RewriteFailure } from './rewriting.ts';

/** Transforms the upstream's bytes into the client's: inflate, convert, cut into whole events. */
interface ResponseTransform {
  /** Whether the head can be sent at once; otherwise it is sent with the first bytes. */
  readonly head_first: boolean;
  /** A stream to which events can be appended. */
  readonly events: WholeEvents | undefined;
  write(chunk: Buffer): void;
  /** The upstream has ended. @param is_clean false after a dropped connection: an unfinished last event is discarded */
  end(is_clean: boolean): void;
  /** Whether the client has seen the final event, which may be an error: the response is complete if nothing more comes. */
  hasEnd(): boolean;
  pause(): void;
  resume(): void;
  /** Releases its resources; it writes nothing afterwards. */
  close(): void;
}

interface ResponseSink {
  send(bytes: Buffer | string): void;
  /** The response is complete after `last`. */
  done(last?: Buffer | string): void;
  fail(error: unknown): void;
  /** Pauses the upstream until `listen` calls back. */
  pauseUntil(listen: (resume: () => void) => void): void;
}

/** The transform of a response: converted by stages, or unchanged. Raises upstream_invalid, and errors of creating a converter. */
function openTransform(
  ctx: RequestContext,
  upstream: UpstreamResponse,
  head: UpstreamHead,
  sink: ResponseSink,
): ResponseTransform {
  const translator = ctx.makeConverter(head);
  const rewriter = makeRewriter(ctx, head);
  const converter = rewriter === undefined ? translator : chainConverters(translator, rewriter);
  const inflate = converter && openInflater(upstream.headers['content-encoding'], head);
  const to_events = isEventStream(head.get('content-type'));
  // Stops buffering by reverse proxies in front of the gateway, such as nginx.
  if (to_events) head.set('x-accel-buffering', 'no');
  const events = to_events && isOpen(head) ? new WholeEvents(sink.send, ctx.responseQuota()) : undefined;
  if (events !== undefined) ctx.endEvents = (error) => finalEvents(ctx, events, converter, error);
  const from_events = isEventStream(upstream.headers['content-type']);
  const bounded = converter === undefined || from_events ? converter : withQuota(ctx, converter);
  return createTransform(bounded, inflate, events, from_events, sink);
}

/** Whether events can be appended: not to a compressed stream, nor beyond a content-length. */
function isOpen(head: UpstreamHead): boolean {
  return isPlain(head.get('content-encoding')) && head.get('content-length') === undefined;
}

/** Removes the headers that do not apply to converted bytes. @returns the decompressor of a compressed response */
function openInflater(encoding: string | undefined, head: UpstreamHead): Duplex | undefined {
  head.remove('content-length');
  if (isPlain(encoding)) return undefined;
  const inflate = decompressor(encoding!);
  if (inflate === undefined) {
    const problem = 'The upstream used a content-encoding that the gateway did not request and cannot decompress.';
    throw new StageError('upstream_invalid', problem);
  }
  head.remove('content-encoding');
  return inflate;
}

function finalEvents(
  ctx: RequestContext,
  { inside, latest }: WholeEvents,
  converter: ResponseConverter | undefined,
  error: StageError,
): string {
  // Ends an unfinished event, so that the client's parser takes the error as a new one.
  const between = inside ? '\n\n' : '';
  try {
    const own = converter?.fail?.(error);
    if (own !== undefined) return between + own;
  } catch {
    // A failed converter may fail again; the protocol's own error event follows.
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

/** A converter that buffers a whole document, counted in the caller's memory quota. Raises overloaded beyond it. */
function withQuota(ctx: RequestContext, converter: ResponseConverter): ResponseConverter {
  const quota = ctx.responseQuota();
  let size = 0;
  return {
    ...converter,
    write(chunk) {
      size += chunk.length;
      if (!quota.hold(size)) throw quotaExceeded();
      return converter.write(chunk);
    },
  };
}

function quotaExceeded(): StageError {
  const problem = 'The gateway must buffer the whole response to convert it, and its memory limit is reached.';
  return new StageError('overloaded', problem, { headers: { 'retry-after': '1' } });
}

/** Whether the last events sent mark the end of the response, or an error. */
function endsInEvents(events: WholeEvents | undefined): boolean {
  if (events === undefined || events.inside) return false;
  const { latest } = events;
  return responseEndIn(latest) === 'whole' || endsWithError(latest);
}

function createTransform(
  converter: ResponseConverter | undefined,
  inflate: Duplex | undefined,
  events: WholeEvents | undefined,
  from_events: boolean,
  sink: ResponseSink,
): ResponseTransform {
  let over = false;
  let is_clean = true;
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
    if (is_clean) events.end();
    sink.done();
  };
  inflate?.on('data', convert).on('end', finish);
  inflate?.on('error', () => {
    if (over) return;
    over = true;
    sink.fail(new StageError('upstream_invalid', 'The compressed response of the upstream is corrupt.'));
  });
  return {
    head_first: converter === undefined || (from_events && events !== undefined),
    events,
    write(chunk) {
      if (inflate === undefined) convert(chunk);
      else if (!over && !inflate.write(chunk)) sink.pauseUntil((resume) => inflate.once('drain', resume));
    },
    end(clean) {
      is_clean = clean;
      if (inflate === undefined) finish();
      else inflate.end();
    },
    hasEnd: () => !over && (converter?.hasEnd?.() ?? endsInEvents(events)),
    pause: () => void inflate?.pause(),
    resume: () => void inflate?.resume(),
    close() {
      over = true;
      inflate?.destroy();
    },
  };
}

/** Interval of keep-alives on a silent stream: below the idle timeouts of common clients and proxies. */
const KEEP_ALIVE_SECONDS = 15;

/**
 * Streams an upstream response to the client, converted if a stage converts it, with back-pressure both ways. Observers
 * get the upstream's bytes. When the client disconnects, the rest is drained: observed and discarded, within the drain
 * limits. Resolves when the last byte is handed to the socket, or the transfer is cancelled. Raises upstream_failed,
 * upstream_timeout and what a converter raises; `res.headersSent` is then whether the head was sent.
 * @param onEvent absent when no stage observes
 */
export function relayResponse(
  ctx: RequestContext,
  relay: Relay,
  onEvent: ((event: ResponseEvent) => void) | undefined,
): Promise<void> {
  const transfer = new Transfer(ctx, relay, onEvent);
  transfer.start();
  return transfer.done.promise;
}

/** Runs the `response` hooks, and adds the gateway's own headers. */
function completeHead(ctx: RequestContext, head: UpstreamHead): void {
  for (const stage of ctx.entered) {
    if (stage.hooks.response === undefined) continue;
    ctx.stage = stage;
    stage.hooks.response(ctx, head);
  }
  ctx.stage = undefined;
  head.headers.push(REQUEST_ID_HEADER, ctx.peek('request.id')!);
  // `writeHead` would replace it with the upstream's `vary`; both must be sent.
  const vary = ctx.call.res.getHeader('vary');
  if (vary !== undefined) head.headers.push('vary', String(vary));
}

/**
 * The error for an upstream that fell silent. Instructs clients not to retry: the upstream has begun to respond, and charges for a
 * second request, too.
 */
function readTimeoutError(seconds: number): StageError {
  const message = `The upstream sent nothing for ${seconds} seconds.`;
  return new StageError('upstream_timeout', message, { headers: { 'x-should-retry': 'false' } });
}

/** The transfer of one response from the upstream to the client, or its drain. */
class Transfer {
  readonly done = Promise.withResolvers<void>();
  readonly #ctx: RequestContext;
  readonly #relay: Relay;
  readonly #res: ServerResponse;
  readonly #upstream: UpstreamResponse;
  readonly #observer: Observer | undefined;
  /** Read timeout of the next chunk: the first one may take longer. */
  #read_seconds: number;
  #read_timer: Timer | undefined;
  #keep_alive: Timer | undefined;
  #head: UpstreamHead | undefined;
  #transform: ResponseTransform | undefined;
  /** How many consumers (client, inflater, observer) pause the upstream. */
  #pauses = 0;
  /** Incremented when the client disconnects; invalidates pending resume callbacks. */
  #generation = 0;
  #client_is_full = false;
  /** The last bytes of a complete response, written together with its end. */
  #unsent: Buffer | string | undefined;
  #wrote = false;
  #draining = false;
  #inspected = false;
  #ended = false;
  #is_over = false;
  /** Whether the chunks that were read ahead (`relay.begun`) are processed. */
  #started = false;

  constructor(ctx: RequestContext, relay: Relay, onEvent: ((event: ResponseEvent) => void) | undefined) {
    this.#ctx = ctx;
    this.#relay = relay;
    this.#res = ctx.call.res;
    this.#upstream = relay.response;
    this.#read_seconds = relay.first_chunk_seconds ?? relay.idle_seconds;
    this.#observer = onEvent && createObserver(relay.response.headers, onEvent, ctx.responseQuota(), ctx.clock);
    ctx.unread = onEvent !== undefined && this.#observer === undefined;
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
    if (this.#ctx.drain.has_begun) this.#drain();
    else if (this.#relay.inspect === undefined && !this.#open(undefined)) return;
    for (const chunk of this.#relay.begun ?? []) this.#onData(chunk);
    this.#started = true;
    // These events may have fired before the listeners were added.
    if (upstream.readableEnded) this.#onEnd();
    else if (upstream.destroyed) this.#onUpstreamGone();
    else if (this.#pauses === 0) upstream.resume();
    if (this.#is_over) return;
    this.#startReadTimer();
    if (this.#relay.inspect !== undefined || this.#draining) return;
    // Head and first event usually arrive together; both then leave in one packet.
    if (this.#wrote) return;
    setImmediate(() => {
      if (!this.#is_over && !this.#wrote && this.#res.headersSent) this.#res.flushHeaders();
    });
  }

  // The handlers catch everything: an exception in an event listener would end the process.
  #onData(chunk: Buffer): void {
    if (this.#is_over) return;
    this.#ctx.relayed_bytes += chunk.length;
    try {
      if (this.#draining) {
        this.#onDrainedData(chunk);
        return;
      }
      if (this.#transform === undefined && !this.#open(chunk)) return;
      this.#restartReadTimer();
      // The upstream charges also for what a converter rejects, so metering sees it first.
      const observe_first = this.#ctx.converts_response;
      if (observe_first) this.#observe(chunk);
      this.#transform!.write(chunk);
      if (!observe_first) this.#observe(chunk);
    } catch (error) {
      this.#fail(error);
    }
  }

  #onDrainedData(chunk: Buffer): void {
    if (!this.#inspect(chunk)) return;
    this.#restartReadTimer();
    this.#observe(chunk);
    if (!this.#ctx.drain.take(chunk.length)) this.#stop();
  }

  #onEnd(is_clean = true): void {
    if (this.#is_over) return;
    try {
      if (this.#draining) {
        if (!this.#inspect(undefined)) return;
        this.#ctx.drained = true;
        this.#conclude(this.done.resolve);
        return;
      }
      if (this.#transform === undefined && !this.#open(undefined)) return;
      this.#ended = true;
      this.#transform!.end(is_clean);
    } catch (error) {
      this.#fail(error);
    }
  }

  #onUpstreamGone(): void {
    if (this.#is_over || this.#ended || this.#endComplete()) return;
    this.#fail(new StageError('upstream_failed', 'The upstream dropped the connection in the middle of its response.'));
  }

  /** Ends a response whose final event was sent although the upstream dropped the connection or left it open. */
  #endComplete(): boolean {
    if (this.#draining || this.#transform?.hasEnd() !== true) return false;
    this.#upstream.destroy();
    this.#onEnd(false);
    return true;
  }

  #startReadTimer(): void {
    this.#read_timer = this.#ctx.clock.after(this.#read_seconds * 1000, () => this.#onReadTimeout());
  }

  #restartReadTimer(): void {
    const { idle_seconds } = this.#relay;
    if (this.#read_seconds === idle_seconds) this.#read_timer?.refresh();
    else {
      this.#read_seconds = idle_seconds;
      if (this.#read_timer === undefined) return;
      this.#read_timer.close();
      this.#startReadTimer();
    }
  }

  #onReadTimeout(): void {
    // While paused, the client is the one that stalls; otherwise the upstream is.
    if (this.#pauses > 0 && !this.#draining) this.#res.destroy();
    else if (!this.#endComplete()) this.#fail(readTimeoutError(this.#read_seconds));
  }

  #startKeepAlives(events: WholeEvents, bytes: string): void {
    this.#keep_alive = this.#ctx.clock.after(KEEP_ALIVE_SECONDS * 1000, () => {
      // Before the head is sent, the response may still become an error.
      if (this.#res.headersSent && !this.#client_is_full && !events.inside) this.#send(bytes);
      this.#keep_alive!.refresh();
    });
  }

  /**
   * A field, because a closure made in `start` kept every request alive past its scavenges (measured: 50 MiB in all, 15 microseconds
   * per request).
   */
  readonly #cancel = (reason: StageError): void => {
    if (this.#ctx.aborted || this.#draining) this.#stop();
    else this.#fail(reason);
  };

  /** Switches from transfer to drain; without an observer, cancels. */
  readonly #drain = (): void => {
    this.#draining = true;
    this.#keep_alive?.close();
    this.#transform?.close();
    this.#generation++;
    this.#pauses = 0;
    this.#ctx.drained = this.#ended;
    if (this.#ended || this.#observer === undefined) this.#stop();
    else if (this.#started) this.#upstream.resume();
  };

  #stop(): void {
    this.#upstream.destroy();
    this.#conclude(this.done.resolve);
  }

  /** Lets the sending stage reject the response by its first chunk. */
  #inspect(first: Buffer | undefined): boolean {
    if (this.#inspected) return true;
    this.#inspected = true;
    const refusal = this.#relay.inspect?.(first);
    if (refusal !== undefined) this.#fail(refusal);
    return refusal === undefined;
  }

  /** Runs the `response` hooks and creates the transform. @returns false when the response failed */
  #open(first: Buffer | undefined): boolean {
    const { headers, rawHeaders, statusCode } = this.#upstream;
    if (!this.#inspect(first)) return false;
    try {
      const head = new UpstreamHead(statusCode!, passedHeaders(rawHeaders, headers.connection));
      this.#head = head;
      completeHead(this.#ctx, head);
      this.#transform = openTransform(this.#ctx, this.#upstream, head, this.#sink());
      const { head_first, events } = this.#transform;
      if (head_first) this.#sendHead();
      const keep_alive = definitionNamed(this.#ctx.pipeline.spec.match.protocol)?.stream.keep_alive;
      if (events !== undefined && keep_alive !== undefined) this.#startKeepAlives(events, keep_alive);
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
      fail: (error) =>
        error instanceof RewriteFailure
          ? this.#fail(error.cause, error.stage)
          : this.#fail(error, this.#ctx.conversion?.stage),
      pauseUntil: (listen) => this.#pauseUntil(listen),
    };
  }

  #sendHead(): void {
    if (this.#res.headersSent) return;
    this.#ctx.countConnection();
    const { status, headers } = this.#head!;
    this.#res.writeHead(status, reasonPhrase(status, this.#upstream.statusMessage), headers);
  }

  #send(bytes: Buffer | string): void {
    if (this.#is_over) return;
    try {
      this.#sendHead();
      this.#keep_alive?.refresh();
      let next: Buffer | string | undefined = bytes;
      if (this.#upstream.complete) {
        next = this.#unsent;
        this.#unsent = bytes;
      }
      if (next === undefined) return;
      this.#wrote = true;
      if (!this.#res.write(next)) this.#pauseUntilClientDrains();
    } catch (error) {
      this.#fail(error);
    }
  }

  #finish(last: Buffer | string | undefined): void {
    if (this.#is_over) return;
    try {
      // The length of a converted document is known only now.
      if (last !== undefined && !this.#res.headersSent)
        this.#head!.headers.push('content-length', String(Buffer.byteLength(last)));
      this.#sendHead();
      if (last !== undefined) this.#flush();
      this.#res.end(last ?? this.#unsent);
    } catch (error) {
      this.#fail(error);
      return;
    }
    this.#conclude(this.done.resolve);
  }

  #flush(): void {
    if (this.#unsent !== undefined) this.#res.write(this.#unsent);
    this.#unsent = undefined;
  }

  #observe(chunk: Buffer): void {
    const observer = this.#observer;
    if (observer !== undefined && !observer.write(chunk)) this.#pauseUntil((resume) => observer.onDrain(resume));
  }

  #pauseUntil(listen: (resume: () => void) => void): void {
    if (this.#pauses++ === 0) this.#upstream.pause();
    const generation = this.#generation;
    listen(() => {
      if (generation !== this.#generation) return;
      this.#read_timer?.refresh();
      if (--this.#pauses === 0) this.#upstream.resume();
    });
  }

  #pauseUntilClientDrains(): void {
    if (this.#client_is_full) return;
    this.#client_is_full = true;
    const transform = this.#transform!;
    transform.pause();
    this.#pauseUntil((resume) =>
      this.#res.once('drain', () => {
        this.#client_is_full = false;
        transform.resume();
        resume();
      }),
    );
  }

  #fail(error: unknown, stage = this.#ctx.stage): void {
    this.#upstream.destroy();
    if (!this.#draining) this.#flush();
    this.#conclude(() => {
      // Observers have run since then.
      this.#ctx.stage = stage;
      this.done.reject(error);
    });
  }

  #conclude(endWith: () => void): void {
    if (this.#is_over) return;
    this.#is_over = true;
    this.#read_timer?.close();
    this.#keep_alive?.close();
    this.#ctx.cancel = undefined;
    this.#ctx.onDrain = undefined;
    let finished: Promise<boolean> | undefined;
    try {
      this.#transform?.close();
      finished = this.#observer?.end();
    } finally {
      if (finished === undefined) endWith();
      else
        finished.then((is_read) => {
          this.#ctx.unread = !is_read;
          endWith();
        }, endWith);
    }
  }
}
