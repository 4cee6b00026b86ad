/** The members of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** The members of a JSON object; empty for any other value. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}
