/**
 * Where strings are looked for in JSON: in an object under these keys, in an array in each of its elements. What is `found` under a
 * key is told of a string there; `within` is what is looked for in the value. It may be its own `within`, for any depth.
 */
export interface WantedTexts<T> {
  readonly keys: ReadonlyMap<string, { readonly found?: T; readonly within?: WantedTexts<T> }>;
}
