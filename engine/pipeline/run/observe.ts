import type { Duplex } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { createParser } from 'eventsource-parser';
import type { ResponseEvent } from '../../base/contract/stage.ts';
import { decompressor } from '../../base/kit/decompressor.ts';
import { tryParseBounded } from '../../base/kit/json/bounded.ts';
import { outlinePolitely } from '../../base/kit/json/polite.ts';
import { isEventStream, isPlain } from '../../base/kit/media-type.ts';
import type { HeldBytes } from './holdings.ts';

/** What is held is counted from here on: most events are far shorter. */
const UNCOUNTED_BYTES = 65_536;

/** A JSON document or one event longer than this is relayed but not read, so that observing can't fill memory. */
const OBSERVED_BYTES_MAX = 32 * 1024 * 1024;

/** Like that for an event, which is read at once; lines of it cost more memory than they have bytes. */
const EVENT_BYTES_MAX = 12 * 1024 * 1024;

/** A document up to this size is parsed in a moment, whatever it is. */
const SMALL_BYTES_MAX = 65_536;

/** Reads a copy of a response while the original travels. */
export interface Observer {
  /** @returns false when the copy lags behind and the source should pause until `onDrain`. */
  write(chunk: Buffer): boolean;
  onDrain(resume: () => void): void;
  /** Resolves when everything written has been seen. @returns whether it could be read. */
  end(): Promise<boolean>;
}

/** `end` gives a promise where the last of what it shows takes long. `read` shows what has come, where no end follows. */
type Sink = { readonly overflown: boolean; write(chunk: Buffer): void; read(): void; end(): Promise<void> | undefined };

/** A large document is shown with its outline, made while others are served. */
async function showLarge(bytes: Buffer, owner: string, onEvent: (event: ResponseEvent) => void): Promise<void> {
  const outline = (await outlinePolitely(bytes, owner)) ?? '';
  onEvent({
    name: undefined,
    large: { bytes: bytes.length, outline },
    // Most never ask for it.
    get data() {
      return bytes.toString('utf8');
    },
  });
}

/** So much of a copy, or what has come for so long, is read at once: many small pieces cost little more than one. */
const BULK_BYTES = 16_384;
const BULK_MS = 50;

/** Reads events behind the bytes' way to the client, in bulk. */
function eventSink(onEvent: (event: ResponseEvent) => void, room: HeldBytes): Sink {
  const decoder = new StringDecoder('utf8');
  let unread: Buffer[] = [];
  let size = 0;
  let timer: NodeJS.Timeout | undefined;
  let overflown = false;
  let is_last = false;
  /** Bytes since the last event ended. */
  let pending = 0;
  const parser = createParser({
    maxBufferSize: EVENT_BYTES_MAX,
    onEvent: (event) => {
      if (pending > UNCOUNTED_BYTES) room.hold(0);
      pending = 0;
      if (is_last && !isWhole(event.data)) return;
      onEvent({ name: event.event || 'message', data: event.data });
    },
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') overflow();
    },
  });
  function overflow(): void {
    overflown = true;
    parser.reset();
    room.hold(0);
  }
  function read(): void {
    clearTimeout(timer);
    timer = undefined;
    if (size === 0) return;
    const text = decoder.write(unread.length === 1 ? unread[0]! : Buffer.concat(unread, size));
    pending += size;
    unread = [];
    size = 0;
    if (!overflown) parser.feed(text);
    if (overflown || pending <= UNCOUNTED_BYTES) return;
    if (pending > EVENT_BYTES_MAX || !room.hold(pending)) overflow();
  }
  return {
    get overflown() {
      return overflown;
    },
    write(chunk) {
      if (overflown) return;
      unread.push(chunk);
      size += chunk.length;
      if (size >= BULK_BYTES) read();
      else timer ??= setTimeout(read, BULK_MS);
    },
    read,
    end() {
      read();
      is_last = true;
      if (!overflown) parser.feed(`${decoder.end()}\n\n`);
      room.hold(0);
      return undefined;
    },
  };
}

/** Some servers leave out the blank line after their last event; of what was cut off in the middle no JSON is left. */
function isWhole(data: string): boolean {
  return data === '[DONE]' || tryParseBounded(data) !== undefined;
}

function documentSink(onEvent: (event: ResponseEvent) => void, room: HeldBytes): Sink {
  const chunks: Buffer[] = [];
  let size = 0;
  let overflown = false;
  return {
    get overflown() {
      return overflown;
    },
    write(chunk) {
      if (overflown) return;
      size += chunk.length;
      overflown = size > OBSERVED_BYTES_MAX || !room.hold(size);
      if (!overflown) chunks.push(chunk);
      else {
        chunks.length = 0;
        room.hold(0);
      }
    },
    read() {},
    end() {
      if (chunks.length === 0) return undefined;
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      if (bytes.length > SMALL_BYTES_MAX) return showLarge(bytes, room.owner, onEvent).finally(() => room.hold(0));
      onEvent({ name: undefined, data: bytes.toString('utf8') });
      room.hold(0);
      return undefined;
    },
  };
}

async function shown(sink: Sink): Promise<boolean> {
  await sink.end();
  return !sink.overflown;
}

function compressedObserver(sink: Sink, inflate: Duplex): Observer {
  const done = new Promise<boolean>((resolve) => {
    inflate.on('data', (chunk: Buffer) => sink.write(chunk));
    inflate.on('end', () => resolve(shown(sink)));
    // A copy that doesn't decompress is not metered; the original has already been passed on untouched. An end comes first.
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

/**
 * An observer for a response with these headers, or `undefined` when its content is none that stages can see. What has no
 * room is relayed and not observed. Errors thrown by `onEvent` are the caller's to contain.
 */
export function createObserver(
  content_type: string | undefined,
  content_encoding: string | undefined,
  onEvent: (event: ResponseEvent) => void,
  room: HeldBytes,
): Observer | undefined {
  const stream = isEventStream(content_type);
  const sink = stream ? eventSink(onEvent, room) : documentSink(onEvent, room);
  if (isPlain(content_encoding)) {
    const write = (chunk: Buffer) => {
      sink.write(chunk);
      return true;
    };
    return { write, onDrain() {}, end: () => shown(sink) };
  }
  const inflate = decompressor(content_encoding!);
  return inflate === undefined ? undefined : compressedObserver(sink, inflate);
}
