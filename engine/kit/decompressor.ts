import type { Transform } from 'node:stream';
import zlib from 'node:zlib';

/** The largest window of zstd in content is 8 MiB (RFC 9659 section 3): a decoder takes that much memory. */
const ZSTD_WINDOW_LOG_MAX = 23;

/** How content is decompressed. */
export interface Decompression {
  /** Bytes that are given out at a time. */
  readonly chunkSize?: number;
  /** The first bytes of the content, by which zlib is distinguished from raw deflate; without them it is zlib. */
  readonly beginning?: Uint8Array;
}

/** Decompressors by content encoding (RFC 9110 section 8.4.1; br: RFC 7932; zstd: RFC 8878). */
const DECOMPRESSORS = {
  gzip: (options: Decompression) => zlib.createGunzip(options),
  // It is the zlib format, and there are clients that send raw deflate.
  deflate: ({ beginning, ...options }: Decompression) =>
    beginning === undefined || isZlib(beginning) ? zlib.createInflate(options) : zlib.createInflateRaw(options),
  br: (options: Decompression) => zlib.createBrotliDecompress(options),
  zstd: (options: Decompression) =>
    zlib.createZstdDecompress({
      ...options,
      params: { [zlib.constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG_MAX },
    }),
} satisfies Record<string, (options: Decompression) => Transform & { readonly bytesWritten: number }>;

/** A content encoding that is known here, by its registered name. */
export type ContentEncoding = keyof typeof DECOMPRESSORS;

/** All of them. */
export const CONTENT_ENCODINGS = Object.keys(DECOMPRESSORS) as readonly ContentEncoding[];

/** The content encoding of this name, in any case; `undefined` for one that is not known here. */
export function contentEncoding(name: string): ContentEncoding | undefined {
  const lower = name.trim().toLowerCase();
  // RFC 9110 section 8.4.1.3.
  return CONTENT_ENCODINGS.find((known) => known === (lower === 'x-gzip' ? 'gzip' : lower));
}

/** Creates the decompressor of a content encoding; `undefined` for one that is not known here. */
export function decompressor(name: string, options: Decompression = {}): Transform | undefined {
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

/** Decompresses a few bytes at once; empty for an encoding that is not known here. Raises errors of zlib, also beyond `most` bytes. */
export function decompressed(name: string, bytes: Uint8Array, most: number): Buffer {
  const encoding = contentEncoding(name);
  return encoding === undefined ? Buffer.alloc(0) : DECOMPRESS[encoding](bytes, { maxOutputLength: most });
}

/** Creates the decompressor of a known content encoding, which counts the bytes that it has read. */
export function decompressorOf(encoding: ContentEncoding, options: Decompression) {
  return DECOMPRESSORS[encoding](options);
}

/** The header of zlib (RFC 1950 section 2.2): method 8, and a multiple of 31. */
function isZlib([first = 0, second = 0]: Uint8Array): boolean {
  return (first & 0x0f) === 8 && ((first << 8) | second) % 31 === 0;
}
