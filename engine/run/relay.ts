import type { IncomingHttpHeaders } from 'node:http';
import type { Relay, ResponseEvent } from '../api.ts';
import { StageError } from '../errors.ts';
import type { RequestContext } from './context.ts';
import { endToEndHeaders } from './headers.ts';
import { createObserver } from './observe.ts';
import { checkHeader } from './result.ts';

/** An upstream's response head, with its end-to-end headers, before it is sent. */
export class UpstreamHead {
  readonly status: number;
  /** Flat list of names and values, as Node's writeHead takes it. */
  readonly headers: string[];

  constructor(status: number, headers: string[]) {
    this.status = status;
    this.headers = headers;
  }

  get(name: string): string | undefined {
    const at = this.#indexOf(name);
    return at < 0 ? undefined : this.headers[at + 1];
  }

  /** Throws for a name or value that no header can have, and for a header of the connection. */
  set(name: string, value: string): void {
    checkHeader(name, value);
    this.remove(name);
    this.headers.push(name, value);
  }

  remove(name: string): void {
    for (let at = this.#indexOf(name); at >= 0; at = this.#indexOf(name)) this.headers.splice(at, 2);
  }

  /** Takes what shipped stages give it as it is; a lease checks what others do. */
  replaceAll(prefix: string, replacement: Readonly<Record<string, string>>): void {
    const { headers } = this;
    const first = prefix.charCodeAt(0) | 0x20;
    let kept = 0;
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!;
      // Few names get past the first letter; this runs for every header of every response.
      const alike = (name.charCodeAt(0) | 0x20) === first;
      if (alike && name.slice(0, prefix.length).toLowerCase() === prefix) continue;
      headers[kept++] = name;
      headers[kept++] = headers[i + 1]!;
    }
    headers.length = kept;
    for (const name of Object.keys(replacement)) headers.push(name, replacement[name]!);
  }

  #indexOf(name: string): number {
    const wanted = name.toLowerCase();
    for (let i = 0; i < this.headers.length; i += 2) if (this.headers[i]!.toLowerCase() === wanted) return i;
    return -1;
  }
}

function isPlainEventStream(headers: IncomingHttpHeaders): boolean {
  const encoding = headers['content-encoding'] ?? 'identity';
  return encoding === 'identity' && (headers['content-type'] ?? '').includes('text/event-stream');
}

export interface RelayHooks {
  /** Called once, just before the head is sent. */
  onHead(head: UpstreamHead): void;
  /** Absent when no stage observes. */
  onEvent?: (event: ResponseEvent) => void;
}

/**
 * Streams an upstream response to the client: bytes as they come, back-pressure both ways, observers after the write.
 * Resolves when the last byte was handed to the socket or the client went away (`ctx.aborted`).
 * Raises upstream_failed and upstream_timeout; whether the head was sent by then, `res.headersSent` tells.
 */
export function relayResponse(ctx: RequestContext, relay: Relay, hooks: RelayHooks): Promise<void> {
  const { res } = ctx.exchange;
  const upstream = relay.response;
  const observer = hooks.onEvent
    ? createObserver(upstream.headers['content-type'], upstream.headers['content-encoding'], hooks.onEvent)
    : undefined;
  return new Promise((resolve, reject) => {
    let waiting_for = 0;
    let settled = false;

    const idle = ctx.clock.after(relay.idle_seconds * 1000, () => {
      // Paused means the client takes nothing; otherwise it is the upstream that has fallen silent.
      if (waiting_for > 0) res.destroy();
      else fail(new StageError('upstream_timeout', `The upstream sent nothing for ${relay.idle_seconds} seconds.`));
    });

    const settle = (conclude: () => void) => {
      if (settled) return;
      settled = true;
      idle.close();
      ctx.cancel = undefined;
      res.off('close', onClientGone);
      const finished = observer?.end();
      if (finished === undefined) conclude();
      else finished.then(conclude, conclude);
    };
    const fail = (error: Error) => {
      upstream.destroy();
      settle(() => reject(error));
    };
    const onClientGone = () => {
      ctx.aborted = true;
      upstream.destroy();
      settle(resolve);
    };
    const resume = () => {
      idle.refresh();
      if (--waiting_for === 0) upstream.resume();
    };
    const waitFor = (listen: (resume: () => void) => void) => {
      if (waiting_for++ === 0) upstream.pause();
      listen(resume);
    };
    const sendHead = (first: Buffer | undefined): boolean => {
      try {
        const refusal = relay.inspect?.(first);
        if (refusal !== undefined) throw refusal;
        const headers = endToEndHeaders(upstream.rawHeaders, upstream.headers.connection);
        const head = new UpstreamHead(upstream.statusCode!, headers);
        hooks.onHead(head);
        res.writeHead(head.status, upstream.statusMessage, head.headers);
        return true;
      } catch (error) {
        fail(error as Error);
        return false;
      }
    };
    const plain_events = isPlainEventStream(upstream.headers);

    upstream.on('data', (chunk: Buffer) => {
      if (settled) return;
      if (!res.headersSent && !sendHead(chunk)) return;
      idle.refresh();
      ctx.relayed_bytes += chunk.length;
      if (plain_events) ctx.last_events = chunk;
      if (!res.write(chunk)) waitFor((go) => res.once('drain', go));
      if (observer !== undefined && !observer.write(chunk)) waitFor((go) => observer.onDrain(go));
    });
    upstream.on('end', () => {
      if (settled) return;
      if (!res.headersSent && !sendHead(undefined)) return;
      res.end();
      settle(resolve);
    });
    const onUpstreamGone = () => {
      if (settled) return;
      fail(new StageError('upstream_failed', 'The upstream dropped the connection in the middle of its response.'));
    };
    upstream.on('error', onUpstreamGone).on('close', onUpstreamGone);
    res.on('close', onClientGone);
    ctx.cancel = fail;
    if (res.destroyed) return onClientGone();

    if (relay.inspect === undefined && sendHead(undefined)) {
      if (plain_events) ctx.last_events = Buffer.from('\n\n');
      // Head and first event usually arrive together; one packet is sent for both when they do.
      setImmediate(() => {
        if (!settled) res.flushHeaders();
      });
    }
  });
}
