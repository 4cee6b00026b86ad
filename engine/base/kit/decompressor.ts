import { Duplex } from 'node:stream';
import zlib from 'node:zlib';

/** Largest zstd window: 8 MiB (RFC 9659 section 3). It bounds the memory of a decoder. */
const ZSTD_WINDOW_LOG_MAX = 23;

type Decompressor = Duplex & { readonly bytesWritten: number };

interface Decompression {
  readonly chunkSize?: number;
}

/** Decoder of `deflate`: the zlib format (RFC 9110 section 8.4.1.2), or raw deflate, which some programs send. */
class Inflate extends Duplex {
  readonly #options: Decompression;
  #stream: zlib.Inflate | zlib.InflateRaw | undefined;

  constructor(options: Decompression) {
    super();
    this.#options = options;
  }

  get bytesWritten(): number {
    return this.#stream?.bytesWritten ?? 0;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (chunk.length === 0) done();
    else (this.#stream ?? this.#open(chunk)).write(chunk, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    (this.#stream ?? this.#open(Buffer.alloc(0))).end();
    done();
  }

  override _read(): void {
    this.#stream?.resume();
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#stream?.destroy();
    done(error);
  }

  /** The low bits of a zlib header are its method, 8 (RFC 1950 section 2.2); raw deflate begins with other ones. */
  #open([first = 8]: Buffer): zlib.Inflate | zlib.InflateRaw {
    const create = (first & 0x0f) === 8 ? zlib.createInflate : zlib.createInflateRaw;
    const stream = create(this.#options);
    stream.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) stream.pause();
    });
    stream.on('end', () => this.push(null));
    stream.on('error', (error) => this.destroy(error));
    this.#stream = stream;
    return stream;
  }
}

/** Decompressors by content encoding (RFC 9110 section 8.4.1; br: RFC 7932; zstd: RFC 8878). */
const DECOMPRESSORS = {
  gzip: (options: Decompression) => zlib.createGunzip(options),
  deflate: (options: Decompression) => new Inflate(options),
  br: (options: Decompression) => zlib.createBrotliDecompress(options),
  zstd: (options: Decompression) =>
    zlib.createZstdDecompress({
      ...options,
      params: { [zlib.constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG_MAX },
    }),
} satisfies Record<string, (options: Decompression) => Decompressor>;

/** A supported content encoding, by its registered name. */
export type ContentEncoding = keyof typeof DECOMPRESSORS;

export const CONTENT_ENCODINGS = Object.keys(DECOMPRESSORS) as readonly ContentEncoding[];

/** The supported content encoding of a name, ignoring case; `undefined` if unsupported. */
export function contentEncoding(name: string): ContentEncoding | undefined {
  const lower = name.trim().toLowerCase();
  // RFC 9110 section 8.4.1.3.
  return CONTENT_ENCODINGS.find((known) => known === (lower === 'x-gzip' ? 'gzip' : lower));
}

/** Creates a decompressor, which counts the bytes that it has read; `undefined` for an unsupported encoding. */
export function decompressor(name: string, options: Decompression = {}): Decompressor | undefined {
  const encoding = contentEncoding(name);
  return encoding && DECOMPRESSORS[encoding](options);
}

const DECOMPRESS: Readonly<
  Record<ContentEncoding, (bytes: Uint8Array, bounds: { readonly maxOutputLength: number }) => Buffer>
> = {
  gzip: zlib.gunzipSync,
  deflate: zlib.inflateSync,
  br: zlib.brotliDecompressSync,
  zstd: zlib.zstdDecompressSync,
};

/** Decompresses a short content synchronously; empty for an unsupported encoding. Raises zlib errors, also beyond `most` bytes. */
export function decompressed(name: string, bytes: Uint8Array, most: number): Buffer {
  const encoding = contentEncoding(name);
  return encoding === undefined ? Buffer.alloc(0) : DECOMPRESS[encoding](bytes, { maxOutputLength: most });
}
