import type { KeyNames } from './key-names.ts';

/**
 * A search for strings in JSON: in an object under these keys, in an array in each element. `found` tags a string under the key;
 * `within` searches its value. A search may be its own `within`, for any depth.
 */
export interface WantedTexts<T> {
  readonly keys: ReadonlyMap<string, { readonly found?: T; readonly within?: WantedTexts<T> }>;
}

/** A JSON value. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** A parsed body; texts of more than 512 bytes below the top level may be cut. The upstream rejects errors in the cut part. */
export interface SkimmedBody {
  readonly json: unknown;
  readonly text: string | Buffer;
}

/** Fields to add to an object of a body. */
export interface AddedFields {
  readonly path: readonly (string | number)[];
  readonly fields: Readonly<Record<string, JsonValue>>;
}

/** A compressed body, as received. */
export interface CompressedBody {
  readonly bytes: Buffer;
  /** Content codings in the order of their application (RFC 9110 section 8.4), by registered name. */
  readonly encodings: readonly string[];
}

/** A request body, buffered from `readBody` until the upstream has responded. */
export interface RequestBody {
  /** The decompressed body, including rewrites. */
  readonly bytes: Buffer;
  /** The compressed body as received, unless it was rewritten; it can be forwarded instead of `bytes`. */
  readonly compressed: CompressedBody | undefined;
  /**
   * A parsed copy. With `names`, these keys must be unambiguous: not repeated, and not in a spelling that some parsers equate. Raises
   * invalid_encoding, invalid_json, and invalid_request for an ambiguous key, too many values or levels.
   */
  json(names?: KeyNames): Promise<unknown>;
  /** Like `json`, without the ends of long texts; faster. */
  skim(names?: KeyNames): Promise<SkimmedBody>;
  /** The parsed value of a top-level key (the last, if repeated); `undefined` if missing. The body must be JSON. */
  value(key: string): unknown;
  /** Sets a top-level key, keeps all other bytes, and records the rewrite. Needs the `rewrite-body` capability. */
  rewrite(key: string, value: JsonValue): void;
  /** Renames a top-level key, if present, and records the rewrite of the key. Needs the `rewrite-body` capability. */
  rename(key: string, name: string): void;
  /**
   * Removes array elements by path, such as `['messages', 3, 'content', 0]`, keeps all other bytes, and records the rewrite of the
   * top-level key. Ignores paths without an element. The body must be JSON. Needs the `rewrite-body` capability.
   */
  remove(paths: readonly (readonly (string | number)[])[]): Promise<void>;
  /**
   * Replaces strings, keeps all other bytes, and records the rewrite of their top-level keys. A string stays if `replacement` returns
   * `undefined`. The body must be JSON. Needs the `rewrite-body` capability.
   */
  replaceTexts<T>(wanted: WantedTexts<T>, replacement: (found: T, text: string) => string | undefined): Promise<void>;
  /**
   * Adds fields in front of those of an object, by its path, such as `['messages', 3]`. It keeps all other bytes and records the
   * rewrite of the top-level key. Ignores paths without an object, and repeated fields. The objects must lack the fields, and the
   * body must be JSON. Needs the `rewrite-body` capability.
   */
  addFields(objects: readonly AddedFields[]): Promise<void>;
  /** Replaces the whole body by a JSON text, and records the rewrite as `*`. Needs the `rewrite-body` capability. */
  replace(json: string): void;
  /** Forwards `bytes` instead of the compressed body (`rewrite-body`). @returns whether the body was compressed */
  decompress(): boolean;
  /** Marks the memory for release at the end of the request, without garbage collection. The bytes must not be read afterwards. */
  markReleasable(): void;
  /** Whether the forwarded body differs from the received one. */
  readonly rewritten: boolean;
  /** Whether `replace` was called: the body may no longer follow the protocol of the client. */
  readonly replaced: boolean;
}
