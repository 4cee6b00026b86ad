import type { KeyNames } from './key-names.ts';

/**
 * Where strings are looked for in JSON: in an object under these keys, in an array in each of its elements. What is `found` under a
 * key is told of a string there; `within` is what is looked for in the value. It may be its own `within`, for any depth.
 */
export interface WantedTexts<T> {
  readonly keys: ReadonlyMap<string, { readonly found?: T; readonly within?: WantedTexts<T> }>;
}

/** A value that JSON can say. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/**
 * A body without the ends of its long texts: those of more than 512 bytes inside of the members of the outermost object may be cut
 * short. What is wrong in them is not found, and is for the upstream to refuse.
 */
export interface SkimmedBody {
  readonly json: unknown;
  /** What was parsed. */
  readonly text: string | Buffer;
}

/** Fields that an object in a body is to have. */
export interface AddedFields {
  readonly path: readonly (string | number)[];
  readonly fields: Readonly<Record<string, JsonValue>>;
}

/** A body as it was received, where that was compressed. */
export interface CompressedBody {
  readonly bytes: Buffer;
  /** In the order in which they were applied (RFC 9110 section 8.4), by their registered names. */
  readonly encodings: readonly string[];
}

/** A request body held in memory from `readBody` until the upstream has answered. */
export interface RequestBody {
  /** What was received, without its compression, unless a declared rewrite changed it. */
  readonly bytes: Buffer;
  /** What was received, where it was compressed and nothing has been rewritten: an upstream may be sent that instead. */
  readonly compressed: CompressedBody | undefined;
  /**
   * A parsed copy. With `names` no object may have one of these keys twice, or in another spelling that some parsers take for
   * it. Raises invalid_encoding, invalid_json, and invalid_request for an ambiguous key, too many values or levels.
   */
  json(names?: KeyNames): Promise<unknown>;
  /** Likewise, for who looks for anything but long texts. */
  skim(names?: KeyNames): Promise<SkimmedBody>;
  /** The parsed value of a top-level key, the last where there are several; `undefined` without it. The body must be JSON. */
  value(key: string): unknown;
  /**
   * Puts a value in the place of that of a top-level key, or adds the key, leaving every other byte as it is, and records the
   * rewrite. Needs the `rewrite-body` capability.
   */
  rewrite(key: string, value: JsonValue): void;
  /**
   * Gives a top-level key another name, leaving every other byte as it is, and records the rewrite of the key. Does nothing
   * without it. Needs the `rewrite-body` capability.
   */
  rename(key: string, name: string): void;
  /**
   * Takes elements of arrays out of the body, each by the keys and indexes that lead to it, such as
   * `['messages', 3, 'content', 0]`, leaving every other byte as it is, and records the rewrite of the top-level key. A path
   * that leads to no element is left out. The body must be JSON. Needs the `rewrite-body` capability.
   */
  remove(paths: readonly (readonly (string | number)[])[]): Promise<void>;
  /**
   * Puts other strings in the place of some, leaving every other byte as it is, and records the rewrite of their top-level keys.
   * Of a `replacement` that is `undefined` the string stays. The body must be JSON. Needs the `rewrite-body` capability.
   */
  replaceTexts<T>(wanted: WantedTexts<T>, replacement: (found: T, text: string) => string | undefined): Promise<void>;
  /**
   * Adds fields to objects in the body, each by the keys and indexes that lead to it, such as `['messages', 3]`, in front of those it
   * has, leaving every other byte as it is, and records the rewrite of the top-level key. A path that leads to no object is left
   * out, and so are fields that are to be added twice. The objects must not have the fields, and the body must be JSON. Needs the
   * `rewrite-body` capability.
   */
  addFields(objects: readonly AddedFields[]): Promise<void>;
  /** Puts another JSON text in the place of the whole body, and records the rewrite as `*`. Needs the `rewrite-body` capability. */
  replace(json: string): void;
  /**
   * Has `bytes` sent although the body came compressed, and records the rewrite as `content-encoding`. Needs the `rewrite-body`
   * capability.
   * @returns whether the body came compressed
   */
  decompress(): boolean;
  /** Gives the memory back as soon as the request is answered, without waiting for a collection: nobody reads the bytes then. */
  free(): void;
  /** Whether what is sent is no longer what was received. */
  readonly rewritten: boolean;
  /** Whether `replace` was called: the body is no longer what its protocol says. */
  readonly replaced: boolean;
}
