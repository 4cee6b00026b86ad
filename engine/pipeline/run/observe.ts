import type { IncomingHttpHeaders } from 'node:http';
import type { Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { createParser } from 'eventsource-parser';
import type { Clock, Timer } from '../../base/contract/services.ts';
import type { ResponseEvent } from '../../base/contract/stage.ts';
import { decompressor } from '../../base/kit/decompressor.ts';
import { tryParseBounded } from '../../base/kit/json/bounded.ts';
import { readInSteps } from '../../base/kit/json/cooperative.ts';
import { outline } from '../../base/kit/json/outline.ts';
import { isEventStream, isPlain } from '../../base/kit/media-type.ts';
import type { BufferQuota } from './resources.ts';

/** Shorter events are not counted in the quota; nearly all are. */
const UNCOUNTED_BYTES = 65_536;

/** A longer JSON document is relayed but not observed, to bound memory. */
const DOCUMENT_BYTES_MAX = 32 * 1024 * 1024;

/** The same for one event. Lower, because the parser needs more memory than the event has bytes. */
const EVENT_BYTES_MAX = 12 * 1024 * 1024;

/** A longer document is outlined in slices, so that parsing it does not block the event loop. */
const SMALL_BYTES_MAX = 65_536;

/** Parses a copy of a response while the original is relayed. */
export interface Observer {
  /** @returns false when the observer lags behind; the source should then pause until `onDrain` */
  write(chunk: Buffer): boolean;
  onDrain(resume: () => void): void;
  /** Resolves when everything written is observed. @returns whether it could be read */
  end(): Promise<boolean>;
}

type OnEvent = (event: ResponseEvent) => void;

/** `read` parses what has arrived so far, also where no `end` follows. `end` returns a promise for a large document. */
type Sink = { overflown: boolean; write(chunk: Buffer): void; read(): void; end(): Promise<void> | undefined };

async function showLarge(bytes: Buffer, owner: string, onEvent: OnEvent): Promise<void> {
  const kept = (await readInSteps(bytes, owner, outline(bytes))) ?? '';
  onEvent({
    name: undefined,
    large: { bytes: bytes.length, outline: kept },
    // Lazy: most observers only need the outline.
    get data() {
      return bytes.toString('utf8');
    },
  });
}

/** Batch limits in bytes and milliseconds: parsing a batch costs little more than one small chunk, and models send one every 20 to 100 ms. */
const BATCH_BYTES = 16_384;
const BATCH_MS = 200;

function eventSink(onEvent: OnEvent, quota: BufferQuota, clock: Clock): Sink {
  const decoder = new StringDecoder('utf8');
  let unread: Buffer[] = [];
  let size = 0;
  let timer: Timer | undefined;
  let is_last = false;
  /** Bytes since the last event ended. */
  let pending = 0;
  const parser = createParser({
    maxBufferSize: EVENT_BYTES_MAX,
    onEvent: (event) => {
      if (pending > UNCOUNTED_BYTES) quota.hold(0);
      pending = 0;
      if (is_last && !isWhole(event.data)) return;
      onEvent({ name: event.event || 'message', data: event.data });
    },
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') overflow();
    },
  });
  function overflow(): void {
    sink.overflown = true;
    parser.reset();
    quota.hold(0);
  }
  function read(): void {
    timer?.close();
    timer = undefined;
    if (size === 0) return;
    const text = decoder.write(unread.length === 1 ? unread[0]! : Buffer.concat(unread, size));
    pending += size;
    unread = [];
    size = 0;
    if (!sink.overflown) parser.feed(text);
    if (sink.overflown || pending <= UNCOUNTED_BYTES) return;
    if (pending > EVENT_BYTES_MAX || !quota.hold(pending)) overflow();
  }
  const sink: Sink = {
    overflown: false,
    write(chunk) {
      if (sink.overflown) return;
      unread.push(chunk);
      size += chunk.length;
      if (size >= BATCH_BYTES) read();
      else timer ??= clock.after(BATCH_MS, read);
    },
    read,
    end() {
      read();
      is_last = true;
      if (!sink.overflown) parser.feed(`${decoder.end()}\n\n`);
      quota.hold(0);
      return undefined;
    },
  };
  return sink;
}

/** Some servers omit the blank line after the last event. A truncated event is not valid JSON. */
function isWhole(data: string): boolean {
  return data === '[DONE]' || tryParseBounded(data) !== undefined;
}

function documentSink(onEvent: OnEvent, quota: BufferQuota): Sink {
  const chunks: Buffer[] = [];
  let size = 0;
  const sink: Sink = {
    overflown: false,
    write(chunk) {
      if (sink.overflown) return;
      size += chunk.length;
      sink.overflown = size > DOCUMENT_BYTES_MAX || !quota.hold(size);
      if (!sink.overflown) chunks.push(chunk);
      else {
        chunks.length = 0;
        quota.hold(0);
      }
    },
    read() {},
    end() {
      if (chunks.length === 0) return undefined;
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      if (bytes.length > SMALL_BYTES_MAX) return showLarge(bytes, quota.owner, onEvent).finally(() => quota.hold(0));
      onEvent({ name: undefined, data: bytes.toString('utf8') });
      quota.hold(0);
      return undefined;
    },
  };
  return sink;
}

async function shown(sink: Sink): Promise<boolean> {
  await sink.end();
  return !sink.overflown;
}

function compressedObserver(sink: Sink, inflate: Duplex): Observer {
  const done = new Promise<boolean>((resolve) => {
    inflate.on('data', (chunk: Buffer) => sink.write(chunk));
    inflate.on('end', () => resolve(shown(sink)));
    // A copy that fails to decompress is not metered; the client has the original. After `end` this has no effect.
    const breakOff = () => {
      sink.read();
      resolve(false);
    };
    inflate.on('error', breakOff).on('close', breakOff);
  });
  return {
    write: (chunk) => inflate.destroyed || inflate.write(chunk),
    onDrain(resume) {
      const proceed = () => {
        inflate.off('drain', proceed).off('close', proceed);
        resume();
      };
      inflate.on('drain', proceed).on('close', proceed);
    },
    end() {
      if (!inflate.destroyed) inflate.end();
      return done;
    },
  };
}

/** An observer of a response; `undefined` for an unknown content-encoding. Bytes beyond the quota are not observed. */
export function createObserver(
  { 'content-type': type, 'content-encoding': encoding }: IncomingHttpHeaders,
  onEvent: OnEvent,
  quota: BufferQuota,
  clock: Clock,
): Observer | undefined {
  const sink = isEventStream(type) ? eventSink(onEvent, quota, clock) : documentSink(onEvent, quota);
  if (isPlain(encoding)) {
    const write = (chunk: Buffer) => {
      sink.write(chunk);
      return true;
    };
    return { write, onDrain() {}, end: () => shown(sink) };
  }
  const inflate = decompressor(encoding!);
  return inflate === undefined ? undefined : compressedObserver(sink, inflate);
}
