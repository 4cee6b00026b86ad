import type { ServerResponse } from 'node:http';
import { StageError } from '../contract/errors.ts';
import type { Timer } from '../contract/services.ts';
import type { Relay, ResponseEvent } from '../contract/stage.ts';
import type { UpstreamResponse } from '../contract/upstream-response.ts';
import { Silence } from './answer/silence.ts';
import type { RequestContext } from './context.ts';
import { passedHeaders, reasonPhrase } from './headers.ts';
import { createObserver, type Observer } from './observe.ts';
import { openPassage, type Passage, type PassageEnds } from './passage.ts';
import { RewriteFailure } from './rewriting/rewrite-answer.ts';
import { UpstreamHead } from './upstream-head.ts';

/** Silence after which a stream is said to be alive: shorter than what clients and proxies before them take for dead. */
const KEEP_ALIVE_SECONDS = 15;

export interface RelayHooks {
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
  #passage: Passage | undefined;
  /** How many must be ready before more is taken from the upstream. */
  #waiting_for = 0;
  /** Grows when the client goes away: nobody waits for what was waited for until then. */
  #era = 0;
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
      if (this.#passage === undefined && !this.#open(chunk)) return;
      this.#silence.end();
      // What a converter refuses was sent by the upstream all the same, and is on its bill.
      const observe_first = this.#ctx.converts_response;
      if (observe_first) this.#observe(chunk);
      this.#passage!.write(chunk);
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
      if (this.#passage === undefined && !this.#open(undefined)) return;
      this.#ended = true;
      this.#passage!.end(is_well);
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
    if (this.#draining || this.#passage?.hasEnd() !== true) return false;
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
    if (this.#res.headersSent && !this.#client_waits) this.#passage!.keepAlive!();
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
    this.#passage?.close();
    this.#era++;
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
      this.#passage = openPassage(this.#ctx, this.#upstream, head, this.#ends());
      if (this.#passage.head_first) this.#sendHead();
      if (this.#passage.keepAlive)
        this.#quiet = this.#ctx.clock.after(KEEP_ALIVE_SECONDS * 1000, () => this.#onQuiet());
      return true;
    } catch (error) {
      this.#fail(error);
      return false;
    }
  }

  #ends(): PassageEnds {
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
    const era = this.#era;
    listen(() => {
      if (era !== this.#era) return;
      this.#silence.refresh();
      if (--this.#waiting_for === 0) this.#upstream.resume();
    });
  }

  #waitForClient(): void {
    if (this.#client_waits) return;
    this.#client_waits = true;
    const passage = this.#passage!;
    passage.pause();
    this.#waitFor((go) =>
      this.#res.once('drain', () => {
        this.#client_waits = false;
        passage.resume();
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
      this.#passage?.close();
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
