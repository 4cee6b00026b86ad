/** A file that an operation answers with, in pieces; the description says its media type. */
export interface Download {
  /** Letters, digits, dots and hyphens. */
  readonly file_name: string;
  readonly chunks: Iterable<string> | AsyncIterable<string>;
}
