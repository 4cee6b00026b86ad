import type { Transform } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import zlib from 'node:zlib';
import { createParser } from 'eventsource-parser';
import type { ResponseEvent } from '../api.ts';
import { isEventStream, isPlain } from '../forwarding/media-type.ts';

/** A JSON document or one event longer than this is relayed but not read, so that observing can't fill memory. */
const OBSERVED_BYTES_MAX = 32 * 1024 * 1024;

/** Reads a copy of a response while the original travels. */
export interface Observer {
  /** @returns false when the copy lags behind and the source should pause until `onDrain`. */
  write(chunk: Buffer): boolean;
  onDrain(resume: () => void): void;
  /** Resolves when everything written has been seen. */
  end(): Promise<void>;
}

type Sink = { write(chunk: Buffer): void; end(): void };

function eventSink(onEvent: (event: ResponseEvent) => void): Sink {
  const decoder = new StringDecoder('utf8');
  let overflown = false;
  const parser = createParser({
    maxBufferSize: OBSERVED_BYTES_MAX,
    onEvent: (event) => onEvent({ name: event.event || 'message', data: event.data }),
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') overflown = true;
    },
  });
  const feed = (text: string) => {
    if (!overflown) parser.feed(text);
  };
  return { write: (chunk) => feed(decoder.write(chunk)), end: () => feed(decoder.end()) };
}

function documentSink(onEvent: (event: ResponseEvent) => void): Sink {
  const chunks: Buffer[] = [];
  let size = 0;
  return {
    write(chunk) {
      size += chunk.length;
      if (size <= OBSERVED_BYTES_MAX) chunks.push(chunk);
      else chunks.length = 0;
    },
    end() {
      if (chunks.length === 0) return;
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
      onEvent({ name: undefined, data: bytes.toString('utf8') });
    },
  };
}

/** What takes a content encoding off; `undefined` for one that is not known here. */
export function decompressor(encoding: string): Transform | undefined {
  switch (encoding.trim().toLowerCase()) {
    case 'gzip':
    case 'x-gzip':
      return zlib.createGunzip();
    case 'deflate':
      return zlib.createInflate();
    case 'br':
      return zlib.createBrotliDecompress();
    case 'zstd':
      return zlib.createZstdDecompress();
    default:
      return undefined;
  }
}

function plainObserver(sink: Sink): Observer {
  return {
    write(chunk) {
      sink.write(chunk);
      return true;
    },
    onDrain() {},
    async end() {
      sink.end();
    },
  };
}

function compressedObserver(sink: Sink, inflate: Transform): Observer {
  const done = new Promise<void>((resolve) => {
    inflate.on('data', (chunk: Buffer) => sink.write(chunk));
    inflate.on('end', () => {
      sink.end();
      resolve();
    });
    // A copy that doesn't decompress is not metered; the original has already been passed on untouched.
    inflate.on('error', () => resolve());
    inflate.on('close', () => resolve());
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
 * An observer for a response with these headers, or `undefined` when its content is none that stages can see.
 * Errors thrown by `onEvent` are the caller's to contain.
 */
export function createObserver(
  content_type: string | undefined,
  content_encoding: string | undefined,
  onEvent: (event: ResponseEvent) => void,
): Observer | undefined {
  const stream = isEventStream(content_type);
  const sink = stream ? eventSink(onEvent) : documentSink(onEvent);
  if (isPlain(content_encoding)) return plainObserver(sink);
  const inflate = decompressor(content_encoding!);
  return inflate === undefined ? undefined : compressedObserver(sink, inflate);
}
