import type { ErrorCode } from './errors.ts';

/** A JSON Schema object. */
export type JsonSchema = Readonly<Record<string, unknown>>;

/** Keys that are always present: required ones, and those with a default. */
type SureKeys<P, S> = {
  [K in keyof P]: P[K] extends { default: unknown } ? K : S extends { required: readonly (infer R)[] } ? K & R : never;
}[keyof P];

/** The type of a value that matches a schema, with defaults; `unknown` for schemas that this type cannot express. */
export type ValueOf<S> = S extends { 'x-ref': 'error-code' }
  ? ErrorCode
  : S extends { enum: readonly (infer V)[] }
    ? V
    : S extends { type: 'string' }
      ? string
      : S extends { type: 'integer' | 'number' }
        ? number
        : S extends { type: 'boolean' }
          ? boolean
          : S extends { type: 'array'; items: infer I }
            ? readonly ValueOf<I>[]
            : S extends { type: 'object'; properties: infer P }
              ? { readonly [K in SureKeys<P, S>]: ValueOf<P[K]> } & { readonly [K in keyof P]?: ValueOf<P[K]> }
              : S extends { type: 'object'; additionalProperties: infer A }
                ? Readonly<Record<string, ValueOf<A>>>
                : unknown;
