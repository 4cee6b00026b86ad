/** The members of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The members of a JSON object; empty for any other value. */
export function fieldsOf(value: unknown): Fields {
  return isFields(value) ? value : {};
}
